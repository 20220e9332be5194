"""Checkpoints: bit-exact, atomic under SIGKILL, loud about another model, and the last and best are kept."""

import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from jaxrl_reason.runtime.checkpoint import CheckpointMismatch, Checkpoints


def bits(x):
  return np.ascontiguousarray(np.asarray(x)).tobytes()


def assert_same(a, b):
  assert jax.tree.structure(a) == jax.tree.structure(b)
  for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
    assert (x.dtype, x.shape, bits(x)) == (y.dtype, y.shape, bits(y))
    assert isinstance(x, jax.Array) == isinstance(y, jax.Array)


def example(seed=0, width=4):
  random = np.random.default_rng(seed)
  params = {
    "embed": jnp.asarray(random.normal(size=(3, width)), jnp.bfloat16),
    "layers": [{"w": jnp.asarray(random.normal(size=(width, 2)), jnp.float32)} for _ in range(2)],
  }
  return {
    "params": params,
    "optimizer": optax.adamw(1e-3).init(params),
    "key": jax.random.key_data(jax.random.key(seed)),
    "special": jnp.asarray([np.nan, -0.0, np.inf, 1e-45], jnp.float32),
    "empty": jnp.zeros((0, 3), jnp.int8),
    "flag": jnp.asarray([True, False]),
    "host": np.arange(3, dtype=np.int64),
  }


def abstract(tree):
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, jax.Array) else x, tree
  )


class State(NamedTuple):
  params: Any
  optimizer: Any


def counter(step):
  return {"w": jnp.full((4,), step, jnp.float32)}


@pytest.mark.parametrize("as_target", [lambda tree: tree, abstract], ids=["arrays", "abstract"])
def test_every_bit_comes_back(tmp_path, as_target):
  state, extra = example(), {"cursor": [1, 2], "curriculum": {"level": 0.1 + 0.2}, "name": "ü"}
  with Checkpoints(tmp_path) as checkpoints:
    assert checkpoints.restore_latest(state) is None
    checkpoints.save(7, state, extra)
  with Checkpoints(tmp_path) as checkpoints:
    step, restored, read = checkpoints.restore_latest(as_target(example(seed=1)))
  assert (step, read) == (7, extra)
  assert_same(restored, state)


def test_restored_state_runs_without_a_second_compilation(tmp_path):
  state = example()["params"]
  double = jax.jit(lambda tree: jax.tree.map(lambda x: 2 * x, tree))
  double(state)
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, state)
    double(checkpoints.restore("last", state).state)
  assert double._cache_size() == 1


def test_sharding_follows_the_target(tmp_path):
  mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
  split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
  x = jnp.arange(16.0).reshape(8, 2)
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, {"x": jax.device_put(x, split)})
    for sharding in (split, whole):
      restored = checkpoints.restore(1, {"x": jax.ShapeDtypeStruct((8, 2), jnp.float32, sharding=sharding)})
      assert restored.state["x"].sharding == sharding
      assert bits(restored.state["x"]) == bits(x)
    assert bits(checkpoints.restore(1, {"x": x}).state["x"]) == bits(x)


def test_the_last_and_the_best_are_kept(tmp_path):
  with Checkpoints(tmp_path, keep=2) as checkpoints:
    for step, metric in enumerate([0.1, 0.9, 0.3, None, float("nan"), 0.2]):
      checkpoints.save(step, counter(step), metric=metric)
    assert checkpoints.steps() == [1, 4, 5]
  with Checkpoints(tmp_path, keep=1) as checkpoints:
    assert checkpoints.best_step() == 1
    assert checkpoints.restore("best", counter(0)).state["w"][0] == 1
    assert checkpoints.restore("last", counter(0)).step == 5
    checkpoints.save(6, counter(6), metric=0.9)
    assert checkpoints.steps() == [6]  # the newest of equals is the best


def test_an_abandoned_future_is_removed(tmp_path):
  with Checkpoints(tmp_path, keep=5) as checkpoints:
    for step in (1, 2, 3):
      checkpoints.save(step, counter(step))
    checkpoints.save(2, counter(20))
    assert checkpoints.steps() == [1, 2]
    assert checkpoints.restore_latest(counter(0)).state["w"][0] == 20


def test_a_reader_leaves_a_running_writer_alone(tmp_path):
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, State(jnp.ones(3), (jnp.zeros(2),)))
    half = tmp_path / "checkpoints" / "2.orbax-checkpoint-tmp"
    half.mkdir()
    with Checkpoints(tmp_path) as reader:
      part = reader.restore("last", {"params": jnp.zeros(3)}, subset=True)
    assert half.exists()
    assert (part.state["params"] == 1).all()
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.restore_latest(State(jnp.zeros(3), (jnp.zeros(2),)))
    assert not half.exists()


@pytest.mark.case(29)
def test_killed_while_replacing_a_checkpoint_the_old_one_is_back(tmp_path, monkeypatch):
  with Checkpoints(tmp_path, keep=1) as checkpoints:
    checkpoints.save(1, counter(1), metric=0.5)

    def killed(*_, **__):
      raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints._manager, "save", killed)
    with pytest.raises(KeyboardInterrupt):
      checkpoints.save(1, counter(10))
    assert checkpoints.steps() == []
  with Checkpoints(tmp_path, keep=1) as checkpoints:
    assert checkpoints.restore_latest(counter(0)).state["w"][0] == 1
    checkpoints.save(1, counter(10), metric=0.1)
    assert checkpoints.restore("best", counter(0)).state["w"][0] == 10
  assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["1"]


