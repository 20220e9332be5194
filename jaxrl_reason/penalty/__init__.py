"""Penalties: terms added to the surrogate, per token, with a coefficient."""

from jaxrl_reason.penalty.kl import kl, kl_estimates, kl_k3, unbiased_kl_loss

__all__ = ["kl", "kl_estimates", "kl_k3", "unbiased_kl_loss"]
