"""Through the real update step: the gradient does not depend on the cut, and a bad number stops it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_reason import aggregate, credit, losses, penalty, ratio, runtime, surrogate
from jaxrl_reason.models import ModelConfig, init_params
from jaxrl_reason.objective import policy_gradient
from jaxrl_reason.policy import autoregressive
from jaxrl_reason.types import Rollouts
from jaxrl_reason.update import combine, make_update, partition

MODEL = ModelConfig(vocab_size=11, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, mlp_width=12)
POLICY = autoregressive(MODEL, rules=(), stop_ids=(1,), max_new_tokens=7)
P, G, T = 5, 2, 7

AGGREGATES = {
  "token_mean": aggregate.token_mean(),
  "sequence_mean": aggregate.sequence_mean(),
  "constant_length": aggregate.constant_length(9),
}
LOSSES = {
  "clip": lambda agg: policy_gradient(ratio.token(), surrogate.clip(0.1, 0.2), (), agg),
  "importance_weighted": lambda agg: policy_gradient(ratio.token(), surrogate.importance_weighted(), (), agg),
  "clip+kl": lambda agg: policy_gradient(ratio.token(), surrogate.clip(0.1, 0.2), (penalty.kl(0.3),), agg),
  "clip+kl_k3": lambda agg: policy_gradient(
    ratio.token(), surrogate.clip(0.1, 0.2), (penalty.kl_k3(0.3),), agg
  ),
  "sft": losses.sft,
}


@functools.cache
def params():
  return init_params(MODEL, jax.random.key(0))


@functools.cache
def batch(prompts: int = P) -> Rollouts:
  """Ragged rollouts whose behaviour policy is another one, so that ratios and clips act."""
  rng = np.random.default_rng(0)
  length = rng.integers(0, T + 1, (prompts, G)).astype(np.int32)
  length[0] = T, 1
  shape = (prompts, G, T)
  inside = np.arange(T) < length[..., None]
  draws = lambda: jnp.asarray(np.where(inside, -rng.exponential(1.0, shape) - 1.5, 0.0), jnp.float32)
  return Rollouts(
    prompt=jnp.asarray(rng.integers(2, 11, (prompts, 4)), jnp.int32),
    prompt_length=jnp.asarray(rng.integers(1, 5, prompts), jnp.int32),
    completion=jnp.asarray(rng.integers(2, 11, shape), jnp.int32),
    length=jnp.asarray(length),
    logprobs=draws(),
    rewards=jnp.asarray(rng.normal(size=shape[:2]), jnp.float32),
    marks={
      "reference_logprobs": draws(),
      "weights": jnp.asarray(rng.integers(0, 2, shape[:2]) | (length > 5), jnp.float32),
    },
  )


def one_update(objective, *, rollouts=None, mesh=None, value=None, **cuts):
  """(gradient as the change of one SGD step, metrics) of the real update."""
  rollouts = batch() if rollouts is None else rollouts
  optimizer = optax.sgd(1.0)
  trainable = jax.tree.map(lambda _: True, params())
  update = make_update(POLICY, objective, optimizer, trainable, mesh=mesh, **cuts)
  start = jax.tree.map(jnp.copy, params())
  value = credit.from_rewards(rollouts) if value is None else value
  new, _, metrics = update(start, optimizer.init(start), rollouts, value)
  return jax.tree.map(lambda a, b: np.asarray(a - b), params(), new), runtime.finalise(metrics)


def assert_same(one, other):
  for a, b in zip(jax.tree.leaves(one[0]), jax.tree.leaves(other[0]), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
  assert one[1].keys() == other[1].keys()
  for name, value in one[1].items():
    np.testing.assert_allclose(value, other[1][name], rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.case(1)
@pytest.mark.parametrize("aggregate_name", AGGREGATES)
@pytest.mark.parametrize("loss", LOSSES)
def test_case_1_micro_batches_and_devices_do_not_change_the_gradient(loss, aggregate_name):
  objective = LOSSES[loss](AGGREGATES[aggregate_name])
  whole = one_update(objective)
  assert whole[1]["grad_norm"] > 1e-3
  assert_same(whole, one_update(objective, micro_batch=1))
  assert_same(whole, one_update(objective, micro_batch=3))  # does not divide 10 rows: padded
  assert_same(whole, one_update(objective, micro_batch=4))  # whole groups: 2 of 5 prompts at a time
  mesh = runtime.make_mesh(data=4, fsdp=2)
  assert_same(whole, one_update(objective, mesh=mesh))  # 5 prompts on 8 devices: padded


@pytest.mark.case(4)
def test_case_4_accumulated_gradient_is_the_sum_over_distinct_micro_batches():
  objective = LOSSES["clip"](AGGREGATES["constant_length"])
  whole, _ = one_update(objective)
  rows = [jax.tree.map(lambda x, i=i: x[i : i + 1], batch()) for i in range(P)]
  parts = [one_update(objective, rollouts=row)[0] for row in rows]
  total = jax.tree.map(lambda *g: sum(g) / P, *parts)  # constant length divides by the rows of the step
  for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(total), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.case(3)
def test_case_3_an_all_masked_batch_moves_nothing():
  rollouts = batch().mark(weights=jnp.zeros((P, G)))
  for name, agg in AGGREGATES.items():
    change, metrics = one_update(LOSSES["clip+kl"](agg), rollouts=rollouts)
    assert all((x == 0).all() for x in jax.tree.leaves(change)), name
    assert metrics["finite"] == 1.0
    assert metrics["loss/total"] == 0.0


def test_zero_credit_gives_zero_gradient():
  change, _ = one_update(LOSSES["clip"](AGGREGATES["token_mean"]), value=jnp.zeros((P, G, 1)))
  assert all((x == 0).all() for x in jax.tree.leaves(change))


def test_a_non_finite_gradient_changes_nothing_and_is_reported():
  value = credit.from_rewards(batch()).at[0, 0].set(jnp.nan)
  change, metrics = one_update(LOSSES["importance_weighted"](AGGREGATES["token_mean"]), value=value)
  assert all((x == 0).all() for x in jax.tree.leaves(change))
  assert metrics["finite"] == 0.0


def test_minibatches_are_successive_updates_on_their_own_prompts():
  objective, rollouts = LOSSES["clip"](AGGREGATES["token_mean"]), batch(4)
  optimizer = optax.sgd(0.5)
  trainable = jax.tree.map(lambda _: True, params())
  both = make_update(POLICY, objective, optimizer, trainable, minibatches=2, epochs=2)
  one = make_update(POLICY, objective, optimizer, trainable)
  value = credit.from_rewards(rollouts)
  got, _, _ = both(jax.tree.map(jnp.copy, params()), optimizer.init(params()), rollouts, value)
  want = jax.tree.map(jnp.copy, params())
  for start in (0, 2, 0, 2):
    part, part_value = jax.tree.map(lambda x, s=start: x[s : s + 2], (rollouts, value))
    want, _, _ = one(want, optimizer.init(params()), part, part_value)
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_partition_and_combine_are_inverse_and_frozen_leaves_stay():
  trainable = {**jax.tree.map(lambda _: True, params()), "embed": {"kernel": False}}
  train, frozen = partition(params(), trainable)
  assert train["embed"]["kernel"] is None
  assert len(jax.tree.leaves(frozen)) == 1
  back = combine(train, frozen)
  assert jax.tree.structure(back) == jax.tree.structure(params())
  optimizer = optax.sgd(1.0)
  objective = LOSSES["clip"](AGGREGATES["token_mean"])
  update = make_update(POLICY, objective, optimizer, trainable)
  start = jax.tree.map(jnp.copy, params())
  new, _, _ = update(start, optimizer.init(train), batch(), credit.from_rewards(batch()))
  np.testing.assert_array_equal(new["embed"]["kernel"], params()["embed"]["kernel"])
  assert not np.array_equal(new["final_norm"]["scale"], params()["final_norm"]["scale"])
