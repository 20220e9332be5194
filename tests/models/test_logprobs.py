"""Chunked log-probabilities and entropies: values, support, gradients, memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason.models.logprobs import distribution_scores, token_scores
from jaxrl_reason.sample.rules import MinP, Temperature, TopK, TopP
from tests.models import oracle

RNG = np.random.default_rng(2)
HIDDEN = jnp.asarray(RNG.normal(size=(11, 6)), jnp.float32)
MATRIX = jnp.asarray(RNG.normal(size=(6, 17)), jnp.float32)
TARGETS = jnp.asarray(RNG.integers(0, 17, 11), jnp.int32)


def scores(hidden, rules=(), chunk=4):
  return jax.jit(lambda h: token_scores(h, MATRIX, TARGETS, rules, chunk))(hidden)


@pytest.mark.case(15)
@pytest.mark.parametrize(
  ("rules", "words"), [((), {}), ((Temperature(0.7), TopP(0.9)), {"temperature": 0.7, "top_p": 0.9})]
)
def test_scores_are_those_of_the_loops(rules, words):
  logprobs, entropy = scores(HIDDEN, rules)
  for n in range(11):
    row = np.asarray(HIDDEN[n], np.float64) @ np.asarray(MATRIX, np.float64)
    p = oracle.distribution(row, **words)
    np.testing.assert_allclose(
      logprobs[n], np.log(p[TARGETS[n]]) if p[TARGETS[n]] else outside(row, p, TARGETS[n], 0.7), atol=1e-5
    )
    if p[TARGETS[n]]:
      np.testing.assert_allclose(entropy[n], -(p[p > 0] * np.log(p[p > 0])).sum(), atol=1e-5)


def outside(row, p, target, temperature):
  """The target joins a support that lacks it."""
  kept = np.exp(row / temperature) * ((p > 0) | (np.arange(17) == target))
  return np.log(kept[target] / kept.sum())


def test_chunks_change_neither_values_nor_gradients():
  def loss(chunk):
    return lambda h: sum(jnp.sin(x).sum() for x in token_scores(h, MATRIX, TARGETS, (TopK(6),), chunk))

  for chunk in (3, 11, 100):
    for a, b in zip(scores(HIDDEN, (TopK(6),), chunk), scores(HIDDEN, (TopK(6),), 4)):
      np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(
      jax.jit(jax.grad(loss(chunk)))(HIDDEN), jax.jit(jax.grad(loss(4)))(HIDDEN), atol=1e-5
    )


@pytest.mark.case(16)
@pytest.mark.parametrize("rules", [(TopK(1),), (TopP(0.01),), (MinP(1.0),), (Temperature(0.01), TopK(2))])
def test_values_and_gradients_are_finite_on_the_narrowest_support(rules):
  def loss(hidden):
    logprobs, entropy = token_scores(hidden, MATRIX, TARGETS, rules, 4)
    return logprobs.sum() + entropy.sum(), (logprobs, entropy)

  grad, (logprobs, entropy) = jax.jit(jax.grad(loss, has_aux=True))(HIDDEN)
  assert bool(jnp.isfinite(grad).all() & jnp.isfinite(logprobs).all() & jnp.isfinite(entropy).all())
  assert bool((logprobs <= 1e-6).all() & (entropy >= -1e-6).all())


def test_gradient_of_the_entropy_is_the_derivative():
  logits = jnp.asarray([[0.3, -1.0, 2.0, -jnp.inf]])
  grad = jax.grad(lambda z: distribution_scores(z, jnp.asarray([0]))[1].sum())(logits)
  p = np.asarray(jax.nn.softmax(logits))[0, :3].astype(np.float64)
  entropy = -(p * np.log(p)).sum()
  np.testing.assert_allclose(grad[0, :3], -p * (np.log(p) + entropy), atol=1e-6)
  assert grad[0, 3] == 0


def test_logits_of_all_tokens_never_exist():
  hidden, targets = jnp.zeros((64, 6)), jnp.zeros(64, jnp.int32)
  call = jax.grad(lambda h: token_scores(h, MATRIX, targets, (), 8)[0].sum())
  shapes = {x.aval.shape for x in values_of(jax.make_jaxpr(call)(hidden).jaxpr)}
  assert (8, 17) in shapes
  assert max(int(np.prod(s)) for s in shapes if s and s[-1] == 17) == 8 * 17


def values_of(jaxpr):
  for equation in jaxpr.eqns:
    yield from equation.outvars
    for inner in jax.tree.leaves(
      equation.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
    ):
      inner = getattr(inner, "jaxpr", inner)
      if hasattr(inner, "eqns"):
        yield from values_of(inner)


def test_a_chunk_holds_a_token():
  with pytest.raises(ValueError, match="chunk=0; allowed"):
    token_scores(HIDDEN, MATRIX, TARGETS, (), 0)
