"""Group credit against loops, worked numbers, and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason import credit
from tests.fixtures import rollouts

ONES = jnp.ones((4, 1))


def column(*values):
  return jnp.asarray(values, jnp.float32)[:, None]


def test_center_worked_by_hand():
  np.testing.assert_allclose(credit.center(column(1, 0, 0, 1), ONES)[:, 0], [0.5, -0.5, -0.5, 0.5])


def test_scale_by_std_worked_by_hand():
  # mean 0.25, population variance 3/16: 0.75/0.4330 = 1.7321, -0.25/0.4330 = -0.5774
  centred = credit.center(column(1, 0, 0, 0), ONES)
  np.testing.assert_allclose(
    credit.scale_by_std(centred, ONES, 0.0)[:, 0], [1.7320508, -0.57735, -0.57735, -0.57735], rtol=1e-6
  )


def test_leave_one_out_is_reward_minus_mean_of_the_others():
  rewards = np.random.default_rng(0).normal(size=5).astype(np.float32)
  want = [rewards[i] - np.delete(rewards, i).mean() for i in range(5)]
  got = credit.subtract_others_mean(jnp.asarray(rewards)[:, None], jnp.ones((5, 1)))
  np.testing.assert_allclose(got[:, 0], want, rtol=1e-5, atol=1e-6)


def test_leave_one_out_is_centring_times_n_over_n_minus_one():
  x = jax.random.normal(jax.random.key(0), (7, 1))
  weight = jnp.ones((7, 1))
  np.testing.assert_allclose(
    credit.subtract_others_mean(x, weight), credit.center(x, weight) * 7 / 6, rtol=1e-5
  )


def test_dropped_rows_neither_get_nor_give_credit():
  weight = jnp.asarray([1.0, 0.0, 1.0, 1.0])[:, None]
  got = credit.center(column(1, 99, 0, 0), weight)[:, 0]
  np.testing.assert_allclose(got, [2 / 3, 0, -1 / 3, -1 / 3], rtol=1e-6)
  loo = credit.subtract_others_mean(column(1, 99, 0, 0), weight)[:, 0]
  np.testing.assert_allclose(loo, [1, 0, -0.5, -0.5], rtol=1e-6)


@pytest.mark.case(7)
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e6])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1e-4])
def test_case_7_equal_rewards_give_exactly_zero(value, epsilon):
  x = jnp.full((7, 1), value, jnp.float32)
  weight = jnp.ones((7, 1))
  for out in (
    credit.center(x, weight),
    credit.scale_by_std(x, weight, epsilon),
    credit.scale_by_std(credit.center(x, weight), weight, epsilon),
    credit.subtract_others_mean(x, weight),
  ):
    assert (np.asarray(out) == 0.0).all()


@pytest.mark.case(7)
def test_case_7_one_miss_among_near_hits_stays_bounded():
  x, weight = column(0, *[0.95] * 7), jnp.ones((8, 1))
  got = credit.scale_by_std(credit.subtract_others_mean(x, weight), weight, 1e-6)
  # a standardised value of n numbers is at most (n-1)/sqrt(n-1), times n/(n-1) before scaling cancels
  assert float(jnp.abs(got).max()) <= np.sqrt(7) + 1e-4


@pytest.mark.case(8)
@pytest.mark.parametrize(
  "transform", [credit.center_by_group, credit.leave_one_out, credit.scale_by_group_std]
)
def test_case_8_permuting_rows_permutes_credit_and_groups_never_mix(transform):
  batch = rollouts()
  update = transform().update
  base, _ = update(credit.from_rewards(batch), None, batch)
  order = jnp.asarray([2, 0, 3, 1])
  shuffled = type(batch)(**{**vars(batch), "rewards": batch.rewards[:, order]})
  got, _ = update(credit.from_rewards(shuffled), None, shuffled)
  np.testing.assert_allclose(got, base[:, order], rtol=1e-5, atol=1e-7)
  other = type(batch)(**{**vars(batch), "rewards": batch.rewards.at[1].add(jnp.arange(4.0))})
  moved, _ = update(credit.from_rewards(other), None, other)
  np.testing.assert_array_equal(moved[jnp.asarray([0, 2])], base[jnp.asarray([0, 2])])
  assert not np.allclose(moved[1], base[1])


@pytest.mark.case(9)
def test_case_9_token_credit_ignores_padding():
  batch = rollouts()
  token = jnp.broadcast_to(batch.rewards[..., None], batch.completion.shape)
  dirty = jnp.where(batch.mask, token, 1e3)
  update = credit.chain(credit.center_by_group(), credit.scale_by_group_std()).update
  clean, _ = update(token, (None, None), batch)
  got, _ = update(dirty, (None, None), batch)
  np.testing.assert_allclose(got, clean, rtol=1e-6)
  assert (np.asarray(got)[~np.asarray(batch.mask)] == 0).all()


def test_chain_is_composition_and_holds_one_state_per_part():
  batch = rollouts()
  first, second = credit.center_by_group(), credit.scale_by_group_std(0.1)
  both = credit.chain(first, second)
  by_hand, _ = second.update(first.update(credit.from_rewards(batch), None, batch)[0], None, batch)
  got, state = both.update(credit.from_rewards(batch), both.init(), batch)
  np.testing.assert_array_equal(got, by_hand)
  assert state == (None, None)
  assert both.formula == "r → c − mean_G(c) → c / (std_G(c) + 0.1)"
  with pytest.raises(ValueError, match="1 parts, the chain has 2"):
    both.update(credit.from_rewards(batch), (None,), batch)


def test_an_empty_chain_is_the_reward():
  batch = rollouts()
  got, _ = credit.chain().update(credit.from_rewards(batch), (), batch)
  np.testing.assert_array_equal(got[..., 0], batch.rewards)


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), float("inf")])
def test_bad_epsilon_is_named(epsilon):
  with pytest.raises(ValueError, match="epsilon="):
    credit.scale_by_group_std(epsilon)
