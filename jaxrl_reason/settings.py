"""The fields of a config that the loop reads, typed and checked before anything is compiled.

A config is an `ml_collections.ConfigDict` of numbers and names. The sections below belong to the loop; every
other top-level field belongs to `method(config)` and must be read by it.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from jaxrl_reason.types import Split, nearest


def _check(section: object, allowed: Mapping[str, tuple[Callable[[Any], bool], str]]) -> None:
  """Raises for the first field whose value its test refuses."""
  for name, (test, words) in allowed.items():
    value = getattr(section, name)
    if not test(value):
      raise ValueError(f"config.{type(section).__name__.lower()}.{name}={value!r}; allowed: {words}")


_POSITIVE = (lambda x: x >= 1, "an integer >= 1")
_COUNT = (lambda x: x >= 0, "an integer >= 0")
_RATE = (lambda x: math.isfinite(x) and x >= 0, "a finite number >= 0")
_SHARE = (lambda x: 0 <= x < 1, "0 <= value < 1")


@dataclasses.dataclass(frozen=True)
class Batch:
  """Size of one step: `prompts` problems with `group` rollouts each."""

  prompts: int = 32
  group: int = 8

  def __post_init__(self):
    _check(self, {"prompts": _POSITIVE, "group": _POSITIVE})


@dataclasses.dataclass(frozen=True)
class Sampling:
  """How completions are drawn, and the longest prompt and completion, in tokens."""

  temperature: float = 1.0
  top_k: int = 0  # 0 = off
  top_p: float = 1.0  # 1 = off
  min_p: float = 0.0  # 0 = off
  prompt_tokens: int = 64
  completion_tokens: int = 64

  def __post_init__(self):
    _check(
      self,
      {
        "temperature": (
          lambda x: math.isfinite(x) and x > 0,
          "a finite number > 0 (training needs a spread)",
        ),
        "top_k": _COUNT,
        "top_p": (lambda x: 0 < x <= 1, "0 < top_p <= 1"),
        "min_p": _SHARE,
        "prompt_tokens": _POSITIVE,
        "completion_tokens": _POSITIVE,
      },
    )


@dataclasses.dataclass(frozen=True)
class Updates:
  """`epochs` passes over a batch in `minibatches` optimizer steps; `micro_batch` rows at a time (0 = all)."""

  epochs: int = 1
  minibatches: int = 1
  micro_batch: int = 0

  def __post_init__(self):
    _check(self, {"epochs": _POSITIVE, "minibatches": _POSITIVE, "micro_batch": _COUNT})


@dataclasses.dataclass(frozen=True)
class Optimizer:
  """AdamW with a linear warm-up, then a cosine decay to `final_fraction` of the rate (1 = constant)."""

  learning_rate: float = 1e-4
  warmup_steps: int = 5
  final_fraction: float = 1.0
  b1: float = 0.9
  b2: float = 0.99
  eps: float = 1e-8
  weight_decay: float = 0.0
  clip_norm: float = 1.0

  def __post_init__(self):
    _check(
      self,
      {
        "learning_rate": _RATE,
        "warmup_steps": _COUNT,
        "final_fraction": (lambda x: 0 <= x <= 1, "0 <= final_fraction <= 1"),
        "b1": _SHARE,
        "b2": _SHARE,
        "eps": (lambda x: math.isfinite(x) and x > 0, "a finite number > 0"),
        "weight_decay": _RATE,
        "clip_norm": (lambda x: x > 0, "a number > 0 (inf = no clipping)"),
      },
    )


@dataclasses.dataclass(frozen=True)
class Eval:
  """Held-out accuracy every `every` steps (0 = only before and after), `samples` draws of each problem."""

  every: int = 0
  problems: int = 128
  samples: int = 4
  temperature: float = 1.0
  split: Split = "test"
  batch: int = 128  # problems sampled at a time

  def __post_init__(self):
    splits = ("train", "validation", "test")
    if self.split not in splits:
      raise ValueError(f"config.eval.split={self.split!r}; {nearest(self.split, splits)}")
    _check(
      self,
      {
        "every": _COUNT,
        "problems": _POSITIVE,
        "samples": _POSITIVE,
        "temperature": (lambda x: math.isfinite(x) and x >= 0, "a finite number >= 0 (0 = greedy)"),
        "batch": _POSITIVE,
      },
    )


@dataclasses.dataclass(frozen=True)
class Checkpoint:
  """A checkpoint every `every` steps (0 = only at the end); the last `keep` and the best stay."""

  every: int = 50
  keep: int = 2

  def __post_init__(self):
    _check(self, {"every": _COUNT, "keep": _POSITIVE})


@dataclasses.dataclass(frozen=True)
class Log:
  """What is written: `rollouts` shown in the table every `every` steps, and the sinks beside JSONL."""

  every: int = 20
  rollouts: int = 4
  tensorboard: bool = True
  wandb: bool = False

  def __post_init__(self):
    _check(self, {"every": _POSITIVE, "rollouts": _COUNT})


@dataclasses.dataclass(frozen=True)
class Mesh:
  """Devices by axis; -1 = what is left."""

  data: int = -1
  fsdp: int = 1
  tensor: int = 1


@dataclasses.dataclass(frozen=True)
class Lora:
  """Low-rank adapters: `rank` 0 trains every parameter."""

  rank: int = 0
  alpha: float = 16.0
  targets: tuple[str, ...] = ("q", "v")

  def __post_init__(self):
    _check(self, {"rank": _COUNT, "alpha": _RATE})


TRUNCATED = ("grade", "zero", "drop")


@dataclasses.dataclass(frozen=True)
class Settings:
  """Everything the loop reads. `task` and `architecture` are handed to their own constructors."""

  task: Mapping[str, Any]
  seed: int = 0
  steps: int = 100
  model: str = "embedded"  # "embedded", "scratch" (then `architecture`), or a folder
  architecture: Mapping[str, Any] | None = None
  truncated: str = "grade"  # rows cut at the budget: graded as they are, reward 0, or dropped from the loss
  batch: Batch = Batch()
  sampling: Sampling = Sampling()
  updates: Updates = Updates()
  optimizer: Optimizer = Optimizer()
  eval: Eval = Eval()
  checkpoint: Checkpoint = Checkpoint()
  log: Log = Log()
  mesh: Mesh = Mesh()
  lora: Lora = Lora()

  def __post_init__(self):
    if self.steps < 0:
      raise ValueError(f"config.steps={self.steps}; allowed: an integer >= 0")
    if not 0 <= self.seed < 2**31:
      raise ValueError(f"config.seed={self.seed}; allowed: 0 <= seed < 2**31")
    if self.truncated not in TRUNCATED:
      raise ValueError(f"config.truncated={self.truncated!r}; {nearest(self.truncated, TRUNCATED)}")
    if (self.model == "scratch") != (self.architecture is not None):
      raise ValueError(
        f"config.model={self.model!r} with architecture={self.architecture}; allowed: model='scratch' with "
        "an architecture, or another model without one"
      )
    if self.batch.prompts % self.updates.minibatches:
      raise ValueError(
        f"config.updates.minibatches={self.updates.minibatches} does not divide batch.prompts="
        f"{self.batch.prompts}; allowed: a divisor, so that groups stay whole"
      )

  @property
  def updates_per_batch(self) -> int:
    return self.updates.epochs * self.updates.minibatches


_SECTIONS = {f.name: f for f in dataclasses.fields(Settings)}
_NESTED = {
  name: type(f.default) for name, f in _SECTIONS.items() if dataclasses.is_dataclass(type(f.default))
}


def _section(cls: type, name: str, given: Mapping[str, Any]) -> Any:
  fields = {f.name for f in dataclasses.fields(cls)}
  for key in given:
    if key not in fields:
      raise ValueError(f"config.{name}.{key}: no such field; {nearest(key, fields)}")
  return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})


class Reads(Mapping):
  """A view of a config that records which top-level fields were read."""

  def __init__(self, config: ConfigDict):
    self._config = config
    self.read: set[str] = set()

  def __getitem__(self, name: str) -> Any:
    self.read.add(name)
    return self._config[name]

  def __getattr__(self, name: str) -> Any:
    if name not in self._config:
      raise AttributeError(f"config.{name}: no such field; {nearest(name, self._config.keys())}")
    return self[name]

  def __iter__(self):
    return iter(self._config)

  def __len__(self) -> int:
    return len(self._config)


def settings_from(config: ConfigDict, read_by_method: set[str]) -> Settings:
  """Checks every field of the config and returns those of the loop.

  Raises ValueError for a field that neither the loop nor the method reads, naming the nearest one.
  """
  given = config.to_dict()
  unknown = [k for k in given if k not in _SECTIONS and k not in read_by_method]
  if unknown:
    raise ValueError(
      f"config.{unknown[0]}: nothing reads this field, neither the loop nor the method; "
      f"{nearest(unknown[0], set(_SECTIONS) | read_by_method)}"
    )
  if "task" not in given:
    raise ValueError("config.task is missing; allowed: a mapping with the task's name, or a path")
  loop = {k: v for k, v in given.items() if k in _SECTIONS}
  for name, cls in _NESTED.items():
    if name in loop:
      loop[name] = _section(cls, name, loop[name])
  return Settings(**loop)
