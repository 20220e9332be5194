"""Ratio, surrogate, penalties and aggregates: worked numbers, loops, reductions, enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason import aggregate, penalty, ratio, surrogate
from jaxrl_reason.objective import policy_gradient
from jaxrl_reason.types import Scores
from tests.fixtures import new_logprobs, pad_width, rollouts

AGGREGATES = {
  "token_mean": aggregate.token_mean(),
  "sequence_mean": aggregate.sequence_mean(),
  "constant_length": aggregate.constant_length(11),
}
PENALTIES = {"none": (), "kl": (penalty.kl(0.1),), "kl_k3": (penalty.kl_k3(0.1),)}


def scalar_loss(objective, logprobs, batch, credit):
  scores = Scores(logprobs, jnp.zeros_like(logprobs))
  per_token, metrics = objective.loss(scores, batch, credit)
  return (per_token * objective.weights(batch)).sum(), metrics


def loop_loss(batch, logprobs, credit, low, high, beta, name):
  """The same loss, written as loops over rows and tokens in float64."""
  total, rows = 0.0, batch.rewards.size
  tokens = int(np.asarray(batch.length).sum())
  for p in range(batch.rewards.shape[0]):
    for g in range(batch.rewards.shape[1]):
      length = int(batch.length[p, g])
      for t in range(length):
        new, old = float(logprobs[p, g, t]), float(batch.logprobs[p, g, t])
        reference, c = float(batch["reference_logprobs"][p, g, t]), float(credit[p, g, 0])
        rho = np.exp(new - old)
        loss = -min(rho * c, min(max(rho, 1 - low), 1 + high) * c)
        loss += beta * (np.exp(reference - new) - 1 - (reference - new))
        weight = {
          "token_mean": 1 / tokens,
          "sequence_mean": 1 / length / rows,
          "constant_length": 1 / 11 / rows,
        }
        total += weight[name] * loss
  return total


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("seed", [0, 1])
def test_objective_equals_loops(name, seed):
  batch = rollouts(seed)
  logprobs, credit = new_logprobs(batch, seed), batch.rewards[..., None]
  objective = policy_gradient(
    ratio.token(), surrogate.clip(0.1, 0.3), (penalty.kl_k3(0.2),), AGGREGATES[name]
  )
  got, metrics = scalar_loss(objective, logprobs, batch, credit)
  np.testing.assert_allclose(got, loop_loss(batch, logprobs, credit, 0.1, 0.3, 0.2, name), rtol=1e-5)
  assert int(metrics["ratio/mean"].count) == int(batch.length.sum())


@pytest.mark.case(2)
def test_case_2_token_mean_is_not_the_mean_of_means():
  # 100 tokens of loss 0.5 and 900 tokens of loss 0.3
  mask = jnp.arange(900)[None] < jnp.asarray([[100], [900]])
  weights = aggregate.token_mean_weights(mask[:, None], jnp.ones((2, 1)))
  losses = jnp.asarray([0.5, 0.3])[:, None, None]
  np.testing.assert_allclose((losses * weights).sum(), 0.32, rtol=1e-5)


@pytest.mark.case(3)
@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("masked_rows", [0, 1, 12])
def test_case_3_masked_rows_leave_loss_gradient_and_metrics_finite(name, masked_rows):
  batch = rollouts()
  weights = (jnp.arange(12) >= masked_rows).astype(jnp.float32).reshape(3, 4)
  batch = batch.mark(weights=weights, state_mask=jnp.broadcast_to(weights[..., None] == 0, (3, 4, 6)))
  objective = policy_gradient(ratio.token(), surrogate.clip(0.2, 0.2), (penalty.kl(0.1),), AGGREGATES[name])
  loss, grad = jax.value_and_grad(lambda x: scalar_loss(objective, x, batch, batch.rewards[..., None])[0])(
    new_logprobs(batch)
  )
  assert np.isfinite(loss)
  assert np.isfinite(grad).all()
  tokens = int(batch.mask.sum())
  if name == "token_mean" and tokens:
    np.testing.assert_allclose(objective.weights(batch).sum(), 1.0, rtol=1e-6)
    assert int((objective.weights(batch) > 0).sum()) == tokens
  if masked_rows == 12:
    assert float(loss) == 0.0
    assert (np.asarray(grad) == 0).all()


@pytest.mark.case(3)
def test_case_3_fully_masked_rows_count_in_the_row_denominator():
  mask = jnp.asarray([[[True, True], [False, False]]])
  weights = aggregate.sequence_mean_weights(mask, jnp.ones((1, 2)))
  np.testing.assert_allclose(weights, [[[0.25, 0.25], [0, 0]]])


@pytest.mark.case(5)
@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("penalties", PENALTIES)
def test_case_5_padding_changes_nothing(name, penalties):
  batch = rollouts()
  objective = policy_gradient(ratio.token(), surrogate.clip(0.2, 0.2), PENALTIES[penalties], AGGREGATES[name])
  logprobs, credit = new_logprobs(batch), batch.rewards[..., None]
  narrow, metrics = scalar_loss(objective, logprobs, batch, credit)
  padded = jnp.pad(logprobs, ((0, 0), (0, 0), (0, 9)), constant_values=-5.0)
  wide, wide_metrics = scalar_loss(objective, padded, pad_width(batch, 9), credit)
  np.testing.assert_allclose(wide, narrow, rtol=1e-6)
  for metric_name, metric in metrics.items():
    other = np.asarray(wide_metrics[metric_name])
    np.testing.assert_allclose(other, np.asarray(metric), rtol=1e-5, err_msg=metric_name)


@pytest.mark.case(13)
def test_case_13_behaviour_logprobs_are_used():
  batch = rollouts()
  objective = policy_gradient(ratio.token(), surrogate.clip(0.2, 0.2), (), aggregate.token_mean())
  on_policy, _ = scalar_loss(objective, batch.logprobs, batch, batch.rewards[..., None])
  moved, metrics = scalar_loss(objective, new_logprobs(batch), batch, batch.rewards[..., None])
  assert abs(float(on_policy - moved)) > 1e-3
  assert float(metrics["clip/low_frac"].sum + metrics["clip/high_frac"].sum) > 0


def test_clip_on_policy_has_the_policy_gradient():
  batch = rollouts()
  objective = policy_gradient(ratio.token(), surrogate.clip(0.2, 0.2), (), aggregate.token_mean())
  credit = batch.rewards[..., None]
  grad = jax.grad(lambda x: scalar_loss(objective, x, batch, credit)[0])(batch.logprobs)
  want = -credit * objective.weights(batch)
  np.testing.assert_allclose(grad, want, rtol=1e-5, atol=1e-8)


def test_clip_worked_by_hand():
  log_ratio = jnp.log(jnp.asarray([[[1.5, 1.5, 0.5, 0.5, 1.1]]]))
  credit = jnp.asarray([[[1.0, -1.0, 1.0, -1.0, 2.0]]])
  got = surrogate.clipped_surrogate(log_ratio, credit, 0.2, 0.28)
  np.testing.assert_allclose(got[0, 0], [-1.28, 1.5, -0.5, 0.8, -2.2], rtol=1e-6)


def test_clip_with_infinite_bound_is_the_plain_ratio():
  log_ratio = jax.random.normal(jax.random.key(0), (2, 3, 4))
  credit = jnp.abs(jax.random.normal(jax.random.key(1), (2, 3, 4)))
  got = surrogate.clip(1.0, float("inf")).loss(log_ratio, credit)
  np.testing.assert_allclose(got, -jnp.exp(log_ratio) * credit, rtol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(1.5, 0.2), (-0.1, 0.2), (0.2, -1.0), (float("nan"), 0.2)])
def test_clip_bounds_are_checked(low, high):
  with pytest.raises(ValueError, match="allowed"):
    surrogate.clip(low, high)


def test_huge_log_ratio_stays_finite():
  grad = jax.grad(lambda x: surrogate.clipped_surrogate(x, -jnp.ones((1, 1, 2)), 0.2, 0.2).sum())(
    jnp.asarray([[[1e4, -1e4]]])
  )
  assert np.isfinite(grad).all()


def tabular(theta, phi):
  """Expectations over a categorical policy of 3 tokens, exactly: every token is a row, weighted by π."""
  return jax.nn.log_softmax(theta), jax.nn.log_softmax(phi)


def test_unbiased_kl_loss_has_the_gradient_of_the_kl_on_and_off_policy():
  theta, phi, mu = jnp.asarray([0.3, -0.5, 1.0]), jnp.asarray([1.0, 0.1, -0.2]), jnp.asarray([0.0, 0.4, 0.1])

  def exact(theta):
    logp, ref = tabular(theta, phi)
    return (jnp.exp(logp) * (logp - ref)).sum()

  for behaviour in (jax.nn.log_softmax(theta), jax.nn.log_softmax(mu)):

    def expected_loss(theta, behaviour=behaviour):
      logp, ref = tabular(theta, phi)
      shape = (1, 3, 1)
      loss = penalty.unbiased_kl_loss(logp.reshape(shape), ref.reshape(shape), behaviour.reshape(shape))
      return (jnp.exp(behaviour) * loss[0, :, 0]).sum()

    np.testing.assert_allclose(jax.grad(expected_loss)(theta), jax.grad(exact)(theta), rtol=1e-5, atol=1e-7)


def test_k1_and_k3_are_unbiased_values_and_k1_has_zero_mean_gradient():
  theta, phi = jnp.asarray([0.3, -0.5, 1.0]), jnp.asarray([1.0, 0.1, -0.2])
  logp, ref = tabular(theta, phi)
  estimates = penalty.kl_estimates(logp.reshape(1, 3, 1), ref.reshape(1, 3, 1))
  kl = (jnp.exp(logp) * (logp - ref)).sum()
  for name in ("k1", "k3"):
    np.testing.assert_allclose((jnp.exp(logp) * estimates[name][0, :, 0]).sum(), kl, rtol=1e-5)
  assert (np.asarray(estimates["k2"]) >= 0).all()
  assert (np.asarray(estimates["k3"]) >= 0).all()
  weights = jnp.exp(logp)
  zero = jax.grad(lambda t: (weights * (jax.nn.log_softmax(t) - ref)).sum())(theta)
  np.testing.assert_allclose(zero, 0.0, atol=1e-6)


@pytest.mark.parametrize("make", [penalty.kl, penalty.kl_k3])
@pytest.mark.parametrize("coefficient", [0.0, -0.1, float("nan")])
def test_kl_coefficient_is_checked(make, coefficient):
  with pytest.raises(ValueError, match="coefficient="):
    make(coefficient)


def test_objective_refuses_a_penalty_twice_and_a_zero_length():
  with pytest.raises(ValueError, match="twice"):
    policy_gradient(
      ratio.token(), surrogate.clip(0.2, 0.2), (penalty.kl(0.1), penalty.kl(0.2)), aggregate.token_mean()
    )
  with pytest.raises(ValueError, match="length=0"):
    aggregate.constant_length(0)


@pytest.mark.case(12)
def test_case_12_a_clip_that_cannot_act_warns():
  objective = policy_gradient(ratio.token(), surrogate.clip(0.2, 0.2), (), aggregate.token_mean())
  assert "cannot clip" in objective.warnings(1)[0]
  assert objective.warnings(2) == ()
