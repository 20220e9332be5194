"""What a batch of rollouts says of itself, as (sum, count) pairs."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxrl_reason.types import Max, Mean, Metrics, Min, Rollouts

UNIFORM = 1e-6


def _mean(x: Array, where: Array) -> Mean:
  return Mean(jnp.where(where, x, 0.0).sum(), where.sum())


def uniform_groups(rewards: Float[Array, "P G"], kept: Bool[Array, "P G"]) -> Bool[Array, "P"]:
  """True where max − min of the kept rewards of a group is at most 1e-6: no signal for group credit."""
  high = jnp.where(kept, rewards, -jnp.inf).max(-1)
  low = jnp.where(kept, rewards, jnp.inf).min(-1)
  return ~(high - low > UNIFORM)


def rollout_metrics(rollouts: Rollouts, step: Array) -> Metrics:
  """reward, group, length, truncation, entropy and padding of one batch.

  Dropped rows are left out of rewards. Units: reward, tokens, nats. `staleness` is in optimizer phases:
  step − policy_version.
  """
  kept, mask, rewards = rollouts.weights > 0, rollouts.mask, rollouts.rewards
  length = rollouts.length.astype(jnp.float32)
  truncated = rollouts["truncated"]
  all_rows = jnp.ones_like(kept)
  mean = jnp.where(kept, rewards, 0.0).sum() / jnp.maximum(kept.sum(), 1)
  version = rollouts.get("policy_version", jnp.broadcast_to(step, kept.shape))
  return {
    "reward/mean": _mean(rewards, kept),
    "reward/variance": _mean((rewards - mean) ** 2, kept),
    "group/uniform_frac": _mean(uniform_groups(rewards, kept), jnp.ones(kept.shape[0], bool)),
    "length/mean": _mean(length, all_rows),
    "length/max": Max(length.max()),
    "length/finished_mean": _mean(length, ~truncated),
    "truncated_frac": _mean(truncated, all_rows),
    "stop_frac": _mean(~truncated, all_rows),
    "entropy": _mean(rollouts["entropy"], mask),
    "pad_frac": _mean(~rollouts.inside, jnp.ones_like(mask)),
    "staleness": _mean(jnp.float32(step) - version, all_rows),
  }


def credit_metrics(credit: Float[Array, "P G _"], rollouts: Rollouts) -> Metrics:
  """Mean, maximum and minimum of the credit over the tokens that count."""
  mask = rollouts.mask & (rollouts.weights > 0)[..., None]
  token = jnp.broadcast_to(credit, mask.shape)
  return {
    "credit/mean": _mean(token, mask),
    "credit/max": Max(jnp.where(mask, token, -jnp.inf).max()),
    "credit/min": Min(jnp.where(mask, token, jnp.inf).min()),
  }
