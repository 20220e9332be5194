"""Sampler and scorer of one policy agree, and a score depends on nothing but its own row."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason.models import lora
from jaxrl_reason.policy.autoregressive import autoregressive
from jaxrl_reason.sample.rules import MinP, Temperature, TopK, TopP
from tests.models import toys

STOPS, WIDTH = (3, 5), 8
RULES = {
  "cool": (Temperature(0.6),),
  "top_k": (Temperature(1.0), TopK(5)),
  "top_p": (Temperature(1.3), TopP(0.8)),
  "min_p": (Temperature(1.3), MinP(0.1)),
}


@functools.lru_cache
def policy(name="top_p", config=toys.BASE):
  """The policy with its scorer jitted, as the trainer uses it."""
  made = autoregressive(config, rules=RULES[name], stop_ids=STOPS, max_new_tokens=WIDTH, chunk=50)
  return made._replace(logp=jax.jit(made.logp))


@functools.lru_cache
def sampled(name="top_p", config=toys.BASE):
  return policy(name, config).sample(toys.toy(config), toys.prompts(group=6), jax.random.key(11))


@pytest.mark.case(15)
@pytest.mark.case(16)
@pytest.mark.case(23)
@pytest.mark.parametrize("name", list(RULES))
def test_scores_are_what_the_sampler_said(name):
  rollouts = sampled(name)
  scores = policy(name).logp(toys.toy(), rollouts)
  assert float(jnp.abs(scores.logprobs - rollouts.logprobs).max()) < 1e-4
  assert float(jnp.abs(scores.entropy - rollouts["entropy"]).max()) < 1e-4
  outside = ~np.asarray(rollouts.inside)
  assert outside.any()
  assert not np.asarray(scores.logprobs)[outside].any()
  assert not np.asarray(scores.entropy)[outside].any()
  assert bool((scores.logprobs[rollouts.inside] < 0).all())  # the stop token is scored


@pytest.mark.case(15)
def test_bfloat16_and_stacked_layers_agree_with_their_sampler_too():
  """bfloat16: within 0.1 nats a token, on logits of about ±10 (8 bits of mantissa)."""
  for changes, bound in (({"dtype": "bfloat16"}, 0.1), ({"scan_layers": True}, 1e-4)):
    config = toys.BASE.replace(**changes)
    rollouts = sampled("cool", config)
    scores = policy("cool", config).logp(toys.toy(config), rollouts)
    assert float(jnp.abs(scores.logprobs - rollouts.logprobs).max()) < bound


@pytest.mark.case(18)
def test_scores_do_not_depend_on_padding_or_batch_mates():
  rollouts = sampled()
  want = policy().logp(toys.toy(), rollouts)
  rest = ~rollouts.inside
  junk = dataclasses.replace(
    rollouts,
    prompt=jnp.pad(rollouts.prompt, ((0, 0), (0, 2)), constant_values=1)[::-1],
    prompt_length=rollouts.prompt_length[::-1],
    completion=jnp.pad(jnp.where(rest, 16, rollouts.completion), ((0, 0), (0, 0), (0, 3)))[::-1],
    length=rollouts.length[::-1],
  )
  got = policy().logp(toys.toy(), junk)
  np.testing.assert_allclose(got.logprobs[::-1, :, :WIDTH], want.logprobs, atol=1e-5)
  np.testing.assert_allclose(got.entropy[::-1, :, :WIDTH], want.entropy, atol=1e-5)
  assert not got.logprobs[:, :, WIDTH:].any()


@pytest.mark.case(19)
def test_a_shared_prompt_equals_a_prompt_per_row_in_value_and_gradient():
  rollouts = sampled()

  def loss(params, rollouts):
    scores = policy().logp(params, rollouts)
    return (jnp.sin(scores.logprobs) + scores.entropy).sum(), scores

  call = jax.jit(jax.grad(loss, has_aux=True))
  (grad, scores), (grad_rows, score_rows) = call(toys.toy(), rollouts), call(toys.toy(), rollouts.as_rows())
  np.testing.assert_allclose(score_rows.logprobs.reshape(3, 6, WIDTH), scores.logprobs, atol=1e-5)
  for a, b in zip(jax.tree.leaves(grad), jax.tree.leaves(grad_rows)):
    np.testing.assert_allclose(a, b, atol=1e-4 * float(jnp.abs(a).max()) + 1e-6)


@pytest.mark.case(16)
def test_tokens_outside_the_support_keep_finite_scores_and_gradients():
  rollouts = sampled("cool")
  call = jax.jit(jax.value_and_grad(lambda p: policy("top_k").logp(p, rollouts).logprobs.sum()))
  value, grad = call(toys.toy(toys.BASE, 9))
  assert bool(jnp.isfinite(value))
  assert all(bool(jnp.isfinite(g).all()) for g in jax.tree.leaves(grad))


def test_low_rank_updates_are_sampled_and_scored():
  fresh = lora.init_lora(toys.BASE, jax.random.key(0), rank=2, alpha=4.0)
  moved = jax.tree.map(lambda x: x + 0.2, fresh.matrices)
  params = lora.with_lora(toys.toy(), fresh._replace(matrices=moved))
  rollouts = policy("cool").sample(params, toys.prompts(group=6), jax.random.key(1))
  scores = policy("cool").logp(params, rollouts)
  assert float(jnp.abs(scores.logprobs - rollouts.logprobs).max()) < 1e-4
  base = policy("cool").logp(toys.toy(), rollouts)
  assert float(jnp.abs(scores.logprobs - base.logprobs).max()) > 0.1


def test_scores_of_one_token_completions():
  rollouts = sampled("cool")
  one = dataclasses.replace(
    rollouts, completion=rollouts.completion[:, :, :1], length=jnp.minimum(rollouts.length, 1)
  )
  got = policy("cool").logp(toys.toy(), one)
  np.testing.assert_allclose(got.logprobs[..., 0], rollouts.logprobs[..., 0], atol=1e-4)


def test_greedy_and_bidirectional_policies_are_refused():
  greedy = autoregressive(toys.BASE, rules=(Temperature(0.0),), stop_ids=STOPS, max_new_tokens=2)
  with pytest.raises(ValueError, match=r"Temperature\.value=0\.0.*above 0"):
    greedy.logp(toys.toy(), sampled("cool"))
  with pytest.raises(ValueError, match="causal=False"):
    autoregressive(toys.BASE.replace(causal=False), stop_ids=STOPS, max_new_tokens=2)
