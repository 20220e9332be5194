"""One contract for every exported part: it joins by standing in a package's `__all__`."""

import inspect

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason import aggregate, credit, penalty, ratio, surrogate
from jaxrl_reason.types import Aggregate, Penalty, Ratio, Rollouts, Scores, Surrogate, Transform
from tests.fixtures import new_logprobs, pad_width, rollouts

# Arguments of the factories that need some.
ARGUMENTS = {"clip": (0.2, 0.28), "kl": (0.1,), "kl_k3": (0.1,), "constant_length": (13,)}


def exported(module, kind):
  """Every public factory of a module that returns a part of this kind, built."""
  names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
  parts = {}
  for name in names:
    factory = getattr(module, name)
    if not inspect.isfunction(factory) or factory.__annotations__.get("return") not in (kind, kind.__name__):
      continue
    parts[name] = factory(*ARGUMENTS.get(name, ()))
  assert parts, f"{module.__name__} exports no {kind.__name__}"
  return parts


TRANSFORMS = exported(credit, Transform)
RATIOS = exported(ratio, Ratio)
SURROGATES = exported(surrogate, Surrogate)
PENALTIES = exported(penalty, Penalty)
AGGREGATES = exported(aggregate, Aggregate)
EVERY = {**TRANSFORMS, **RATIOS, **SURROGATES, **PENALTIES, **AGGREGATES}


def apply(name: str, batch: Rollouts, logprobs=None):
  """The array that a part gives for a batch, whatever its kind."""
  part = EVERY[name]
  logprobs = new_logprobs(batch) if logprobs is None else logprobs
  if isinstance(part, Transform):
    return part.update(credit.from_rewards(batch), part.init(), batch)[0]
  if isinstance(part, Ratio):
    return part.log_ratio(logprobs, batch)
  if isinstance(part, Surrogate):
    log_ratio = ratio.token_log_ratio(logprobs, batch.logprobs, batch.mask)
    return part.loss(log_ratio, credit.from_rewards(batch)) * batch.mask
  if isinstance(part, Penalty):
    return part.loss(Scores(logprobs, jnp.zeros_like(logprobs)), batch) * batch.mask
  return part.weights(batch.mask, batch.weights)


def test_every_part_of_the_house_is_in_the_table():
  assert {"center_by_group", "scale_by_group_std", "leave_one_out", "chain"} <= set(TRANSFORMS)
  assert {"token"} <= set(RATIOS)
  assert {"clip", "importance_weighted"} <= set(SURROGATES)
  assert {"kl", "kl_k3"} <= set(PENALTIES)
  assert {"token_mean", "sequence_mean", "constant_length"} <= set(AGGREGATES)


class Variants(chex.TestCase):
  """chex's own variants on one part of each kind; the table below covers all of them by hand."""

  @chex.variants(with_jit=True, without_jit=True)
  def test_one_part_of_each_kind(self):
    batch = rollouts(1)
    for name in ("center_by_group", "token", "clip", "kl", "token_mean"):
      got = self.variant(lambda b, x, n=name: apply(n, b, x))(batch, new_logprobs(batch))
      np.testing.assert_allclose(got, apply(name, batch), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EVERY)
def test_says_its_formula_and_declares_its_needs(name):
  part = EVERY[name]
  assert part.formula
  needs = getattr(part, "needs", ())
  assert set(needs) <= {"reference_logprobs", "entropy", "truncated"}
  if needs:
    bare = rollouts()
    bare = Rollouts(**{**vars(bare), "marks": {}})
    with pytest.raises(KeyError, match="must declare needs"):
      apply(name, bare)


@pytest.mark.parametrize("name", EVERY)
def test_same_under_jit_and_without(name):
  batch = rollouts()
  plain = apply(name, batch)
  np.testing.assert_allclose(jax.jit(lambda b: apply(name, b))(batch), plain, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EVERY)
