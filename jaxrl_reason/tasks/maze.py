"""Mazes on a small grid: `maze S.#./..../#.#./...G=` → `11D21R22D32...>DRDDRR`."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_Cell = tuple[int, int]
_MOVES: dict[str, _Cell] = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


@dataclasses.dataclass(frozen=True)
class Maze(Stream):
  """A grid of `side` x `side` with `walls` walls (#); the answer is a path of U, D, L, R from S to G.

  Any path that stays on free cells and ends on G is right; with `shortest`, only one of least length.
  The solution names the cell (row, column from 1) before each move.
  """

  side: int = 4
  walls: int = 4
  least_moves: int = 3
  shortest: bool = False
  name = "maze"
  exact = False

  def __post_init__(self) -> None:
    check_range(self, "side", 2, 9)
    check_range(self, "walls", 0, self.side**2 - 2)
    check_range(self, "least_moves", 1, 2 * self.side)

  def generate(self, random: np.random.Generator) -> Problem | None:
    cells = [divmod(int(cell), self.side) for cell in random.permutation(self.side**2)]
    start, goal, walls = cells[0], cells[1], set(cells[2 : 2 + self.walls])
    free = set(cells) - walls
    moves = shortest_path(free, start, goal)
    if moves is None or len(moves) < self.least_moves:
      return None
    marks = {start: "S", goal: "G", **dict.fromkeys(walls, "#")}
    rows = ("".join(marks.get((r, c), ".") for c in range(self.side)) for r in range(self.side))
    return Problem(
      id=0,
      prompt=f"maze {'/'.join(rows)}=",
      answer=moves,
      solution=_trace(start, moves) + MARKER + moves,
      fields={"start": start, "goal": goal, "free": tuple(sorted(free)), "least": len(moves)},
    )

  def accepts(self, problem: Problem, answer: str) -> bool:
    cell, free = problem.fields["start"], set(problem.fields["free"])
    for move in answer:
      if move not in _MOVES:
        return False
      cell = _after(cell, move)
      if cell not in free:
        return False
    return cell == problem.fields["goal"] and (not self.shortest or len(answer) == problem.fields["least"])


def shortest_path(free: set[_Cell], start: _Cell, goal: _Cell) -> str | None:
  """The first shortest path of moves in the order U, D, L, R, by breadth-first search; None if walled off."""
  paths, frontier = {start: ""}, [start]
  while frontier and goal not in paths:
    reached = []
    for cell in frontier:
      for move in _MOVES:
        after = _after(cell, move)
        if after in free and after not in paths:
          paths[after] = paths[cell] + move
          reached.append(after)
    frontier = reached
  return paths.get(goal)


def _after(cell: _Cell, move: str) -> _Cell:
  return cell[0] + _MOVES[move][0], cell[1] + _MOVES[move][1]


def _trace(cell: _Cell, moves: str) -> str:
  """The path as `row column move` triples, and the cell where it ends."""
  trace = ""
  for move in moves:
    trace += f"{cell[0] + 1}{cell[1] + 1}{move}"
    cell = _after(cell, move)
  return f"{trace}{cell[0] + 1}{cell[1] + 1}"
