"""The ordinary policy: tokens one after another, π(y | x) = Π_t π(y_t | x, y_<t)."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.decoder import extend, prefill, unembedding
from jaxrl_reason.models.logprobs import token_scores
from jaxrl_reason.sample.decode import decode
from jaxrl_reason.sample.rules import Rule, is_greedy
from jaxrl_reason.types import Params, Policy, Prompts, Rollouts, Scores


def autoregressive(
  config: ModelConfig,
  *,
  rules: Sequence[Rule] = (),
  stop_ids: Sequence[int],
  max_new_tokens: int,
  pad_id: int | None = None,
  chunk: int = 1024,
) -> Policy:
  """Sampler and scorer of one decoder, with the same rules and the same layers.

  `logp` reads each prompt once and every completion of its group after it: y_1 is predicted by the prompt's
  last token, y_t by y_(t−1). Padding lies only after what is read, so it cannot change a number. Scores are
  float32, in nats, and 0 outside `rollouts.inside`. `params` may carry low-rank updates (models/lora.py).

  Errors: a model that is not causal; `logp` with Temperature(0.0), whose log-probabilities are all 0.
  """
  rules = tuple(rules)
  if not config.causal:
    raise ValueError("ModelConfig.causal=False; allowed for autoregressive(): a causal model")

  def sample(params: Params, prompts: Prompts, key: Array) -> Rollouts:
    return decode(
      config,
      params,
      prompts,
      key,
      max_new_tokens=max_new_tokens,
      rules=rules,
      stop_ids=stop_ids,
      pad_id=pad_id,
    )

  def logp(params: Params, rollouts: Rollouts) -> Scores:
    if is_greedy(rules):
      raise ValueError(
        "Temperature.value=0.0 in the rules of a policy that is scored; allowed: above 0 (greedy is a point "
        "mass whose log-probabilities are all 0, so there is nothing to train on: use it to evaluate)"
      )
    context, last = prefill(config, params, rollouts.prompt, rollouts.prompt_length)
    group = rollouts.completion.shape[1]
    first = jnp.broadcast_to(last[:, None, None], (last.shape[0], group, 1, last.shape[1]))
    hidden = first
    if rollouts.completion.shape[2] > 1:
      rest = extend(config, params, context, rollouts.completion[:, :, :-1])
      hidden = jnp.concatenate([first, rest], axis=2)
    logprobs, entropy = token_scores(
      hidden.reshape(-1, hidden.shape[-1]),
      unembedding(config, params),
      rollouts.completion.reshape(-1),
      rules,
      chunk,
    )
    shape, inside = rollouts.completion.shape, rollouts.inside
    return Scores(
      jnp.where(inside, logprobs.reshape(shape), 0.0), jnp.where(inside, entropy.reshape(shape), 0.0)
    )

  return Policy(sample, logp)
