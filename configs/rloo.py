"""RLOO: REINFORCE with a leave-one-out baseline (Ahmadian et al. 2024, arXiv 2402.14740).

  python -m jaxrl_reason.train --config configs/rloo.py --workdir runs/rloo

One on-policy update per batch; the gradient of −ρ c at ρ = 1 is REINFORCE's.
Departure: the KL to the reference is a penalty with unbiased gradient, not a part of the reward.
"""

from configs.testbeds import tiny_arithmetic
from jaxrl_reason import aggregate, credit, penalty, prompts, ratio, reward, surrogate
from jaxrl_reason.method import Method


def get_config():
  config = tiny_arithmetic()
  config.beta = 0.01
  return config


def method(config):
  return Method(
    prompts=prompts.uniform(),
    reward=reward.verified(),
    credit=credit.leave_one_out(),
    ratio=ratio.token(),
    surrogate=surrogate.importance_weighted(),
    penalties=(penalty.kl(config.beta),),
    aggregate=aggregate.constant_length(config.sampling.completion_tokens),
  )
