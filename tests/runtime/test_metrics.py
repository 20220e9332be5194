"""Metrics: merged sums with counts, equal on 1 and 8 devices; the file survives kills and resumes."""

import json
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from jaxrl_reason.runtime.mesh import make_mesh
from jaxrl_reason.runtime.metrics import MetricsWriter, finalise, merge, read_rows, reduce_stacked
from jaxrl_reason.types import Max, Mean, Min


def measure(values, mask):
  """Metrics of the rows of a ragged batch."""
  return {
    "mean": Mean(jnp.sum(jnp.where(mask, values, 0.0)), jnp.sum(mask)),
    "max": Max(jnp.max(jnp.where(mask, values, -jnp.inf))),
    "min": Min(jnp.min(jnp.where(mask, values, jnp.inf))),
  }


@pytest.fixture
def ragged():
  random = np.random.default_rng(0)
  values = random.normal(size=(16, 5)).astype(np.float32)
  return values, np.arange(5)[None] < random.integers(0, 6, 16)[:, None]


def test_mean_of_unequal_parts_is_not_the_mean_of_means():
  a = {"loss": Mean(jnp.float32(100 * 0.5), jnp.int32(100))}
  b = {"loss": Mean(jnp.float32(900 * 0.3), jnp.int32(900))}
  np.testing.assert_allclose(finalise(merge(a, b))["loss"], 0.32, rtol=1e-6)


def test_every_split_gives_the_whole(ragged):
  values, mask = ragged
  whole = finalise(measure(values, mask))
  inside = values[mask]
  np.testing.assert_allclose(
    [whole["mean"], whole["max"], whole["min"]], [inside.mean(), inside.max(), inside.min()], rtol=1e-6
  )
  for cut in (1, 3, 15):
    parts = [measure(values[s], mask[s]) for s in (slice(cut), slice(cut, None))]
    merged = finalise(merge(*parts))
    np.testing.assert_allclose([merged[k] for k in whole], list(whole.values()), rtol=1e-6)


def test_stacked_by_scan_equals_the_whole(ragged):
  values, mask = ragged

  @jax.jit
  def scanned(values, mask):
    return reduce_stacked(jax.lax.scan(lambda c, x: (c, measure(*x)), 0, (values, mask))[1])

  result = finalise(scanned(values.reshape(4, 4, 5), mask.reshape(4, 4, 5)))
  expected = finalise(measure(values, mask))
  np.testing.assert_allclose([result[k] for k in expected], list(expected.values()), rtol=1e-6)


@pytest.mark.case(40)
def test_equal_on_one_and_on_eight_devices(ragged):
  rows = []
  for devices in (jax.devices()[:1], jax.devices()):
    sharding = NamedSharding(make_mesh(devices=devices), PartitionSpec("data"))
    values, mask = (jax.device_put(x, sharding) for x in ragged)
    rows.append(finalise(jax.jit(measure)(values, mask)))
  np.testing.assert_allclose(rows[0]["mean"], rows[1]["mean"], rtol=1e-6)
  assert rows[0]["max"] == rows[1]["max"]
  assert rows[0]["min"] == rows[1]["min"]
  means_of_devices = [v[m].mean() for v, m in zip(ragged[0].reshape(8, 2, 5), ragged[1].reshape(8, 2, 5))]
  assert abs(np.nanmean(means_of_devices) - rows[1]["mean"]) > 1e-3  # the fixture would show the fault


@pytest.mark.case(40)
def test_per_device_pairs_merge_like_the_whole(ragged):
  values, mask = ragged
  stacked = jax.pmap(measure)(values.reshape(8, 2, 5), mask.reshape(8, 2, 5))
  result, expected = finalise(reduce_stacked(stacked)), finalise(measure(values, mask))
  np.testing.assert_allclose([result[k] for k in expected], list(expected.values()), rtol=1e-6)


def test_what_counted_nothing_is_omitted_and_what_is_not_finite_is_not_hidden():
  empty = measure(np.zeros((2, 3), np.float32), np.zeros((2, 3), bool))
  assert finalise(empty) == {}
  bad = finalise({"loss": Mean(jnp.float32(jnp.nan), jnp.int32(3)), "top": Max(jnp.float32(jnp.inf))})
  assert np.isnan(bad["loss"])
  assert bad["top"] == np.inf


