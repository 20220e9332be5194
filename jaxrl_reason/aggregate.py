"""Aggregation: the weight of each token in the loss of one optimizer step, fixed from step-wide counts."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxrl_reason.types import Aggregate


def _masked(mask: Bool[Array, "P G T"], row_weights: Float[Array, "P G"]) -> Float[Array, "P G T"]:
  return mask * row_weights[..., None]


def token_mean_weights(mask: Bool[Array, "P G T"], row_weights: Float[Array, "P G"]) -> Float[Array, "P G T"]:
  """Every token of the step weighs the same.

    wₜ = mₜ / Σ m   (0 for an empty step)

  Source: Yu et al. 2025 (arXiv 2503.14476), eq. 8.
  """
  weights = _masked(mask, row_weights)
  return weights / jnp.maximum(weights.sum(), 1.0)


def sequence_mean_weights(
  mask: Bool[Array, "P G T"], row_weights: Float[Array, "P G"]
) -> Float[Array, "P G T"]:
  """Every row weighs the same, and every token of a row the same.

    wₜ = mₜ / (|yᵢ| · P G)   (fully masked rows count in P G)

  Source: Shao et al. 2024 (arXiv 2402.03300), eq. 3.
  """
  lengths = jnp.maximum(mask.sum(-1, keepdims=True), 1)
  return _masked(mask, row_weights) / lengths / row_weights.size


def constant_length_weights(
  mask: Bool[Array, "P G T"], row_weights: Float[Array, "P G"], length: int
) -> Float[Array, "P G T"]:
  """Every token weighs the same constant, never the padded width.

    wₜ = mₜ / (C · P G)

  `length` C in tokens. Source: Liu et al. 2025 (arXiv 2503.20783), section 3.2.
  """
  return _masked(mask, row_weights) / float(length * row_weights.size)


def token_mean() -> Aggregate:
  """Mean over the tokens of the step. See `token_mean_weights`."""
  return Aggregate(token_mean_weights, "Σ ℓ / Σ tokens", "Yu et al. 2025, arXiv 2503.14476")


def sequence_mean() -> Aggregate:
  """Mean over rows of the mean over tokens. See `sequence_mean_weights`."""
  return Aggregate(sequence_mean_weights, "mean_rows(mean_tokens ℓ)", "Shao et al. 2024, arXiv 2402.03300")


def constant_length(length: int) -> Aggregate:
  """Sum over tokens by a constant length, mean over rows. See `constant_length_weights`."""
  if length < 1:
    raise ValueError(f"constant_length: length={length}; allowed: an integer >= 1, in tokens")
  return Aggregate(
    lambda mask, row_weights: constant_length_weights(mask, row_weights, length),
    f"mean_rows(Σ ℓ / {length})",
    "Liu et al. 2025, arXiv 2503.20783",
  )
