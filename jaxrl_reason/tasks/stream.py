"""Procedural tasks: endless streams of problems whose splits share no content."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection
from typing import get_args

import numpy as np

from jaxrl_reason.text.answers import MARKER, after_marker
from jaxrl_reason.types import Grade, Problem, Split, nearest

CORRECT = Grade(1.0, "correct")
WRONG = Grade(0.0, "wrong")
FORMAT = Grade(0.0, "format")

_ATTEMPTS = 1000  # chance to miss a split of a large space: 0.9^1000
_BUCKETS: dict[int, Split] = {8: "validation", 9: "test"}


class Stream:
  """Base of the procedural tasks: a frozen dataclass of knobs that says how to draw one problem.

  A problem of (split, index) is drawn from a generator seeded by (task and knobs, split, index, attempt),
  until the hash of its content falls into the split. So no two splits share an item, whatever the knobs and
  seeds, and `problem` is a pure function.
  """

  name: str = ""
  exact: bool = True  # the answer is one string, so `tasks.verify.exact_match` grades it on the device
  slow: bool = False  # grading may hang: do it in killable workers

  def generate(self, random: np.random.Generator) -> Problem | None:
    """One random problem (its id is set later), or None to reject the draw."""
    raise NotImplementedError

  def canonical(self, problem: Problem) -> str:
    """The content by which splits are disjoint: equal for spellings of the same problem."""
    return problem.prompt

  def problem(self, split: Split, index: int) -> Problem:
    """Problem `index` of the stream `split`."""
    check_split(split)
    if index < 0:
      raise ValueError(f"{self.name}: index is {index}; allowed: 0 and above")
    stream = f"{self!r}|{split}|{index}|"
    for attempt in range(_ATTEMPTS):
      problem = self.generate(np.random.default_rng(stable_hash(f"{stream}{attempt}")))
      if problem is not None and split_of(f"{self.name}|{self.canonical(problem)}") == split:
        return dataclasses.replace(problem, id=content_id(f"{self.name}|{problem.prompt}"))
    raise ValueError(
      f"{self!r} gave no problem for split {split!r} in {_ATTEMPTS} draws: its space of problems is too "
      f"small or its knobs reject nearly every draw; allowed: knobs with more distinct problems"
    )

  def size(self, split: Split) -> int | None:
    """None: the stream has no end."""
    check_split(split)
    return None

  def direct(self, problem: Problem) -> str:
    """The completion that gives the answer at once, without thinking."""
    return MARKER + problem.answer

  def grade(self, problem: Problem, completion: str) -> Grade:
    """Correct if what follows the last marker is right; format if there is no such answer."""
    answer = after_marker(completion)
    if answer is None:
      return FORMAT
    return CORRECT if self.accepts(problem, answer) else WRONG

  def accepts(self, problem: Problem, answer: str) -> bool:
    """Whether an extracted answer is right. Never a substring match."""
    return answer == problem.answer


def stable_hash(text: str) -> int:
  """64 bits of BLAKE2b: the same in every process and on every machine."""
  return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")


def content_id(text: str) -> int:
  """The id of a problem with this content: 31 bits."""
  return stable_hash("id|" + text) >> 33


def split_of(content: str) -> Split:
  """The split that owns a piece of content: 8 of 10 buckets train, 1 validation, 1 test."""
  return _BUCKETS.get(stable_hash("split|" + content) % 10, "train")


def check_split(split: str) -> None:
  if split not in get_args(Split):
    raise ValueError(f"split is {split!r}; {nearest(split, get_args(Split))}")


def check_range(task: object, knob: str, low: int, high: int) -> None:
  """Raises unless low <= task.knob <= high."""
  value = getattr(task, knob)
  if not low <= value <= high:
    raise ValueError(f"{type(task).__name__}.{knob} is {value!r}; allowed: {low} to {high}")


def check_subset(task: object, knob: str, allowed: Collection[str]) -> None:
  """Raises unless task.knob is a non-empty collection of allowed names."""
  values = getattr(task, knob)
  if not values:
    raise ValueError(f"{type(task).__name__}.{knob} is empty; allowed: one or more of {', '.join(allowed)}")
  for value in values:
    if value not in allowed:
      raise ValueError(f"{type(task).__name__}.{knob} holds {value!r}; {nearest(value, allowed)}")
