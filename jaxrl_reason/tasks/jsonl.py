"""The user's own problems: JSONL files of questions and answers."""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
import string
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from jaxrl_reason.tasks.stream import CORRECT, FORMAT, WRONG, check_split, content_id, split_of
from jaxrl_reason.text.answers import MARKER, equivalent, final_answer, normalise
from jaxrl_reason.types import Grade, Problem, Split, nearest

_GOLD = "####"  # where a data set writes the reasoning before the answer


@dataclasses.dataclass(frozen=True, eq=False)
class JsonLines:
  """Problems in memory, by split; `fields` hold the whole row. `skipped` counts the bad lines left out."""

  name: str
  problems: Mapping[Split, tuple[Problem, ...]] = dataclasses.field(repr=False)
  content: tuple[str, ...] = ("question",)  # the fields that the prompt shows: splits are disjoint by them
  skipped: int = 0
  exact = False
  slow = False

  def problem(self, split: Split, index: int) -> Problem:
    problems = self._split(split)
    if not 0 <= index < len(problems):
      allowed = f"0 to {len(problems) - 1}" if problems else "nothing, the split is empty"
      raise IndexError(f"{self.name}: index is {index} in split {split!r}; allowed: {allowed}")
    return problems[index]

  def size(self, split: Split) -> int | None:
    return len(self._split(split))

  def canonical(self, problem: Problem) -> str:
    return _content(problem.fields, self.content)

  def direct(self, problem: Problem) -> str:
    """The completion that gives the answer at once."""
    return MARKER + problem.answer

  def grade(self, problem: Problem, completion: str) -> Grade:
    """Numeric equivalence of the one final answer; format where the completion claims none."""
    answer = final_answer(completion)
    if answer is None:
      return FORMAT
    return CORRECT if equivalent(problem.answer, answer) else WRONG

  def _split(self, split: Split) -> tuple[Problem, ...]:
    check_split(split)
    if split not in self.problems:
      raise ValueError(f"{self.name}: no file was given for split {split!r}; {nearest(split, self.problems)}")
    return self.problems[split]


def jsonl(
  path: str | Mapping[str, str],
  *,
  question: str = "question",
  answer: str = "answer",
  template: str = "{question}\n",
  on_bad: Literal["error", "skip"] = "error",
  name: str = "jsonl",
) -> JsonLines:
  """Problems from JSONL: one file split by content (8:1:1), or a file for each split.

  Args:
    path: the file, or a mapping such as `{"train": ..., "test": ...}`.
    question: field of the question; a template finds it as `{question}` whatever its name.
    answer: field of the answer (text or number). Text before a last `####` is kept as the solution.
    template: the prompt, with any field of the row in braces.
    on_bad: `"error"` stops at the first bad line; `"skip"` drops bad lines, counts and logs them.
    name: the task's name in logs.

  Raises:
    ValueError: naming file, line and field, for a line that is broken or lacks what is needed; for a data
      set or file without any problem; for an unknown split or template field.
  """
  if on_bad not in ("error", "skip"):
    raise ValueError(f"jsonl: on_bad is {on_bad!r}; {nearest(on_bad, ('error', 'skip'))}")
  files = {"": path} if isinstance(path, str) else dict(path)
  if not files:
    raise ValueError("jsonl: path is an empty mapping; allowed: one file, or a file for each split")
  layout = _Layout(question, answer, template)
  if not layout.content():
    raise ValueError(f"jsonl: template is {template!r}; allowed: a text with a field, such as '{{question}}'")
  problems: dict[Split, list[Problem]] = {
    s: [] for s in get_args(Split) if isinstance(path, str) or s in files
  }
  skipped = 0
  for split, file in files.items():
    if split:
      check_split(split)
    read, bad = _read(file, layout, on_bad)
    skipped += bad
    for problem in read:
      problems[split or split_of(_content(problem.fields, layout.content()))].append(problem)  # type: ignore[index]
  _warn_about_overlap(name, problems)
  return JsonLines(name, {s: tuple(rows) for s, rows in problems.items()}, layout.content(), skipped)


