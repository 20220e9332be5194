"""Countdown: reach a target with given numbers, each used once.

`make 36 of 3 5 7=` → `5+7=12;3*12=36>3*(5+7)`.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from jaxrl_reason.tasks.expression import evaluate
from jaxrl_reason.tasks.stream import Stream, check_range, check_subset
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_LARGEST_STEP = 999  # intermediate values stay short


class _Part(NamedTuple):
  value: int
  text: str
  operator: str  # the outermost one, "" for a number


@dataclasses.dataclass(frozen=True)
class Countdown(Stream):
  """`count` numbers of 1 to `largest`; any valid expression that uses each once and hits the target is right.

  The reference solution keeps to positive integers at every step; answers may pass through fractions.
  """

  count: int = 3
  largest: int = 10
  target_largest: int = 50
  operators: str = "+-*/"
  name = "countdown"
  exact = False

  def __post_init__(self) -> None:
    check_range(self, "count", 2, 6)
    check_range(self, "largest", 2, 999)
    check_range(self, "target_largest", 2, 999)
    check_subset(self, "operators", "+-*/")

  def generate(self, random: np.random.Generator) -> Problem | None:
    numbers = [int(n) for n in random.integers(1, self.largest + 1, self.count)]
    parts, steps = [_Part(n, str(n), "") for n in numbers], []
    while len(parts) > 1:
      left, right = (parts.pop(int(random.integers(len(parts)))) for _ in range(2))
      joined = _join(left, self.operators[int(random.integers(len(self.operators)))], right)
      if joined is None:
        return None
      steps.append(f"{left.value}{joined.operator}{right.value}={joined.value}")
      parts.append(joined)
    target, answer = parts[0].value, parts[0].text
    if target > self.target_largest or target in numbers:
      return None
    return Problem(
      id=0,
      prompt=f"make {target} of {' '.join(map(str, numbers))}=",
      answer=answer,
      solution=f"{';'.join(steps)}{MARKER}{answer}",
      fields={"numbers": tuple(numbers), "target": target},
    )

  def canonical(self, problem: Problem) -> str:
    """The target and the multiset of numbers."""
    return f"{problem.fields['target']} of {sorted(problem.fields['numbers'])}"

  def accepts(self, problem: Problem, answer: str) -> bool:
    try:
      value, used = evaluate(answer)
    except ValueError:
      return False
    return value == problem.fields["target"] and sorted(used) == sorted(problem.fields["numbers"])


def _join(left: _Part, operator: str, right: _Part) -> _Part | None:
  """Two parts in one, None where the value is no positive integer or too large."""
  a, b = left.value, right.value
  if operator == "/" and a % b:
    return None
  value = {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[operator]
  if not 0 < value <= _LARGEST_STEP:
    return None
  return _Part(value, _side(left, operator, False) + operator + _side(right, operator, True), operator)


def _side(part: _Part, operator: str, is_right: bool) -> str:
  """The text of an operand, in parentheses where precedence asks for them."""
  weak = part.operator in ("+", "-") and operator in ("*", "/")
  undone = is_right and (
    (operator == "-" and part.operator in ("+", "-")) or (operator == "/" and part.operator)
  )
  return f"({part.text})" if weak or undone else part.text
