"""The decoder's modules in flax nnx. Parameters are declared abstractly: shape, logical axes and
initial scale; memory, initial values, sharding and checkpoints all derive from that declaration (params.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from jaxrl_reason.models.attention import Block, attend, rotate
from jaxrl_reason.models.config import ModelConfig

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down", "unembed")


class Param(nnx.Param):
  """A parameter with `axes`, its logical axis names, and `std`, its initial deviation (None = ones)."""


def _param(depth: tuple[int, ...], shape: tuple[int, ...], axes: tuple[str, ...], std: float | None) -> Param:
  value = jax.ShapeDtypeStruct((*depth, *shape), jnp.float32)
  return Param(value, axes=(*("layers",) * len(depth), *axes), std=std)


class RMSNorm(nnx.Module):
  """x / √(mean x² + ε) · scale, in float32."""

  def __init__(self, size: int, axis: str, eps: float, depth: tuple[int, ...] = ()):
    self.scale = _param(depth, (size,), (axis,), None)
    self.eps = eps

  def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + self.eps)
    scale = self.scale[...].reshape((1,) * (x.ndim - 1) + (-1,))
    return (wide * scale).astype(x.dtype)


class Linear(nnx.Module):
  """x W + b, plus x A B where the projection carries a low-rank update of `rank`."""

  def __init__(self, shape, axes, std, *, bias=False, rank=0, depth: tuple[int, ...] = ()):
    self.kernel = _param(depth, shape, axes, std)
    self.bias = _param(depth, shape[1:], axes[1:], 0.0) if bias else None
    self.lora_a = _param(depth, (shape[0], rank), (axes[0], "rank"), shape[0] ** -0.5) if rank else None
    self.lora_b = _param(depth, (rank, shape[1]), ("rank", axes[1]), 0.0) if rank else None

  def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows F"]:
    # Two-dimensional products: the weight gradient then contracts one axis, which XLA:CPU does twice as fast.
    flat = x.reshape(-1, x.shape[-1])
    y = _matmul(flat, self.kernel[...])
    if self.lora_a is not None and self.lora_b is not None:
      y = y + _matmul(_matmul(flat, self.lora_a[...]), self.lora_b[...])
    if self.bias is not None:
      y = y + self.bias[...].astype(x.dtype)[None]
    return y.reshape(*x.shape[:-1], y.shape[-1])


def _matmul(x: Array, w: Array) -> Array:
  return jnp.matmul(x, w.astype(x.dtype), preferred_element_type=jnp.float32).astype(x.dtype)


class Layer(nnx.Module):
  """Pre-norm attention and SwiGLU, each added to the residual stream."""

  def __init__(self, config: ModelConfig, ranks: Mapping[str, int], depth: tuple[int, ...]):
    width, head, mlp = config.width, config.head_dim, config.mlp_width
    wide, narrow = config.heads * head, config.kv_heads * head
    std, out_std = 0.02, 0.02 / (2 * config.layers) ** 0.5

    def linear(name, shape, axes, std, bias):
      return Linear(shape, axes, std, bias=bias, rank=ranks.get(name, 0), depth=depth)

    self.config = config
    self.attention_norm = RMSNorm(width, "embed", config.norm_eps, depth)
    self.q = linear("q", (width, wide), ("embed", "heads"), std, config.qkv_bias)
    self.k = linear("k", (width, narrow), ("embed", "kv_heads"), std, config.qkv_bias)
    self.v = linear("v", (width, narrow), ("embed", "kv_heads"), std, config.qkv_bias)
    self.o = linear("o", (wide, width), ("heads", "embed"), out_std, config.o_bias)
    self.q_norm = RMSNorm(head, "head_dim", config.norm_eps, depth) if config.qk_norm else None
    self.k_norm = RMSNorm(head, "head_dim", config.norm_eps, depth) if config.qk_norm else None
    self.mlp_norm = RMSNorm(width, "embed", config.norm_eps, depth)
    self.gate = linear("gate", (width, mlp), ("embed", "mlp"), std, config.mlp_bias)
    self.up = linear("up", (width, mlp), ("embed", "mlp"), std, config.mlp_bias)
    self.down = linear("down", (mlp, width), ("mlp", "embed"), out_std, config.mlp_bias)

  def __call__(
    self,
    x: Float[Array, "P G Q D"],
    angles: Float[Array, "2 P G Q half"],
    past: Block | None,
    own: Block | None,
    *,
    past_mask: Bool[Array, "#P #G #Q L"] | None,
    own_mask: Bool[Array, "#P #G #Q S"],
    step: Any,
  ) -> tuple[Float[Array, "P G Q D"], Block]:
    """One layer. Queries see `past` (shared by the group or not) and their own block.

    Without `own` the own block is the keys and values of `x`; with it they are written into it at `step`.
    Returns the new residual stream and the own block.
    """
    q, new = self._project(self.attention_norm(x), angles)
    if own is not None:
      new = Block(
        jax.lax.dynamic_update_slice_in_dim(own.keys, new.keys, step, axis=4),
        jax.lax.dynamic_update_slice_in_dim(own.values, new.values, step, axis=3),
      )
    if past is None:
      seen = attend(q, [new], [own_mask])
    else:
      assert past_mask is not None
      seen = attend(q, [past, new], [past_mask, own_mask])
    x = x + self.o(seen.reshape(*x.shape[:3], -1))
    y = self.mlp_norm(x)
    return x + self.down(jax.nn.silu(self.gate(y)) * self.up(y)), new

  def _project(self, x: Array, angles: Array) -> tuple[Float[Array, "P G Q K R h"], Block]:
    config, rows = self.config, x.shape[:3]
    q = self.q(x).reshape(*rows, config.heads, config.head_dim)
    k = self.k(x).reshape(*rows, config.kv_heads, config.head_dim)
    v = self.v(x).reshape(*rows, config.kv_heads, config.head_dim)
    if self.q_norm is not None and self.k_norm is not None:
      q, k = self.q_norm(q), self.k_norm(k)
    q, k = rotate(q, angles), rotate(k, angles)
    q = q.reshape(*rows, config.kv_heads, -1, config.head_dim)
    return q, Block(jnp.transpose(k, (0, 1, 3, 4, 2)), jnp.transpose(v, (0, 1, 3, 2, 4)))


class Decoder(nnx.Module):
  """All parameters of a model. `ranks` names the projections that carry a low-rank update."""

  def __init__(self, config: ModelConfig, ranks: Mapping[str, int] | None = None):
    ranks = ranks or {}
    self.config = config
    self.embed = Linear((config.vocab_size, config.width), ("vocab", "embed"), 0.02)
    self.layers: Any = Layer(config, ranks, (config.layers,))
    if not config.scan_layers:
      self.layers = nnx.List([Layer(config, ranks, ()) for _ in range(config.layers)])
    self.final_norm = RMSNorm(config.width, "embed", config.norm_eps)
    shape = (config.width, config.vocab_size)
    rank = ranks.get("unembed", 0)
    self.unembed = None if config.tied_embeddings else Linear(shape, ("embed", "vocab"), 0.02, rank=rank)
    self.value_head = Linear((config.width, 1), ("embed", "value"), 0.02) if config.value_head else None
