"""The smallest run of the real loop: a one-layer model from scratch on sums of one-digit numbers."""

import json

import jax
import numpy as np
from ml_collections import ConfigDict

from configs.testbeds import tiny_arithmetic
from jaxrl_reason import aggregate, credit, penalty, prompts, ratio, reward, surrogate
from jaxrl_reason.method import Method


def config(**changes) -> ConfigDict:
  out = tiny_arithmetic()
  out.model = "scratch"
  out.architecture = ConfigDict(
    {"width": 8, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 4, "mlp_width": 8}
  )
  out.steps = 4
  out.task = ConfigDict({"name": "arithmetic", "digits": 1, "terms": 2})
  out.batch = ConfigDict({"prompts": 4, "group": 2})
  out.sampling.prompt_tokens, out.sampling.completion_tokens = 8, 5
  out.updates.minibatches = 2
  out.optimizer.learning_rate = 1e-2
  out.eval.problems, out.eval.samples, out.eval.batch = 4, 2, 4
  out.checkpoint.every = 1
  out.checkpoint.keep = 10
  out.log.every, out.log.rollouts, out.log.tensorboard = 2, 1, False
  out.mesh.data = 1
  out.clip = 0.2
  out.beta = 0.04
  with out.unlocked():
    for name, value in changes.items():
      section, _, field = name.rpartition("__")
      (out[section] if section else out)[field] = value
  return out


def method(config) -> Method:
  """Credit of a random byte soup: the reward counts digits, so that groups differ and everything moves."""
  digits = reward.term("digits", lambda row: sum(c.isdigit() for c in row.text) + 0.1 * row.length)
  return Method(
    prompts=prompts.uniform(),
    reward=reward.composite(reward.verified(), digits),
    credit=credit.chain(credit.center_by_group(), credit.scale_by_group_std()),
    ratio=ratio.token(),
    surrogate=surrogate.clip(config.clip, config.clip),
    penalties=(penalty.kl_k3(config.beta),),
    aggregate=aggregate.token_mean(),
  )


def assert_equal_trees(one, other):
  """Bit for bit."""
  assert jax.tree.structure(one) == jax.tree.structure(other)
  for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def rows(workdir):
  return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def timeless(row):
  """A row without what depends on the clock or on what was compiled before."""
  drop = ("time/", "tokens_per", "compile_count")
  return {k: v for k, v in row.items() if not k.startswith(drop)}
