"""Attention over a list of key-value blocks: the one operation behind forward, prefill, scoring and decode.

Letters: `P` prompts, `g` rows that own a block (1 = shared by the group, else G), `Q` queries of a row, `K`
key-value heads, `R` query heads of each, `h` head width, `S` keys of a block.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

MASKED = -1e30  # finite, so that a row that sees nothing stays finite


class Block(NamedTuple):
  """Keys and values of one layer. Keys lie with the position last: decode then reads them in order."""

  keys: Float[Array, "P g K h S"]
  values: Float[Array, "P g K S h"]


def rotary(positions: Int[Array, "P G Q"], head_dim: int, theta: float) -> Float[Array, "2 P G Q half"]:
  """cos and sin of the angles position · θ^(−2i/h), float32."""
  frequency = theta ** (-jnp.arange(0, head_dim, 2, dtype=jnp.float32) / head_dim)
  angle = positions.astype(jnp.float32)[..., None] * frequency[None, None, None, :]
  # The barrier keeps XLA:CPU from fusing the angles into every use, which
  # takes minutes to compile for some shapes.
  return jax.lax.optimization_barrier(jnp.stack([jnp.cos(angle), jnp.sin(angle)]))


def rotate(x: Float[Array, "P G Q H h"], angles: Float[Array, "2 P G Q half"]) -> Float[Array, "P G Q H h"]:
  """Rotates the pairs (i, i + h/2) of every head by its position's angles."""
  cos, sin = angles[0][:, :, :, None], angles[1][:, :, :, None]
  a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def attend(
  q: Float[Array, "P G Q K R h"], blocks: list[Block], masks: list[Bool[Array, "#P #G #Q _"]]
) -> Float[Array, "P G Q K R h"]:
  """One softmax over the scores of all blocks together, in float32.

    out = Σ_b exp(s_b − m) v_b / Σ_b Σ exp(s_b − m),   s = q·k / √h,   m = max over all blocks

  A block with g = 1 serves the whole group: its queries are folded into one row, so its keys are read
  once and never repeated. A block's mask is True where the query may look.
  """
  scores = [_scores(q, block, mask) for block, mask in zip(blocks, masks)]
  peaks = [_per_query(s.max(-1), q) for s in scores]
  peak = jax.lax.stop_gradient(functools.reduce(jnp.maximum, peaks))
  weights = [jnp.exp(s - _like(peak, s)[..., None]) for s in scores]
  total = functools.reduce(jnp.add, [_per_query(w.sum(-1), q) for w in weights])
  parts = [_product("pgknrs,pgksh->pgknrh", w.astype(q.dtype), b.values) for w, b in zip(weights, blocks)]
  summed = functools.reduce(jnp.add, [_per_query(part, q) for part in parts])
  return (summed / total[..., None]).astype(q.dtype)


def _scores(q: Array, block: Block, mask: Array) -> Float[Array, "P g K N R S"]:
  """Masked scores, N = the queries that one block row serves (G·Q for a shared block, else Q)."""
  prompts, group, count = q.shape[:3]
  folded = q.reshape(prompts, block.keys.shape[1], -1, *q.shape[3:])
  if folded.shape[1] != group and mask.shape[1:3] != (1, 1):
    mask = jnp.broadcast_to(mask, (mask.shape[0], group, count, mask.shape[3]))
    mask = mask.reshape(mask.shape[0], 1, group * count, mask.shape[3])
  scores = _product("pgnkrh,pgkhs->pgknrs", folded, block.keys) * q.shape[-1] ** -0.5
  return jnp.where(mask[:, :, None, :, None], scores, MASKED)


def _product(equation: str, a: Array, b: Array) -> Array:
  return jnp.einsum(equation, a, b, preferred_element_type=jnp.float32)


def _per_query(x: Array, q: Array) -> Array:
  """[P, g, K, N, R, ...] → [P, G, Q, K, R, ...]."""
  return jnp.moveaxis(x, 3, 2).reshape(*q.shape[:5], *x.shape[5:])


def _like(x: Float[Array, "P G Q K R"], scores: Array) -> Float[Array, "P g K N R"]:
  """The inverse of `_per_query` for the row layout of `scores`."""
  return jnp.moveaxis(x.reshape(x.shape[0], scores.shape[1], -1, *x.shape[3:]), 2, 3)
