"""Exact-match verification as array arithmetic: jit-able, so reward never leaves the device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def exact_match(
  completion: Int[Array, "P G T"],
  length: Int[Array, "P G"],
  answer: Int[Array, "P A"],
  answer_length: Int[Array, "P"],
  marker: int,
  stop_ids: tuple[int, ...],
  ignored_ids: tuple[int, ...] = (),
) -> Float[Array, "P G"]:
  """1.0 where the tokens after the last marker are exactly the answer, else 0.0.

    r = 1[ (yₜ : m < t < e, yₜ ∉ ignored) = a ],   e = min(length, first stop),   m = last marker before e

  Tokens at `length` and beyond are never read. `ignored_ids` are ids that decode to nothing, so that the
  verdict is the one of the host verifier on the decoded text. Units: reward. Source: this project.
  """
  position = jax.lax.broadcasted_iota(jnp.int32, completion.shape, 2)
  inside = position < length[..., None]
  stopped = jnp.cumsum(_among(completion, stop_ids) & inside, axis=-1) > 0
  inside &= ~stopped
  last_marker = jnp.max(jnp.where(inside & (completion == marker), position, -1), axis=-1)
  region = inside & (position > last_marker[..., None]) & ~_among(completion, ignored_ids)
  rank = jnp.cumsum(region, axis=-1) - 1  # which token of the answer stands here
  wanted = jax.vmap(lambda row, at: row[at])(answer, jnp.clip(rank, 0, answer.shape[-1] - 1))
  same = jnp.all(jnp.where(region, completion == wanted, True), axis=-1)
  whole = (jnp.sum(region, axis=-1) == answer_length[:, None]) & (answer_length[:, None] > 0)
  return (same & whole & (last_marker >= 0)).astype(jnp.float32)


def _among(tokens: Int[Array, "P G T"], ids: tuple[int, ...]) -> Bool[Array, "P G T"]:
  found = jnp.zeros(tokens.shape, bool)
  for one in ids:
    found |= tokens == one
  return found
