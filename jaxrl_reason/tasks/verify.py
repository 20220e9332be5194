"""Grading on the device: the answers of a batch as arrays, for tasks whose answer is one string."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from jaxrl_reason.text.exact import exact_match
from jaxrl_reason.text.tokenizer import Tokenizer
from jaxrl_reason.types import Problem

__all__ = ["answer_arrays", "exact_match"]


def answer_arrays(
  tokenizer: Tokenizer, problems: Sequence[Problem], width: int
) -> tuple[Int[np.ndarray, "P A"], Int[np.ndarray, "P"]]:
  """The answers as ids, right-padded to a fixed `width`, and their lengths: what `exact_match` compares to.

  Raises:
    ValueError: if an answer has more than `width` tokens, naming it.
  """
  ids = [tokenizer.encode(problem.answer) for problem in problems]
  tokens = np.full((len(ids), width), tokenizer.pad_id, np.int32)
  for row, (problem, answer) in enumerate(zip(problems, ids, strict=True)):
    if len(answer) > width:
      raise ValueError(
        f"problem {problem.id}: answer {problem.answer!r} has {len(answer)} tokens; "
        f"allowed: at most width={width}"
      )
    tokens[row, : len(answer)] = answer
  return tokens, np.array([len(answer) for answer in ids], np.int32)
