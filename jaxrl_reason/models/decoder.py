"""What a decoder computes, as pure functions of its parameters.

Full forward, prefill, scoring of a group's completions and decode run the same layers; they differ only in
the key-value blocks that a query may look at (attention.py). Rows are [P, G]; a group shares its block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from jaxrl_reason.models.attention import Block, rotary
from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.modules import Decoder
from jaxrl_reason.models.params import bind
from jaxrl_reason.types import Params

Mask = Bool[Array, "#B Q S"] | Callable[[Array, Array], Array] | None


class Context(NamedTuple):
  """A prefilled prompt: the blocks of every layer and which of its positions are real."""

  blocks: Any  # a tuple of Block, or one Block with a leading axis of layers
  length: Int[Array, "P"]
  mask: Bool[Array, "P 1 1 L"]


def hidden_states(
  config: ModelConfig,
  params: Params,
  inputs: Int[Array, "B T"] | Float[Array, "B T D"],
  positions: Int[Array, "B T"] | None = None,
  mask: Mask = None,
) -> Float[Array, "B T D"]:
  """Hidden states after the last norm, of tokens or of embeddings.

  `mask` says which key a query may see: True in an array [B or 1, T, T], or a function of query and key index
  (each an int array; their ranks broadcast). Given, it is the whole truth; without it, `config.causal`
  decides: every earlier token and itself, or every token (mask padding out yourself: `length_mask`).
  """
  model = bind(config, params)
  x = _embed(model, inputs)[:, None]
  if positions is None:
    positions = jax.lax.broadcasted_iota(jnp.int32, inputs.shape[:2], 1)
  allowed = _mask(config, mask, x.shape[2])[:, None]
  x, _ = _layers(model, x, positions[:, None], own_mask=allowed)
  return model.final_norm(x)[:, 0]


def length_mask(config: ModelConfig, length: Int[Array, "B"], width: int) -> Bool[Array, "B T T"]:
  """The mask of right-padded rows: the config's own, without the keys at or after each row's length."""
  real = jnp.arange(width)[None, :] < length[:, None]
  return _mask(config, None, width) & real[:, None, :]


def unembedding(config: ModelConfig, params: Params) -> Float[Array, "D V"]:
  """The matrix from hidden states to logits, low-rank update included."""
  model = bind(config, params)
  head = model.unembed
  if head is None:
    return model.embed.kernel[...].T
  if head.lora_a is None or head.lora_b is None:
    return head.kernel[...]
  return head.kernel[...] + head.lora_a[...] @ head.lora_b[...]


def logits_of(hidden: Float[Array, "N D"], matrix: Float[Array, "D V"]) -> Float[Array, "N V"]:
  """hidden · matrix in the dtype of `hidden`, accumulated in float32."""
  return jnp.matmul(hidden, matrix.astype(hidden.dtype), preferred_element_type=jnp.float32)


def unembed(config: ModelConfig, params: Params, hidden: Float[Array, "*rows D"]) -> Float[Array, "*rows V"]:
  """Logits in float32, for few rows; `logprobs.token_scores` never holds them all."""
  flat = logits_of(hidden.reshape(-1, hidden.shape[-1]), unembedding(config, params))
  return flat.reshape(*hidden.shape[:-1], flat.shape[-1])


def values(config: ModelConfig, params: Params, hidden: Float[Array, "*rows D"]) -> Float[Array, "*rows"]:
  """The value head's estimate at each hidden state, float32, in units of reward."""
  head = bind(config, params).value_head
  if head is None:
    raise ValueError("ModelConfig.value_head=False; allowed for values(): a model with value_head=True")
  return head(hidden.astype(jnp.float32))[..., 0]


def prefill(
  config: ModelConfig,
  params: Params,
  inputs: Int[Array, "P L"] | Float[Array, "P L D"],
  length: Int[Array, "P"],
) -> tuple[Context, Float[Array, "P D"]]:
  """Reads right-padded prompts once: their blocks, and the hidden state of each last real token."""
  _need_causal(config, "prefill")
  model = bind(config, params)
  x = _embed(model, inputs)[:, None]
  width = x.shape[2]
  positions = jax.lax.broadcasted_iota(jnp.int32, (x.shape[0], 1, width), 2)
  real = positions < length[:, None, None]
  allowed = _mask(config, None, width)[:, None] & real[:, :, None, :]
  x, blocks = _layers(model, x, positions, own_mask=allowed)
  last = jnp.maximum(length - 1, 0)[:, None, None]
  hidden = jnp.take_along_axis(x[:, 0], last, axis=1)
  return Context(blocks, length, real[:, :, None, :]), model.final_norm(hidden)[:, 0]


