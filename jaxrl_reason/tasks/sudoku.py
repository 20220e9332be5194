"""Sudoku of 4x4 cells with one solution: `sudoku 1.34/34.2/...=` → `122;231>1234/...`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_DIGITS = "1234"
_PEERS = [
  [
    o
    for o in range(16)
    if o // 4 == c // 4 or o % 4 == c % 4 or (o // 8 == c // 8 and o % 4 // 2 == c % 4 // 2)
  ]
  for c in range(16)
]
_Grid = str  # 16 characters, `.` for a blank


@dataclasses.dataclass(frozen=True)
class Sudoku(Stream):
  """A 4x4 sudoku with `blanks` empty cells; every row, column and 2x2 box holds 1 to 4.

  The solution fills one cell a step, as row, column, digit: the cell with the fewest candidates first.
  """

  blanks: int = 6
  name = "sudoku"

  def __post_init__(self) -> None:
    check_range(self, "blanks", 1, 10)

  def generate(self, random: np.random.Generator) -> Problem | None:
    grids = _grids()
    full = grids[int(random.integers(len(grids)))]
    clue, removed = np.ones(16, bool), 0
    for cell in map(int, random.permutation(16)):
      clue[cell] = False
      if removed < self.blanks and _solution_count(full, clue) == 1:
        removed += 1
      else:
        clue[cell] = True
    if removed < self.blanks:
      return None
    grid, solved = "".join(np.where(clue, full, ".")), "".join(full)
    answer = _rows(solved)
    return Problem(
      id=0,
      prompt=f"sudoku {_rows(grid)}=",
      answer=answer,
      solution=f"{';'.join(_steps(grid, solved))}{MARKER}{answer}",
      fields={"grid": grid, "full": solved},
    )


def _rows(grid: _Grid) -> str:
  return "/".join(grid[r : r + 4] for r in range(0, 16, 4))


@functools.cache
def _grids() -> np.ndarray:
  """The 288 full grids, one row of characters each."""
  return np.array([list(grid) for grid in _solutions("." * 16)])


def _candidates(grid: _Grid, cell: int) -> list[str]:
  """The digits that no cell of the same row, column or box holds."""
  seen = {grid[other] for other in _PEERS[cell]}
  return [digit for digit in _DIGITS if digit not in seen]


def _solutions(grid: _Grid) -> Iterator[_Grid]:
  """All completions of a grid, by depth-first search from the cell with the fewest candidates."""
  blanks = [cell for cell, digit in enumerate(grid) if digit == "."]
  if not blanks:
    yield grid
    return
  cell = min(blanks, key=lambda c: len(_candidates(grid, c)))
  for digit in _candidates(grid, cell):
    yield from _solutions(grid[:cell] + digit + grid[cell + 1 :])


def _solution_count(full: np.ndarray, clue: np.ndarray) -> int:
  """How many full grids agree with `full` on the clues."""
  return int(np.sum(np.all(_grids()[:, clue] == full[clue], axis=1)))


def _steps(grid: _Grid, full: _Grid) -> list[str]:
  steps = []
  while "." in grid:
    blanks = [cell for cell, digit in enumerate(grid) if digit == "."]
    cell = min(blanks, key=lambda c: len(_candidates(grid, c)))
    steps.append(f"{cell // 4 + 1}{cell % 4 + 1}{full[cell]}")
    grid = grid[:cell] + full[cell] + grid[cell + 1 :]
  return steps