def test_same_under_vmap_and_pmap_over_eight_devices(name):
  batches = [rollouts(seed) for seed in range(8)]
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *batches)
  one_by_one = jnp.stack([apply(name, b) for b in batches])
  run = lambda batch, logprobs: apply(name, batch, logprobs)
  logprobs = jnp.stack([new_logprobs(b) for b in batches])
  np.testing.assert_allclose(jax.vmap(run)(stacked, logprobs), one_by_one, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(jax.pmap(run)(stacked, logprobs), one_by_one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_no_second_compilation_for_new_numbers(name):
  function = jax.jit(lambda b, x: apply(name, b, x))
  for seed in (0, 1, 2):
    batch = rollouts(seed)
    function(batch, new_logprobs(batch, seed))
  assert function._cache_size() == 1


@pytest.mark.parametrize("name", EVERY)
def test_keeps_float32_and_is_finite_on_ragged_batches(name):
  out = apply(name, rollouts(5))
  chex.assert_type(out, jnp.float32)
  chex.assert_tree_all_finite(out)


@pytest.mark.parametrize("name", EVERY)
def test_padding_changes_nothing(name):
  batch = rollouts(2)
  narrow = apply(name, batch)
  logprobs = jnp.pad(new_logprobs(batch), ((0, 0), (0, 0), (0, 5)), constant_values=-9.0)
  wide = apply(name, pad_width(batch, 5), logprobs)
  width = narrow.shape[-1]
  np.testing.assert_allclose(wide[..., :width], narrow, rtol=1e-6, atol=1e-7)
  assert not np.asarray(wide[..., width:]).any()


@pytest.mark.parametrize("name", EVERY)
def test_permuting_the_rows_of_a_group_permutes_the_result(name):
  batch = rollouts(3)
  order = jnp.asarray([3, 1, 0, 2])

  def permute(x):
    return x[:, order] if x.ndim >= 2 and x.shape[:2] == (3, 4) else x

  moved = jax.tree.map(permute, batch)
  got = apply(name, moved, permute(new_logprobs(batch)))
  np.testing.assert_allclose(got, permute(apply(name, batch)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", ["uniform", "empty", "single", "dropped"])
def test_finite_on_uniform_empty_single_and_dropped_groups(name, kind):
  batch = rollouts(4)
  if kind == "uniform":
    batch = Rollouts(**{**vars(batch), "rewards": jnp.full_like(batch.rewards, 1 / 3)})
  elif kind == "empty":
    batch = Rollouts(**{**vars(batch), "length": jnp.zeros_like(batch.length)})
  elif kind == "single":
    batch = jax.tree.map(lambda x: x[:, :1] if x.ndim >= 2 and x.shape[:2] == (3, 4) else x, batch)
  else:
    batch = batch.mark(weights=jnp.zeros((3, 4)))
  out = apply(name, batch)
  chex.assert_tree_all_finite(out)
  if name in TRANSFORMS and name != "chain" and kind in ("uniform", "single", "dropped"):
    assert not np.asarray(out).any()


@pytest.mark.parametrize("name", SURROGATES)
def test_zero_credit_gives_zero_loss_and_gradient(name):
  batch = rollouts(6)
  zero = jnp.zeros((3, 4, 1))
  loss = lambda x: EVERY[name].loss(x, zero).sum()
  value, grad = jax.value_and_grad(loss)(new_logprobs(batch) - batch.logprobs)
  assert float(value) == 0.0
  assert not np.asarray(grad).any()


@pytest.mark.parametrize("name", AGGREGATES)
def test_weights_of_an_aggregate_are_those_of_its_rows(name):
  batch = rollouts(7)
  weights = apply(name, batch)
  assert (np.asarray(weights)[~np.asarray(batch.mask)] == 0).all()
  dropped = batch.mark(weights=jnp.ones((3, 4)).at[0].set(0.0))
  assert not np.asarray(apply(name, dropped))[0].any()
