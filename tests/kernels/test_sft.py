"""Supervised loss: a loop, and the counts it is divided by."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_reason import aggregate, losses
from jaxrl_reason.types import Scores
from tests.fixtures import rollouts


def test_sft_is_the_mean_negative_log_likelihood_of_the_tokens():
  batch = rollouts()
  objective = losses.sft(aggregate.token_mean())
  scores = Scores(batch.logprobs, jnp.zeros_like(batch.logprobs))
  per_token, metrics = objective.loss(scores, batch, jnp.zeros((3, 4, 1)))
  want = [-float(x) for x, keep in zip(batch.logprobs.ravel(), batch.mask.ravel(), strict=True) if keep]
  np.testing.assert_allclose((per_token * objective.weights(batch)).sum(), np.mean(want), rtol=1e-6)
  np.testing.assert_allclose(metrics["loss/sft"].sum / metrics["loss/sft"].count, np.mean(want), rtol=1e-6)


def test_sft_gradient_does_not_depend_on_credit_or_rewards():
  batch = rollouts()
  objective = losses.sft(aggregate.sequence_mean())

  def loss(x, credit):
    return (objective.loss(Scores(x, x), batch, credit)[0] * objective.weights(batch)).sum()

  one = jax.grad(loss)(batch.logprobs, jnp.zeros((3, 4, 1)))
  two = jax.grad(loss)(batch.logprobs, jnp.full((3, 4, 1), 1e3))
  np.testing.assert_array_equal(one, two)
  np.testing.assert_allclose(one, -objective.weights(batch), rtol=1e-6)
