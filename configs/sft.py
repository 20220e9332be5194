"""SFT: maximum likelihood of reference solutions, from the embedded model.

  python -m jaxrl_reason.sft --config configs/sft.py --workdir runs/sft

`direct_fraction` of the demonstrations give the answer at once; the others reason step by step first.
"""

from configs.testbeds import tiny_arithmetic
from jaxrl_reason import aggregate, credit, losses, prompts, reward, tasks
from jaxrl_reason.method import Method


def get_config():
  config = tiny_arithmetic()
  config.batch = {"prompts": 64, "group": 1}
  config.direct_fraction = 0.0
  return config


def method(config):
  return Method(
    prompts=prompts.uniform(),
    reward=reward.verified(),
    credit=credit.chain(),
    objective=losses.sft(aggregate.token_mean()),
    demonstrations=tasks.demonstrations(config.direct_fraction),
  )
