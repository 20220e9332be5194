"""Quickstart: a small language model finds out that thinking pays.

  python -m jaxrl_reason.train --config configs/quickstart.py --workdir runs/quickstart

The embedded model was pretrained on demonstrations that think step by step (40 %) or answer at once (60 %).
GRPO on sums of two three-digit numbers, one on-policy update per batch, no penalty.
"""

from configs.testbeds import tiny_arithmetic
from jaxrl_reason import aggregate, credit, prompts, ratio, reward, surrogate
from jaxrl_reason.method import Method


def get_config():
  config = tiny_arithmetic()
  config.steps = 80
  config.eval.every = 20
  config.optimizer.learning_rate = 1e-4
  return config


def method(config):
  del config  # every number of this method is the testbed's
  return Method(
    prompts=prompts.uniform(),
    reward=reward.verified(),
    credit=credit.chain(credit.center_by_group(), credit.scale_by_group_std()),
    ratio=ratio.token(),
    surrogate=surrogate.importance_weighted(),
    penalties=(),
    aggregate=aggregate.token_mean(),
  )
