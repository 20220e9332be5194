"""GRPO: group-relative policy optimisation (Shao et al. 2024, arXiv 2402.03300).

  python -m jaxrl_reason.train --config configs/grpo.py --workdir runs/grpo

Outcome supervision with the k3 penalty, two updates per batch. Departure: the standard deviation is the
population's.
"""

from configs.testbeds import tiny_arithmetic
from jaxrl_reason import aggregate, credit, penalty, prompts, ratio, reward, surrogate
from jaxrl_reason.method import Method


def get_config():
  config = tiny_arithmetic()
  config.clip = 0.2
  config.beta = 0.04
  config.updates.minibatches = 2
  return config


def method(config):
  return Method(
    prompts=prompts.uniform(),
    reward=reward.verified(),
    credit=credit.chain(credit.center_by_group(), credit.scale_by_group_std()),
    ratio=ratio.token(),
    surrogate=surrogate.clip(config.clip, config.clip),
    penalties=(penalty.kl_k3(config.beta),),
    aggregate=aggregate.sequence_mean(),
  )
