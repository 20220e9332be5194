"""Compilations are counted, repeats are not."""

import jax
import jax.numpy as jnp

from jaxrl_reason.runtime import cache, compile_count
from jaxrl_reason.runtime.compile_count import CompileCounter, first_call


def test_a_program_counts_once_per_shape():
  f = jax.jit(lambda x: x * 3 + 1)
  inputs = [jnp.ones(n) for n in (3, 3, 4)]
  with CompileCounter() as compiled:
    counts = []
    for x in inputs:
      f(x)
      counts.append(compiled.count)
  f(jnp.ones(17))
  assert counts == [1, 1, 2]
  assert compiled.count == 2
  assert compiled.seconds > 0


def test_blocks_nest_and_the_total_goes_on():
  f = jax.jit(lambda x: x - 2)
  x, before = jnp.ones(5), compile_count.total()
  with CompileCounter() as outer:
    with CompileCounter() as inner:
      f(x)
    f(jnp.ones(5))
  assert inner.count == 1
  assert outer.count >= inner.count
  assert compile_count.total() - before == outer.count


def test_a_counter_counts_from_its_making_on():
  f, x = jax.jit(lambda x: x + 11), jnp.ones(4)
  counter = CompileCounter()
  f(x)
  f(x)
  assert counter.count == 1
  assert CompileCounter().count == 0


def test_first_call_and_second_call():
  f, x = jax.jit(lambda x: x / 7), jnp.ones(6)
  result, compilations, seconds = first_call(lambda: f(x))
  assert compilations == 1
  assert seconds > 0
  assert result.shape == (6,)
  assert first_call(lambda: f(x))[1] == 0


def test_cache_folder_argument_then_environment_then_user_cache(tmp_path, monkeypatch):
  before = jax.config.jax_compilation_cache_dir
  try:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "environment"))
    assert cache.enable_compilation_cache(tmp_path / "argument") == tmp_path / "argument"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "argument")
    assert cache.enable_compilation_cache() == tmp_path / "environment"
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.enable_compilation_cache() == tmp_path / "jaxrl_reason" / "jax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.default_path() == tmp_path / ".cache" / "jaxrl_reason" / "jax"
    assert cache.enable_compilation_cache("") is None
    assert jax.config.jax_compilation_cache_dir is None
  finally:
    jax.config.update("jax_compilation_cache_dir", before)
