"""Importance ratios between the policy that is trained and the policy that wrote the rollouts."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxrl_reason.types import Ratio, Rollouts

EXPONENT = 20.0  # nats: the log ratio is clamped here before exp, so that no product overflows


def ratio_of(log_ratio: Float[Array, "P G T"]) -> Float[Array, "P G T"]:
  """ρ = exp(clamp(log ρ, ±20 nats)): finite, with zero gradient beyond the clamp."""
  return jnp.exp(jnp.clip(log_ratio, -EXPONENT, EXPONENT))


def token_log_ratio(
  logprobs: Float[Array, "P G T"], behaviour: Float[Array, "P G T"], mask: Bool[Array, "P G T"]
) -> Float[Array, "P G T"]:
  """Log importance ratio of each token; 0 outside the mask.

    log ρₜ = log π(yₜ | y₍<ₜ₎) − log μ(yₜ | y₍<ₜ₎)

  Units: nats. `behaviour` is the sampler's own record, its temperature and support included.
  Source: Schulman et al. 2017 (arXiv 1707.06347), eq. 6.
  """
  return jnp.where(mask, logprobs - behaviour, 0.0)


def token() -> Ratio:
  """One ratio per token. See `token_log_ratio`."""

  def log_ratio(logprobs: Float[Array, "P G T"], rollouts: Rollouts) -> Float[Array, "P G T"]:
    return token_log_ratio(logprobs, rollouts.logprobs, rollouts.mask)

  return Ratio(log_ratio, formula="ρₜ = π(yₜ)/μ(yₜ)", source="Schulman et al. 2017, arXiv 1707.06347")
