"""Dr. GRPO: GRPO without its two biases, spread and length (Liu et al. 2025, arXiv 2503.20783).

  python -m jaxrl_reason.train --config configs/dr_grpo.py --workdir runs/dr_grpo

Credit is centred and not scaled; the loss of a row is divided by a constant number of tokens.
"""

from configs.testbeds import tiny_arithmetic
from jaxrl_reason import aggregate, credit, prompts, ratio, reward, surrogate
from jaxrl_reason.method import Method


def get_config():
  config = tiny_arithmetic()
  config.clip = 0.2
  config.updates.minibatches = 2
  return config


def method(config):
  return Method(
    prompts=prompts.uniform(),
    reward=reward.verified(),
    credit=credit.center_by_group(),
    ratio=ratio.token(),
    surrogate=surrogate.clip(config.clip, config.clip),
    penalties=(),
    aggregate=aggregate.constant_length(config.sampling.completion_tokens),
  )
