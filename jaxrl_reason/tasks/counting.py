"""Counting a letter in a string: `count b in abcb=` → `a0b1c1b2>2`."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxrl_reason.tasks.stream import Stream, check_range
from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.types import Problem


@dataclasses.dataclass(frozen=True)
class Counting(Stream):
  """How often one letter stands in a string of `length` letters, drawn from the first `letters` of a to z.

  The solution writes each letter with the count so far.
  """

  length: int = 12
  letters: int = 4
  name = "counting"

  def __post_init__(self) -> None:
    check_range(self, "length", 1, 200)
    check_range(self, "letters", 2, 26)

  def generate(self, random: np.random.Generator) -> Problem:
    alphabet = "abcdefghijklmnopqrstuvwxyz"[: self.letters]
    text = "".join(alphabet[int(i)] for i in random.integers(self.letters, size=self.length))
    wanted = alphabet[int(random.integers(self.letters))]
    steps, seen = "", 0
    for letter in text:
      seen += letter == wanted
      steps += f"{letter}{seen}"
    return Problem(
      id=0,
      prompt=f"count {wanted} in {text}=",
      answer=str(seen),
      solution=f"{steps}{MARKER}{seen}",
      fields={"text": text, "letter": wanted},
    )
