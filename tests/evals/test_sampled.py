"""pass@k and maj@k against every subset of the samples, enumerated."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason.evals import NO_ANSWER, maj_at_k, pass_at_k


def every_subset(n, k):
  return list(itertools.combinations(range(n), k))


def pass_by_enumeration(correct, k):
  return np.mean([any(correct[i] for i in subset) for subset in every_subset(len(correct), k)])


def majority_by_enumeration(answers, gold, k):
  scores = []
  for subset in every_subset(len(answers), k):
    drawn = [answers[i] for i in subset if answers[i] != NO_ANSWER]
    most = max((drawn.count(a) for a in drawn), default=0)
    winners = {a for a in drawn if drawn.count(a) == most}
    scores.append(1 / len(winners) if gold in winners else 0.0)
  return np.mean(scores)


@pytest.mark.case(39)
def test_one_hit_of_four_passes_at_four():
  correct = np.array([[False, True, False, False]])
  np.testing.assert_array_equal(pass_at_k(correct, 4), [1.0])
  np.testing.assert_allclose(pass_at_k(correct, 1), [0.25])
  np.testing.assert_allclose(pass_at_k(correct, 2), [0.5])


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7])
def test_pass_equals_enumeration(k):
  correct = np.random.default_rng(0).random((20, 7)) < np.linspace(0, 1, 20)[:, None]
  expected = [pass_by_enumeration(row, k) for row in correct]
  np.testing.assert_allclose(pass_at_k(correct, k), expected, rtol=1e-12, atol=1e-12)


def test_pass_is_unbiased_for_independent_samples():
  p, n, k = 0.3, 6, 3
  outcomes = np.array(list(itertools.product([False, True], repeat=n)))
  probability = np.prod(np.where(outcomes, p, 1 - p), axis=1)
  np.testing.assert_allclose(probability @ pass_at_k(outcomes, k), 1 - (1 - p) ** k, rtol=1e-12)


def test_pass_grows_with_k_and_is_exact_at_the_ends():
  correct = np.arange(64)[None] < np.array([0, 1, 5, 63, 64])[:, None]
  values = np.stack([pass_at_k(correct, k) for k in range(1, 65)])
  assert (np.diff(values, axis=0) >= 0).all()
  np.testing.assert_array_equal(values[:, 0], 0.0)
  np.testing.assert_array_equal(values[:, 4], 1.0)
  np.testing.assert_array_equal(values[-1, 1:], 1.0)


@pytest.mark.parametrize("kernel", [pass_at_k, lambda x, k: maj_at_k(x.astype(int), np.zeros(2, int), k)])
@pytest.mark.parametrize("k", [0, 5])
def test_impossible_k_names_the_numbers(kernel, k):
  with pytest.raises(ValueError, match=rf"k = {k} .* n = 4"):
    kernel(np.zeros((2, 4), bool), k)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7])
def test_majority_equals_enumeration(k):
  random = np.random.default_rng(k)
  answers = np.concatenate([random.integers(-1, high, (12, 7)) for high in (1, 2, 3, 6)])
  gold = np.zeros(len(answers), int)
  expected = [majority_by_enumeration(list(row), 0, k) for row in answers]
  np.testing.assert_allclose(maj_at_k(answers, gold, k), expected, rtol=1e-12, atol=1e-12)
  assert len(set(np.round(expected, 6))) >= 3


def test_majority_by_hand():
  answers = np.array([[5, 5, 9, 9], [5, 9, 9, 9], [5, -1, -1, -1], [-1, -1, -1, -1], [5, 7, 8, 9]])
  gold = np.full(5, 5)
  np.testing.assert_allclose(maj_at_k(answers, gold, 4), [1 / 2, 0, 1, 0, 1 / 4], atol=1e-15)


def test_majority_of_one_is_the_share_of_gold():
  answers = np.random.default_rng(1).integers(-1, 3, (10, 8))
  np.testing.assert_allclose(maj_at_k(answers, np.ones(10, int), 1), (answers == 1).mean(axis=1), rtol=1e-12)


def test_majority_does_not_depend_on_order_or_on_the_names_of_ids():
  random = np.random.default_rng(2)
  answers, gold = random.integers(-1, 4, (10, 9)), random.integers(0, 4, 10)
  value = maj_at_k(answers, gold, 4)
  renamed = np.where(answers < 0, answers, 1000 - 7 * answers)
  np.testing.assert_array_equal(maj_at_k(renamed, 1000 - 7 * gold, 4), value)
  np.testing.assert_allclose(maj_at_k(random.permuted(answers, axis=1), gold, 4), value, rtol=1e-12)


def test_majority_stays_a_probability_for_many_samples():
  random = np.random.default_rng(3)
  answers = random.integers(0, 20, (2, 120))
  value = maj_at_k(answers, np.zeros(2, int), 20)
  assert ((value > 0) & (value < 1)).all()
  np.testing.assert_allclose(sum(maj_at_k(answers, np.full(2, a), 20) for a in range(20)), 1.0, rtol=1e-9)


def test_majority_refuses_a_gold_without_an_id():
  with pytest.raises(ValueError, match=r"gold\[1\] = -1"):
    maj_at_k(np.zeros((2, 4), int), np.array([0, NO_ANSWER]), 2)


def test_device_arrays_are_accepted():
  np.testing.assert_allclose(pass_at_k(jnp.array([[True, False]]), 1), [0.5])
  np.testing.assert_allclose(maj_at_k(jnp.array([[3, 4]]), jnp.array([3]), 2), [0.5])
