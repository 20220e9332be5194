"""Supervised fine-tuning on given completions."""

from jaxtyping import Array, Float

from jaxrl_reason.types import Aggregate, Mean, Objective, Rollouts, Scores


def negative_log_likelihood(logprobs: Float[Array, "P G T"]) -> Float[Array, "P G T"]:
  """Cross-entropy of each given token.

    ℓₜ = −log π(yₜ | x, y₍<ₜ₎)

  Units: nats. The stop token is a token like the others. Source: maximum likelihood.
  """
  return -logprobs


def sft(aggregate: Aggregate) -> Objective:
  """Maximum likelihood of the completions; credit is not used. See `negative_log_likelihood`."""

  def loss(scores: Scores, rollouts: Rollouts, credit: Float[Array, "P G _"]):
    del credit
    per_token = negative_log_likelihood(scores.logprobs)
    mask = rollouts.mask
    return per_token, {"loss/sft": Mean((per_token * mask).sum(), mask.sum())}

  return Objective(
    weights=lambda rollouts: aggregate.weights(rollouts.mask, rollouts.weights),
    loss=loss,
    formula=f"{aggregate.formula},  ℓ = −log π(y)",
    sources=("maximum likelihood",),
  )
