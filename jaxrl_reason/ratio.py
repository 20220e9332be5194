"""Importance ratios between the policy that is trained and the policy that wrote the rollouts."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxrl_reason.types import Ratio, Rollouts


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
