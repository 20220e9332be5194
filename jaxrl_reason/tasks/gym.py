"""Every data set of the reasoning-gym package as a task (extra `reasoning-gym`)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from jaxrl_reason.tasks.stream import CORRECT, FORMAT, WRONG, Stream
from jaxrl_reason.text.answers import MARKER, after_marker
from jaxrl_reason.types import Grade, Problem, nearest

_OPEN, _CLOSE = "<answer>", "</answer>"
_BROKEN = {
  "game_of_life_halting": "its verifier takes every answer that is not empty for True",
}
_CORRECT_FROM = 1.0 - 1e-6  # scores are floats in [0, 1]


@dataclasses.dataclass(frozen=True)
class ReasoningGym(Stream):
  """One data set with its own knobs. Made by `reasoning_gym`, which checks the names.

  Its seeds s and s+1 share all items but one, so splits come from the content, as in every stream. Its own
  `score_answer` judges; a score below 1 counts 0 (some data sets pay for a substring) unless `partial`.
  Some data sets give no reference answer: `answer` and `solution` are then "". A few write `>` inside
  answers: those stand between <answer> tags.
  """

  dataset: str = ""
  knobs: tuple[tuple[str, Any], ...] = ()
  partial: bool = False
  template: str = "{question}\n"
  exact = False
  slow = True

  @property
  def name(self) -> str:  # type: ignore[override]
    return f"reasoning_gym/{self.dataset}"

  def prepare(self) -> None:
    """Imports the package and builds the data set; done once in every worker before the clock runs."""
    _dataset(self.dataset, self.knobs)

  def generate(self, random: np.random.Generator) -> Problem | None:
    entry = _entry(self.dataset, self.knobs, int(random.integers(2**31)))
    answer = "" if entry["answer"] is None else str(entry["answer"])
    return Problem(
      id=0,
      prompt=self.template.format(question=entry["question"]),
      answer=answer,
      solution=_completion(answer) if answer else "",
      fields={"entry": entry},
    )

  def canonical(self, problem: Problem) -> str:
    return problem.fields["entry"]["question"]

  def direct(self, problem: Problem) -> str:
    return _completion(problem.answer)

  def grade(self, problem: Problem, completion: str) -> Grade:
    answer = _claimed(completion)
    if answer is None:
      return FORMAT
    try:
      score = float(_dataset(self.dataset, self.knobs).score_answer(answer, entry=problem.fields["entry"]))
    except Exception:  # some of its verifiers raise on what they cannot parse
      return WRONG
    if score >= _CORRECT_FROM:
      return CORRECT
    return Grade(score if self.partial else 0.0, "wrong")


def reasoning_gym(
  dataset: str, *, partial: bool = False, template: str = "{question}\n", **knobs: Any
) -> ReasoningGym:
  """A data set of reasoning-gym by name, with its own configuration fields as knobs.

  Raises:
    ImportError: if the extra is not installed.
    ValueError: naming an unknown data set or knob, and the nearest known one.
  """
  datasets = _package().factory.DATASETS
  if dataset not in datasets:
    raise ValueError(f"reasoning_gym: dataset is {dataset!r}; {nearest(dataset, datasets)}")
  if dataset in _BROKEN:
    raise ValueError(
      f"reasoning_gym: dataset is {dataset!r}, but {_BROKEN[dataset]}; allowed: any other data set"
    )
  if "{question}" not in template:
    raise ValueError(f"reasoning_gym: template is {template!r}; allowed: a text with {{question}} in it")
  allowed = {field.name for field in dataclasses.fields(datasets[dataset][1])} - {"seed", "size"}
  for knob in knobs:
    if knob not in allowed:
      raise ValueError(f"reasoning_gym: {dataset} has no knob {knob!r}; {nearest(knob, allowed)}")
  frozen = tuple(sorted((key, tuple(v) if isinstance(v, list) else v) for key, v in knobs.items()))
  task = ReasoningGym(dataset, frozen, partial, template)
  task.prepare()  # its own validation of the knobs speaks now, not in step 1
  return task


def _package() -> Any:
  try:
    import reasoning_gym as package
  except ImportError as error:
    raise ImportError(
      "the task reasoning_gym needs the package reasoning-gym: pip install 'jaxrl-reason[reasoning-gym]'"
    ) from error
  return package


@functools.lru_cache(maxsize=64)
def _dataset(dataset: str, knobs: tuple[tuple[str, Any], ...]) -> Any:
  return _package().create_dataset(dataset, seed=0, size=500, **_thawed(knobs))


def _entry(dataset: str, knobs: tuple[tuple[str, Any], ...], seed: int) -> dict[str, Any]:
  """The item of a seed: most data sets compute item i from seed + i, a few keep a list of them."""
  try:
    return _dataset(dataset, knobs)[seed]
  except IndexError:
    return _package().create_dataset(dataset, seed=seed, size=1, **_thawed(knobs))[0]


def _thawed(knobs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
  return {key: list(value) if isinstance(value, tuple) else value for key, value in knobs}


def _completion(answer: str) -> str:
  return f"{_OPEN}{answer}{_CLOSE}" if MARKER in answer else MARKER + answer


def _claimed(completion: str) -> str | None:
  """What stands between the last answer tags, else what follows the last marker."""
  _, tag, tail = completion.rpartition(_OPEN)
  if tag and _CLOSE in tail:
    return tail.partition(_CLOSE)[0] or None
  return after_marker(completion)
