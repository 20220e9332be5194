"""Where a walk ends: `walk F3LF2=` → `0,3N;0,3W;-2,3W>-2,3W`."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_HEADINGS = "NESW"  # clockwise
_AHEAD = {"N": (0, 1), "E": (1, 0), "S": (0, -1), "W": (-1, 0)}


@dataclasses.dataclass(frozen=True)
class Spatial(Stream):
  """Position x,y and heading after `moves` commands, from 0,0 facing north.

  Commands: Fn walks n cells (1 to `longest`), L and R turn on the spot. A walk and a turn alternate. The
  solution writes the state after every command.
  """

  moves: int = 6
  longest: int = 9
  name = "spatial"

  def __post_init__(self) -> None:
    check_range(self, "moves", 1, 40)
    check_range(self, "longest", 1, 9)

  def generate(self, random: np.random.Generator) -> Problem:
    first = int(random.integers(2))
    commands = [
      "LR"[int(random.integers(2))] if (i + first) % 2 else f"F{int(random.integers(1, self.longest + 1))}"
      for i in range(self.moves)
    ]
    states, x, y, heading = [], 0, 0, "N"
    for command in commands:
      x, y, heading = _after(x, y, heading, command)
      states.append(f"{x},{y}{heading}")
    return Problem(
      id=0,
      prompt=f"walk {''.join(commands)}=",
      answer=states[-1],
      solution=f"{';'.join(states)}{MARKER}{states[-1]}",
      fields={"commands": tuple(commands)},
    )


def _after(x: int, y: int, heading: str, command: str) -> tuple[int, int, str]:
  if command in "LR":
    turn = 1 if command == "R" else -1
    return x, y, _HEADINGS[(_HEADINGS.index(heading) + turn) % 4]
  steps = int(command[1:])
  return x + steps * _AHEAD[heading][0], y + steps * _AHEAD[heading][1], heading
