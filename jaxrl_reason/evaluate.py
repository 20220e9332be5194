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


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
  """The flags of this command."""
  on: Any = {"flag_values": values}
  flags.DEFINE_string(
    "model", "embedded", "'embedded', or a folder with config.json, model.safetensors.", **on
  )
  flags.DEFINE_string("workdir", None, "Folder of a run, to evaluate one of its checkpoints.", **on)
  flags.DEFINE_string("checkpoint", "last", "'last', 'best', or a step.", **on)
  flags.DEFINE_multi_string("task", None, "Task name or a .jsonl file; may be repeated.", **on)
  flags.DEFINE_integer("problems", 256, "Problems of each task.", **on)
  flags.DEFINE_integer("samples", 8, "Completions of each problem.", **on)
  flags.DEFINE_float("temperature", 1.0, "Sampling temperature; 0 = greedy.", **on)
  flags.DEFINE_enum("split", "test", ["train", "validation", "test"], "Split of the problems.", **on)
  flags.DEFINE_integer("seed", 0, "Seed of the draws and of the bootstrap.", **on)
  flags.DEFINE_integer("prompt_tokens", 128, "Longest prompt; longer ones are dropped and counted.", **on)
  flags.DEFINE_integer("completion_tokens", 96, "Longest completion.", **on)
  flags.DEFINE_string("out", None, "JSON file for the summary and every completion.", **on)


def task_section(name: str) -> Mapping[str, Any]:
  """The config of a task given on the command line: its name, or the path of a JSONL file."""
  return {"path": name} if name.endswith(".jsonl") else {"name": name}


def evaluate_model(settings: Settings) -> Evaluation:
  """Evaluates the model that the settings name on their task."""
  bed = build(settings)
  return make_evaluator(bed)(bed.params)


def settings_from_flags(values: flags.FlagValues, task: str) -> Settings:
  """Settings of a model folder on one task."""
  return Settings(
    task=task_section(task),
    seed=values.seed,
    model=values.model,
    sampling=Sampling(prompt_tokens=values.prompt_tokens, completion_tokens=values.completion_tokens),
    eval=evaluation_from_flags(values),
  )


def evaluation_from_flags(values: flags.FlagValues) -> Eval:
  return Eval(
    problems=values.problems,
    samples=values.samples,
    temperature=values.temperature,
    split=cast(Split, values.split),
  )


def evaluate_run(workdir: pathlib.Path, values: flags.FlagValues) -> dict[str, Evaluation]:
  """Evaluates a checkpoint of a run on the run's own task, or on the tasks of the command line."""
  path = workdir / "config.json"
  if not path.is_file():
    raise FileNotFoundError(f"--workdir={workdir}: holds no config.json; allowed: the folder of a run")
  config = ConfigDict(json.loads(path.read_text()))
  settings = dataclasses.replace(
    settings_from(config, set(config)), eval=evaluation_from_flags(values), seed=values.seed
  )
  bed, which = build(settings), values.checkpoint
  saved = runtime.Checkpoints(workdir, keep=settings.checkpoint.keep).restore(
    int(which) if which.isdigit() else which, {"params": bed.params}, subset=True
  )
  print(f"checkpoint of step {saved.step} in {workdir}")
  sections: list[Mapping[str, Any]] = [task_section(name) for name in values.task or ()]
  beds = [build(dataclasses.replace(settings, task=section)) for section in sections or [settings.task]]
  return {bed.task.name: make_evaluator(bed)(saved.state["params"]) for bed in beds}


def main(argv: list[str], values: flags.FlagValues = flags.FLAGS) -> None:
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}")
  runtime.quiet_logs()
  runtime.enable_compilation_cache()
  if values.workdir:
    results = evaluate_run(pathlib.Path(values.workdir), values)
  else:
    tasks = values.task or ["arithmetic"]
    results = {task: evaluate_model(settings_from_flags(values, task)) for task in tasks}
  runtime.summary_table({name: result.summary for name, result in results.items()})
  if values.out:
    out = pathlib.Path(values.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    written = {name: {**result.to_json(), "rows": result.rows} for name, result in results.items()}
    out.write_text(json.dumps(written, indent=1, ensure_ascii=False))
    print(f"written to {out}")


if __name__ == "__main__":
  define_flags()
  app.run(main)
