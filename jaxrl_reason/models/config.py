"""The shape of a decoder: numbers and switches, nothing that is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxrl_reason.types import nearest

DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """A Llama-like decoder. Hashable, so that a jitted program can be cached by it.

  `scan_layers` stacks the weights of all layers and loops over them with `lax.scan`: compile time stays flat
  in depth. Unrolled layers run faster on CPU (experiments/benchmarks/layers.py), so they are the default.
  """

  vocab_size: int
  width: int
  layers: int
  heads: int
  kv_heads: int
  head_dim: int
  mlp_width: int
  rope_theta: float | int = 10_000.0
  norm_eps: float = 1e-6
  qkv_bias: bool = False
  o_bias: bool = False
  mlp_bias: bool = False
  qk_norm: bool = False
  tied_embeddings: bool = True
  causal: bool = True  # False = every token sees every token (masked diffusion)
  value_head: bool = False
  scan_layers: bool = False
  dtype: str = "float32"  # of activations and matrix products; parameters, norms and softmax are float32
  remat: bool = False  # recompute each layer in the backward pass

  def __post_init__(self):
    for name in ("vocab_size", "width", "layers", "heads", "kv_heads", "head_dim", "mlp_width"):
      value = getattr(self, name)
      if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"ModelConfig.{name}={value!r}; allowed: an integer of at least 1")
    for name in ("rope_theta", "norm_eps"):
      if not getattr(self, name) > 0:
        raise ValueError(f"ModelConfig.{name}={getattr(self, name)!r}; allowed: a number above 0")
    if self.heads % self.kv_heads:
      divisors = ", ".join(str(n) for n in range(1, self.heads + 1) if self.heads % n == 0)
      raise ValueError(
        f"ModelConfig.kv_heads={self.kv_heads}; allowed with heads={self.heads}: its divisors {divisors}"
      )
    if self.head_dim % 2:
      raise ValueError(f"ModelConfig.head_dim={self.head_dim}; allowed: an even number (rotary pairs)")
    if self.dtype not in DTYPES:
      raise ValueError(f"ModelConfig.dtype={self.dtype!r}; {nearest(str(self.dtype), DTYPES)}")

  def replace(self, **changes: Any) -> ModelConfig:
    """The same shape with some fields changed."""
    return from_dict({**to_dict(self), **changes})


def to_dict(config: ModelConfig) -> dict[str, Any]:
  """Every field as a JSON value."""
  return dataclasses.asdict(config)


def from_dict(values: Mapping[str, Any]) -> ModelConfig:
  """The config of such a dict. Errors: an unknown or a missing key, with what is allowed."""
  fields = {field.name: field for field in dataclasses.fields(ModelConfig)}
  for name in values:
    if name not in fields:
      raise ValueError(f"ModelConfig has no field {name!r}; {nearest(name, fields)}")
  required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
  missing = [name for name in required if name not in values]
  if missing:
    raise ValueError(f"ModelConfig lacks {', '.join(missing)}; required: {', '.join(required)}")
  return ModelConfig(**values)
