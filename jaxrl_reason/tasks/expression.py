"""Arithmetic expressions evaluated exactly by a small recursive-descent parser. Nothing is ever executed."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

_TOKEN = re.compile(r"\s*(?:([0-9]+)|([-+*/()]))")
_LONGEST = 200  # characters; bounds the depth of the recursion


class Value(NamedTuple):
  """What an expression is worth, and the numbers that it used, in order."""

  value: Fraction
  numbers: tuple[int, ...]


def evaluate(text: str) -> Value:
  """The exact value of an expression of non-negative integers, `+ - * /` and parentheses.

  Raises:
    ValueError: if the whole text is no such expression, or it divides by zero.
  """
  tokens = _tokens(text)
  value, at = _sum(tokens, 0)
  if at != len(tokens):
    raise ValueError(f"expression {text!r}: unexpected {tokens[at]!r}; allowed: an operator or the end")
  return value


def _tokens(text: str) -> list[str]:
  if len(text) > _LONGEST:
    raise ValueError(f"expression of {len(text)} characters; allowed: at most {_LONGEST}")
  tokens, at, text = [], 0, text.rstrip()
  while at < len(text):
    match = _TOKEN.match(text, at)
    if match is None:
      raise ValueError(f"expression {text!r}: unexpected {text[at]!r}; allowed: digits, + - * / ( )")
    tokens.append(match.group(1) or match.group(2))
    at = match.end()
  return tokens


def _sum(tokens: list[str], at: int) -> tuple[Value, int]:
  left, at = _product(tokens, at)
  while at < len(tokens) and tokens[at] in "+-":
    right, after = _product(tokens, at + 1)
    value = left.value + right.value if tokens[at] == "+" else left.value - right.value
    left, at = Value(value, left.numbers + right.numbers), after
  return left, at


def _product(tokens: list[str], at: int) -> tuple[Value, int]:
  left, at = _atom(tokens, at)
  while at < len(tokens) and tokens[at] in "*/":
    right, after = _atom(tokens, at + 1)
    if tokens[at] == "/" and right.value == 0:
      raise ValueError("expression divides by zero")
    value = left.value * right.value if tokens[at] == "*" else left.value / right.value
    left, at = Value(value, left.numbers + right.numbers), after
  return left, at


def _atom(tokens: list[str], at: int) -> tuple[Value, int]:
  if at < len(tokens) and tokens[at].isdigit():
    return Value(Fraction(tokens[at]), (int(tokens[at]),)), at + 1
  if at < len(tokens) and tokens[at] == "(":
    value, at = _sum(tokens, at + 1)
    if at < len(tokens) and tokens[at] == ")":
      return value, at + 1
    raise ValueError("expression lacks a closing parenthesis")
  found = repr(tokens[at]) if at < len(tokens) else "the end"
  raise ValueError(f"expression has {found} where a number or a parenthesis must stand")
