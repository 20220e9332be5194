"""Rewards: verifiers on the host or the device, and weighted composites of named terms."""

from jaxrl_reason.reward.array import ArrayReward, array_exact_match
from jaxrl_reason.reward.composite import (
  Reward,
  RewardBatch,
  Row,
  Term,
  composite,
  format_ok,
  length_penalty,
  term,
  verified,
)
from jaxrl_reason.reward.grading import grade
from jaxrl_reason.reward.pool import Pool, Result

__all__ = [
  "ArrayReward",
  "Pool",
  "Result",
  "Reward",
  "RewardBatch",
  "Row",
  "Term",
  "array_exact_match",
  "composite",
  "format_ok",
  "grade",
  "length_penalty",
  "term",
  "verified",
]
