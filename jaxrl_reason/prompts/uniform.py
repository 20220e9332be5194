"""Every problem of the task equally often."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxrl_reason.types import Curriculum, Problem, Task


def order(seed: int, cursor: int, size: int | None) -> int:
  """Index of the problem at position `cursor` of the stream.

  A finite set is permuted anew in every epoch, from (seed, epoch) alone; a stream without end is read in
  its own order, shifted by the seed. Source: this project.
  """
  if size is None:
    return seed * 1_000_003 + cursor
  epoch, position = divmod(cursor, size)
  return int(np.random.default_rng((seed, epoch)).permutation(size)[position])


def uniform() -> Curriculum:
  """Problems in the order of `order`; the state is the seed and the cursor."""

  def propose(state: dict[str, Any], task: Task, count: int) -> tuple[dict[str, Any], list[Problem]]:
    start, size = state["cursor"], task.size("train")
    if size == 0:
      raise ValueError(f"task {task.name!r}: its train split is empty; allowed: at least one problem")
    problems = [task.problem("train", order(state["seed"], start + i, size)) for i in range(count)]
    return {**state, "cursor": start + count}, problems

  def observe(state: dict[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    return state

  return Curriculum(
    init=lambda seed: {"seed": seed, "cursor": 0},
    propose=propose,
    observe=observe,
    formula="problems ~ uniform over the train split, without replacement in an epoch",
  )
