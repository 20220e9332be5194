"""Tiny ragged models and prompts that the tests share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.params import init_params
from jaxrl_reason.types import Prompts

BASE = ModelConfig(vocab_size=17, width=16, layers=2, heads=4, kv_heads=2, head_dim=4, mlp_width=24)
FAMILIES = {
  "gqa": BASE,
  "biases": BASE.replace(qkv_bias=True, o_bias=True, mlp_bias=True, kv_heads=4),
  "qk_norm": BASE.replace(qk_norm=True, kv_heads=1, head_dim=6, rope_theta=500.0),
  "untied": BASE.replace(tied_embeddings=False, norm_eps=1e-3),
  "stacked": BASE.replace(scan_layers=True, qkv_bias=True),
}
STOP = 3


@functools.lru_cache
def toy(config: ModelConfig = BASE, seed: int = 0):
  """Parameters large enough for uneven distributions; biases and scales moved off their initial values."""
  params = init_params(config, jax.random.key(seed))
  leaves, tree = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
  moved = [8 * x * (x != 1) + (x == 1) + 0.2 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys)]
  return jax.tree.unflatten(tree, moved)


def as_float64(params):
  return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


def prompts(lengths=(5, 2, 4), group=3, width=None, seed=0, **fields) -> Prompts:
  """Ragged prompts; what lies in the padding is arbitrary."""
  width = width or max(lengths)
  rng = np.random.default_rng(seed)
  tokens = np.stack([np.pad(rng.integers(0, 17, n), (0, width - n), constant_values=9) for n in lengths])
  return Prompts(
    tokens=jnp.asarray(tokens, jnp.int32),
    length=jnp.asarray(lengths, jnp.int32),
    problem_id=jnp.arange(len(lengths), dtype=jnp.uint32) * 7 + 1,
    rollout_id=jnp.tile(jnp.arange(group, dtype=jnp.uint32)[None], (len(lengths), 1)),
    **fields,
  )


def rows(rollouts):
  """(prompt tokens, completion tokens, [p, g]) of every row, cut to their lengths."""
  for p in range(rollouts.completion.shape[0]):
    prompt = np.asarray(rollouts.prompt[p])[: int(rollouts.prompt_length[p])]
    for g in range(rollouts.completion.shape[1]):
      yield prompt, np.asarray(rollouts.completion[p, g])[: int(rollouts.length[p, g])], (p, g)
