"""What a person sees while a run goes on, and the table at its end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, SupportsFloat

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from jaxrl_reason.types import nearest

PHASES = ("sample", "reward", "signals", "update", "eval", "checkpoint")

# What is shown live: label → (name in the row, format).
SHOWN: Mapping[str, tuple[str, str]] = {
  "reward": ("reward/mean", "{:.3f}"),
  "accuracy": ("accuracy", "{:.1%}"),
  "length": ("length/mean", "{:.0f}"),
  "tok/s": ("tokens_per_s/sample", "{:,.0f}"),
}


class PhaseTimer:
  """Seconds of each phase of a step, by the wall clock.

  `with timer("sample"): ...` adds to that phase; the caller waits for the device inside the block
  (`jax.block_until_ready`), or the time falls to the phase that waits.
  """

  def __init__(self) -> None:
    self.reset()

  def reset(self) -> None:
    """A new step begins."""
    self._seconds: dict[str, float] = {}
    self._start = time.perf_counter()

  @contextlib.contextmanager
  def __call__(self, phase: str) -> Iterator[None]:
    if phase not in PHASES:
      raise ValueError(f"unknown phase {phase!r} ({nearest(phase, PHASES)})")
    start = time.perf_counter()
    try:
      yield
    finally:
      self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - start

  def row(self, tokens: SupportsFloat | None = None) -> dict[str, float]:
    """time/<phase> of the phases that ran and time/step since `reset`, in seconds.

    With `tokens` also tokens_per_s/sample and tokens_per_s/train: completion tokens over the seconds of the
    phases sample and update.
    """
    total = time.perf_counter() - self._start
    row = {f"time/{phase}": seconds for phase, seconds in self._seconds.items()} | {"time/step": total}
    if tokens is not None:
      for name, phase in (("sample", "sample"), ("train", "update")):
        if phase in self._seconds:
          row[f"tokens_per_s/{name}"] = float(tokens) / max(self._seconds[phase], 1e-9)
    return row


class Display:
  """A live bar with the remaining time on a terminal; elsewhere one plain line per `plain_every` steps.

  Numbers that a row lacks keep their last value on the bar and are left out of the plain line.
  """

  def __init__(
    self,
    steps: int,
    start: int = 0,
    workdir: str | os.PathLike | None = None,
    *,
    console: Console | None = None,
    plain_every: int = 10,
    shown: Mapping[str, tuple[str, str]] = SHOWN,
  ):
    self.console = console or Console(stderr=True)
    self._steps, self._first, self._plain_every, self._shown = steps, start, plain_every, shown
    self._title = (
      os.path.basename(os.path.normpath(os.fspath(workdir))) if workdir is not None else "training"
    )
    self._text: dict[str, str] = {}
    self._began = time.perf_counter()
    self._progress: Progress | None = None

  def __enter__(self) -> Display:
    self._began = time.perf_counter()
    if self.console.is_terminal:
      columns = (
        TextColumn("[bold]{task.description}", markup=True),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[numbers]}", markup=False),
      )
      self._progress = Progress(*columns, console=self.console)
      self._task = self._progress.add_task(
        escape(self._title), total=self._steps, completed=self._first, numbers=""
      )
      self._progress.start()
    return self

  def __exit__(self, *_: object) -> None:
    if self._progress is not None:
      self._progress.stop()
      self._progress = None

  def update(self, step: int, row: Mapping[str, Any]) -> None:
    """`step` steps are done, and this is the row of the last one."""
    fresh = {
      label: form.format(row[name])
      for label, (name, form) in self._shown.items()
      if row.get(name) is not None
    }
    self._text |= fresh
    if self._progress is not None:
      numbers = "  ".join(f"{label} {value}" for label, value in self._text.items())
      self._progress.update(self._task, completed=step, numbers=numbers)
    elif step % self._plain_every == 0 or step in (self._first + 1, self._steps):
      numbers = "  ".join(f"{label} {value}" for label, value in fresh.items())
      line = f"{self._title}  step {step}/{self._steps}  {numbers}  left {self._left(step)}"
      self.console.print(line, markup=False, highlight=False, soft_wrap=True)

  def note(self, text: str) -> None:
    """A line above the bar."""
    (self._progress.console if self._progress else self.console).print(text, markup=False, highlight=False)

  def _left(self, step: int) -> str:
    """Time left, from the pace since the first step, which compiles."""
    if step == self._first + 1:
      self._began = time.perf_counter()
      return "unknown yet"
    done = max(step - self._first - 1, 1)
    seconds = round((time.perf_counter() - self._began) / done * (self._steps - step))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"


Interval = Sequence[float]  # (value, low, high)


def before_after_table(
  rows: Sequence[tuple[str, Interval, Interval]], console: Console | None = None
) -> Table:
  """Prints and returns the table of evaluation numbers before and after training, with their intervals.

  A change is marked (bold) where the two intervals do not overlap.
  """
  table = Table(title="Before and after training, 95 % intervals over problems", title_justify="left")
  table.add_column("metric")
  for name in ("before", "after", "change"):
    table.add_column(name, justify="right")
  for name, before, after in rows:
    apart = before[2] < after[1] or after[2] < before[1]
    change = f"{after[0] - before[0]:+.3f}"
    table.add_row(
      escape(name), _interval(before), _interval(after), f"[bold]{change}[/bold]" if apart else change
    )
  (console or Console()).print(table)
  return table


def summary_table(summaries: Mapping[str, Mapping[str, Interval]], console: Console | None = None) -> Table:
  """Prints and returns evaluation numbers with their intervals: a row per name, a column per task."""
  table = Table(title="Evaluation, 95 % intervals over problems", title_justify="left")
  table.add_column("metric")
  for column in summaries:
    table.add_column(escape(column), justify="right")
  for name in dict.fromkeys(name for summary in summaries.values() for name in summary):
    cells = (_interval(summary[name]) if name in summary else "" for summary in summaries.values())
    table.add_row(escape(name), *cells)
  (console or Console()).print(table)
  return table


def _interval(estimate: Interval) -> str:
  value, low, high = estimate
  return f"{value:.3f} \\[{low:.3f}, {high:.3f}]"
