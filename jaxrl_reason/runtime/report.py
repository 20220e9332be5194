"""What is read after a run: the learning curve as a PNG, and samples as text."""

from __future__ import annotations

import math
import os
import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl_reason.runtime.metrics import read_rows


class Panel(NamedTuple):
  """One small plot: its lines as (name in the row, label); the first has the interval <name>/low, /high."""

  title: str
  unit: str
  lines: tuple[tuple[str, str], ...]


PANELS = (
  Panel("Reward", "reward", (("reward/mean", ""),)),
  Panel("Accuracy on training prompts", "share correct", (("accuracy", ""),)),
  Panel("Accuracy on held-out problems", "share correct", (("eval/pass@1", ""),)),
  Panel("Completion length", "tokens", (("length/mean", "all"), ("length/finished_mean", "finished"))),
  Panel("Truncated rollouts", "share", (("truncated_frac", ""),)),
  Panel("Entropy", "nats per token", (("entropy", ""),)),
  Panel(
    "KL to the reference",
    "nats per token",
    (("kl_ref/k1", "k1"), ("kl_ref/k2", "k2"), ("kl_ref/k3", "k3"), ("loss/kl", "in the loss")),
  ),
  Panel("Sampler against scorer", "nats per token", (("mismatch/k1", "k1"), ("mismatch/k3", "k3"))),
  Panel("Gradient norm", "", (("grad_norm", ""),)),
)

_INK, _GREY, _GRID = "#22262b", "#6b737c", "#e4e7ea"
_COLOURS = ("#1f5f8b", "#d1773a", "#5f8f5b", "#8a6aa5")


def series(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
  """(steps, values) of the rows that have a finite number of this name."""
  points = [(row["step"], row[name]) for row in rows if _is_number(row.get(name))]
  steps, values = zip(*points) if points else ((), ())
  return np.asarray(steps, float), np.asarray(values, float)


def _is_number(value: Any) -> bool:
  return isinstance(value, (int, float)) and math.isfinite(value)


def smooth(values: np.ndarray, window: int) -> np.ndarray:
  """The mean over a centred window, cut at the ends.

  s_t = mean(v_j : |j − t| ≤ ⌊window/2⌋)
  """
  half = window // 2
  sums = np.concatenate([[0.0], np.cumsum(values)])
  index = np.arange(len(values))
  low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
  return (sums[high] - sums[low]) / (high - low)


def learning_curve(metrics_jsonl: str | os.PathLike, png_path: str | os.PathLike) -> list[str]:
  """Draws the panels whose numbers are in the file as small multiples. Returns their titles.

  Runs of 40 steps and more are drawn as a faint line with a centred mean over a twentieth of them.
  """
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure
  from matplotlib.layout_engine import ConstrainedLayoutEngine

  rows = read_rows(metrics_jsonl)
  panels = [panel for panel in PANELS if any(series(rows, name)[0].size for name, _ in panel.lines)]
  across = min(3, max(len(panels), 1))
  down = max(1, math.ceil(len(panels) / across))
  layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
  figure = Figure(figsize=(4.2 * across, 2.9 * down), dpi=150, layout=layout, facecolor="white")
  FigureCanvasAgg(figure)
  axes = list(figure.subplots(down, across, squeeze=False).flat)
  first, last = (rows[0]["step"], rows[-1]["step"]) if rows else (0, 0)
  for panel, axis in zip(panels, axes):
    _draw(axis, panel, rows)
    if first < last:
      axis.set_xlim(first - 0.02 * (last - first), last + 0.02 * (last - first))
  for axis in axes[len(panels) :]:
    axis.set_axis_off()
  if not panels:
    figure.text(0.5, 0.5, "no numbers yet", ha="center", va="center", color=_GREY)
  figure.savefig(png_path)
  return [panel.title for panel in panels]


def _draw(axis: Any, panel: Panel, rows: Sequence[Mapping[str, Any]]) -> None:
  from matplotlib.ticker import MaxNLocator

  for (name, label), colour in zip(panel.lines, _COLOURS):
    steps, values = series(rows, name)
    if not steps.size:
      continue
    _draw_interval(axis, rows, name, colour)
    sparse = steps.size < 40
    if not sparse:
      axis.plot(steps, values, color=colour, linewidth=0.7, alpha=0.25)
    shown = values if sparse else smooth(values, max(3, steps.size // 20))
    marker = "o" if steps.size <= 15 else None
    axis.plot(steps, shown, color=colour, linewidth=1.8, marker=marker, markersize=3.5, label=label or None)
  axis.set_title(panel.title, loc="left", fontsize=10, fontweight="bold", color=_INK)
  axis.set_xlabel("step", fontsize=8, color=_GREY)
  axis.set_ylabel(panel.unit, fontsize=8, color=_GREY)
  axis.tick_params(labelsize=8, colors=_GREY, length=0)
  axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
  axis.yaxis.set_major_locator(MaxNLocator(5))
  axis.grid(axis="y", color=_GRID, linewidth=0.8)
  axis.set_axisbelow(True)
  for side in ("top", "right", "left"):
    axis.spines[side].set_visible(False)
  axis.spines["bottom"].set_color(_GRID)
  axis.margins(y=0.12)
  if len(axis.get_legend_handles_labels()[1]) > 1:
    axis.legend(frameon=False, fontsize=8, labelcolor=_INK, loc="best")


def _draw_interval(axis: Any, rows: Sequence[Mapping[str, Any]], name: str, colour: str) -> None:
  steps, low = series(rows, f"{name}/low")
  upper_steps, high = series(rows, f"{name}/high")
  if steps.size and np.array_equal(steps, upper_steps):
    axis.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)


def samples_text(path: str | os.PathLike, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes rollouts as a text to read: each prompt once, then its completions with verdict and reward.

  A row has `prompt`, `completion`, and where known `answer`, `reward`, `terms` (name → value), `outcome`,
  `length`, `truncated`. Consecutive rows of one prompt form its group.
  """
  lines: list[str] = []
  previous = None
  for row in rows:
    if row["prompt"] != previous:
      previous = row["prompt"]
      lines += ["=" * 80, "PROMPT", _indent(previous)]
      lines += [f"ANSWER  {row['answer']}"] if row.get("answer") is not None else []
    lines += ["-" * 80, headline(row), _indent(row["completion"])]
  pathlib.Path(path).write_text("\n".join(lines) + "\n" if lines else "", encoding="utf-8")


def headline(row: Mapping[str, Any]) -> str:
  """Outcome, reward with its terms, length: one line."""
  parts = [str(row["outcome"])] if row.get("outcome") is not None else []
  if row.get("reward") is not None:
    terms = ", ".join(f"{name} {value:+.3g}" for name, value in (row.get("terms") or {}).items())
    parts.append(f"reward {row['reward']:.3g}" + (f" ({terms})" if terms else ""))
  parts += [f"{row['length']} tokens"] if row.get("length") is not None else []
  parts += ["truncated"] if row.get("truncated") else []
  return "  |  ".join(parts)


def _indent(text: str) -> str:
  return textwrap.indent(text, "  ", lambda line: True)
