"""Knights and knaves: knights say what is true, knaves what is false; who is who?

`knights A:B- B:A~C C:A+=` → `+++A;++-A;...;-+->A-B+C-`.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_NAMES = "ABC"


@dataclasses.dataclass(frozen=True)
class Knights(Stream):
  """One statement by each of `people` persons (2 or 3), with exactly one consistent reading.

  Statements: `B+` B is a knight, `B-` a knave, `B~C` both are of one kind, `B!C` of different kinds, and two
  of the first joined by `&` (and) or `/` (or). The solution tries the readings from all knights on: each is
  followed by the first speaker whom it contradicts, the consistent one ends it.
  """

  people: int = 3
  name = "knights"

  def __post_init__(self) -> None:
    check_range(self, "people", 2, len(_NAMES))

  def generate(self, random: np.random.Generator) -> Problem | None:
    statements = tuple(_statement(random, self.people) for _ in range(self.people))
    readings = ["".join(reading) for reading in itertools.product("+-", repeat=self.people)]
    consistent = [reading for reading in readings if contradicted(statements, reading) is None]
    if len(consistent) != 1:
      return None
    tried = readings[: readings.index(consistent[0])]
    steps = [f"{reading}{contradicted(statements, reading)}" for reading in tried] + consistent
    answer = "".join(name + kind for name, kind in zip(_NAMES, consistent[0]))
    said = " ".join(f"{name}:{statement}" for name, statement in zip(_NAMES, statements))
    return Problem(
      id=0,
      prompt=f"knights {said}=",
      answer=answer,
      solution=f"{';'.join(steps)}{MARKER}{answer}",
      fields={"statements": statements, "reading": consistent[0]},
    )


def _statement(random: np.random.Generator, people: int) -> str:
  first, second = sorted(_NAMES[int(i)] for i in random.permutation(people)[:2])
  form = int(random.integers(4))
  signs = ["+-"[int(i)] for i in random.integers(2, size=2)]
  if form == 0:
    return (first if random.integers(2) else second) + signs[0]
  if form == 1:
    return first + "~!"[int(random.integers(2))] + second
  return first + signs[0] + "&/"[form - 2] + second + signs[1]


def contradicted(statements: tuple[str, ...], reading: str) -> str | None:
  """The first person whose statement does not fit the reading (`+-+` for A, B, C), None where all fit."""
  kind = dict(zip(_NAMES, reading))
  for name, statement in zip(kind, statements):
    if _true(statement, kind) != (kind[name] == "+"):
      return name
  return None


def _true(statement: str, kind: dict[str, str]) -> bool:
  if statement[1] in "~!":
    return (kind[statement[0]] == kind[statement[2]]) == (statement[1] == "~")
  holds = [kind[statement[at]] == statement[at + 1] for at in range(0, len(statement), 3)]
  return any(holds) if "/" in statement else all(holds)
