"""Evaluates a model on tasks: accuracy, pass@k and maj@k with intervals over problems.

python -m jaxrl_reason.evaluate --model runs/quickstart/model --task arithmetic --task countdown
python -m jaxrl_reason.evaluate --workdir runs/quickstart --checkpoint best
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any, cast

from absl import app, flags
from ml_collections import ConfigDict

from jaxrl_reason import runtime
from jaxrl_reason.evaluator import Evaluation, make_evaluator
from jaxrl_reason.settings import Eval, Sampling, Settings, settings_from
from jaxrl_reason.testbed import build
from jaxrl_reason.types import Split

_MODEL = flags.DEFINE_string("model", None, "'embedded', or a folder with config.json and model.safetensors.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run whose checkpoint to evaluate.")
_CHECKPOINT = flags.DEFINE_string("checkpoint", "last", "'last', 'best', or a step.")
_TASKS = flags.DEFINE_multi_string("task", None, "Task name or a .jsonl file; may be repeated.")
_PROBLEMS = flags.DEFINE_integer("problems", 256, "Problems of each task.")
_SAMPLES = flags.DEFINE_integer("samples", 8, "Completions of each problem.")
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "Sampling temperature; 0 = greedy.")
_SPLIT = flags.DEFINE_enum("split", "test", ["train", "validation", "test"], "Split of the problems.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the draws and of the bootstrap.")
_PROMPT = flags.DEFINE_integer("prompt_tokens", 128, "Longest prompt; longer ones are dropped and counted.")
_COMPLETION = flags.DEFINE_integer("completion_tokens", 96, "Longest completion.")
_OUT = flags.DEFINE_string("out", None, "JSON file for the summary and every completion.")


def task_section(name: str) -> Mapping[str, Any]:
  """The config of a task given on the command line: its name, or the path of a JSONL file."""
  return {"path": name} if name.endswith(".jsonl") else {"name": name}


def evaluate_model(settings: Settings) -> Evaluation:
  """Evaluates the model that the settings name on their task."""
  bed = build(settings)
  return make_evaluator(bed)(bed.params)


def settings_from_flags(task: str) -> Settings:
  return Settings(
    task=task_section(task),
    seed=_SEED.value,
    model=_MODEL.value or "embedded",
    sampling=Sampling(prompt_tokens=_PROMPT.value, completion_tokens=_COMPLETION.value),
    eval=Eval(
      problems=_PROBLEMS.value,
      samples=_SAMPLES.value,
      temperature=_TEMPERATURE.value,
      split=cast(Split, _SPLIT.value),
    ),
  )


def evaluate_run(workdir: pathlib.Path, which: str) -> dict[str, Evaluation]:
  """Evaluates a checkpoint of a run on the run's own task, or on the tasks of the command line."""
  path = workdir / "config.json"
  if not path.is_file():
    raise FileNotFoundError(f"--workdir={workdir}: holds no config.json; allowed: the folder of a run")
  config = ConfigDict(json.loads(path.read_text()))
  settings = settings_from(config, set(config))
  bed = build(settings)
  saved = runtime.Checkpoints(workdir, keep=settings.checkpoint.keep).restore(
    int(which) if which.isdigit() else which, {"params": bed.params}, subset=True
  )
  print(f"checkpoint of step {saved.step} in {workdir}")
  sections: list[Mapping[str, Any]] = [task_section(name) for name in _TASKS.value or ()] or [settings.task]
  beds = [build(dataclasses.replace(settings, task=section)) for section in sections]
  return {bed.task.name: make_evaluator(bed)(saved.state["params"]) for bed in beds}


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}")
  runtime.quiet_logs()
  runtime.enable_compilation_cache()
  if _WORKDIR.value:
    results = evaluate_run(pathlib.Path(_WORKDIR.value), _CHECKPOINT.value)
  else:
    results = {task: evaluate_model(settings_from_flags(task)) for task in _TASKS.value or ["arithmetic"]}
  runtime.summary_table({name: result.summary for name, result in results.items()})
  if _OUT.value:
    out = pathlib.Path(_OUT.value)
    out.parent.mkdir(parents=True, exist_ok=True)
    written = {name: {**result.to_json(), "rows": result.rows} for name, result in results.items()}
    out.write_text(json.dumps(written, indent=1, ensure_ascii=False))
    print(f"written to {out}")


if __name__ == "__main__":
  app.run(main)
