r"""Answers in text: extraction (what does this completion claim?) and equivalence (is it the gold answer?).

The two never mix: extraction knows no gold answer, so it cannot hunt for it, and equivalence sees one
answer, so a list of guesses earns nothing. Numbers are compared as exact rationals.
"""

from __future__ import annotations

import re
from fractions import Fraction

MARKER = ">"  # the answer of every task of this project is what follows the last one

_PHRASE = re.compile(
  r"(?:\bthe\s+(?:final\s+)?answer\s+is\b|\b(?:final\s+)?answer\s*:)[ \t]*:?", re.IGNORECASE
)
_BOXED = re.compile(r"\\boxed\s*\{")
_TAG = re.compile(r"</?[A-Za-z_][A-Za-z0-9_]*>")
_SENTENCE_END = re.compile(r"\.(?=\s|$)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]*)?")
_LONGEST_NUMBER = 1000  # characters; longer digit strings are text


def after_marker(text: str) -> str | None:
  """What follows the last `>` up to the end; None where there is no marker or nothing behind it."""
  _, marker, answer = text.rpartition(MARKER)
  return answer if marker and answer else None


def final_answer(text: str) -> str | None:
  r"""The one answer that a completion claims, None where it claims none.

  Looks through the whole text, with no window on its tail, for `#### X`, `\boxed{X}`, `The answer is X` and
  `Answer: X`; the last of them wins. Only where none of them occurs, the text after the last `>`
  counts (tags such as `</think>` and the `<<6/2=3>>` of calculators are no markers). Source: this project.
  """
  claims = [(m.end(), _first_sentence(text[m.end() :])) for m in list(_PHRASE.finditer(text))[-1:]]
  at = text.rfind("####")
  if at >= 0:
    claims.append((at, _first_sentence(text[at + 4 :])))
  boxed = list(_BOXED.finditer(text))
  if boxed:
    claims.append((boxed[-1].end(), _balanced(text[boxed[-1].end() :])))
  if claims:
    return max(claims)[1] or None
  return _marked(text)


def equivalent(gold: str, answer: str) -> bool:
  """Whether two answers are the same: equal strings after one shared normalisation, or equal rationals.

  `1,234` = `1234` = `$1,234.00` = `1234.`; a parse consumes the whole answer, so `18 or 19` is not 18,
  and units and per cent signs are not dropped.
  """
  gold, answer = normalise(gold), normalise(answer)
  if not gold or not answer:
    return False
  if gold == answer:
    return True
  left, right = number(gold), number(answer)
  return left is not None and left == right


def normalise(answer: str) -> str:
  r"""One spelling of an answer: no emphasis, dollar sign, thin space, outer blanks or final full stop."""
  for noise in ("**", "\\$", "$", "\\,", "\\!"):
    answer = answer.replace(noise, "")
  answer = " ".join(answer.split())
  return answer.removesuffix(".").rstrip()


def number(text: str) -> Fraction | None:
  """The exact rational that all of `text` spells (`-3`, `1,234.5`, `3/4`), None where it spells none."""
  if len(text) > _LONGEST_NUMBER:
    return None
  top, slash, bottom = text.partition("/")
  parts = [top, bottom] if slash else [top]
  if not all(_NUMBER.fullmatch(part) and any(c.isdigit() for c in part) for part in parts):
    return None
  values = [Fraction(part.replace(",", "").removesuffix(".")) for part in parts]
  if slash:
    return values[0] / values[1] if values[1] else None
  return values[0]


def _first_sentence(text: str) -> str:
  """The first line up to the end of its first sentence, without emphasis; `18.5` holds no sentence end."""
  line = text.partition("\n")[0].strip()
  return _SENTENCE_END.split(line, maxsplit=1)[0].strip()


def _balanced(text: str) -> str:
  """`text` up to the brace that closes the one before it; "" where it is never closed."""
  depth = 1
  for at, char in enumerate(text):
    depth += (char == "{") - (char == "}")
    if depth == 0:
      return text[:at].strip()
  return ""


def _marked(text: str) -> str | None:
  """The answer after the last `>`, if what stands there is a marker and not a tag or a calculator."""
  at = text.rfind(MARKER)
  if at < 0 or text[:at].endswith(MARKER) or any(tag.end() == at + 1 for tag in _TAG.finditer(text)):
    return None
  return text[at + 1 :].strip() or None
