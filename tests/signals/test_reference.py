"""The reference signal is the scorer's own word under the reference parameters."""

import jax
import numpy as np

from jaxrl_reason import collect, signals
from jaxrl_reason import train as loop
from jaxrl_reason.testbed import build
from tests.train import tiny


def test_reference_logprobs_are_the_policys_scores_under_the_reference():
  method, settings = loop.resolve(tiny.config(), tiny.method)
  bed = build(settings)
  _, problems, tokens, lengths, _ = collect.gather(method.prompts, method.prompts.init(0), bed, 4)
  rollouts = collect.sample(
    bed, bed.params, collect.as_prompts(problems, tokens, lengths, 2), jax.random.key(0)
  )
  other = jax.tree.map(lambda x: x * 1.1, bed.params)
  signal = signals.reference_logprobs()
  got = signal.compute(bed.params, other, bed.policy, rollouts)
  np.testing.assert_array_equal(got, bed.policy.logp(other, rollouts).logprobs)
  same = signal.compute(other, bed.params, bed.policy, rollouts)
  np.testing.assert_allclose(same, rollouts.logprobs, atol=1e-4)  # the behaviour policy itself
  assert not np.allclose(got, same)
