"""Batch statistics against loops over rows and tokens."""

import jax.numpy as jnp
import numpy as np

from jaxrl_reason import runtime
from jaxrl_reason.evals.rollout_metrics import credit_metrics, rollout_metrics, uniform_groups
from tests.fixtures import rollouts


def marked(seed=0):
  batch = rollouts(seed)
  rng = np.random.default_rng(seed)
  return batch.mark(
    entropy=jnp.asarray(rng.random((3, 4, 6)), jnp.float32) * batch.inside,
    truncated=jnp.asarray(rng.random((3, 4)) < 0.4),
    weights=jnp.asarray(rng.random((3, 4)) < 0.8, jnp.float32),
  )


def test_every_number_equals_a_loop():
  batch = marked()
  row = runtime.finalise(rollout_metrics(batch, jnp.int32(7)))
  kept = np.asarray(batch.weights) > 0
  rewards, length = np.asarray(batch.rewards), np.asarray(batch.length, float)
  truncated, inside = np.asarray(batch["truncated"]), np.asarray(batch.inside)
  np.testing.assert_allclose(row["reward/mean"], rewards[kept].mean(), rtol=1e-5)
  np.testing.assert_allclose(row["reward/variance"], rewards[kept].var(), rtol=1e-4)
  np.testing.assert_allclose(row["length/mean"], length.mean(), rtol=1e-6)
  np.testing.assert_allclose(row["length/finished_mean"], length[~truncated].mean(), rtol=1e-6)
  assert row["length/max"] == length.max()
  np.testing.assert_allclose(row["truncated_frac"] + row["stop_frac"], 1.0, rtol=1e-6)
  np.testing.assert_allclose(row["pad_frac"], 1 - inside.mean(), rtol=1e-6)
  np.testing.assert_allclose(row["entropy"], np.asarray(batch["entropy"])[inside].mean(), rtol=1e-5)
  assert row["staleness"] == 0.0


def test_staleness_counts_phases_since_the_policy_that_wrote_the_row():
  batch = marked().mark(policy_version=jnp.asarray([[3, 5, 7, 7]] * 3))
  assert runtime.finalise(rollout_metrics(batch, jnp.int32(7)))["staleness"] == 1.5


def test_uniform_groups_look_at_kept_rows_alone():
  rewards = jnp.asarray([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.5 + 1e-7], [1.0, 2.0, 3.0]])
  kept = jnp.asarray([[True, True, False], [True] * 3, [True] * 3, [False] * 3])
  np.testing.assert_array_equal(uniform_groups(rewards, kept), [True, False, True, True])


def test_a_batch_without_any_finished_row_omits_its_length():
  batch = marked().mark(truncated=jnp.ones((3, 4), bool))
  assert "length/finished_mean" not in runtime.finalise(rollout_metrics(batch, jnp.int32(0)))


def test_credit_metrics_leave_out_masked_tokens_and_dropped_rows():
  batch = marked(1)
  credit = jnp.asarray(np.random.default_rng(2).normal(size=(3, 4, 6)), jnp.float32)
  counted = np.asarray(credit)[np.asarray(batch.mask) & (np.asarray(batch.weights) > 0)[..., None]]
  row = runtime.finalise(credit_metrics(credit, batch))
  np.testing.assert_allclose(row["credit/mean"], counted.mean(), rtol=1e-4)
  np.testing.assert_allclose(
    [row["credit/max"], row["credit/min"]], [counted.max(), counted.min()], rtol=1e-6
  )
  none = batch.mark(weights=jnp.zeros((3, 4)))
  assert runtime.finalise(credit_metrics(credit, none)) == {}
