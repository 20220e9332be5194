"""Verification on the device: reward as a function of arrays, so that a whole step is one program."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Array, Float, Int

from jaxrl_reason.text.answers import MARKER
from jaxrl_reason.text.exact import exact_match
from jaxrl_reason.text.tokenizer import Tokenizer
from jaxrl_reason.types import Rollouts

_PROBE = "59+63= the answer >122"

ArrayReward = Callable[[Rollouts, Int[Array, "P A"], Int[Array, "P"]], Float[Array, "P G"]]


def array_exact_match(tokenizer: Tokenizer, weight: float = 1.0) -> ArrayReward:
  """`reward(rollouts, answer, answer_length) → [P, G]`: `weight` where the answer is exactly right, else 0.

  Equal to the host grade for tasks with `exact = True`. `tasks.answer_arrays` makes the two arrays.

  Raises:
    ValueError: for a tokenizer that does not work byte by byte: one text then has many spellings in tokens.
  """
  if len(tokenizer.encode(_PROBE)) != len(_PROBE.encode()):
    raise ValueError(
      f"array_exact_match: {type(tokenizer).__name__} merges bytes into longer tokens; "
      f"allowed: a byte-level tokenizer such as ByteTokenizer, or reward.verified() on the host"
    )
  (marker,) = tokenizer.encode(MARKER)
  stop_ids, special_ids = tokenizer.stop_ids, tokenizer.special_ids

  def reward(rollouts: Rollouts, answer: Int[Array, "P A"], length: Int[Array, "P"]) -> Float[Array, "P G"]:
    found = exact_match(rollouts.completion, rollouts.length, answer, length, marker, stop_ids, special_ids)
    return weight * found

  return reward