def extend(
  config: ModelConfig, params: Params, context: Context, inputs: Int[Array, "P G T"] | Float[Array, "P G T D"]
) -> Float[Array, "P G T D"]:
  """Hidden states of the group's completions after a shared prompt, which is not computed again."""
  _need_causal(config, "extend")
  model = bind(config, params)
  x = _embed(model, inputs)
  step = jax.lax.broadcasted_iota(jnp.int32, x.shape[:3], 2)
  allowed = _mask(config, None, x.shape[2])[:, None]
  positions = context.length[:, None, None] + step
  x, _ = _layers(model, x, positions, context.blocks, past_mask=context.mask, own_mask=allowed)
  return model.final_norm(x)


def empty_cache(config: ModelConfig, shape: tuple[int, int], width: int) -> Any:
  """Blocks of zeros for `width` completion tokens of rows [P, G], per layer (stacked if they are)."""
  dtype = jnp.dtype(config.dtype)
  rows = (*shape, config.kv_heads)
  depth = (config.layers,) if config.scan_layers else ()
  block = Block(
    jnp.zeros((*depth, *rows, config.head_dim, width), dtype),
    jnp.zeros((*depth, *rows, width, config.head_dim), dtype),
  )
  return block if config.scan_layers else tuple(block for _ in range(config.layers))


def decode_step(
  config: ModelConfig, params: Params, context: Context, cache: Any, *, tokens: Int[Array, "P G"], step: Array
) -> tuple[Float[Array, "P G D"], Any]:
  """Reads completion token number `step` of every row; the hidden state that predicts the next one.

  The rows' own blocks are written at the common index `step`; positions are prompt length + step.
  """
  model = bind(config, params)
  x = _embed(model, tokens[..., None])
  width = (cache if config.scan_layers else cache[0]).values.shape[-2]
  allowed = (jnp.arange(width) <= step)[None, None, None, :]
  positions = jnp.broadcast_to(context.length[:, None, None] + step, x.shape[:3])
  x, cache = _layers(
    model, x, positions, context.blocks, cache, past_mask=context.mask, own_mask=allowed, step=step
  )
  return model.final_norm(x)[:, :, 0], cache


def _layers(
  model: Decoder, x, positions, past=None, own=None, *, past_mask=None, own_mask, step=None
) -> tuple[Array, Any]:
  """Runs all layers, unrolled or scanned. Returns the residual stream and the own block of every layer."""
  config = model.config
  angles = rotary(positions, config.head_dim, config.rope_theta)

  def one(graph, x, weights, past, own):
    layer = nnx.merge(graph, weights)
    return layer(x, angles, past, own, past_mask=past_mask, own_mask=own_mask, step=step)

  if config.remat:
    one = jax.checkpoint(one, static_argnums=0)
  if config.scan_layers:
    graph, weights = _split(model.layers)
    return jax.lax.scan(lambda x, each: one(graph, x, *each), x, (weights, past, own))
  blocks = []
  for i, layer in enumerate(model.layers):
    graph, weights = _split(layer)
    x, block = one(graph, x, weights, past and past[i], own and own[i])
    blocks.append(block)
  return x, tuple(blocks)


def _split(layer: nnx.Module) -> tuple[Any, Any]:
  graph, state = nnx.split(layer)
  return graph, nnx.to_pure_dict(state)


def _embed(model: Decoder, inputs: Array) -> Array:
  dtype = jnp.dtype(model.config.dtype)
  if jnp.issubdtype(inputs.dtype, jnp.integer):
    return model.embed.kernel[...].astype(dtype)[inputs]
  return inputs.astype(dtype)


def _mask(config: ModelConfig, mask: Mask, width: int) -> Bool[Array, "#B T T"]:
  if isinstance(mask, jax.Array):
    return mask
  query, key = jnp.arange(width)[None, :, None], jnp.arange(width)[None, None, :]
  if mask is not None:
    return jnp.broadcast_to(mask(query, key), (1, width, width))
  return (key <= query) | (not config.causal)


def _need_causal(config: ModelConfig, name: str) -> None:
  if not config.causal:
    raise ValueError(f"ModelConfig.causal=False; allowed for {name}(): a causal model")
