"""Metrics as sums with counts, and the file they end in: the same on one device and on eight.

A `Mean` is a (sum, count) pair until it is written, so micro-batches and devices with different counts merge
without bias; `Max` and `Min` merge as such.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any, SupportsFloat

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_reason.types import Max, Mean, Metric, Metrics, Min

Row = dict[str, float]


def _merge_one(name: str, a: Metric, b: Metric) -> Metric:
  if isinstance(a, Mean) and isinstance(b, Mean):
    return Mean(a.sum + b.sum, a.count + b.count)
  if isinstance(a, Max) and isinstance(b, Max):
    return Max(jnp.maximum(a.value, b.value))
  if isinstance(a, Min) and isinstance(b, Min):
    return Min(jnp.minimum(a.value, b.value))
  raise TypeError(f"metric {name!r} is a {type(a).__name__} here and a {type(b).__name__} there")


def merge(a: Metrics, b: Metrics) -> Metrics:
  """The metrics of both parts of a batch; a name that only one part has is kept. Works under jit."""
  both = {name: _merge_one(name, a[name], b[name]) for name in a if name in b}
  return {**a, **b, **both}


def reduce_stacked(metrics: Metrics) -> Metrics:
  """Metrics whose arrays have a leading axis of micro-batches (as `lax.scan` stacks them) → without it."""
  reduced: Metrics = {}
  for name, metric in metrics.items():
    if isinstance(metric, Mean):
      reduced[name] = Mean(jnp.sum(metric.sum, axis=0), jnp.sum(metric.count, axis=0))
    elif isinstance(metric, Max):
      reduced[name] = Max(jnp.max(metric.value, axis=0))
    else:
      reduced[name] = Min(jnp.min(metric.value, axis=0))
  return reduced


def finalise(metrics: Metrics) -> Row:
  """Plain numbers, in one transfer from the device.

    Mean → Σ / count,   Max, Min → value

  What counted nothing is omitted from the row: a Mean of count 0, a Max of -inf, a Min of +inf. A Mean
  that is not finite stays, so that the loop can stop on it.
  """
  row: Row = {}
  for name, metric in jax.device_get(metrics).items():
    if isinstance(metric, Mean):
      if float(metric.count) != 0:
        row[name] = float(np.float64(metric.sum) / np.float64(metric.count))
    elif float(metric.value) != (-math.inf if isinstance(metric, Max) else math.inf):
      row[name] = float(metric.value)
  return row


def read_rows(path: str | os.PathLike) -> list[dict[str, Any]]:
  """The rows of a `metrics.jsonl`, in order; none if there is no file.

  A last line that a kill left half-written is dropped; any other line that cannot be read is dropped with a
  warning that gives its number.
  """
  path = pathlib.Path(path)
  if not path.exists():
    return []
  lines = path.read_bytes().split(b"\n")
  rows = []
  for number, line in enumerate(lines, 1):
    last = number == len(lines)  # a whole line ends in a newline, which leaves an empty string here
    if not line or last:
      continue
    try:
      row = json.loads(line)
      row["step"]
    except (ValueError, KeyError, TypeError):
      warnings.warn(f"{path}, line {number}: not a row of metrics, dropped", stacklevel=2)
      continue
    rows.append(row)
  return rows


class MetricsWriter:
  """One row per step into `workdir/metrics.jsonl`, TensorBoard event files, and W&B where asked for.

  `start` is the number of steps done: rows of later steps, which a killed run left behind its last
  checkpoint, are removed first (atomically). The JSON is strict: a number that is not finite is written as
  null. Only the first process of several writes.
  """

  def __init__(
    self,
    workdir: str | os.PathLike,
    start: int = 0,
    tensorboard: bool = True,
    wandb: bool | Mapping[str, Any] = False,
  ):
    self.path = pathlib.Path(workdir) / "metrics.jsonl"
    self._file: Any = None
    self._tensorboard: Any = None
    self._wandb: Any = None
    if jax.process_index() != 0:
      return
    self._wandb = _start_wandb(wandb, self.path.parent) if wandb else None
    self.path.parent.mkdir(parents=True, exist_ok=True)
    kept = [row for row in read_rows(self.path) if row["step"] <= start]
    _write_atomically(self.path, "".join(_strict(row) for row in kept))
    self._file = self.path.open("a", encoding="utf-8")
    if tensorboard:
      from tensorboardX import SummaryWriter

      events = str(self.path.parent / "tensorboard")
      self._tensorboard = SummaryWriter(events, purge_step=start + 1, write_to_disk=True)

  def __enter__(self) -> MetricsWriter:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def write(self, step: int, row: Mapping[str, SupportsFloat], merge: bool = False) -> None:
    """Appends one row; it is with the operating system when this returns, so a kill does not lose it.

    With `merge` the numbers go into the row of that step, where there is one (an evaluation after the step).
    """
    if "step" in row:
      raise ValueError("a row may not have a metric named 'step': it is the row's own number")
    if self._file is None:
      return
    if merge:
      self._merge(step, row)
    else:
      self._file.write(_strict({"step": step, **row}))
      self._file.flush()
    finite = {name: float(value) for name, value in row.items() if math.isfinite(float(value))}
    if self._tensorboard is not None:
      for name, value in finite.items():
        self._tensorboard.add_scalar(name.replace("@", "_at_"), value, step)
      self._tensorboard.flush()
    if self._wandb is not None:
      self._wandb.log(finite, step=step)

  def _merge(self, step: int, row: Mapping[str, SupportsFloat]) -> None:
    by_step = {old["step"]: old for old in read_rows(self.path)}
    by_step[step] = {**by_step.get(step, {"step": step}), **row}
    self._file.close()
    _write_atomically(self.path, "".join(_strict(one) for one in by_step.values()))
    self._file = self.path.open("a", encoding="utf-8")

  def close(self) -> None:
    if self._file is not None:
      self._file.close()
    if self._tensorboard is not None:
      self._tensorboard.close()
    if self._wandb is not None:
      self._wandb.finish()
    self._file = self._tensorboard = self._wandb = None


def _strict(row: Mapping[str, Any]) -> str:
  """One line of strict JSON; integers stay integers, what is not finite becomes null."""
  plain = {name: _plain(value) for name, value in row.items()}
  return json.dumps(plain, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
  if value is None or isinstance(value, (str, bool, int)):
    return value
  number = float(value)
  return number if math.isfinite(number) else None


def _write_atomically(path: pathlib.Path, content: str) -> None:
  temporary = path.with_name(path.name + ".tmp")
  with temporary.open("w", encoding="utf-8") as file:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
  temporary.replace(path)


def _start_wandb(options: bool | Mapping[str, Any], workdir: pathlib.Path) -> Any:
  """A run of project jaxrl_reason named like the work directory, unless the options say otherwise."""
  try:
    import wandb
  except ImportError as error:
    raise ImportError("Weights & Biases was asked for: pip install 'jaxrl-reason[wandb]'") from error
  defaults = {"project": "jaxrl_reason", "name": workdir.name, "dir": str(workdir)}
  return wandb.init(**{**defaults, **(options if isinstance(options, Mapping) else {})})
