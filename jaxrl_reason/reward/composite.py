"""Rewards: weighted sums of named terms, every term kept for the log."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer

from jaxrl_reason.reward.grading import grade
from jaxrl_reason.types import Grade, Outcome, Problem, Task


class Row(NamedTuple):
  """What a term sees of one completion: everything of its problem, its text, length in tokens and grade."""

  problem: Problem
  text: str
  length: int
  grade: Grade


class Term(NamedTuple):
  """A named part of the reward. `score(row)` is a finite number, or None where the row cannot be scored."""

  name: str
  weight: float
  score: Callable[[Row], float | None]


class RewardBatch(NamedTuple):
  """Rewards of a batch. Rows that are not `valid` have reward 0 and must get row weight 0."""

  rewards: Float[np.ndarray, "P G"]
  valid: Bool[np.ndarray, "P G"]
  terms: dict[str, Float[np.ndarray, "P G"]]  # unweighted; nan = could not be scored
  outcomes: list[list[Outcome]]

  def count(self, outcome: Outcome) -> int:
    """How many rows ended so: time-outs, format misses and wrong answers are told apart."""
    return sum(one == outcome for group in self.outcomes for one in group)


@dataclasses.dataclass(frozen=True)
class Reward:
  """r = Σᵢ wᵢ · termᵢ. Called with a task, `P` problems, their `P x G` texts and lengths in tokens."""

  terms: tuple[Term, ...]
  workers: int = 2  # processes and seconds for each completion, for tasks whose verifier may hang
  seconds: float = 5.0

  def __post_init__(self) -> None:
    names = [term.name for term in self.terms]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
      raise ValueError(f"reward: terms are {names}; allowed: one or more terms, each name once")
    for term in self.terms:
      if not math.isfinite(term.weight):
        raise ValueError(f"reward: weight of term {term.name!r} is {term.weight}; allowed: a finite number")

  @property
  def formula(self) -> str:
    return " + ".join(f"{term.weight:g}·{term.name}" for term in self.terms)

  def __call__(
    self,
    task: Task,
    problems: Sequence[Problem],
    texts: Sequence[Sequence[str]],
    lengths: Integer[np.ndarray, "P G"],
  ) -> RewardBatch:
    """Scores every completion.

    Raises:
      ValueError: for a score that is not finite, naming term, problem and value; for shapes that differ.
    """
    if any(lengths.shape != (len(texts), len(group)) for group in texts):
      sizes = sorted({len(group) for group in texts})
      raise ValueError(
        f"reward: lengths have shape {lengths.shape}, texts are {len(texts)} groups of {sizes}; "
        f"allowed: groups of one size, and the same shape"
      )
    grades = grade(task, problems, texts, workers=self.workers, seconds=self.seconds)
    rows = [
      [Row(problem, *one) for one in zip(group, map(int, count), graded)]
      for problem, group, count, graded in zip(problems, texts, lengths, grades)
    ]
    terms = {term.name: _scores(term, rows) for term in self.terms}
    acting = [term for term in self.terms if term.weight != 0]
    valid = np.all([~np.isnan(terms[term.name]) for term in acting], axis=0) & np.ones(lengths.shape, bool)
    total = sum((term.weight * terms[term.name] for term in acting), np.zeros(lengths.shape))
    rewards = np.where(valid, total, 0.0).astype(np.float32)
    return RewardBatch(rewards, valid, terms, [[one.outcome for one in group] for group in grades])


def composite(*rewards: Reward, workers: int = 2, seconds: float = 5.0) -> Reward:
  """The sum of rewards, term by term."""
  return Reward(tuple(term for reward in rewards for term in reward.terms), workers, seconds)


def term(name: str, score: Callable[[Row], float | None], weight: float = 1.0) -> Reward:
  """A reward of one term of the user's own."""
  return Reward((Term(name, weight, score),))


def verified(weight: float = 1.0) -> Reward:
  """The score that the task's verifier gives; None where the verifier gives none."""
  return term("verified", lambda row: row.grade.score, weight)


def format_ok(weight: float = 1.0) -> Reward:
  """1 where the completion claims an answer at all, right or wrong; 0 on a format miss."""
  return term("format_ok", lambda row: float(row.grade.outcome != "format"), weight)


def length_penalty(start: int, stop: int, weight: float = 1.0) -> Reward:
  """From 0 at `start` tokens down to -1 at `stop` tokens.

    −clip((length − start) / (stop − start), 0, 1)

  Units: tokens of the completion, the stop token included; never characters.
  """
  if not 0 <= start < stop:
    raise ValueError(f"length_penalty: start={start}, stop={stop}; allowed: 0 <= start < stop, in tokens")
  return term(
    "length_penalty", lambda row: -min(max((row.length - start) / (stop - start), 0.0), 1.0), weight
  )


def _scores(term: Term, rows: Sequence[Sequence[Row]]) -> Float[np.ndarray, "P G"]:
  """One term over a batch, nan where it cannot score."""
  return np.array([[_score(term, row) for row in group] for group in rows], np.float64)


def _score(term: Term, row: Row) -> float:
  score = term.score(row)
  if score is None:
    return math.nan
  if not math.isfinite(score):
    raise ValueError(
      f"NaN reward: term {term.name!r} gave {score} for problem {row.problem.id}; "
      f"allowed: a finite number, or None where a row cannot be scored"
    )
  return float(score)
