"""The only place that joins ratio, surrogate, penalties and aggregate into a policy-gradient objective."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxrl_reason.penalty import kl_estimates
from jaxrl_reason.types import (
  Aggregate,
  Max,
  Mean,
  Metrics,
  Min,
  Objective,
  Penalty,
  Ratio,
  Rollouts,
  Scores,
  Surrogate,
)


def _masked_mean(x: Array, mask: Bool[Array, "P G T"]) -> Mean:
  return Mean(jnp.where(mask, x, 0.0).sum(), mask.sum())


def _ratio_metrics(log_ratio: Float[Array, "P G T"], mask: Bool[Array, "P G T"]) -> Metrics:
  ratio = jnp.exp(log_ratio)
  return {
    "ratio/mean": _masked_mean(ratio, mask),
    "ratio/max": Max(jnp.where(mask, ratio, -jnp.inf).max()),
    "ratio/min": Min(jnp.where(mask, ratio, jnp.inf).min()),
  }


def _mismatch(scores: Scores, rollouts: Rollouts) -> Metrics:
  """How far the scorer is from the sampler's own record; before the first update: rounding, or a fault."""
  mask = rollouts.mask
  log_ratio = jnp.where(mask, scores.logprobs - rollouts.logprobs, 0.0)
  return {
    "mismatch/k1": Mean(-log_ratio.sum(), mask.sum()),
    "mismatch/k3": Mean((jnp.exp(log_ratio) - 1.0 - log_ratio).sum(), mask.sum()),
    "mismatch/max_abs": Max(jnp.abs(log_ratio).max()),
  }


def policy_gradient(
  ratio: Ratio, surrogate: Surrogate, penalties: tuple[Penalty, ...], aggregate: Aggregate
) -> Objective:
  """L = Σₜ wₜ · (surrogate(ρₜ, cₜ) + Σₖ βₖ penaltyₖ,ₜ), the weights w fixed by `aggregate` for the step.

  Credit carries no gradient (stopped here, once). Tokens outside the mask contribute exactly 0.
  """

  def loss(scores: Scores, rollouts: Rollouts, credit: Float[Array, "P G _"]):
    mask = rollouts.mask
    credit = jnp.broadcast_to(jax.lax.stop_gradient(credit), mask.shape)
    log_ratio = jnp.broadcast_to(ratio.log_ratio(scores.logprobs, rollouts), mask.shape)
    parts = {"surrogate": (1.0, surrogate.loss(log_ratio, credit))}
    parts |= {p.name: (p.coefficient, p.loss(scores, rollouts)) for p in penalties}
    total = sum(jnp.where(mask, coefficient * part, 0.0) for coefficient, part in parts.values())

    metrics: Metrics = {f"loss/{name}": _masked_mean(part, mask) for name, (_, part) in parts.items()}
    metrics |= _ratio_metrics(log_ratio, mask) | _mismatch(scores, rollouts)
    metrics |= {k: _masked_mean(v, mask) for k, v in surrogate.metrics(log_ratio, credit).items()}
    if "reference_logprobs" in rollouts.marks:
      estimates = kl_estimates(scores.logprobs, rollouts["reference_logprobs"])
      metrics |= {f"kl_ref/{name}": _masked_mean(k, mask) for name, k in estimates.items()}
    return total, metrics

  def warnings(updates_per_batch: int) -> tuple[str, ...]:
    if surrogate.off_policy_only and updates_per_batch == 1:
      return (
        f"the surrogate {surrogate.formula} cannot clip: with one update per batch the ratio is 1; "
        "set updates.epochs or updates.minibatches above 1 for it to act",
      )
    return ()

  beta = "".join(f" + {p.coefficient:g}·{p.formula}" for p in penalties)
  names = [p.name for p in penalties]
  if len(set(names)) != len(names):
    raise ValueError(f"penalties={names}: a name stands twice; allowed: each penalty once")
  if not all(math.isfinite(p.coefficient) for p in penalties):
    raise ValueError(f"penalties={penalties}: coefficients must be finite")
  parts: tuple[Ratio | Surrogate | Penalty, ...] = (ratio, surrogate, *penalties)
  return Objective(
    weights=lambda rollouts: aggregate.weights(rollouts.mask, rollouts.weights),
    loss=loss,
    formula=f"{aggregate.formula},  ℓ = {surrogate.formula}{beta},  {ratio.formula}",
    needs=tuple(dict.fromkeys(n for part in parts for n in part.needs)),
    sources=tuple(
      dict.fromkeys(s for s in (*(p.source for p in parts), aggregate.source) if s != "this project")
    ),
    warnings=warnings,
  )
