"""The decode loop: prefill and `lax.while_loop` in one program, for groups that share their prompt."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.decoder import decode_step, empty_cache, logits_of, prefill, unembedding
from jaxrl_reason.models.logprobs import apply_rules, distribution_scores, ruled_scores
from jaxrl_reason.models.params import unrolled
from jaxrl_reason.sample.draw import inverse_cdf, row_keys, uniforms
from jaxrl_reason.sample.rules import Rule, is_greedy
from jaxrl_reason.types import Params, Prompts, Rollouts


class _Rows(NamedTuple):
  """What the loop carries for every row, besides the cache."""

  completion: Int[Array, "P G T"]
  logprobs: Float[Array, "P G T"]
  entropy: Float[Array, "P G T"]
  length: Int[Array, "P G"]
  running: Bool[Array, "P G"]
  stopped: Bool[Array, "P G"]  # ended by a stop id, not by its budget


class _Ends(NamedTuple):
  stop_ids: tuple[int, ...]
  pad_id: int


def decode(
  config: ModelConfig,
  params: Params,
  prompts: Prompts,
  key: Array,
  *,
  max_new_tokens: int,
  rules: Sequence[Rule] = (),
  stop_ids: Sequence[int] = (),
  pad_id: int | None = None,
) -> Rollouts:
  """Completions of every prompt's group, with the behaviour policy's log-probabilities and entropy in nats.

  A row ends with a stop id (counted in its length; at position 0 too, and a forced one too) or when its
  budget, at most `max_new_tokens`, is used up: then it is marked `truncated`. Positions after the end hold
  `pad_id` (the first stop id unless given). Marks: `entropy`, `truncated`, and `state_mask` (True on forced
  tokens) if `prompts.forced` is given. Rewards are zero.

  A draw depends on (key, problem_id, rollout_id, position) alone; batch-mates, their order, the padding of
  prompts, `max_new_tokens` and the number of devices do not matter. With `Temperature(0.0)` every log-prob is
  0, of a forced token too: evaluate with it, do not train on it.
  """
  ends = _check(config, prompts, max_new_tokens, stop_ids, pad_id)
  return _decode(config, max_new_tokens, tuple(rules), ends, params, prompts=prompts, key=key)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _decode(config, width, rules, ends, params, *, prompts, key) -> Rollouts:
  config, params = unrolled(config, params)
  params = jax.lax.optimization_barrier(params)  # slices and casts of weights happen once, before the loop
  matrix = unembedding(config, params)
  context, hidden = prefill(config, params, prompts.tokens, prompts.length)
  shape = (prompts.rollout_id.shape[0], prompts.rollout_id.shape[1])
  budget = jnp.full(shape, width) if prompts.budget is None else jnp.minimum(prompts.budget, width)
  forced = _forced(prompts.forced, width)
  keys = row_keys(key, prompts.problem_id, prompts.rollout_id)

  def record(rows: _Rows, logits: Array, step: Array) -> _Rows:
    force = None if forced is None else jax.lax.dynamic_index_in_dim(forced, step, 2, keepdims=False)
    token, logprob, entropy = _choose(logits, rules, keys, step, force)
    return _record(rows, (token, logprob, entropy), step, budget, ends)

  def body(state: tuple[_Rows, Any, Array]) -> tuple[_Rows, Any, Array]:
    rows, cache, step = state
    before = jax.lax.dynamic_index_in_dim(rows.completion, step - 1, 2, keepdims=False)
    hidden, cache = decode_step(config, params, context, cache, tokens=before, step=step - 1)
    logits = logits_of(hidden.reshape(-1, hidden.shape[-1]), matrix)
    return record(rows, logits.reshape(*shape, -1), step), cache, step + 1

  def unfinished(state: tuple[_Rows, Any, Array]) -> Array:
    return (state[2] < width) & state[0].running.any()

  first = jnp.broadcast_to(logits_of(hidden, matrix)[:, None], (*shape, matrix.shape[1]))
  rows = record(_empty(shape, width, ends.pad_id, budget), first, jnp.int32(0))
  state = (rows, empty_cache(config, shape, width), jnp.int32(1))
  return _rollouts(prompts, jax.lax.while_loop(unfinished, body, state)[0], forced)


def _choose(logits: Array, rules: tuple[Rule, ...], keys: Array, step: Array, force: Array | None):
  """The next token of every row with its log-probability and entropy; a forced token replaces the draw."""
  ruled = apply_rules(rules, logits)
  if is_greedy(rules):
    token = jnp.argmax(ruled, axis=-1).astype(jnp.int32)
  else:
    weights = jnp.exp(ruled - ruled.max(-1, keepdims=True))
    token = inverse_cdf(weights, uniforms(keys, step))
  if force is None:
    return token, *distribution_scores(ruled, token)
  token = jnp.where(force >= 0, force, token)
  return token, *ruled_scores(logits, token, rules)


def _record(rows: _Rows, choice, step, budget, ends: _Ends) -> _Rows:
  """Writes one token of every running row and ends the rows that stop here."""
  token, logprob, entropy = choice
  stop = functools.reduce(jnp.logical_or, [token == i for i in ends.stop_ids], jnp.zeros_like(rows.running))

  def write(array: Array, value: Array, outside: float | int) -> Array:
    value = jnp.where(rows.running, value, outside).astype(array.dtype)
    return jax.lax.dynamic_update_slice_in_dim(array, value[..., None], step, 2)

  return _Rows(
    completion=write(rows.completion, token, ends.pad_id),
    logprobs=write(rows.logprobs, logprob, 0.0),
    entropy=write(rows.entropy, entropy, 0.0),
    length=rows.length + rows.running,
    running=rows.running & ~stop & (step + 1 < budget),
    stopped=rows.stopped | (rows.running & stop),
  )


def _empty(shape: tuple[int, int], width: int, pad_id: int, budget: Array) -> _Rows:
  return _Rows(
    completion=jnp.full((*shape, width), pad_id, jnp.int32),
    logprobs=jnp.zeros((*shape, width)),
    entropy=jnp.zeros((*shape, width)),
    length=jnp.zeros(shape, jnp.int32),
    running=budget > 0,
    stopped=jnp.zeros(shape, bool),
  )


def _rollouts(prompts: Prompts, rows: _Rows, forced: Array | None) -> Rollouts:
  rollouts = Rollouts(
    prompt=prompts.tokens,
    prompt_length=prompts.length,
    completion=rows.completion,
    length=rows.length,
    logprobs=rows.logprobs,
    rewards=jnp.zeros(rows.length.shape),
    marks={"entropy": rows.entropy, "truncated": ~rows.stopped},
  )
  return rollouts if forced is None else rollouts.mark(state_mask=(forced >= 0) & rollouts.inside)


def _forced(forced: Array | None, width: int) -> Int[Array, "P G T"] | None:
  """Forced tokens cut or filled (−1 = free) to the width of the loop."""
  if forced is None:
    return None
  forced = forced[:, :, :width].astype(jnp.int32)
  return jnp.pad(forced, ((0, 0), (0, 0), (0, width - forced.shape[2])), constant_values=-1)


def _check(config, prompts, max_new_tokens, stop_ids, pad_id) -> _Ends:
  if max_new_tokens < 1:
    raise ValueError(f"max_new_tokens={max_new_tokens!r}; allowed: an integer of at least 1")
  for name, ids in (("stop_ids", stop_ids), ("pad_id", () if pad_id is None else (pad_id,))):
    for i in ids:
      if not 0 <= i < config.vocab_size:
        raise ValueError(f"{name} holds {i}; allowed: 0 to {config.vocab_size - 1} (vocab_size - 1)")
  if prompts.tokens.shape[0] != prompts.rollout_id.shape[0]:
    raise ValueError(
      f"Prompts.rollout_id has shape {prompts.rollout_id.shape}; allowed: P = {prompts.tokens.shape[0]} "
      "rows, as in Prompts.tokens"
    )
  stop_ids = tuple(int(i) for i in stop_ids)
  if pad_id is None:
    pad_id = stop_ids[0] if stop_ids else 0
  return _Ends(stop_ids, int(pad_id))
