"""The host half of a step: problems in, graded rollouts out."""

import collections
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_reason.method import Method
from jaxrl_reason.reward import RewardBatch
from jaxrl_reason.testbed import Testbed
from jaxrl_reason.text import encode_prompts
from jaxrl_reason.types import Curriculum, Problem, Prompts, Rollouts

ROUNDS = 20  # proposals asked for before a batch that stays short is an error


class Collected(NamedTuple):
  """One batch on the host."""

  problems: list[Problem]
  texts: list[list[str]]
  reward: RewardBatch


def gather(
  curriculum: Curriculum, state: dict[str, Any], bed: Testbed, count: int
) -> tuple[dict[str, Any], list[Problem], np.ndarray, np.ndarray, int]:
  """Asks the curriculum until `count` problems fit into the prompt budget.

  Returns (state, problems, tokens [P, L], lengths [P], dropped): over-long prompts are dropped and counted,
  never cut. Raises ValueError where the task gives none that fits.
  """
  limit = bed.settings.sampling.prompt_tokens
  kept: list[Problem] = []
  tokens, lengths, dropped = [], [], 0
  for _ in range(ROUNDS):
    state, proposed = curriculum.propose(state, bed.task, count - len(kept))
    encoded = encode_prompts(bed.tokenizer, [p.prompt for p in proposed], limit, empty_ok=True)
    kept += [proposed[i] for i in encoded.kept]
    tokens.append(encoded.tokens)
    lengths.append(encoded.length)
    dropped += len(proposed) - len(encoded.kept)
    if len(kept) == count:
      return state, kept, np.concatenate(tokens), np.concatenate(lengths), dropped
  raise ValueError(
    f"config.sampling.prompt_tokens={limit}: {dropped} prompts of task {bed.task.name!r} are longer and only "
    f"{len(kept)} of {count} fit; allowed: a budget that most prompts fit"
  )


def as_prompts(problems: list[Problem], tokens: np.ndarray, lengths: np.ndarray, group: int) -> Prompts:
  """Device prompts; a problem that stands twice in the batch gets fresh rollout ids, so its draws differ."""
  seen: collections.Counter = collections.Counter()
  first = []
  for p in problems:
    first.append(seen[p.id] * group)
    seen[p.id] += 1
  return Prompts(
    tokens=jnp.asarray(tokens, jnp.int32),
    length=jnp.asarray(lengths, jnp.int32),
    problem_id=jnp.asarray([p.id for p in problems], jnp.uint32),
    rollout_id=jnp.asarray(np.asarray(first)[:, None] + np.arange(group)[None], jnp.uint32),
  )


def sample(bed: Testbed, params: Any, prompts: Prompts, key: jax.Array, evaluating: bool = False) -> Rollouts:
  """Samples on the mesh; a batch that the mesh does not divide is padded, and the padding cut off again."""
  policy = bed.eval_policy if evaluating else bed.policy
  if bed.mesh is None:
    return policy.sample(params, prompts, key)
  count, devices = prompts.tokens.shape[0], bed.mesh.shape["data"] * bed.mesh.shape["fsdp"]
  index = jnp.minimum(jnp.arange(count + -count % devices), count - 1)
  padded = jax.tree.map(lambda x: x[index], prompts)
  sharding = jax.sharding.NamedSharding(bed.mesh, jax.sharding.PartitionSpec(("data", "fsdp")))
  rollouts = policy.sample(params, jax.device_put(padded, sharding), key)
  return jax.tree.map(lambda x: x[:count], rollouts)


def demonstrate(
  bed: Testbed, method: Method, problems: list[Problem], prompts: Prompts, step: int
) -> Rollouts:
  """Given completions as rollouts: the tokens of the demonstration and the stop token."""
  assert method.demonstrations is not None
  shape = (len(problems), prompts.rollout_id.shape[1], bed.settings.sampling.completion_tokens)
  completion = np.full(shape, bed.tokenizer.pad_id, np.int32)
  length, truncated = np.zeros(shape[:2], np.int32), np.zeros(shape[:2], bool)
  for p, problem in enumerate(problems):
    for g in range(shape[1]):
      text = method.demonstrations(bed.task, problem, step * shape[1] + g)
      ids = [*bed.tokenizer.encode(text), bed.tokenizer.stop_ids[0]]
      truncated[p, g] = len(ids) > shape[2]
      ids = ids[: shape[2]]
      completion[p, g, : len(ids)], length[p, g] = ids, len(ids)
  zeros = jnp.zeros(shape)
  return Rollouts(
    prompt=prompts.tokens,
    prompt_length=prompts.length,
    completion=jnp.asarray(completion),
    length=jnp.asarray(length),
    logprobs=zeros,
    rewards=jnp.zeros(shape[:2]),
    marks={"entropy": zeros, "truncated": jnp.asarray(truncated)},
  )


def texts_of(bed: Testbed, rollouts: Rollouts) -> list[list[str]]:
  """The completions as text: exactly the tokens inside the length, special tokens left out."""
  completion, length = jax.device_get((rollouts.completion, rollouts.length))
  decode = bed.tokenizer.decode
  return [
    [decode(row[:n].tolist()) for row, n in zip(rows, lengths, strict=True)]
    for rows, lengths in zip(completion, length, strict=True)
  ]


def grade(
  bed: Testbed, method: Method, problems: list[Problem], rollouts: Rollouts
) -> tuple[Rollouts, Collected]:
  """Scores every row and attaches `rewards`, `correct` and `weights`.

  Rows that a term cannot score get weight 0, and so do truncated rows where config.truncated is "drop".
  """
  texts = texts_of(bed, rollouts)
  length, truncated = jax.device_get((rollouts.length, rollouts["truncated"]))
  batch = method.reward(bed.task, problems, texts, length)
  rewards, weights = batch.rewards, batch.valid.astype(np.float32)
  if bed.settings.truncated == "zero":
    rewards = np.where(truncated, 0.0, rewards).astype(np.float32)
  elif bed.settings.truncated == "drop":
    weights = weights * ~truncated
  rollouts = dataclasses.replace(rollouts, rewards=jnp.asarray(rewards)).mark(
    weights=jnp.asarray(weights, jnp.float32), correct=jnp.asarray(np.asarray(batch.outcomes) == "correct")
  )
  return rollouts, Collected(problems, texts, batch)