def test_missing_checkpoint_lists_what_is_there(tmp_path):
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(3, counter(3))
    for which in (4, "best", "newest"):
      with pytest.raises(FileNotFoundError, match=rf"no checkpoint {which!r} .* \[3\]"):
        checkpoints.restore(which, counter(0))


def wider(state):
  state["params"]["embed"] = jnp.zeros((3, 5), jnp.bfloat16)


def other_dtype(state):
  state["params"]["embed"] = jnp.zeros((3, 4))


def one_leaf_more(state):
  state["params"]["bias"] = jnp.zeros(2)


def one_leaf_less(state):
  del state["special"]


def one_layer_less(state):
  state["params"]["layers"].pop()


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (wider, r"params.embed the file holds bfloat16\[3, 4\], expected bfloat16\[3, 5\]"),
    (other_dtype, r"params.embed the file holds bfloat16\[3, 4\], expected float32\[3, 4\]"),
    (one_leaf_more, r"params.bias the file holds nothing, expected float32\[2\]"),
    (one_leaf_less, r"special the file holds float32\[4\], expected nothing"),
    (one_layer_less, r"params.layers.1.w .* expected nothing"),
  ],
)
def test_another_model_is_named_by_its_first_differing_leaf(tmp_path, change, message):
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, example())
    target = {**example(), "optimizer": example()["optimizer"]}
    change(target)
    with pytest.raises(CheckpointMismatch, match="checkpoint 1 in .* at " + message):
      checkpoints.restore_latest(target)


def test_a_subset_is_read_only_when_asked_for(tmp_path):
  state = example()
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, state)
    part = {"params": example(seed=1)["params"]}
    assert_same(checkpoints.restore("last", part, subset=True).state["params"], state["params"])
    with pytest.raises(CheckpointMismatch):
      checkpoints.restore("last", part)


@pytest.mark.parametrize(
  ("state", "extra", "error", "message"),
  [
    ({"a": 1}, {}, TypeError, "a is a int"),
    ({"key": jax.random.key(0)}, {}, TypeError, "key_data"),
    ({"a": {"b": np.ones(1)}, "a.b": np.ones(1)}, {}, ValueError, "'a.b'"),
    ({"a": np.ones(1)}, {"x": float("nan")}, ValueError, "JSON"),
  ],
)
def test_what_cannot_be_stored_is_refused_before_writing(tmp_path, state, extra, error, message):
  with Checkpoints(tmp_path) as checkpoints:
    with pytest.raises(error, match=message):
      checkpoints.save(1, state, extra)
    assert checkpoints.steps() == []


def test_states_without_elements(tmp_path):
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, {})
    assert checkpoints.restore_latest({}).state == {}
    checkpoints.save(2, {"none": np.zeros((0,))})
    assert checkpoints.restore_latest({"none": np.zeros((0,))}).state["none"].shape == (0,)


def big(seed=0):
  """Incompressible and large enough to lie in data files of its own."""
  return {"w": np.random.default_rng(seed).normal(size=(100, 100))}


def cut_short(directory):
  largest = max((p for p in directory.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
  os.truncate(largest, largest.stat().st_size // 2)


def lose_the_record(directory):
  (directory / "record" / "metadata").unlink()


def lose_the_arrays(directory):
  for path in (directory / "state").rglob("*"):
    if path.is_file() and path.parent.name == "d":
      path.unlink()


def half_a_record(directory):
  os.truncate(directory / "record" / "metadata", 10)


def flip_a_bit(directory):
  largest = max((p for p in directory.rglob("d/*") if p.is_file()), key=lambda p: p.stat().st_size)
  content = bytearray(largest.read_bytes())
  content[len(content) // 2] ^= 1
  largest.write_bytes(content)


def change_the_record(directory):
  path = directory / "record" / "metadata"
  path.write_text(path.read_text().replace("cursor", "curser"))


@pytest.mark.case(29)
@pytest.mark.filterwarnings(
  "ignore::pytest.PytestUnraisableExceptionWarning"
)  # reads in flight when one fails
@pytest.mark.parametrize(
  "damage", [cut_short, lose_the_record, lose_the_arrays, half_a_record, flip_a_bit, change_the_record]
)
def test_a_broken_checkpoint_is_skipped_by_name_and_never_counts_as_kept(tmp_path, damage):
  with Checkpoints(tmp_path, keep=2) as checkpoints:
    for step in (1, 2):
      checkpoints.save(step, big(step), {"cursor": step})
  damage(tmp_path / "checkpoints" / "2")
  with Checkpoints(tmp_path, keep=1) as checkpoints:
    with pytest.warns(UserWarning, match="checkpoint 2 in .* is skipped"):
      restored = checkpoints.restore_latest(big())
    assert restored.step == 1
    assert_same(restored.state, big(1))
    checkpoints.save(2, big(3))
    assert_same(checkpoints.restore_latest(big()).state, big(3))
    assert checkpoints.steps() == [2]


@pytest.mark.case(29)
def test_a_half_written_directory_is_not_a_checkpoint(tmp_path):
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, counter(1))
  half = tmp_path / "checkpoints" / "2.orbax-checkpoint-tmp"
  (half / "state").mkdir(parents=True)
  (tmp_path / "checkpoints" / "notes").mkdir()
  with Checkpoints(tmp_path) as checkpoints:
    assert checkpoints.steps() == [1]
    assert checkpoints.restore_latest(counter(0)).step == 1


def test_nothing_is_logged(tmp_path, capfd):
  with Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, counter(1))
    checkpoints.restore_latest(counter(0))
  captured = capfd.readouterr()
  assert captured.out == ""
  assert captured.err == ""


def test_keeping_nothing_is_refused(tmp_path):
  with pytest.raises(ValueError, match="keep = 0"):
    Checkpoints(tmp_path, keep=0)
