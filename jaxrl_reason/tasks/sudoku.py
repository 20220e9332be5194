"""Sudoku of 4x4 cells with one solution: `sudoku 1.34/34.2/...=` → `122;333>1234/...`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_DIGITS = "1234"
_BASE = "1234341221434321"
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
    full = _shuffled(random)
    grid, removed = full, 0
    for cell in map(int, random.permutation(16)):
      emptied = grid[:cell] + "." + grid[cell + 1 :]
      if removed < self.blanks and _unique(emptied):
        grid, removed = emptied, removed + 1
    if removed < self.blanks:
      return None
    answer = _rows(full)
    return Problem(
      id=0,
      prompt=f"sudoku {_rows(grid)}=",
      answer=answer,
      solution=f"{';'.join(_steps(grid, full))}{MARKER}{answer}",
      fields={"grid": grid, "full": full},
    )


def _rows(grid: _Grid) -> str:
  return "/".join(grid[r : r + 4] for r in range(0, 16, 4))


def _shuffled(random: np.random.Generator) -> _Grid:
  """A full grid: digits, bands, rows in bands, stacks, columns in stacks and the diagonal are shuffled."""
  cells = np.array(list(_BASE)).reshape(4, 4)
  for _ in range(2):
    bands = [2 * band + random.permutation(2) for band in random.permutation(2)]
    cells = cells[np.concatenate(bands)].T
  if random.integers(2):
    cells = cells.T
  digits = "".join(str(d) for d in random.permutation(list(_DIGITS)))
  return "".join(cells.ravel()).translate(str.maketrans(_DIGITS, digits))


def _candidates(grid: _Grid, cell: int) -> list[str]:
  """The digits that no cell of the same row, column or box holds."""
  row, column = divmod(cell, 4)
  seen = {
    grid[other]
    for other in range(16)
    if other // 4 == row or other % 4 == column or (other // 8 == cell // 8 and other % 4 // 2 == column // 2)
  }
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


def _unique(grid: _Grid) -> bool:
  solutions = _solutions(grid)
  return next(solutions, None) is not None and next(solutions, None) is None


def _steps(grid: _Grid, full: _Grid) -> list[str]:
  steps = []
  while "." in grid:
    blanks = [cell for cell, digit in enumerate(grid) if digit == "."]
    cell = min(blanks, key=lambda c: len(_candidates(grid, c)))
    steps.append(f"{cell // 4 + 1}{cell % 4 + 1}{full[cell]}")
    grid = grid[:cell] + full[cell] + grid[cell + 1 :]
  return steps
