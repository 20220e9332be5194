"""Random draws whose result depends on (key, problem, rollout, position) alone, never on the batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Integer


def row_keys(key: Array, problem_id: Integer[Array, "P"], rollout_id: Integer[Array, "P G"]) -> Array:
  """One key per row: fold_in(fold_in(key, problem), rollout)."""

  def one(problem: Array, rollouts: Array) -> Array:
    own = jax.random.fold_in(key, problem)
    return jax.vmap(lambda rollout: jax.random.fold_in(own, rollout))(rollouts)

  return jax.vmap(one)(problem_id, rollout_id)


def uniforms(keys: Array, position: Array) -> Float[Array, "P G"]:
  """One uniform number of [0, 1) per row, keyed by fold_in(row key, position)."""
  draw = lambda key: jax.random.uniform(jax.random.fold_in(key, position))
  return jax.vmap(jax.vmap(draw))(keys)


def inverse_cdf(
  probabilities: Float[Array, "*rows V"], uniform: Float[Array, "*rows"]
) -> Int[Array, "*rows"]:
  """The first token whose cumulative mass exceeds `uniform` times the whole mass.

  Never a token of zero probability: those are passed over, and if rounding leaves no candidate the last
  token with mass is taken. `probabilities` need not be normalised.
  """
  size = probabilities.shape[-1]
  mass = jnp.cumsum(probabilities, axis=-1)
  possible = probabilities > 0
  reached = possible & (mass > uniform[..., None] * mass[..., -1:])
  index = jax.lax.broadcasted_iota(jnp.int32, probabilities.shape, probabilities.ndim - 1)
  first = jnp.where(reached, index, size).min(-1)
  last = jnp.where(possible, index, 0).max(-1)
  return jnp.minimum(first, last)
