"""Policies: one interface `Policy(sample, logp)` for every kind of generator."""

from jaxrl_reason.policy.autoregressive import autoregressive

__all__ = ["autoregressive"]
