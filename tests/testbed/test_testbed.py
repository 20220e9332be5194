"""From settings to objects: schedule, optimizer, rules, model, and what does not fit together."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_reason import models, testbed
from jaxrl_reason import train as loop
from jaxrl_reason.sample import rules
from jaxrl_reason.settings import Lora, Optimizer, Sampling
from jaxrl_reason.text import ByteTokenizer
from tests.train import tiny


@pytest.fixture(scope="module")
def settings():
  return loop.resolve(tiny.config(), tiny.method)[1]


def test_learning_rate_warms_up_and_decays():
  schedule = testbed.learning_rate(Optimizer(learning_rate=2.0, warmup_steps=4, final_fraction=0.1), 24)
  np.testing.assert_allclose([schedule(i) for i in range(5)], [0, 0.5, 1.0, 1.5, 2.0], rtol=1e-6)
  half = 0.1 + 0.9 * 0.5
  np.testing.assert_allclose([schedule(14), schedule(24)], [2.0 * half, 0.2], rtol=1e-5)


def test_learning_rate_without_warm_up_starts_at_once_and_may_stay():
  schedule = testbed.learning_rate(Optimizer(learning_rate=0.3, warmup_steps=0), 10)
  np.testing.assert_allclose([schedule(0), schedule(9)], [0.3, 0.3], rtol=1e-6)


def test_optimizer_is_adamw_after_clipping_with_decay_on_matrices_alone():
  settings = Optimizer(learning_rate=0.1, warmup_steps=0, weight_decay=0.5, clip_norm=1.0, b1=0.9, b2=0.99)
  optimizer = testbed.make_optimizer(settings, 10)
  params = {"matrix": jnp.ones((2, 2)), "vector": jnp.ones(2)}
  grads = {"matrix": jnp.full((2, 2), 30.0), "vector": jnp.full(2, 40.0)}
  updates, _ = optimizer.update(grads, optimizer.init(params), params)
  # the first step of Adam is the sign of the gradient; decay adds 0.5 on the matrix
  np.testing.assert_allclose(updates["matrix"], -0.1 * (1 + 0.5), rtol=1e-4)
  np.testing.assert_allclose(updates["vector"], -0.1, rtol=1e-4)


def test_clipping_is_by_the_global_norm():
  optimizer = optax.chain(testbed.make_optimizer(Optimizer(warmup_steps=0, clip_norm=1e-3, eps=1.0), 10))
  params = {"w": jnp.ones((2, 2))}
  small, _ = optimizer.update({"w": jnp.full((2, 2), 5.0)}, optimizer.init(params), params)
  large, _ = optimizer.update({"w": jnp.full((2, 2), 500.0)}, optimizer.init(params), params)
  np.testing.assert_allclose(small["w"], large["w"], rtol=1e-5)


def test_rules_that_are_off_are_left_out_and_temperature_comes_first():
  assert testbed.sampling_rules(Sampling()) == (rules.Temperature(1.0),)
  on = Sampling(temperature=0.7, top_k=5, top_p=0.9, min_p=0.1)
  assert testbed.sampling_rules(on) == (
    rules.Temperature(0.7),
    rules.TopK(5),
    rules.TopP(0.9),
    rules.MinP(0.1),
  )


def test_the_embedded_model_loads_is_small_and_knows_the_tokenizer():
  config, params = models.load(models.EMBEDDED)
  assert config.vocab_size == ByteTokenizer().vocab_size
  assert 1e6 <= testbed.parameter_count(params) <= 3e6
  assert (models.EMBEDDED / "model.safetensors").stat().st_size < 6e6


def test_memory_estimate_adds_up(settings):
  bed = testbed.build(settings)
  memory = testbed.memory_estimate(bed, keeps_reference=True)
  megabytes = testbed.parameter_count(bed.params) * 4 / 1e6
  assert memory["parameters"] == memory["gradients"] == memory["reference"] == pytest.approx(megabytes)
  assert memory["optimizer"] == pytest.approx(2 * megabytes)
  rows = 4 * (8 + 2 * 5)  # prompts · (prompt + group · completion) tokens
  assert memory["cache"] == pytest.approx(rows * 2 * 1 * 1 * 4 * 4 / 1e6)
  assert testbed.memory_estimate(bed, keeps_reference=False)["reference"] == 0


def test_lora_trains_the_adapters_alone_and_starts_as_the_base(settings):
  plain = testbed.build(settings)
  low = testbed.build(dataclasses.replace(settings, lora=Lora(rank=2, targets=("q", "v"))))
  assert all(jax.tree.leaves(low.trainable["lora"]))
  assert not any(jax.tree.leaves(low.trainable["base"]))
  tiny.assert_equal_trees(models.merge_lora(low.params), plain.params)


def test_an_unknown_lora_target_is_named(settings):
  with pytest.raises(ValueError, match=r"'qq'.*"):
    testbed.build(dataclasses.replace(settings, lora=Lora(rank=2, targets=("qq",))))


def test_a_model_with_too_small_a_vocabulary_is_refused(settings, tmp_path):
  config = models.from_dict({**dict(settings.architecture), "vocab_size": 100})
  models.save(tmp_path / "m", config, models.init_params(config, jax.random.key(0)))
  with pytest.raises(ValueError, match=r"vocab_size=100 is smaller than the tokenizer's 264"):
    testbed.build(dataclasses.replace(settings, model=str(tmp_path / "m"), architecture=None))


def test_an_unknown_architecture_field_is_named(settings):
  architecture = {**dict(settings.architecture), "widht": 8}
  with pytest.raises(ValueError, match=r"'widht'.*'width'"):
    testbed.build(dataclasses.replace(settings, architecture=architecture))


def test_a_config_without_a_method_is_refused(tmp_path):
  path = tmp_path / "bare.py"
  path.write_text("def get_config():\n  return None\n")
  with pytest.raises(AttributeError, match=r"defines no method\(config\)"):
    testbed.load_config_module(str(path))


def test_a_folder_written_by_a_run_is_a_model(settings, tmp_path):
  bed = testbed.build(settings)
  models.save(tmp_path / "m", bed.model, bed.params)
  again = testbed.build(dataclasses.replace(settings, model=str(tmp_path / "m"), architecture=None))
  tiny.assert_equal_trees(again.params, bed.params)
  assert json.loads((tmp_path / "m" / "config.json").read_text())["width"] == 8