def test_merge_keeps_what_one_part_has_and_refuses_two_kinds():
  a, b = {"x": Max(jnp.float32(1))}, {"y": Min(jnp.float32(2))}
  assert finalise(merge(a, b)) == {"x": 1.0, "y": 2.0}
  with pytest.raises(TypeError, match="'x' is a Max here and a Min there"):
    merge(a, {"x": Min(jnp.float32(2))})


def strict_lines(path):
  def refuse(token):
    raise AssertionError(f"{token} is not JSON")

  return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_rows_are_strict_json_and_flushed(tmp_path):
  with MetricsWriter(tmp_path, tensorboard=False) as writer:
    writer.write(0, {"reward": np.float32(0.5), "kl": float("nan"), "norm": float("inf"), "count": 3})
    assert strict_lines(tmp_path / "metrics.jsonl") == [
      {"step": 0, "reward": 0.5, "kl": None, "norm": None, "count": 3}
    ]
    with pytest.raises(ValueError, match="'step'"):
      writer.write(1, {"step": 1})


def test_resuming_rewrites_from_the_step_and_drops_a_half_line(tmp_path):
  with MetricsWriter(tmp_path, tensorboard=False) as writer:
    for step in range(5):
      writer.write(step, {"x": float(step)})
  path = tmp_path / "metrics.jsonl"
  with path.open("a") as file:
    file.write('{"step": 5, "x": 5')
  assert [row["step"] for row in read_rows(path)] == [0, 1, 2, 3, 4]
  with MetricsWriter(tmp_path, start=2, tensorboard=False) as writer:
    assert [row["step"] for row in strict_lines(path)] == [0, 1, 2]
    writer.write(3, {"x": -3.0})
  assert [row["x"] for row in strict_lines(path)] == [0, 1, 2, -3]
  assert list(tmp_path.iterdir()) == [path]


def test_an_evaluation_merges_into_the_row_of_its_step(tmp_path):
  with MetricsWriter(tmp_path, tensorboard=False) as writer:
    writer.write(1, {"x": 1.0})
    writer.write(2, {"x": 2.0})
    writer.write(2, {"eval/y": 0.5}, merge=True)
    writer.write(3, {"eval/y": 0.7}, merge=True)
  path = tmp_path / "metrics.jsonl"
  expected = [{"step": 1, "x": 1.0}, {"step": 2, "x": 2.0, "eval/y": 0.5}, {"step": 3, "eval/y": 0.7}]
  assert strict_lines(path) == expected
  with MetricsWriter(tmp_path, start=3, tensorboard=False) as writer:  # a finished run, started again
    writer.write(3, {"eval/y": 0.7}, merge=True)
  assert strict_lines(path) == expected


def test_a_number_cut_short_is_not_read_as_another_number(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_text('{"step": 1}\n{"step": 23}')  # whole JSON, but the newline is missing
  assert read_rows(path) == [{"step": 1}]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_text('{"step": 1}\nnot json\n{"x": 1}\n[]\n{"step": 2}\n')
  with pytest.warns(UserWarning, match=r"line [234]") as caught:
    assert [row["step"] for row in read_rows(path)] == [1, 2]
  assert len(caught) == 3


def test_no_file_has_no_rows(tmp_path):
  assert read_rows(tmp_path / "metrics.jsonl") == []


def test_tensorboard_files_are_written(tmp_path):
  with MetricsWriter(tmp_path) as writer:
    writer.write(0, {"reward": 0.5, "kl": float("nan")})
  events = list((tmp_path / "tensorboard").iterdir())
  assert len(events) == 1
  content = events[0].read_bytes()
  assert b"reward" in content
  assert b"kl" not in content


def test_weights_and_biases_only_where_asked(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "wandb", None)
  with pytest.raises(ImportError, match=r"jaxrl-reason\[wandb\]"):
    MetricsWriter(tmp_path, tensorboard=False, wandb=True)
  calls = []
  run = types.SimpleNamespace(
    log=lambda row, step: calls.append((step, row)), finish=lambda: calls.append("end")
  )
  fake = types.SimpleNamespace(init=lambda **options: calls.append(options) or run)
  monkeypatch.setitem(sys.modules, "wandb", fake)
  with MetricsWriter(tmp_path, tensorboard=False, wandb={"project": "p"}) as writer:
    writer.write(2, {"x": 1.0, "nan": float("nan")})
  options = {"project": "p", "name": tmp_path.name, "dir": str(tmp_path)}
  assert calls == [options, (2, {"x": 1.0}), "end"]
