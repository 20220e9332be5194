"""Arithmetic in number words of three languages: `words two plus three=` → `2+3=5>five`."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxrl_reason.tasks.number_words import MINUS, NAMES, PLUS, START
from jaxrl_reason.tasks.stream import Stream, check_range, check_subset
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem


@dataclasses.dataclass(frozen=True)
class NumberWords(Stream):
  """Sums and differences within 0 to `largest`, in a random one of `languages` (en, hi, mr).

  Splits are disjoint across languages: a sum of the train split is a test sum in none of them. The solution
  goes through digits. Devanagari takes three bytes a letter: allow about 100 bytes of prompt.
  """

  languages: tuple[str, ...] = ("en",)
  largest: int = 99
  operators: str = "+-"
  name = "number_words"

  def __post_init__(self) -> None:
    check_subset(self, "languages", tuple(NAMES))
    check_range(self, "largest", 4, 99)
    check_subset(self, "operators", "+-")

  def generate(self, random: np.random.Generator) -> Problem | None:
    language = self.languages[int(random.integers(len(self.languages)))]
    left, right = (int(n) for n in random.integers(self.largest + 1, size=2))
    operator = self.operators[int(random.integers(len(self.operators)))]
    value = left + right if operator == "+" else left - right
    if not 0 <= value <= self.largest:
      return None
    names = NAMES[language]
    joiner = (PLUS if operator == "+" else MINUS)[language]
    return Problem(
      id=0,
      prompt=f"{START[language]} {names[left]} {joiner} {names[right]}=",
      answer=names[value],
      solution=f"{left}{operator}{right}={value}{MARKER}{names[value]}",
      fields={"language": language, "left": left, "right": right, "operator": operator},
    )

  def canonical(self, problem: Problem) -> str:
    """The sum in digits, the same in every language and order of its terms."""
    left, right = problem.fields["left"], problem.fields["right"]
    if problem.fields["operator"] == "+":
      left, right = sorted((left, right))
    return f"{left}{problem.fields['operator']}{right}"
