"""Several tasks as one, in fixed proportions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from jaxrl_reason.tasks.stream import content_id
from jaxrl_reason.types import Grade, Problem, Split, Task

_PARTS = "parts"  # the field that says which part a problem came from, outermost first
_LONGEST = 100  # problems in one round; finer weights are rounded


@dataclasses.dataclass(frozen=True)
class Mixture:
  """Problem `index` comes from the task that is furthest behind its share, as its next one.

  So every prefix of the stream is close to the proportions, each task's own stream is walked without gaps,
  and everything is a pure function of the index. A finite task starts over when it is through.
  """

  tasks: tuple[Task, ...]
  shares: tuple[int, ...]  # problems of each task in one round
  name = "mixture"

  @property
  def exact(self) -> bool:
    return all(getattr(task, "exact", False) for task in self.tasks)

  @property
  def slow(self) -> bool:
    return any(getattr(task, "slow", False) for task in self.tasks)

  def prepare(self) -> None:
    """Lets every part that is slow to start do so before the clock of a worker runs."""
    for task in self.tasks:
      getattr(task, "prepare", lambda: None)()

  def problem(self, split: Split, index: int) -> Problem:
    if index < 0:
      raise ValueError(f"mixture: index is {index}; allowed: 0 and above")
    which, position = self._place(index)
    task = self.tasks[which]
    size = task.size(split)
    problem = task.problem(split, position if size is None else position % max(size, 1))
    parts = (which, *problem.fields.get(_PARTS, ()))  # a part may itself be a mixture
    fields = {"task": task.name, **problem.fields, _PARTS: parts}
    return dataclasses.replace(problem, id=content_id(f"{task.name}|{which}|{problem.id}"), fields=fields)

  def size(self, split: Split) -> int | None:
    """The number of problems before a finite task starts over; None if no task is finite."""
    sizes = [task.size(split) for task in self.tasks]
    if all(size is None for size in sizes):
      return None
    index = 0
    while True:
      which, position = self._place(index)
      size = sizes[which]
      if size is not None and position >= size:
        return index
      index += 1

  def canonical(self, problem: Problem) -> str:
    task, inner = self._inner(problem)
    return f"{task.name}|{task.canonical(inner)}"

  def direct(self, problem: Problem) -> str:
    task, inner = self._inner(problem)
    return task.direct(inner)

  def grade(self, problem: Problem, completion: str) -> Grade:
    task, inner = self._inner(problem)
    return task.grade(inner, completion)

  def _inner(self, problem: Problem) -> tuple[Any, Problem]:
    """The task that a problem came from, and the problem as that task knows it."""
    which, *rest = problem.fields[_PARTS]
    fields = {**problem.fields, _PARTS: tuple(rest)}
    return self.tasks[which], dataclasses.replace(problem, fields=fields)

  def _place(self, index: int) -> tuple[int, int]:
    """Which task an index belongs to, and which problem of that task it is."""
    order = _round(self.shares)
    rounds, at = divmod(index, len(order))
    which = order[at]
    return which, rounds * self.shares[which] + order[:at].count(which)


def mixture(tasks: Sequence[Task], weights: Sequence[float] | None = None) -> Mixture:
  """Tasks mixed by weight (equal where none are given), deterministically by index.

  Raises:
    ValueError: for no task, or weights that are not one positive finite number for each task.
  """
  weights = [1.0] * len(tasks) if weights is None else list(weights)
  if not tasks or len(weights) != len(tasks) or not all(0 < w < float("inf") for w in weights):
    raise ValueError(
      f"mixture: weights are {weights} for {len(tasks)} tasks; allowed: one positive number for each task"
    )
  parts = [weight / sum(weights) for weight in weights]
  exact = (
    n for n in range(1, _LONGEST) if all(p * n > 0.5 and abs(p * n - round(p * n)) < 1e-6 for p in parts)
  )
  length = next(exact, _LONGEST)
  return Mixture(tuple(tasks), tuple(max(1, round(part * length)) for part in parts))


@functools.lru_cache(maxsize=64)
def _round(shares: tuple[int, ...]) -> tuple[int, ...]:
  """One round of task indices: at each place the task with the largest deficit, the first on ties."""
  total, given, order = sum(shares), [0] * len(shares), []
  for place in range(1, total + 1):
    which = max(range(len(shares)), key=lambda i: (place * shares[i] - given[i] * total, -i))
    given[which] += 1
    order.append(which)
  return tuple(order)