class _Layout(NamedTuple):
  question: str
  answer: str
  template: str

  def content(self) -> tuple[str, ...]:
    """The fields that the template shows, under their names in the file."""
    shown = [field for _, field, _, _ in string.Formatter().parse(self.template) if field is not None]
    return tuple(self.question if field == "question" else field for field in shown)


class _BadLine(ValueError):
  pass


def _read(path: str, layout: _Layout, on_bad: str) -> tuple[list[Problem], int]:
  """The problems of one file and the number of bad lines."""
  problems, bad = [], []
  for line_number, line in enumerate(pathlib.Path(path).read_bytes().splitlines(), start=1):
    if not line.strip():
      continue
    try:
      problems.append(_problem(line, layout))
    except _BadLine as error:
      if on_bad == "error":
        raise ValueError(f"{path}:{line_number}: {error}") from None
      bad.append(f"{path}:{line_number}: {error}")
  if not problems:
    raise ValueError(
      f"{path} holds no problem; " + (f"first bad line: {bad[0]}" if bad else "it has no line")
    )
  if bad:
    logging.getLogger(__name__).warning("%s: skipped %d bad lines; first: %s", path, len(bad), bad[0])
  return problems, len(bad)


def _problem(line: bytes, layout: _Layout) -> Problem:
  row = _row(line)
  question, answer = _text(row, layout.question), _text(row, layout.answer)
  reasoning, marker, gold = answer.rpartition(_GOLD)
  gold = gold.strip()
  if not normalise(gold):
    raise _BadLine(
      f"field {layout.answer!r} is {answer!r}; allowed: text with an answer after the last {_GOLD}"
    )
  prompt = _fill(layout.template, {**row, "question": question})
  solution = reasoning + marker + " " + gold if marker else ""
  if solution and not equivalent(gold, final_answer(solution) or ""):
    raise _BadLine(f"field {layout.answer!r} is {answer!r}; allowed: one line of answer after {_GOLD}")
  return Problem(content_id(_content(row, layout.content())), prompt, gold, solution, row)


def _row(line: bytes) -> dict[str, Any]:
  try:
    row = json.loads(line.decode("utf-8"))
  except ValueError as error:
    raise _BadLine(f"broken JSON ({error}); allowed: one object on each line") from None
  if not isinstance(row, dict):
    raise _BadLine(f"the line holds a {type(row).__name__}; allowed: one object on each line")
  return row


def _text(row: dict[str, Any], field: str) -> str:
  """A required field as text."""
  if field not in row:
    raise _BadLine(f"field {field!r} is missing; the line has these fields, {nearest(field, row)}")
  value = row[field]
  if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
    raise _BadLine(f"field {field!r} is {value!r}; allowed: a text that is not empty, or a number")
  return str(value)


def _fill(template: str, row: dict[str, Any]) -> str:
  for _, field, _, _ in string.Formatter().parse(template):
    if field is not None and field not in row:
      raise _BadLine(f"template {template!r} asks for the field {field!r}; {nearest(field, row)}")
  return template.format(**row)


def _content(row: Mapping[str, Any], fields: tuple[str, ...]) -> str:
  """What a problem is about, whatever words the template puts around it."""
  return "|".join(str(row[field]) for field in fields)


def _warn_about_overlap(name: str, problems: Mapping[Split, list[Problem]]) -> None:
  """Files given for several splits may share questions: said once, with the count."""
  owner: dict[int, str] = {}
  shared = 0
  for split in get_args(Split):
    for problem in problems.get(split, ()):
      shared += owner.setdefault(problem.id, split) != split
  if shared:
    logging.getLogger(__name__).warning("%s: %d questions stand in more than one split", name, shared)
