"""On-device reward: the same numbers as the host's, from rollouts and answer arrays, in one program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason import reward, tasks
from jaxrl_reason.text import ByteTokenizer, decode_completions
from jaxrl_reason.types import Rollouts


def rollouts(texts, width=20):
  tokenizer = ByteTokenizer()
  rows = [[[*tokenizer.encode(text), tokenizer.eos_id] for text in group] for group in texts]
  length = np.array([[len(row) for row in group] for group in rows])
  tokens = np.full((*length.shape, width), ord(">"))
  for p, group in enumerate(rows):
    for g, row in enumerate(group):
      tokens[p, g, : len(row)] = row
  zeros = jnp.zeros(length.shape)
  one = jnp.ones(len(texts), jnp.int32)
  return Rollouts(one[:, None], one, jnp.asarray(tokens), jnp.asarray(length), jnp.zeros(tokens.shape), zeros)


def test_equals_the_host_reward_under_jit():
  task, tokenizer = tasks.Arithmetic(), ByteTokenizer()
  problems = [task.problem("test", i) for i in range(3)]
  texts = [[p.solution, task.direct(p), p.answer, task.direct(p) + "1"] for p in problems]
  batch = rollouts(texts)
  answer, answer_length = tasks.answer_arrays(tokenizer, problems, 4)
  got = jax.jit(reward.array_exact_match(tokenizer, weight=0.5))(
    batch, jnp.asarray(answer), jnp.asarray(answer_length)
  )
  decoded = decode_completions(tokenizer, np.asarray(batch.completion), np.asarray(batch.length))
  host = reward.verified(0.5)(task, problems, decoded, np.asarray(batch.length))
  np.testing.assert_array_equal(got, host.rewards)
  np.testing.assert_array_equal(got, [[0.5, 0.5, 0, 0]] * 3)


def test_a_tokenizer_that_merges_bytes_is_refused():
  class Words(ByteTokenizer):
    def encode(self, text):
      return [len(word) for word in text.split()]

  with pytest.raises(
    ValueError, match="Words merges bytes into longer tokens; allowed: a byte-level tokenizer"
  ):
    reward.array_exact_match(Words())
