"""Grading of a batch: in process where verifiers are quick, in killable workers where they may hang."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

from jaxrl_reason.reward.pool import Pool, Result
from jaxrl_reason.types import Grade, Problem, Task

TIMEOUT = Grade(0.0, "timeout")
UNSCORABLE = Grade(None, "wrong")  # the verifier itself failed: no reward, the row does not count

_Row = tuple[Problem, str]
_MOST_POOLS = 4
_POOLS: dict[tuple[int, int, float], tuple[Task, Pool]] = {}  # the task is held, so its id stays its own


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
  rows = [(problem, text) for problem, group in zip(problems, texts) for text in group]
  slow = getattr(task, "slow", False)
  results = _pool(task, workers, seconds).map(rows) if slow else [_attempt(row, task) for row in rows]
  _report(task, results)
  grades = iter([_grade_of(result) for result in results])
  return [[next(grades) for _ in group] for group in texts]


def _attempt(row: _Row, task: Task) -> Result:
  try:
    return Result(value=_verify(row, task))
  except Exception as error:
    return Result(error=f"{type(error).__name__}: {error} (problem {row[0].id})")


def _verify(row: _Row, task: Task) -> Grade:
  return task.grade(*row)


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


def _pool(task: Task, workers: int, seconds: float) -> Pool:
  """The pool of a task, kept from step to step. Its workers hold the task; problems and texts travel."""
  key = (id(task), workers, seconds)
  if key not in _POOLS:
    while len(_POOLS) >= _MOST_POOLS:
      _POOLS.pop(next(iter(_POOLS)))[1].close()
    verify = functools.partial(_verify, task=task)
    pool = Pool(verify, workers=workers, seconds=seconds, prepare=getattr(task, "prepare", None))
    _POOLS[key] = (task, pool)
  return _POOLS[key][1]
