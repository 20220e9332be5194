"""Grading of a batch: in process where verifiers are quick, in killable workers where they may hang."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from jaxrl_reason.reward.pool import Pool, Result
from jaxrl_reason.types import Grade, Problem, Task

TIMEOUT = Grade(0.0, "timeout")
UNSCORABLE = Grade(None, "wrong")  # the verifier itself failed: no reward, the row does not count


def grade(
  task: Task,
  problems: Sequence[Problem],
  texts: Sequence[Sequence[str]],
  *,
  workers: int = 2,
  seconds: float = 5.0,
) -> list[list[Grade]]:
  """The grades `P x G`: as many as texts, in their order.

  A verifier that raises makes its own row unscorable and shifts no other. Tasks with `slow = True` are graded
  in `workers` processes with `seconds` for each completion; those that run out score 0 as `timeout`.

  Raises:
    ValueError: if problems and texts differ in number.
    RuntimeError: if the verifier fails on every completion: then it is the verifier that is broken.
  """
  if len(problems) != len(texts):
    raise ValueError(
      f"reward: {len(problems)} problems but texts of {len(texts)}; allowed: one list for each"
    )
  rows = [(task, problem, text) for problem, group in zip(problems, texts) for text in group]
  slow = getattr(task, "slow", False)
  results = _pool(workers, seconds).map(rows) if slow else [_attempt(row) for row in rows]
  _report(task, results)
  grades = iter([_grade_of(result) for result in results])
  return [[next(grades) for _ in group] for group in texts]


def _verify(row: tuple[Task, Problem, str]) -> Grade:
  task, problem, text = row
  return task.grade(problem, text)


def _attempt(row: tuple[Task, Problem, str]) -> Result:
  try:
    return Result(value=_verify(row))
  except Exception as error:
    return Result(error=f"{type(error).__name__}: {error} (problem {row[1].id})")


def _grade_of(result: Result) -> Grade:
  if result.timeout:
    return TIMEOUT
  return UNSCORABLE if result.error else result.value


def _report(task: Task, results: Sequence[Result]) -> None:
  """Says how many rows the verifier failed on, with the first reason."""
  errors = [result.error for result in results if result.error]
  if not errors:
    return
  if len(errors) == len(results):
    raise RuntimeError(
      f"the verifier of task {task.name!r} failed on all {len(results)} rows; first: {errors[0]}"
    )
  logging.getLogger(__name__).warning(
    "the verifier of task %r failed on %d of %d rows; first: %s",
    task.name,
    len(errors),
    len(results),
    errors[0],
  )


@functools.lru_cache(maxsize=4)
def _pool(workers: int, seconds: float) -> Any:
  return Pool(_verify, workers=workers, seconds=seconds)
