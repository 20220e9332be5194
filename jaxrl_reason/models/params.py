"""Parameters as a plain nested dict of arrays: shapes, logical axes, initial values, stacking, binding.

`params` is either such a dict, or `{"base": ..., "lora": ..., "scale": ...}` (lora.py).
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.modules import PROJECTIONS, Decoder
from jaxrl_reason.types import Params

Ranks = tuple[tuple[str, int], ...]


@functools.lru_cache(maxsize=64)
def _declaration(config: ModelConfig, ranks: Ranks) -> tuple[Any, Any]:
  return nnx.split(Decoder(config, dict(ranks)))


def declared(config: ModelConfig, field: str, ranks: Ranks = ()) -> Params:
  """One field of every parameter's declaration ("axes" or "std"), as a pytree like the parameters."""
  state = _declaration(config, ranks)[1]
  flat = {path: param.get_metadata()[field] for path, param in nnx.to_flat_state(state)}
  return nest(flat)


def nest(flat: dict[tuple, Any]) -> dict:
  """A nested dict of a dict by path."""
  tree: dict = {}
  for path, leaf in flat.items():
    branch = tree
    for name in path[:-1]:
      branch = branch.setdefault(name, {})
    branch[path[-1]] = leaf
  return tree


def flatten(tree: dict, prefix: tuple = ()) -> dict[tuple, Any]:
  """A dict by path of a nested dict."""
  flat: dict[tuple, Any] = {}
  for name, leaf in tree.items():
    flat.update(flatten(leaf, (*prefix, name)) if isinstance(leaf, dict) else {(*prefix, name): leaf})
  return flat


def logical_axes(config: ModelConfig) -> Params:
  """Axis names of every parameter (a tuple): layers, embed, heads, kv_heads, head_dim, mlp, vocab, value."""
  return declared(config, "axes")


def abstract_params(config: ModelConfig) -> Params:
  """Shape and dtype of every parameter, without memory."""
  return nnx.to_pure_dict(_declaration(config, ())[1])


def init_params(config: ModelConfig, key: Array) -> Params:
  """Initial float32 parameters. Each draws by its name: a stacked model starts as an unrolled one."""
  flat = config.replace(scan_layers=False)
  params = draw(key, abstract_params(flat), declared(flat, "std"))
  return stack_layers(params) if config.scan_layers else params


def draw(key: Array, shapes: Params, stds: Params) -> Params:
  """Normal values with each parameter's deviation (None = ones), keyed by the parameter's path."""
  values = {}
  deviations = flatten(stds)
  for path, shape in flatten(shapes).items():
    std = deviations[path]
    if std is None:
      values[path] = jnp.ones(shape.shape, shape.dtype)
    elif std == 0.0:
      values[path] = jnp.zeros(shape.shape, shape.dtype)
    else:
      own = jax.random.fold_in(key, zlib.crc32(dotted(path).encode()))
      values[path] = std * jax.random.normal(own, shape.shape, shape.dtype)
  return nest(values)


def dotted(path: tuple) -> str:
  return ".".join(str(name) for name in path)


def stack_layers(params: Params) -> Params:
  """Unrolled → stacked: every layer parameter gains a leading axis "layers"."""
  layers = [params["layers"][i] for i in range(len(params["layers"]))]
  return {**params, "layers": jax.tree.map(lambda *x: jnp.stack(x), *layers)}


def unstack_layers(params: Params) -> Params:
  """Stacked → unrolled, the inverse of `stack_layers`."""
  depth = jax.tree.leaves(params["layers"])[0].shape[0]
  layers = {i: jax.tree.map(lambda x, i=i: x[i], params["layers"]) for i in range(depth)}
  return {**params, "layers": layers}


def unrolled(config: ModelConfig, params: Params) -> tuple[ModelConfig, Params]:
  """The same model with its layers unrolled: what a decode loop wants, its weights sliced once outside."""
  if not config.scan_layers:
    return config, params
  return config.replace(scan_layers=False), unstack_layers(combine(params))


def is_lora(params: Params) -> bool:
  return isinstance(params, dict) and set(params) == {"base", "lora", "scale"}


def combine(params: Params) -> Params:
  """One tree of base and low-rank parameters, α/rank multiplied into the small matrices B."""
  if not is_lora(params):
    return params
  flat = flatten(params["base"])
  scale = jax.lax.stop_gradient(params["scale"])
  for path, leaf in flatten(params["lora"]).items():
    flat[path] = leaf * scale if path[-1] == "lora_b" else leaf
  return nest(flat)


def ranks_of(params: Params) -> Ranks:
  """Which projections of a combined tree carry a low-rank update, and its rank."""
  found = {path[-2]: x.shape[-1] for path, x in flatten(params).items() if path[-1] == "lora_a"}
  return tuple((name, found[name]) for name in PROJECTIONS if name in found)


def bind(config: ModelConfig, params: Params) -> Decoder:
  """The module that holds these parameters (or tracers of them)."""
  params = combine(params)
  return nnx.merge(_declaration(config, ranks_of(params))[0], params)
