"""Low-rank updates (LoRA): W x + (α/r) · (x A) B on named projections, as a parameter subtree of their own.

  params = lora.with_lora(base, lora.init_lora(config, key, rank=8, alpha=16.0, targets=("q", "v")))

gives `{"base": ..., "lora": {"rank-r matrices"}, "scale": α/r}`; every function of the decoder accepts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.modules import PROJECTIONS, Decoder
from jaxrl_reason.models.params import combine, declared, draw, flatten, is_lora, nest, stack_layers
from jaxrl_reason.types import Params, nearest

ALL_LAYERS = tuple(name for name in PROJECTIONS if name != "unembed")


class Lora(NamedTuple):
  """The matrices A (normal, deviation 1/√width) and B (zero, so that the model starts unchanged), and α/r."""

  matrices: Params
  scale: Array


def init_lora(
  config: ModelConfig, key: Array, *, rank: int, alpha: float | int, targets: Sequence[str] = ALL_LAYERS
) -> Lora:
  """Fresh low-rank matrices for the projections in `targets` of every layer.

  Errors: a rank below 1, an unknown target, "unembed" where the embeddings are tied.
  """
  if rank < 1:
    raise ValueError(f"rank={rank!r}; allowed: an integer of at least 1")
  _check_targets(config, targets)
  flat = config.replace(scan_layers=False)
  ranks = tuple((name, rank) for name in PROJECTIONS if name in targets)
  shapes = nnx.to_pure_dict(nnx.state(Decoder(flat, dict(ranks))))
  matrices = draw(key, _only_lora(shapes), declared(flat, "std", ranks))
  if config.scan_layers and "layers" in matrices:
    matrices = stack_layers(matrices)
  return Lora(matrices, jnp.float32(alpha / rank))


def with_lora(base: Params, lora: Lora) -> Params:
  """One pytree of base parameters and low-rank updates."""
  return {"base": base, "lora": lora.matrices, "scale": lora.scale}


def trainable_mask(params: Params) -> Params:
  """True on what is trained: the low-rank matrices if there are any, else everything."""
  if not is_lora(params):
    return jax.tree.map(lambda _: True, params)
  return {name: jax.tree.map(lambda _, on=(name == "lora"): on, tree) for name, tree in params.items()}


def split_trainable(params: Params) -> tuple[Params, Any]:
  """(what is trained, what is frozen): differentiate the first, `join_trainable` puts them together."""
  if not is_lora(params):
    return params, None
  return params["lora"], {"base": params["base"], "scale": params["scale"]}


def join_trainable(trained: Params, frozen: Any) -> Params:
  """The inverse of `split_trainable`."""
  return trained if frozen is None else {**frozen, "lora": trained}


def merge_lora(params: Params) -> Params:
  """Plain parameters of the same function: W + (α/r) A B."""
  combined = flatten(combine(params))
  for path in [path for path in combined if path[-1] == "lora_a"]:
    a, b = combined.pop(path), combined.pop((*path[:-1], "lora_b"))
    kernel = (*path[:-1], "kernel")
    combined[kernel] = combined[kernel] + a @ b
  return nest(combined)


def lora_axes(config: ModelConfig, targets: Sequence[str] = ALL_LAYERS) -> Params:
  """Logical axes of the matrices of `init_lora`; the low-rank axis is "rank"."""
  _check_targets(config, targets)
  return _only_lora(declared(config, "axes", tuple((name, 1) for name in PROJECTIONS if name in targets)))


def _only_lora(tree: Params) -> Params:
  return nest({path: x for path, x in flatten(tree).items() if path[-1] in ("lora_a", "lora_b")})


def _check_targets(config: ModelConfig, targets: Sequence[str]) -> None:
  if not targets:
    raise ValueError(f"targets is empty; allowed: some of {', '.join(PROJECTIONS)}")
  for name in targets:
    if name not in PROJECTIONS:
      raise ValueError(f"targets holds {name!r}; {nearest(name, PROJECTIONS)}")
  if "unembed" in targets and config.tied_embeddings:
    raise ValueError(
      "targets holds 'unembed' though ModelConfig.tied_embeddings=True; allowed there: "
      + ", ".join(ALL_LAYERS)
    )
