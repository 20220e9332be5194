"""Every config resolves and says what it is; every field of a config is live."""

import importlib
import json
import pathlib

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from jaxrl_reason import train as loop
from jaxrl_reason.testbed import build
from tests.train import tiny

ROOT = pathlib.Path(__file__).parents[2]
CONFIGS = sorted(p.stem for p in (ROOT / "configs").glob("*.py") if p.stem != "__init__")


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_describes_itself_without_compiling_a_program(name):
  module = importlib.import_module(f"configs.{name}")
  text = loop.describe(module.get_config(), module.method)
  for word in ("prompts", "reward", "credit", "aggregate", "objective", "minimise", "signals", "sources"):
    assert word in text
  assert module.__doc__
  assert f"--config configs/{name}.py" in module.__doc__


@pytest.mark.parametrize("name", CONFIGS)
def test_every_policy_gradient_config_states_its_seven_slots(name):
  source = (ROOT / "configs" / f"{name}.py").read_text()
  if "\nmethod = " in source:
    return  # the method of another config, under other numbers
  slots = ("prompts=", "reward=", "credit=")
  if "objective=" not in source:
    slots += ("ratio=", "surrogate=", "penalties=", "aggregate=")
  assert not [slot for slot in slots if slot not in source]


def test_the_method_table_of_the_readme_is_what_the_configs_say():
  from experiments import readme

  text = (ROOT / "README.md").read_text()
  assert readme.with_table(text) == text, "run: python -m experiments.readme"


# --- every field is live -------------------------------------------------------------------------------

# One other value for each field; a field that acts only beside another brings it along.
OTHER: dict[str, dict] = {
  "seed": {"seed": 1},
  "steps": {"steps": 1},
  "model": {"model": "embedded", "architecture": None},
  "truncated": {"truncated": "drop"},
  "task.name": {"task": {"name": "counting"}},
  "task.digits": {"task": {"name": "arithmetic", "digits": 2}},
  "task.terms": {"task": {"name": "arithmetic", "digits": 1, "terms": 3}},
  "architecture.width": {"architecture__width": 12},
  "architecture.layers": {"architecture__layers": 2},
  "architecture.heads": {"architecture__heads": 3},
  "architecture.kv_heads": {"architecture__kv_heads": 2},
  "architecture.head_dim": {"architecture__head_dim": 6},
  "architecture.mlp_width": {"architecture__mlp_width": 12},
  "batch.prompts": {"batch__prompts": 6},
  "batch.group": {"batch__group": 3},
  "sampling.temperature": {"sampling__temperature": 0.7},
  "sampling.top_k": {"sampling__top_k": 9},
  "sampling.top_p": {"sampling__top_p": 0.6},
  "sampling.min_p": {"sampling__min_p": 0.9},
  "sampling.prompt_tokens": {"sampling__prompt_tokens": 4},
  "sampling.completion_tokens": {"sampling__completion_tokens": 4},
  "updates.epochs": {"updates__epochs": 2},
  "updates.minibatches": {"updates__minibatches": 1},
  "updates.micro_batch": {"updates__micro_batch": 1},
  "optimizer.learning_rate": {"optimizer__learning_rate": 3e-2},
  "optimizer.warmup_steps": {"optimizer__warmup_steps": 1},
  "optimizer.final_fraction": {"optimizer__final_fraction": 0.0, "optimizer__warmup_steps": 0},
  "optimizer.b1": {"optimizer__b1": 0.5},
  "optimizer.b2": {"optimizer__b2": 0.5},
  "optimizer.eps": {"optimizer__eps": 1.0},
  "optimizer.weight_decay": {"optimizer__weight_decay": 0.5},
  "optimizer.clip_norm": {"optimizer__clip_norm": 1e-3, "optimizer__eps": 1e-2},
  "eval.every": {"eval__every": 1},
  "eval.problems": {"eval__problems": 5},
  "eval.samples": {"eval__samples": 3},
  "eval.temperature": {"eval__temperature": 0.5},
  "eval.split": {"eval__split": "validation"},
  "eval.batch": {"eval__batch": 3},
  "checkpoint.every": {"checkpoint__every": 0},
  "checkpoint.keep": {"checkpoint__keep": 1},
  "log.every": {"log__every": 1},
  "log.rollouts": {"log__rollouts": 2},
  "log.tensorboard": {"log__tensorboard": True},
  "log.wandb": {"log__wandb": True},
  "mesh.data": {"mesh__data": 3},
  "mesh.fsdp": {"mesh__data": 4, "mesh__fsdp": 2},
  "mesh.tensor": {"mesh__data": 4, "mesh__tensor": 2},
  "lora.rank": {"lora__rank": 2},
  "lora.alpha": {"lora__rank": 2, "lora__alpha": 1.0},
  "lora.targets": {"lora__rank": 2, "lora__targets": ("o",)},
  "clip": {"clip": 1e-6},
  "beta": {"beta": 5.0},
}
BESIDE = {  # what the value is compared with, where the plain run is not the right one
  "optimizer.final_fraction": {"optimizer__warmup_steps": 0},
  "optimizer.clip_norm": {"optimizer__eps": 1e-2},
  "lora.alpha": {"lora__rank": 2},
  "lora.targets": {"lora__rank": 2},
}
# Fields that must not change a result: where memory and devices go. tests/update and tests/train show that
# the first two leave numbers alone; the mesh is looked at below.
SAME_NUMBERS = ("updates.micro_batch", "eval.batch", "mesh.data", "mesh.fsdp", "mesh.tensor")


def leaves(config, prefix=""):
  for name, value in config.items():
    if isinstance(value, ConfigDict):
      yield from leaves(value, f"{prefix}{name}.")
    else:
      yield prefix + name


def test_the_list_of_fields_is_complete():
  assert sorted(leaves(tiny.config())) == sorted(OTHER)


def outcome(workdir, changes):
  """Everything that a run shows: parameters, metrics without clocks, which files it wrote. Or its error."""
  try:
    config = tiny.config(**{"steps": 2, **changes})
    result = loop.train(config, tiny.method, workdir)
  except (ImportError, ValueError) as error:
    return str(error)
  parameters = [np.asarray(x).tobytes() for x in jax.tree.leaves(result.state.params)]
  rows = [tiny.timeless(r) for r in tiny.rows(workdir)]
  files = sorted(str(p.relative_to(workdir)) for p in workdir.rglob("*") if "tfevents" not in p.name)
  samples = [p.read_text() for p in sorted(workdir.glob("samples/*.txt"))]
  return json.dumps([rows, files, samples]), parameters


@pytest.mark.slow
@pytest.mark.parametrize("field", [f for f in OTHER if f not in SAME_NUMBERS])
def test_every_field_changes_something(field, tmp_path):
  plain = outcome(tmp_path / "plain", BESIDE.get(field, {}))
  assert not isinstance(plain, str), plain
  assert outcome(tmp_path / "other", OTHER[field]) != plain


@pytest.mark.parametrize(
  ("field", "shape"), [("mesh.data", (3, 1, 1)), ("mesh.fsdp", (4, 2, 1)), ("mesh.tensor", (4, 1, 2))]
)
def test_mesh_fields_arrange_the_devices(field, shape):
  bed = build(loop.resolve(tiny.config(**OTHER[field]), tiny.method)[1])
  assert tuple(bed.mesh.shape.values()) == shape


def test_a_mesh_that_does_not_fit_the_devices_is_refused_with_the_numbers():
  with pytest.raises(ValueError, match=r"data=9 .*there are 8"):
    build(loop.resolve(tiny.config(mesh__data=9), tiny.method)[1])
