"""The mesh and what lies where on it: one table from logical axes to mesh axes, and padded batches.

Mesh axes: `data` splits the batch, `fsdp` splits batch and parameters, `tensor` splits matrices in a layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxrl_reason.types import nearest

AXES = ("data", "fsdp", "tensor")

# Logical axis of a parameter or an activation → mesh axis (or axes, or None = whole on every device).
RULES: Mapping[str, str | tuple[str, ...] | None] = {
  "batch": ("data", "fsdp"),
  "embed": "fsdp",
  "mlp": "tensor",
  "heads": "tensor",
  "kv_heads": "tensor",
  "vocab": "tensor",
  "head_dim": None,
  "layers": None,
  "length": None,
  "norm": None,
  "value": None,  # the output of a value head
  "rank": None,
}


def make_mesh(
  data: int = -1, fsdp: int = 1, tensor: int = 1, devices: Sequence[jax.Device] | None = None
) -> Mesh:
  """A mesh (data, fsdp, tensor) of all devices, or of those given; one size may be -1: what is left over.

  Sizes without a -1 may leave devices out: the first ones are taken. Axis types are Auto: the compiler places
  collectives. Errors: ValueError that names the numbers where there are too few devices.
  """
  devices = jax.devices() if devices is None else list(devices)
  sizes = [data, fsdp, tensor]
  shown = " × ".join(f"{name}={size}" for name, size in zip(AXES, sizes))
  if sizes.count(-1) > 1 or any(size == 0 or size < -1 for size in sizes):
    raise ValueError(f"mesh {shown}: sizes are at least 1, and one of them may be -1")
  known = math.prod(size for size in sizes if size != -1)
  if -1 in sizes:
    if len(devices) % known:
      raise ValueError(f"mesh {shown}: {len(devices)} devices cannot be divided by {known}")
    sizes[sizes.index(-1)] = len(devices) // known
  elif known > len(devices):
    raise ValueError(f"mesh {shown} = {known} devices, but there are {len(devices)}")
  devices = devices[: math.prod(sizes)]
  return jax.make_mesh(tuple(sizes), AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=devices)


def spec(
  mesh: Mesh,
  axes: Sequence[str | None],
  shape: Sequence[int],
  rules: Mapping[str, str | tuple[str, ...] | None] = RULES,
) -> PartitionSpec:
  """The partition of one array by the logical names of its axes.

  An axis is left whole where its size is not divisible by the mesh axes of its rule, or where an earlier axis
  of the same array has taken them. Errors: ValueError for an unknown logical axis or a wrong number of axes.
  """
  if len(axes) != len(shape):
    raise ValueError(f"logical axes {tuple(axes)} do not fit the shape {tuple(shape)}")
  taken: set[str] = set()
  parts: list[str | tuple[str, ...] | None] = []
  for axis, size in zip(axes, shape):
    if axis is not None and axis not in rules:
      raise ValueError(f"unknown logical axis {axis!r} ({nearest(axis, rules)})")
    rule = rules[axis] if axis is not None else None
    names = (rule,) if isinstance(rule, str) else (rule or ())
    pieces = math.prod(mesh.shape[name] for name in names)
    if pieces > 1 and size % pieces == 0 and not taken & set(names):
      taken |= set(names)
      parts.append(rule)
    else:
      parts.append(None)
  return PartitionSpec(*parts)


def param_shardings(
  mesh: Mesh,
  logical_axes: Any,
  shapes: Any,
  rules: Mapping[str, str | tuple[str, ...] | None] = RULES,
) -> Any:
  """The shardings of a tree of parameters.

  `logical_axes` has a tuple of axis names at every leaf of `shapes` (arrays or `jax.ShapeDtypeStruct`s); a
  leaf of None is replicated.
  """

  def one(path: Any, leaf: Any, axes: Sequence[str | None] | None) -> NamedSharding:
    try:
      partition = PartitionSpec() if axes is None else spec(mesh, axes, leaf.shape, rules)
    except ValueError as error:
      raise ValueError(f"{jax.tree_util.keystr(path, simple=True, separator='.')}: {error}") from None
    return NamedSharding(mesh, partition)

  return jax.tree_util.tree_map_with_path(one, shapes, logical_axes)


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Rows over `data` and `fsdp`, for every array whose first axis is the batch."""
  return NamedSharding(mesh, PartitionSpec(("data", "fsdp")))


def replicated(mesh: Mesh) -> NamedSharding:
  return NamedSharding(mesh, PartitionSpec())


def batch_multiple(mesh: Mesh) -> int:
  """The number of rows of a batch must be a multiple of this: the argument of `pad_rows`."""
  return mesh.shape["data"] * mesh.shape["fsdp"]


def pad_rows(tree: Any, multiple: int) -> tuple[Any, int]:
  """Every array's first axis is padded to a multiple with copies of the last row. Returns (tree, real rows).

  Copies, and not zeros, keep every row valid (lengths, ids); the caller masks rows from `real` on, for
  example by row weights 0 (see `real_rows`).
  Errors: ValueError for an empty batch or arrays of unequal row counts.
  """
  counts = {leaf.shape[0] for leaf in jax.tree.leaves(tree)}
  if len(counts) != 1 or 0 in counts or multiple < 1:
    raise ValueError(f"pad_rows: row counts {sorted(counts)} and multiple {multiple}; need one count > 0")
  real = counts.pop()
  missing = -real % multiple
  if missing == 0:
    return tree, real

  def pad(x: Any) -> Any:
    numpy = np if isinstance(x, np.ndarray) else jnp
    return numpy.concatenate([x, numpy.repeat(x[-1:], missing, axis=0)])

  return jax.tree.map(pad, tree), real


def real_rows(rows: int, real: int | jax.Array) -> jax.Array:
  """True on the rows that `pad_rows` did not add, [rows]."""
  return jnp.arange(rows) < real
