"""Small graphs: length of a shortest path (`path ab bc cd;ad=`) and connectivity (`link ab bc;ad=`)."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_NAMES = "abcdefghijklmnopqrstuvwxyz"


@dataclasses.dataclass(frozen=True)
class _Graph(Stream):
  nodes: int = 6
  edges: int = 7

  def __post_init__(self) -> None:
    check_range(self, "nodes", 3, len(_NAMES))
    check_range(self, "edges", 1, self.nodes * (self.nodes - 1) // 2)

  def draw(self, random: np.random.Generator) -> tuple[list[str], str, str]:
    """Random edges (as pairs of letters, in random order) and two different nodes."""
    pairs = list(itertools.combinations(_NAMES[: self.nodes], 2))
    edges = [pairs[int(i)] for i in random.permutation(len(pairs))[: self.edges]]
    turned = ["".join(e if random.integers(2) else e[::-1]) for e in edges]
    start, goal = (_NAMES[int(i)] for i in random.permutation(self.nodes)[:2])
    return turned, start, goal

  def canonical(self, problem: Problem) -> str:
    """The set of undirected edges and the set of the two nodes."""
    edges = sorted("".join(sorted(edge)) for edge in problem.fields["edges"])
    return f"{edges} {sorted((problem.fields['start'], problem.fields['goal']))}"


@dataclasses.dataclass(frozen=True)
class ShortestPath(_Graph):
  """The number of edges on a shortest path. The solution writes the layers of breadth-first search."""

  name = "shortest_path"

  def generate(self, random: np.random.Generator) -> Problem | None:
    edges, start, goal = self.draw(random)
    reached = layers(edges, start, goal)
    if goal not in reached[-1]:
      return None
    return _problem("path", edges, start=start, goal=goal, answer=str(len(reached) - 1), reached=reached)


@dataclasses.dataclass(frozen=True)
class Connectivity(_Graph):
  """Whether two nodes are connected, `yes` or `no` in equal shares. The solution writes the layers."""

  edges: int = 4
  name = "connectivity"

  def generate(self, random: np.random.Generator) -> Problem | None:
    wanted = bool(random.integers(2))
    edges, start, goal = self.draw(random)
    reached = layers(edges, start, goal)
    if (goal in reached[-1]) != wanted:
      return None
    return _problem("link", edges, start=start, goal=goal, answer="yes" if wanted else "no", reached=reached)


def layers(edges: list[str], start: str, goal: str) -> list[str]:
  """Breadth-first layers from `start`, letters sorted, up to the one that holds `goal` or the last one."""
  reached = [start]
  while goal not in reached[-1]:
    seen = set("".join(reached))
    ahead = {
      b for edge in edges for a, b in (tuple(edge), tuple(edge[::-1])) if a in reached[-1] and b not in seen
    }
    if not ahead:
      break
    reached.append("".join(sorted(ahead)))
  return reached


def _problem(
  word: str, edges: list[str], *, start: str, goal: str, answer: str, reached: list[str]
) -> Problem:
  return Problem(
    id=0,
    prompt=f"{word} {' '.join(edges)};{start}{goal}=",
    answer=answer,
    solution=f"{';'.join(reached)}{MARKER}{answer}",
    fields={"edges": tuple(edges), "start": start, "goal": goal},
  )
