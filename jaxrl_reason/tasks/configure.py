"""Tasks from configs: the one place where a data-set identifier, a string, becomes an object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxrl_reason.tasks.arithmetic import Arithmetic
from jaxrl_reason.tasks.countdown import Countdown
from jaxrl_reason.tasks.counting import Counting
from jaxrl_reason.tasks.graph import Connectivity, ShortestPath
from jaxrl_reason.tasks.gym import reasoning_gym
from jaxrl_reason.tasks.jsonl import jsonl
from jaxrl_reason.tasks.knights import Knights
from jaxrl_reason.tasks.maze import Maze
from jaxrl_reason.tasks.mixture import mixture
from jaxrl_reason.tasks.spatial import Spatial
from jaxrl_reason.tasks.sudoku import Sudoku
from jaxrl_reason.tasks.words import NumberWords
from jaxrl_reason.types import Task, nearest

TASKS: dict[str, Callable[..., Any]] = {
  "arithmetic": Arithmetic,
  "connectivity": Connectivity,
  "countdown": Countdown,
  "counting": Counting,
  "jsonl": jsonl,
  "knights": Knights,
  "maze": Maze,
  "number_words": NumberWords,
  "reasoning_gym": reasoning_gym,
  "shortest_path": ShortestPath,
  "spatial": Spatial,
  "sudoku": Sudoku,
}


def from_config(config: ConfigDict | Mapping[str, Any]) -> Task:
  """The task of a config: its `name` and knobs.

  `path` makes it a JSONL task whatever the name. `name="mixture"` mixes the sub-configs under `parts`, each
  with a `weight` (1 by default).

  Raises:
    ValueError: for an unknown name or knob, with the nearest known one.
  """
  knobs = dict(config)
  name = knobs.pop("name", "jsonl" if knobs.get("path") else "")
  if name == "mixture":
    return _mixture(knobs)
  if knobs.get("path"):
    knobs["name"] = name
    make: Callable[..., Any] = jsonl
    if not isinstance(knobs["path"], str):
      knobs["path"] = dict(knobs["path"])
  elif name in TASKS:
    make = TASKS[name]
  else:
    raise ValueError(
      f"task.name is {name!r}; {nearest(name, (*TASKS, 'mixture'))}; or give a path to a JSONL file"
    )
  _check_knobs(name, make, knobs)
  return make(**{key: tuple(value) if isinstance(value, list) else value for key, value in knobs.items()})


def _mixture(knobs: dict[str, Any]) -> Task:
  parts = knobs.pop("parts", None)
  if knobs or not parts:
    raise ValueError(
      f"task.name is 'mixture' with parts={parts!r} and {sorted(knobs)}; "
      f"allowed: parts, one config for each task"
    )
  configs = [dict(part) for part in parts.values()]
  weights = [float(part.pop("weight", 1.0)) for part in configs]
  return mixture([from_config(part) for part in configs], weights)


def _check_knobs(name: str, make: Callable[..., Any], knobs: dict[str, Any]) -> None:
  parameters = inspect.signature(make).parameters
  if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
    return  # the constructor checks them against its data set
  for knob in knobs:
    if knob not in parameters:
      raise ValueError(f"task.{knob} is not a knob of {name!r}; {nearest(knob, parameters)}")
  missing = [n for n, p in parameters.items() if p.default is p.empty and n not in knobs]
  if missing:
    raise ValueError(f"task {name!r} lacks the knob {missing[0]!r}; allowed: {', '.join(parameters)}")
