"""Kullback-Leibler divergence to a reference policy: three estimates to report, two losses to train with.

k1 is never a loss: its gradient has zero mean and trains nothing.
"""

import jax
from jaxtyping import Array, Float

from jaxrl_reason.ratio import ratio_of
from jaxrl_reason.types import Penalty, Rollouts, Scores

_NEEDS = ("reference_logprobs",)


def kl_estimates(
  logprobs: Float[Array, "P G T"], reference: Float[Array, "P G T"]
) -> dict[str, Float[Array, "P G T"]]:
  """Per-token estimates of KL(π ‖ π_ref) from tokens that π drew, in nats.

    k1 = log π − log π_ref,   k2 = k1² / 2,   k3 = e^(−k1) − 1 + k1

  k1 is unbiased and may be negative; k2 and k3 are non-negative; k3 is unbiased as a value.
  Source: Schulman 2020, "Approximating KL divergence".
  """
  k1 = logprobs - reference
  return {"k1": k1, "k2": 0.5 * k1**2, "k3": ratio_of(-k1) - 1.0 + k1}


def unbiased_kl_loss(
  logprobs: Float[Array, "P G T"], reference: Float[Array, "P G T"], behaviour: Float[Array, "P G T"]
) -> Float[Array, "P G T"]:
  """A loss whose expected gradient is that of KL(π ‖ π_ref) at each visited state.

    ℓₜ = sg(ρₜ) · k2ₜ,   ∇ℓₜ = ρₜ · (log π − log π_ref) ∇ log π,   ρ = π/μ

  The value is k2 weighted by ρ, in nats. Departure: the effect of a token on later states is left to the
  credit, as in every per-token penalty. Source: this project, from the score-function identity.
  """
  weight = jax.lax.stop_gradient(ratio_of(logprobs - behaviour))
  return weight * kl_estimates(logprobs, reference)["k2"]


def _check(coefficient: float) -> None:
  if not 0 < coefficient < float("inf"):
    raise ValueError(f"KL penalty: coefficient={coefficient}; allowed: a finite number > 0 (or no penalty)")


def kl(coefficient: float) -> Penalty:
  """KL to the reference with unbiased gradient. See `unbiased_kl_loss`."""
  _check(coefficient)

  def loss(scores: Scores, rollouts: Rollouts) -> Float[Array, "P G T"]:
    return unbiased_kl_loss(scores.logprobs, rollouts["reference_logprobs"], rollouts.logprobs)

  return Penalty("kl", coefficient, loss, formula="sg(ρ)·k2(π‖π_ref)", needs=_NEEDS)


def kl_k3(coefficient: float) -> Penalty:
  """KL to the reference by the k3 estimate, as GRPO has it. See `kl_estimates`; its gradient is biased."""
  _check(coefficient)

  def loss(scores: Scores, rollouts: Rollouts) -> Float[Array, "P G T"]:
    return kl_estimates(scores.logprobs, rollouts["reference_logprobs"])["k3"]

  source = "Shao et al. 2024, arXiv 2402.03300, eq. 4"
  return Penalty("kl_k3", coefficient, loss, formula="k3(π‖π_ref)", needs=_NEEDS, source=source)
