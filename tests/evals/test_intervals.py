"""Bootstrap intervals: against enumeration of every resample, the normal limit, and hand-made edge cases."""

import itertools

import numpy as np
import pytest

from jaxrl_reason.evals import Estimate, bootstrap_interval, maj_at_k, pass_at_k, summary


def test_interval_equals_the_quantiles_of_every_resample():
  values = np.array([0.0, 0.2, 0.9, 1.0])
  means = np.array([np.mean(r) for r in itertools.product(values, repeat=4)])
  estimate = bootstrap_interval(values, seed=0, level=0.8, draws=20_000)
  np.testing.assert_allclose(estimate.value, values.mean())
  np.testing.assert_allclose(estimate[1:], np.quantile(means, [0.1, 0.9]), atol=0.03)


def test_interval_tends_to_the_normal_one():
  values = (np.random.default_rng(0).random(400) < 0.3).astype(float)
  estimate = bootstrap_interval(values)
  half = 1.96 * values.std() / np.sqrt(values.size)
  np.testing.assert_allclose(estimate.high - estimate.value, half, rtol=0.1)
  np.testing.assert_allclose(estimate.value - estimate.low, half, rtol=0.1)


def test_interval_covers_the_truth_about_as_often_as_it_says():
  random = np.random.default_rng(1)
  estimates = [bootstrap_interval(random.normal(size=60), draws=150) for _ in range(200)]
  assert 0.88 < np.mean([e.low <= 0 <= e.high for e in estimates]) < 0.98


def test_interval_is_deterministic_in_the_seed():
  values = np.random.default_rng(2).random(30)
  assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
  assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)


def test_wider_level_gives_a_wider_interval_around_the_mean():
  values = np.random.default_rng(3).random(50)
  narrow, wide = (bootstrap_interval(values, level=level) for level in (0.5, 0.99))
  assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.parametrize("values", [np.array([0.25]), np.full(7, 0.25)])
def test_equal_problems_have_no_width(values):
  assert bootstrap_interval(values) == Estimate(0.25, 0.25, 0.25)


@pytest.mark.parametrize(
  ("values", "level", "message"),
  [
    (np.zeros(0), 0.95, "no problems"),
    (np.array([0.0, np.nan]), 0.95, r"values\[1\] = nan"),
    (np.zeros(2), 95.0, "level = 95"),
  ],
)
def test_errors_name_the_value(values, level, message):
  with pytest.raises(ValueError, match=message):
    bootstrap_interval(values, level=level)


@pytest.mark.case(39)
def test_summary_gives_every_number_an_interval():
  random = np.random.default_rng(4)
  answers, gold = random.integers(-1, 3, (25, 6)), random.integers(0, 3, 25)
  correct = answers == gold[:, None]
  table = summary(correct, answers, gold, ks=(1, 2, 6))
  assert list(table) == ["pass@1", "pass@2", "pass@6", "maj@2", "maj@6"]
  assert all(e.low <= e.value <= e.high for e in table.values())
  np.testing.assert_allclose(table["pass@1"].value, correct.mean())
  np.testing.assert_allclose(table["pass@2"].value, pass_at_k(correct, 2).mean())
  np.testing.assert_allclose(table["maj@6"].value, maj_at_k(answers, gold, 6).mean())


def test_summary_without_answers_has_no_majority():
  assert list(summary(np.ones((3, 2), bool), ks=(1, 2))) == ["pass@1", "pass@2"]
  with pytest.raises(ValueError, match="both answers and gold"):
    summary(np.ones((3, 2), bool), gold=np.zeros(3, int))
