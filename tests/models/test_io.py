"""Weights on disk: a round trip, and errors that name the file and the key."""

import json

import jax
import numpy as np
import pytest

from jaxrl_reason.models import io
from tests.models import toys


@pytest.fixture
def saved(tmp_path):
  io.save(tmp_path, toys.BASE, toys.toy())
  return tmp_path


@pytest.mark.parametrize("name", ["gqa", "stacked"])
def test_round_trip_in_float32_is_exact(tmp_path, name):
  config = toys.FAMILIES[name]
  io.save(tmp_path, config, toys.toy(config))
  loaded_config, params = io.load(tmp_path)
  assert loaded_config == config
  jax.tree.map(np.testing.assert_array_equal, params, toys.toy(config))
  assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_bfloat16_on_disk_is_half_as_large_and_loads_as_float32(saved, tmp_path):
  io.save(tmp_path / "half", toys.BASE, toys.toy(), dtype="bfloat16")
  _, params = io.load(tmp_path / "half")
  for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(toys.toy())):
    assert a.dtype == np.float32
    np.testing.assert_allclose(a, b, rtol=2**-8)
  sizes = [(folder / io.WEIGHTS).stat().st_size for folder in (saved, tmp_path / "half")]
  assert sizes[1] < 0.8 * sizes[0]


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"qkv_bias": True}, r"lacks 'layers\.0\.k\.bias' of shape \(8,\)"),
    ({"layers": 1}, r"holds 'layers\.1\..*no parameter"),
    ({"mlp_width": 20}, r"'layers\.0\.down\.kernel' has shape \(24, 16\); allowed: \(20, 16\)"),
  ],
)
def test_weights_of_another_model_are_refused(saved, changes, words):
  with pytest.raises(ValueError, match=rf"model\.safetensors.*{words}"):
    io.load(saved, toys.BASE.replace(**changes))


def test_a_file_cut_short_is_refused(saved):
  path = saved / io.WEIGHTS
  path.write_bytes(path.read_bytes()[:-7])
  with pytest.raises(ValueError, match=r"model\.safetensors is not a whole safetensors file"):
    io.load(saved)


def test_missing_files_and_wrong_configs_are_named(saved):
  values = json.loads((saved / io.CONFIG).read_text())
  (saved / io.CONFIG).write_text(json.dumps({**values, "widht": 3}))
  with pytest.raises(ValueError, match=r"config\.json.*'widht'.*did you mean 'width'"):
    io.load(saved)
  (saved / io.WEIGHTS).unlink()
  with pytest.raises(FileNotFoundError, match=r"model\.safetensors is not there"):
    io.load(saved, toys.BASE)
  with pytest.raises(FileNotFoundError, match=r"config\.json is not there"):
    io.load(saved / "nowhere")


def test_parameters_of_another_model_are_not_saved(tmp_path):
  with pytest.raises(ValueError, match="lacks"):
    io.save(tmp_path, toys.FAMILIES["biases"], toys.toy())
  with pytest.raises(ValueError, match="did you mean 'float32'"):
    io.save(tmp_path, toys.BASE, toys.toy(), dtype="float3")
