"""Small ragged rollouts that every kernel test shares. Equal lengths would hide wrong reductions."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_reason.types import Rollouts


def rollouts(seed: int = 0, prompts: int = 3, group: int = 4, width: int = 6, **marks) -> Rollouts:
  """Random rollouts with lengths from 0 to `width`, rewards of both signs, and reference log-probs."""
  rng = np.random.default_rng(seed)
  shape = (prompts, group, width)
  length = rng.integers(0, width + 1, shape[:2]).astype(np.int32)
  length[0, 0], length[-1, -1] = width, 1
  inside = np.arange(width) < length[..., None]
  logprobs = np.where(inside, -rng.exponential(1.0, shape), 0.0).astype(np.float32)
  reference = np.where(inside, -rng.exponential(1.0, shape), 0.0).astype(np.float32)
  return Rollouts(
    prompt=jnp.asarray(rng.integers(0, 9, (prompts, 5)), jnp.int32),
    prompt_length=jnp.asarray(rng.integers(1, 6, prompts), jnp.int32),
    completion=jnp.asarray(rng.integers(0, 9, shape), jnp.int32),
    length=jnp.asarray(length),
    logprobs=jnp.asarray(logprobs),
    rewards=jnp.asarray(rng.normal(size=shape[:2]), jnp.float32),
    marks={"reference_logprobs": jnp.asarray(reference), **marks},
  )


def new_logprobs(batch: Rollouts, seed: int = 1, scale: float = 0.3) -> jax.Array:
  """Log-probs of a policy that has moved away from the behaviour policy."""
  noise = scale * jax.random.normal(jax.random.key(seed), batch.logprobs.shape)
  return jnp.where(batch.inside, batch.logprobs + noise, 0.0)


def pad_width(batch: Rollouts, extra: int) -> Rollouts:
  """The same rollouts with `extra` more padded positions, filled with garbage that nobody may read."""

  def wide(x, fill):
    if x.ndim < 3 or x.shape[2] != batch.completion.shape[2]:
      return x
    return jnp.pad(x, ((0, 0), (0, 0), (0, extra)), constant_values=fill)

  return Rollouts(
    batch.prompt,
    batch.prompt_length,
    wide(batch.completion, 7),
    batch.length,
    wide(batch.logprobs, -3.0),
    batch.rewards,
    {k: wide(v, -3.0 if v.dtype != bool else True) for k, v in batch.marks.items()},
  )
