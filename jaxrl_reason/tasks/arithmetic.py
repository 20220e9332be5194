"""Chained arithmetic, worked digit by digit: `59+63=` → `93012;56112>122`."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range, check_subset
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem

_BINDING = ("*", "+-")  # `*` binds tighter; equals go from left to right


@dataclasses.dataclass(frozen=True)
class Arithmetic(Stream):
  """Sums of `terms` numbers of `digits` digits, joined by random `operators` (of `+-*`).

  The solution of a pure sum writes each column from the right: its digits, the carry that came in, and the
  two-digit sum. Mixed chains do one operation a step, each with its columns or partial products.
  """

  terms: int = 2
  digits: int = 2
  operators: str = "+"
  name = "arithmetic"

  def __post_init__(self) -> None:
    check_range(self, "terms", 2, 9)
    check_range(self, "digits", 1, 9)
    check_subset(self, "operators", "+-*")

  def generate(self, random: np.random.Generator) -> Problem:
    low = 10 ** (self.digits - 1) if self.digits > 1 else 0
    numbers = [int(n) for n in random.integers(low, 10**self.digits, self.terms)]
    chosen = [self.operators[int(i)] for i in random.integers(len(self.operators), size=self.terms - 1)]
    expression = str(numbers[0]) + "".join(f"{op}{n}" for op, n in zip(chosen, numbers[1:], strict=True))
    if set(chosen) == {"+"}:
      work, value = sum_columns(numbers), sum(numbers)
    else:
      work, value = _reduce(numbers, chosen)
    return Problem(
      id=0,
      prompt=f"{expression}=",
      answer=str(value),
      solution=f"{work}{MARKER}{value}",
      fields={"numbers": tuple(numbers), "operators": "".join(chosen)},
    )

  def canonical(self, problem: Problem) -> str:
    """Pure sums and pure products are the same in every order of their terms."""
    if len(set(problem.fields["operators"])) == 1 and problem.fields["operators"][0] in "+*":
      return problem.fields["operators"][0].join(map(str, sorted(problem.fields["numbers"])))
    return problem.prompt


def sum_columns(numbers: list[int]) -> str:
  """Column addition: per column from the right the digits, the carry in, and the two-digit sum."""
  columns, carry = [], 0
  for place in range(max(len(str(n)) for n in numbers)):
    digits = [n // 10**place % 10 for n in numbers]
    total = sum(digits) + carry
    columns.append(f"{''.join(map(str, digits))}{carry}{total:02d}")
    carry = total // 10
  return ";".join(columns)


def _difference_columns(larger: int, smaller: int) -> str:
  """Column subtraction: per column from the right both digits, the borrow in, and the digit left."""
  columns, borrow = [], 0
  for place in range(len(str(larger))):
    top, bottom = larger // 10**place % 10, smaller // 10**place % 10
    left = (top - bottom - borrow) % 10
    columns.append(f"{top}{bottom}{borrow}{left}")
    borrow = int(top - bottom - borrow < 0)
  return ";".join(columns)


def _product_rows(left: int, right: int) -> str:
  """Long multiplication: the partial product of each digit of |right|, from the right."""
  digits = reversed(str(abs(right)))
  return ";".join(str(abs(left) * int(digit) * 10**place) for place, digit in enumerate(digits))


def _step(left: int, operator: str, right: int) -> tuple[str, int]:
  """One operation: its work and its value. Signs are settled first, columns see magnitudes."""
  if operator == "*":
    return _product_rows(left, right), left * right
  addend = right if operator == "+" else -right
  if (left >= 0) == (addend >= 0):
    return sum_columns([abs(left), abs(addend)]), left + addend
  larger, smaller = sorted((abs(left), abs(addend)), reverse=True)
  return _difference_columns(larger, smaller), left + addend


def _reduce(numbers: list[int], operators: list[str]) -> tuple[str, int]:
  """The chain, one operation at a time in the order of precedence, as `a-b:work=value` steps."""
  numbers, operators, steps = list(numbers), list(operators), []
  for level in _BINDING:
    while any(op in level for op in operators):
      at = next(i for i, op in enumerate(operators) if op in level)
      left, operator, right = numbers[at], operators.pop(at), numbers.pop(at + 1)
      work, numbers[at] = _step(left, operator, right)
      steps.append(f"{left}{operator}{right}:{work}={numbers[at]}")
  return "|".join(steps), numbers[0]
