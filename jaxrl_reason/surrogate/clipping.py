"""The clipped surrogate of PPO, with its two bounds apart."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxrl_reason.ratio import ratio_of
from jaxrl_reason.types import Surrogate


def clipped_surrogate(
  log_ratio: Float[Array, "P G T"], credit: Float[Array, "P G T"], low: float, high: float
) -> Float[Array, "P G T"]:
  """Pessimistic clipped policy-gradient loss of each token.

    ℓₜ = −min(ρₜ cₜ, clip(ρₜ, 1−low, 1+high) cₜ)

  `log_ratio` in nats, `credit` in its own unit. Source: Schulman et al. 2017 (arXiv 1707.06347), eq. 7;
  unequal bounds: Yu et al. 2025 (arXiv 2503.14476), eq. 10.
  """
  ratio = ratio_of(log_ratio)
  return -jnp.minimum(ratio * credit, jnp.clip(ratio, 1.0 - low, 1.0 + high) * credit)


def importance_weighted() -> Surrogate:
  """The policy gradient itself, corrected by the ratio: ℓₜ = −ρₜ cₜ; at ρ = 1 its gradient is REINFORCE's.

  Source: Williams 1992; with the ratio, Kakade and Langford 2002.
  """

  def loss(log_ratio: Float[Array, "P G _"], credit: Float[Array, "P G _"]) -> Float[Array, "P G _"]:
    return -ratio_of(log_ratio) * credit

  return Surrogate(loss, formula="−ρ c", source="Williams 1992")


def clip(low: float, high: float) -> Surrogate:
  """PPO's clipped surrogate on [1 − low, 1 + high]. See `clipped_surrogate`."""
  if not 0 <= low <= 1:
    raise ValueError(f"clip: low={low}; allowed: 0 <= low <= 1, since the ratio is clipped to 1 - low >= 0")
  if not high >= 0:
    raise ValueError(f"clip: high={high}; allowed: high >= 0 (inf for no upper bound)")

  def loss(log_ratio: Float[Array, "P G _"], credit: Float[Array, "P G _"]) -> Float[Array, "P G _"]:
    shape = jnp.broadcast_shapes(log_ratio.shape, credit.shape)
    return clipped_surrogate(jnp.broadcast_to(log_ratio, shape), jnp.broadcast_to(credit, shape), low, high)

  def metrics(log_ratio: Float[Array, "P G _"], credit: Float[Array, "P G _"]):
    ratio = jnp.exp(log_ratio)
    return {
      "clip/low_frac": (ratio < 1.0 - low) & (credit < 0),
      "clip/high_frac": (ratio > 1.0 + high) & (credit > 0),
    }

  return Surrogate(
    loss,
    formula=f"−min(ρ c, clip(ρ, {1 - low:g}, {1 + high:g}) c)",
    metrics=metrics,
    source="Schulman et al. 2017, arXiv 1707.06347",
    off_policy_only=True,
  )
