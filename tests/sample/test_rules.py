"""Sampling rules and draws against sorting in Python, and what a draw must never do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason.sample.draw import inverse_cdf, row_keys, uniforms
from jaxrl_reason.sample.rules import MinP, Temperature, TopK, TopP, apply_rules, is_greedy
from tests.models import oracle

LOGITS = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4, 17)) * 2, jnp.float32)
LARGEST_BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


@pytest.mark.parametrize(
  ("rules", "words"),
  [
    ((Temperature(0.6),), {"temperature": 0.6}),
    ((Temperature(1.3), TopK(5)), {"temperature": 1.3, "top_k": 5}),
    ((Temperature(1), TopP(0.8)), {"top_p": 0.8}),
    ((MinP(0.2),), {"min_p": 0.2}),
    ((TopK(40),), {"top_k": 40}),
    ((TopP(1), MinP(0)), {}),
  ],
)
def test_rules_give_the_distribution_of_the_loops(rules, words):
  got = np.asarray(jax.nn.softmax(apply_rules(rules, LOGITS), axis=-1))
  for i in np.ndindex(5, 4):
    np.testing.assert_allclose(got[i], oracle.distribution(LOGITS[i], **words), atol=1e-6)


def test_equal_logits_are_cut_by_index():
  flat = jnp.zeros((1, 6))
  for rules, count in (((TopK(4),), 4), ((TopP(0.5),), 3), ((TopP(0.51),), 4), ((Temperature(0),), 1)):
    kept = np.isfinite(np.asarray(apply_rules(rules, flat)))[0]
    np.testing.assert_array_equal(kept, np.arange(6) < count)
  tied = jnp.asarray([[1.0, 2.0, 2.0, 2.0, 0.0]])
  np.testing.assert_array_equal(np.isfinite(TopK(2)(tied))[0], [False, True, True, False, False])


def test_rules_respect_masked_logits_and_the_tokens_to_keep():
  masked = LOGITS[0].at[:, 3:].set(-jnp.inf)
  for rule in (TopK(10), TopP(0.999), MinP(0.001), Temperature(0.5)):
    assert bool(jnp.isneginf(rule(masked)[:, 3:]).all())
  keep = jax.nn.one_hot(jnp.argmin(LOGITS[0], -1), 17, dtype=bool)
  for rule in (TopK(1), TopP(0.1), MinP(1)):
    kept = jnp.isfinite(rule(LOGITS[0], keep))
    np.testing.assert_array_equal(kept.sum(-1), 2)
    assert bool(kept[keep].all())


@pytest.mark.parametrize(
  ("make", "words"),
  [
    (lambda: Temperature(-0.1), r"Temperature\.value=-0\.1; allowed: at least 0"),
    (lambda: Temperature(float("nan")), r"Temperature\.value=nan; allowed"),
    (lambda: TopK(0), r"TopK\.k=0; allowed: an integer of at least 1"),
    (lambda: TopP(0.0), r"TopP\.p=0\.0; allowed: above 0 and at most 1"),
    (lambda: TopP(1.5), r"TopP\.p=1\.5; allowed"),
    (lambda: MinP(-1.0), r"MinP\.p=-1\.0; allowed: 0 to 1"),
  ],
)
def test_values_out_of_range_are_refused(make, words):
  with pytest.raises(ValueError, match=words):
    make()


def test_greedy_is_the_point_mass_on_the_first_largest_logit():
  assert is_greedy((TopK(3), Temperature(0.0)))
  assert not is_greedy((Temperature(0.1),))
  probabilities = jax.nn.softmax(Temperature(0.0)(LOGITS), axis=-1)
  np.testing.assert_array_equal(probabilities, jax.nn.one_hot(jnp.argmax(LOGITS, -1), 17))


def test_a_draw_never_takes_a_token_without_mass():
  rng = np.random.default_rng(1)
  weights = rng.random((4000, 33)).astype(np.float32) * (rng.random((4000, 33)) < 0.3)
  weights[:, 20] += 1e-6
  for u in (0.0, LARGEST_BELOW_ONE, 1.0, None):
    uniform = rng.random(4000).astype(np.float32) if u is None else np.full(4000, u, np.float32)
    token = np.asarray(inverse_cdf(jnp.asarray(weights), jnp.asarray(uniform)))
    assert (np.take_along_axis(weights, token[:, None], 1) > 0).all()
  one = jnp.zeros((1, 7)).at[0, 4].set(1e-30)
  assert inverse_cdf(one, jnp.zeros(1)).item() == 4


def test_a_draw_inverts_the_cumulative_mass():
  weights = jnp.asarray([[1.0, 0.0, 2.0, 1.0]])
  for u, token in ((0.0, 0), (0.24, 0), (0.25, 2), (0.74, 2), (0.75, 3), (LARGEST_BELOW_ONE, 3)):
    assert inverse_cdf(weights, jnp.asarray([u], jnp.float32)).item() == token


@pytest.mark.case(30)
def test_uniforms_differ_between_problems_rollouts_positions_and_keys():
  problems, rollouts = jnp.arange(20, dtype=jnp.uint32), jnp.tile(jnp.arange(5, dtype=jnp.uint32), (20, 1))
  draws = [
    uniforms(row_keys(jax.random.key(seed), problems, rollouts), jnp.int32(position))
    for seed, position in ((0, 0), (0, 1), (1, 0))
  ]
  assert len(np.unique(np.stack(draws))) == 3 * 20 * 5
  shuffled = uniforms(row_keys(jax.random.key(0), problems[::-1], rollouts), jnp.int32(0))
  np.testing.assert_array_equal(shuffled[::-1], draws[0])


def test_frequencies_follow_the_probabilities():
  """Pearson's χ² of 40,000 draws stays below its 99.9 % quantile (15 degrees of freedom: 37.7)."""
  p = oracle.distribution(LOGITS[0, 0], top_k=16)
  rollouts = jnp.arange(40_000, dtype=jnp.uint32)[None]
  u = uniforms(row_keys(jax.random.key(5), jnp.zeros(1, jnp.uint32), rollouts), jnp.int32(0))[0]
  token = inverse_cdf(jnp.tile(jnp.asarray(p, jnp.float32)[None], (40_000, 1)), u)
  seen = np.bincount(np.asarray(token), minlength=17)
  possible = p > 0
  assert seen[~possible].sum() == 0
  expected = 40_000 * p[possible]
  assert ((seen[possible] - expected) ** 2 / expected).sum() < 37.7
