"""Group-relative credit: centring, scaling by the spread, leave-one-out.

The kernels see one group: `credit [G, N]` with weights `[G, N]` (0 = a dropped rollout or a token outside the
completion); N is 1 for outcome credit, T for token credit. A uniform group (max − min ≤ 1e-6) gets exactly 0.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxrl_reason.types import Rollouts, Transform

UNIFORM = 1e-6  # spread, in units of the reward, up to which a group carries no signal


def _mean(x: Float[Array, "G N"], weight: Float[Array, "G N"]) -> Float[Array, "1 N"]:
  count = weight.sum(0, keepdims=True)
  return (x * weight).sum(0, keepdims=True) / jnp.maximum(count, 1.0)


def _is_uniform(x: Float[Array, "G N"], weight: Float[Array, "G N"]) -> Array:
  high = jnp.where(weight > 0, x, -jnp.inf).max(0, keepdims=True)
  low = jnp.where(weight > 0, x, jnp.inf).min(0, keepdims=True)
  return high - low <= UNIFORM  # an empty column: -inf - inf, uniform


def center(credit: Float[Array, "G N"], weight: Float[Array, "G N"]) -> Float[Array, "G N"]:
  """Subtracts the mean of the group.

    cᵢ ← rᵢ − (1/n) Σⱼ rⱼ   over the n rows with weight 1

  Units of the reward. A uniform group and dropped rows give exactly 0. Source: Shao et al. 2024
  (arXiv 2402.03300), eq. 3, numerator; alone: Liu et al. 2025 (arXiv 2503.20783).
  """
  centred = credit - _mean(credit, weight)
  return jnp.where(_is_uniform(credit, weight), 0.0, centred) * (weight > 0)


def scale_by_std(
  credit: Float[Array, "G N"], weight: Float[Array, "G N"], epsilon: float
) -> Float[Array, "G N"]:
  """Divides by the population standard deviation of the group.

    cᵢ ← cᵢ / (σ + ε),   σ² = (1/n) Σⱼ (cⱼ − c̄)²

  Dimensionless. A uniform group gives exactly 0 for any ε.
  Source: Shao et al. 2024 (arXiv 2402.03300), eq. 3.
  """
  deviation = credit - _mean(credit, weight)
  std = jnp.sqrt(_mean(deviation**2, weight))
  uniform = _is_uniform(credit, weight)
  return jnp.where(uniform, 0.0, credit / jnp.where(uniform, 1.0, std + epsilon)) * (weight > 0)


def subtract_others_mean(credit: Float[Array, "G N"], weight: Float[Array, "G N"]) -> Float[Array, "G N"]:
  """Subtracts from each row the mean of the other rows.

    cᵢ ← rᵢ − (1/(n−1)) Σⱼ≠ᵢ rⱼ  =  n/(n−1) · (rᵢ − r̄)

  Units of the reward; unbiased, since the baseline does not depend on row i. A single row gives 0.
  Source: Kool et al. 2019; Ahmadian et al. 2024 (arXiv 2402.14740), eq. 6.
  """
  count = weight.sum(0, keepdims=True)
  return center(credit, weight) * jnp.where(count > 1, count / jnp.maximum(count - 1, 1.0), 0.0)


def _weights(credit: Float[Array, "P G _"], rollouts: Rollouts) -> Float[Array, "P G _"]:
  """Row weights, and for token credit the mask as well."""
  rows = jnp.broadcast_to(rollouts.weights[..., None], credit.shape)
  return rows * rollouts.mask if credit.shape[-1] > 1 else rows


def _by_group(kernel, formula: str, source: str) -> Transform:
  def update(credit: Float[Array, "P G _"], state: None, rollouts: Rollouts):
    return jax.vmap(kernel)(credit, _weights(credit, rollouts)), state

  return Transform(init=lambda: None, update=update, formula=formula, source=source, group_at_least=2)


def center_by_group() -> Transform:
  """Credit minus its group's mean. See `center`."""
  return _by_group(center, "c − mean_G(c)", "Shao et al. 2024, arXiv 2402.03300")


def scale_by_group_std(epsilon: float = 1e-6) -> Transform:
  """Credit over its group's population standard deviation. See `scale_by_std`."""
  if not 0 <= epsilon < float("inf"):
    raise ValueError(f"scale_by_group_std: epsilon={epsilon}; allowed: a finite number >= 0")
  return _by_group(
    lambda credit, weight: scale_by_std(credit, weight, epsilon),
    f"c / (std_G(c) + {epsilon:g})",
    "Shao et al. 2024, arXiv 2402.03300",
  )


def leave_one_out() -> Transform:
  """Credit minus the mean of the other rows of its group. See `subtract_others_mean`."""
  return _by_group(subtract_others_mean, "c − mean_{G∖i}(c)", "Ahmadian et al. 2024, arXiv 2402.14740")
