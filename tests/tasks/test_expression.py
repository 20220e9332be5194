"""The evaluator against random trees whose value is computed while they are written."""

import random
from fractions import Fraction

import pytest

from jaxrl_reason.tasks.expression import evaluate


def tree(draw, depth):
  """Text (parentheses around every node), value and numbers of a random expression."""
  if depth == 0 or draw.random() < 0.2:
    n = draw.randrange(20)
    return str(n), Fraction(n), [n]
  left, right = tree(draw, depth - 1), tree(draw, depth - 1)
  op = draw.choice("+-*/" if right[1] else "+-*")
  a, b = left[1], right[1]
  value = a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else a / b
  return f"({left[0]}{op}{right[0]})", value, left[2] + right[2]


def test_random_trees():
  draw = random.Random(0)
  for _ in range(300):
    text, value, numbers = tree(draw, 4)
    if len(text) <= 200:
      assert evaluate(text) == (value, tuple(numbers))


@pytest.mark.parametrize(
  ("text", "value"),
  [("2-3-4", -5), ("2+3*4", 14), ("12/3/2", 2), ("2-3*4+10/5", -8), ("((7))", 7), (" 1 + 2 ", 3)],
)
def test_precedence_and_associativity(text, value):
  assert evaluate(text).value == value


@pytest.mark.parametrize(
  "text",
  [
    "",
    "1+",
    "+1",
    "-1",
    "(1",
    "1)",
    "1 2",
    "2(3)",
    "1/0",
    "1/(2-2)",
    "1.5",
    "a",
    "1=1",
    "2**3",
    "²",
    "1//2",
    "()",
  ],
)
def test_anything_else_is_refused(text):
  with pytest.raises(ValueError):
    evaluate(text)


def test_pathological_input_is_refused_quickly():
  for text in ("(" * 100_000, "1+" * 100_000 + "1", "9" * 100_000):
    with pytest.raises(ValueError, match="allowed: at most 200"):
      evaluate(text)
  assert evaluate("(" * 90 + "1" + ")" * 90).value == 1
