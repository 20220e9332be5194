"""Signals: extra forward passes by name. A part declares `needs=("name",)`; the loop computes each once."""

from jaxrl_reason.signals.reference import reference_logprobs
from jaxrl_reason.types import Signal

STANDARD: tuple[Signal, ...] = (reference_logprobs(),)
FROM_SAMPLER = ("entropy", "truncated", "state_mask")  # named arrays that every sampler attaches itself

__all__ = ["FROM_SAMPLER", "STANDARD", "reference_logprobs"]
