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
from jaxrl_reason.types import Rollouts, Scores
from jaxrl_reason.update import combine, make_update, partition

P, G, T, V = 5, 2, 7, 11
MODEL = ModelConfig(vocab_size=V, width=8, layers=1, heads=2, kv_heads=1, head_dim=4, mlp_width=12)
DECODER = autoregressive(MODEL, rules=(), stop_ids=(1,), max_new_tokens=T)


def bigram_logp(params, rollouts: Rollouts) -> Scores:
  """A policy that compiles in no time: logits are the row of a table, chosen by the token before."""
  last = jnp.take_along_axis(rollouts.prompt, jnp.maximum(rollouts.prompt_length - 1, 0)[:, None], axis=1)
  first = jnp.broadcast_to(last[:, None], (*rollouts.completion.shape[:2], 1))
  before = jnp.concatenate([first, rollouts.completion[:, :, :-1]], axis=2)
  logits = jax.nn.log_softmax(jnp.tanh(params["table"])[before] + params["bias"][None, None, None])
  chosen = jnp.take_along_axis(logits, rollouts.completion[..., None], axis=3)[..., 0]
  entropy = -(jnp.exp(logits) * logits).sum(-1)
  return Scores(jnp.where(rollouts.inside, chosen, 0.0), jnp.where(rollouts.inside, entropy, 0.0))


POLICY = DECODER._replace(logp=bigram_logp)

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
  return {"table": jax.random.normal(jax.random.key(0), (V, V)), "bias": jnp.linspace(-1.0, 1.0, V)}


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


def updater(objective, policy=POLICY, start=None, mesh=None, **cuts):
  """(initial parameters, the real update with SGD)."""
  start = params() if start is None else start
  trainable = jax.tree.map(lambda _: True, start)
  return start, make_update(policy, objective, optax.sgd(1.0), trainable, mesh=mesh, **cuts)


def change(start, update, rollouts, value=None):
  """(gradient as the change of one SGD step, metrics)."""
  value = credit.from_rewards(rollouts) if value is None else value
  new, _, metrics = update(jax.tree.map(jnp.copy, start), optax.sgd(1.0).init(start), rollouts, value)
  return jax.tree.map(lambda a, b: np.asarray(a - b), start, new), runtime.finalise(metrics)


def updates_of_every_aggregate(objective, **cuts):
  start, update = updater(objective, **cuts)
  which = lambda i: jnp.full((P, G), i, jnp.int32)
  return [change(start, update, batch().mark(which=which(i))) for i in range(len(AGGREGATES))]


def one_update(objective, *, rollouts=None, value=None, **options):
  start, update = updater(objective, **options)
  return change(start, update, batch() if rollouts is None else rollouts, value)


def assert_same(one, other):
  for a, b in zip(jax.tree.leaves(one[0]), jax.tree.leaves(other[0]), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
  assert one[1].keys() == other[1].keys()
  for name, value in one[1].items():
    np.testing.assert_allclose(value, other[1][name], rtol=2e-5, atol=1e-6, err_msg=name)


def with_every_aggregate(make):
  """The objective with the token weights of aggregate number rollouts["which"]: one program for all."""

  def weights(rollouts):
    which = rollouts["which"][0, 0]
    mask, rows = rollouts.mask, rollouts.weights
    return jax.lax.switch(which, [lambda a=a: a.weights(mask, rows) for a in AGGREGATES.values()])

  return make(AGGREGATES["token_mean"])._replace(weights=weights)


@pytest.mark.case(1)
@pytest.mark.parametrize("loss", LOSSES)
def test_case_1_micro_batches_and_devices_do_not_change_the_gradient(loss):
  objective = with_every_aggregate(LOSSES[loss])
  mesh = runtime.make_mesh(data=4, fsdp=2)
  # padded: 10 rows by 3, and 5 prompts by 2 whole groups (4 rows) or by 8 devices
  whole = updates_of_every_aggregate(objective)
  for cuts in ({"micro_batch": 1}, {"micro_batch": 3}, {"micro_batch": 4}, {"mesh": mesh}):
    for one, other in zip(whole, updates_of_every_aggregate(objective, **cuts), strict=True):
      assert one[1]["grad_norm"] > 1e-3
      assert_same(one, other)
  norms = [round(one[1]["grad_norm"], 6) for one in whole]
  assert len(set(norms)) == len(AGGREGATES)  # the three really differ


@pytest.mark.case(1)
def test_case_1_holds_for_the_real_decoder():
  start = init_params(MODEL, jax.random.key(0))
  objective = LOSSES["clip+kl"](AGGREGATES["token_mean"])
  run = functools.partial(one_update, objective, policy=DECODER, start=start)
  whole = run()
  assert_same(whole, run(micro_batch=3))
  assert_same(whole, run(micro_batch=4))
  assert_same(whole, run(mesh=runtime.make_mesh(data=4, fsdp=2)))


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
  trainable = {"table": True, "bias": False}
  train, frozen = partition(params(), trainable)
  assert train["bias"] is None
  assert len(jax.tree.leaves(frozen)) == 1
  back = combine(train, frozen)
  assert jax.tree.structure(back) == jax.tree.structure(params())
  optimizer = optax.sgd(1.0)
  objective = LOSSES["clip"](AGGREGATES["token_mean"])
  update = make_update(POLICY, objective, optimizer, trainable)
  start = jax.tree.map(jnp.copy, params())
  new, _, _ = update(start, optimizer.init(train), batch(), credit.from_rewards(batch()))
  np.testing.assert_array_equal(new["bias"], params()["bias"])
  assert not np.array_equal(new["table"], params()["table"])
