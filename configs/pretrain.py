"""Pretrains the embedded model: maximum likelihood of generated solutions of several tasks, from scratch.

  python -m jaxrl_reason.sft --config configs/pretrain.py --workdir runs/pretrain

Of the demonstrations, `direct_fraction` answer at once; the others reason step by step first. The result
ships in the package (experiments/embedded_model/README.md).
"""

from ml_collections import ConfigDict

from configs.testbeds import tiny_pretraining
from jaxrl_reason import aggregate, credit, losses, prompts, reward, tasks
from jaxrl_reason.method import Method


def get_config():
  config = tiny_pretraining()
  config.steps = 1500
  config.eval.every = 500
  config.checkpoint.every = 500
  config.log.every = 500
  config.direct_fraction = 0.6
  config.task = ConfigDict(
    {
      "name": "mixture",
      "parts": {
        "arithmetic": {"name": "arithmetic", "weight": 3.0},
        "countdown": {"name": "countdown", "weight": 1.0},
        "counting": {"name": "counting", "weight": 1.0},
        "number_words": {"name": "number_words", "weight": 1.0},
        "shortest_path": {"name": "shortest_path", "weight": 1.0},
      },
    }
  )
  return config


def method(config):
  return Method(
    prompts=prompts.uniform(),
    reward=reward.verified(),
    credit=credit.chain(),
    objective=losses.sft(aggregate.token_mean()),
    demonstrations=tasks.demonstrations(config.direct_fraction),
  )
