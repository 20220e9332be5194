"""Completions to learn from: reference solutions, a share of them cut down to the answer alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from jaxrl_reason.tasks.stream import stable_hash
from jaxrl_reason.types import Problem, Task

Demonstrate = Callable[[Task, Problem, int], str]  # (task, problem, draw) → the completion to learn from


@runtime_checkable
class AnswersAtOnce(Protocol):
  """A task that knows the completion without reasoning."""

  def direct(self, problem: Problem) -> str: ...


def demonstrations(direct_fraction: float = 0.0) -> Demonstrate:
  """Reference solutions; with probability `direct_fraction` the answer at once, without the reasoning.

  The choice is a hash of (problem, draw): the same in every run, host and resumption. Raises ValueError for a
  problem that has no solution, naming it.
  """
  if not 0 <= direct_fraction <= 1:
    raise ValueError(f"demonstrations: direct_fraction={direct_fraction}; allowed: 0 to 1")

  def demonstrate(task: Task, problem: Problem, draw: int) -> str:
    if stable_hash(f"{problem.id}|{draw}") < direct_fraction * 2**64:
      if not isinstance(task, AnswersAtOnce):
        raise ValueError(f"task {task.name!r} has no direct(problem); allowed: direct_fraction=0")
      return task.direct(problem)
    if not problem.solution:
      raise ValueError(
        f"task {task.name!r}: problem {problem.id} has no reference solution to learn from; allowed: tasks "
        "with solutions, or direct_fraction=1"
      )
    return problem.solution

  return demonstrate
