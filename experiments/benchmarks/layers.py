"""Stacked (lax.scan) against unrolled layers: scoring with gradient and decode, as ratios within one run.

  python -m experiments.benchmarks.layers --layers=4 --width=128 --repeats=7

Variants are timed in turn, so that a slow moment of the machine hits all of them; medians are compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from absl import app, flags

from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.decoder import decode_step, empty_cache, prefill
from jaxrl_reason.models.params import init_params
from jaxrl_reason.policy.autoregressive import autoregressive
from jaxrl_reason.types import Prompts, Rollouts

_SIZES = {"layers": 4, "width": 128, "vocab": 264, "prompts": 32, "group": 8, "prompt": 24, "completion": 24}
for _name, _size in _SIZES.items():
  flags.DEFINE_integer(_name, _size, f"{_name}: number or length")
flags.DEFINE_integer("repeats", 7, "interleaved timings of every variant")


def toy(sizes: dict[str, int], scan_layers: bool) -> ModelConfig:
  """Four query heads on two key-value heads, SwiGLU of three times the width."""
  width = sizes["width"]
  return ModelConfig(
    vocab_size=sizes["vocab"],
    width=width,
    layers=sizes["layers"],
    heads=4,
    kv_heads=2,
    head_dim=width // 4,
    mlp_width=3 * width,
    scan_layers=scan_layers,
  )


def batch(sizes: dict[str, int]) -> Prompts:
  """Full-length random prompts."""
  shape = (sizes["prompts"], sizes["prompt"])
  return Prompts(
    tokens=jax.random.randint(jax.random.key(1), shape, 0, sizes["vocab"]),
    length=jnp.full(shape[:1], shape[1]),
    problem_id=jnp.arange(shape[0]),
    rollout_id=jnp.tile(jnp.arange(sizes["group"])[None], (shape[0], 1)),
  )


def score_and_gradient(config: ModelConfig, width: int) -> Callable:
  """Value and gradient of the summed log-probabilities."""
  policy = autoregressive(config, stop_ids=(), max_new_tokens=width)
  return jax.jit(jax.value_and_grad(lambda params, rollouts: policy.logp(params, rollouts).logprobs.sum()))


def decode_loop(config: ModelConfig, width: int) -> Callable:
  """Prefill and `width` decode steps on given tokens: the layers alone, without drawing."""

  def run(params, prompts: Prompts) -> jax.Array:
    context, hidden = prefill(config, params, prompts.tokens, prompts.length)
    tokens = prompts.rollout_id

    def step(i, state):
      cache, total = state
      hidden, cache = decode_step(config, params, context, cache, tokens=tokens, step=i)
      return cache, total + hidden.sum()

    shape = (tokens.shape[0], tokens.shape[1])
    return jax.lax.fori_loop(0, width, step, (empty_cache(config, shape, width), hidden.sum()))[1]

  return jax.jit(run)


def interleaved(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
  """Seconds of every call, in turn; the first, compiling round is not counted."""
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  for repeat in range(repeats + 1):
    for name, call in calls.items():
      start = time.perf_counter()
      jax.block_until_ready(call())
      if repeat:
        seconds[name].append(time.perf_counter() - start)
  return seconds


def main(argv: list[str]) -> None:
  del argv
  sizes = {name: flags.FLAGS[name].value for name in _SIZES}
  width, prompts = sizes["completion"], batch(sizes)
  calls: dict[str, Callable[[], object]] = {}
  for name, scan in (("unrolled", False), ("stacked", True)):
    config = toy(sizes, scan)
    params = init_params(config, jax.random.key(0))
    policy = autoregressive(config, stop_ids=(), max_new_tokens=width)
    rollouts: Rollouts = policy.sample(params, prompts, jax.random.key(2))
    score, loop = score_and_gradient(config, width), decode_loop(config, width)
    calls[f"score+grad {name}"] = lambda f=score, p=params, r=rollouts: f(p, r)
    calls[f"decode {name}"] = lambda f=loop, p=params: f(p, prompts)
    calls[f"sample {name}"] = lambda s=policy.sample, p=params: s(p, prompts, jax.random.key(2))
  seconds = interleaved(calls, flags.FLAGS.repeats)
  print(f"{'what':22}{'median ms':>10}{'min':>8}{'max':>8}{'stacked / unrolled':>20}")
  for name, times in seconds.items():
    median = statistics.median(times)
    base = statistics.median(seconds[name.replace("stacked", "unrolled")])
    row = (1e3 * median, 1e3 * min(times), 1e3 * max(times), median / base)
    print(f"{name:22}{row[0]:10.1f}{row[1]:8.1f}{row[2]:8.1f}{row[3]:20.2f}")


if __name__ == "__main__":
  app.run(main)
