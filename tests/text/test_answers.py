"""Extraction and equivalence, each alone."""

import random
from fractions import Fraction

import pytest

from jaxrl_reason.text.answers import after_marker, equivalent, final_answer, number


@pytest.mark.parametrize(
  ("text", "answer"),
  [
    ("93012;56112>122", "122"),
    (">122", "122"),
    ("1>2>3", "3"),
    (">a b\n", "a b\n"),
    ("122", None),
    ("122>", None),
    ("", None),
  ],
)
def test_after_marker(text, answer):
  assert after_marker(text) == answer


@pytest.mark.parametrize(
  ("text", "answer"),
  [
    ("12+3=15\n#### 15", "15"),
    ("#### 15.", "15"),
    ("#### 15.5", "15.5"),
    ("#### 1\n#### 2", "2"),
    (r"so \boxed{\frac{1}{2}} it is", r"\frac{1}{2}"),
    (r"\boxed{1} or \boxed{2}", "2"),
    (r"\boxed{1", None),
    ("The answer is 7.", "7"),
    ("The final answer is: **7**", "**7**"),
    ("the answer is 7. No, the answer is 8. Surely", "8"),
    ("Answer: 7\nAnswer: 9", "9"),
    (r"Answer: 7 and then \boxed{8}", "8"),
    (r"\boxed{8} and then Answer: 7", "7"),
    ("work>7", "7"),
    ("work>7 apples", "7 apples"),
    ("#### 3 but >7", "3 but >7"),
    ("6/2=<<6/2=3>>3 litres", None),
    ("<think>hm</think>", None),
    ("<think>hm</think>7", None),
    ("answers 1, 2, 3", None),
    ("I considered 7, 8 and 9 but none.", None),
    ("The answer is", None),
    ("", None),
  ],
)
def test_final_answer(text, answer):
  assert final_answer(text) == answer


@pytest.mark.case(37)
def test_case_37_the_whole_text_is_searched():
  """Case 37: 600 and 60,000 more characters change nothing."""
  for more in (600, 60_000):
    for answer in ("#### 42\n", "Answer: 42\n", r"\boxed{42}", "The answer is 42. "):
      assert final_answer(answer + "x" * more) == "42"


@pytest.mark.parametrize(
  ("gold", "answer"),
  [
    ("18", "18."),
    ("18", "$18"),
    ("18", "18.0"),
    ("18", "**18**"),
    ("1,234", "1234"),
    ("1234", "1,234.00"),
    ("1000", r"1\,000"),
    ("0.5", "1/2"),
    ("0.5", ".5"),
    ("-3", "-3.0"),
    ("+3", "3"),
    ("6/4", "3/2"),
    ("yes", " yes "),
    ("0.1", "1/10"),
  ],
)
def test_equal_answers(gold, answer):
  assert equivalent(gold, answer)
  assert equivalent(answer, gold)
  assert equivalent(gold, gold)


@pytest.mark.parametrize(
  ("gold", "answer"),
  [
    ("28", "28%"),
    ("18", "18 or 19"),
    ("18", "118"),
    ("18", "1 8"),
    ("18", "18,"),
    ("1234", "12,34"),
    ("123", "1,23"),
    ("1/3", "0.333333"),
    ("18", "eighteen"),
    ("18", ""),
    ("", ""),
    ("1", "1/0"),
    ("9", "7, 8, 9"),
    ("18", "18 18"),
    ("4", "٤"),
    ("100", "1e2"),
    ("C", "B"),
  ],
)
def test_different_answers(gold, answer):
  assert not equivalent(gold, answer)
  assert not equivalent(answer, gold)


def test_numbers_are_exact_rationals():
  """Random rationals in three spellings; floats would merge the last two."""
  draw = random.Random(0)
  for _ in range(200):
    top, places = draw.randrange(-(10**12), 10**12), draw.randrange(8)
    value = Fraction(top, 10**places)
    sign, digits = "-" * (top < 0), str(abs(top)).rjust(places + 1, "0")
    whole, rest = (digits[:-places], digits[-places:]) if places else (digits, "")
    assert number(f"{sign}{whole}.{rest}") == value
    assert number(f"{sign}{int(whole):,}.{rest}") == value
    assert number(f"{top}/{10**places}") == value
  assert number("0.1000000000000000000001") != number("0.1")


@pytest.mark.parametrize(
  "text", [".", "-", "+-1", "1.2.3", "1/2/3", "1/", "/2", ",1", "1,2345", "--1", "9" * 5000]
)
def test_what_is_no_number(text):
  assert number(text) is None
