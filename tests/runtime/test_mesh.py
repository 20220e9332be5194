"""Mesh sizes, the table of logical axes, and batches that do not fit the mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from jaxrl_reason.runtime import mesh as meshes


def test_one_size_is_what_is_left_over():
  assert dict(meshes.make_mesh().shape) == {"data": 8, "fsdp": 1, "tensor": 1}
  assert meshes.make_mesh(2, 2, 1).devices.ravel().tolist() == jax.devices()[:4]
  assert dict(meshes.make_mesh(fsdp=2, tensor=2).shape) == {"data": 2, "fsdp": 2, "tensor": 2}
  assert dict(meshes.make_mesh(1, -1, 2).shape) == {"data": 1, "fsdp": 4, "tensor": 2}
  assert dict(meshes.make_mesh(devices=jax.devices()[:3]).shape) == {"data": 3, "fsdp": 1, "tensor": 1}
  assert meshes.make_mesh().axis_types == (AxisType.Auto,) * 3


@pytest.mark.parametrize(
  ("sizes", "message"),
  [
    ((4, 2, 2), r"data=4 × fsdp=2 × tensor=2 = 16 devices, but there are 8"),
    ((-1, 3, 1), r"8 devices cannot be divided by 3"),
    ((-1, -1, 1), r"one of them may be -1"),
    ((0, 1, 1), r"data=0 .* at least 1"),
  ],
)
def test_impossible_meshes_name_the_numbers(sizes, message):
  with pytest.raises(ValueError, match=message):
    meshes.make_mesh(*sizes)


@pytest.mark.parametrize(
  ("axes", "shape", "expected"),
  [
    (("embed", "mlp"), (8, 6), ("fsdp", "tensor")),
    (("vocab", "embed"), (7, 8), (None, "fsdp")),  # 7 is not divisible by tensor=2
    (("layers", "embed", "heads", "head_dim"), (3, 4, 2, 5), (None, "fsdp", "tensor", None)),
    (("mlp", "heads"), (4, 4), ("tensor", None)),  # a mesh axis is used once per array
    (("batch", None), (4, 9), (("data", "fsdp"), None)),
    (("batch",), (6,), (None,)),
    ((), (), ()),
  ],
)
def test_table_of_logical_axes(axes, shape, expected):
  assert meshes.spec(meshes.make_mesh(2, 2, 2), axes, shape) == PartitionSpec(*expected)


def test_a_mesh_axis_of_one_device_splits_nothing():
  assert meshes.spec(meshes.make_mesh(), ("embed", "mlp"), (8, 8)) == PartitionSpec(None, None)


def test_parameters_are_placed_and_computed_with():
  mesh = meshes.make_mesh(2, 2, 2)
  params = {"up": jnp.ones((8, 6)), "odd": jnp.ones((5, 3)), "scale": jnp.ones(()), "whole": jnp.ones(4)}
  axes = {"up": ("embed", "mlp"), "odd": ("embed", "mlp"), "scale": (), "whole": None}
  shardings = meshes.param_shardings(mesh, axes, jax.eval_shape(lambda: params))
  placed = jax.device_put(params, shardings)
  assert placed["up"].addressable_shards[0].data.shape == (4, 3)
  assert placed["odd"].addressable_shards[0].data.shape == (5, 3)
  assert shardings["whole"] == meshes.replicated(mesh)
  np.testing.assert_array_equal(jax.jit(lambda p: p["up"].sum(0))(placed), np.full(6, 8.0))


def test_errors_name_the_parameter():
  mesh, leaf = meshes.make_mesh(), jax.ShapeDtypeStruct((8, 6), jnp.float32)
  with pytest.raises(ValueError, match=r"layer\.w: unknown logical axis 'embd'.*did you mean 'embed'"):
    meshes.param_shardings(mesh, {"layer": {"w": ("embd", "mlp")}}, {"layer": {"w": leaf}})
  with pytest.raises(ValueError, match=r"w: logical axes \('embed',\) do not fit the shape \(8, 6\)"):
    meshes.param_shardings(mesh, {"w": ("embed",)}, {"w": leaf})


@pytest.mark.case(34)
@pytest.mark.parametrize("rows", [1, 5, 8, 11])
def test_an_uneven_batch_is_padded_and_masked(rows):
  mesh = meshes.make_mesh(4, 2)
  random = np.random.default_rng(rows)
  batch = {"x": random.normal(size=(rows, 3)).astype(np.float32), "length": random.integers(1, 4, rows)}
  padded, real = meshes.pad_rows(batch, meshes.batch_multiple(mesh))
  assert real == rows
  assert len(padded["x"]) % 8 == 0
  assert len(padded["x"]) - rows < 8
  np.testing.assert_array_equal(padded["x"][:rows], batch["x"])
  np.testing.assert_array_equal(padded["length"][rows:], batch["length"][-1])

  @jax.jit
  def masked_mean(batch, real):
    inside = (jnp.arange(3)[None] < batch["length"][:, None]) & meshes.real_rows(len(batch["x"]), real)[
      :, None
    ]
    return jnp.sum(jnp.where(inside, batch["x"], 0)) / jnp.sum(inside)

  inside = np.arange(3)[None] < batch["length"][:, None]
  result = masked_mean(jax.device_put(padded, meshes.batch_sharding(mesh)), real)
  np.testing.assert_allclose(result, batch["x"][inside].mean(), rtol=1e-5)


@pytest.mark.case(34)
def test_a_batch_that_fits_is_left_alone_and_kinds_are_kept():
  tree = {"host": np.arange(8), "device": jnp.arange(8)}
  assert meshes.pad_rows(tree, 4)[0] is tree
  padded, real = meshes.pad_rows(tree, 5)
  assert real == 8
  assert isinstance(padded["host"], np.ndarray)
  assert isinstance(padded["device"], jax.Array)
  assert padded["host"].dtype == tree["host"].dtype


@pytest.mark.parametrize("tree", [{"a": np.ones((2, 1)), "b": np.ones(3)}, {"a": np.ones((0, 2))}, {}])
def test_batches_that_cannot_be_padded(tree):
  with pytest.raises(ValueError, match="row counts"):
    meshes.pad_rows(tree, 4)
