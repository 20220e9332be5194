"""Second stage of the embedded model's pretraining: sums of three-digit numbers join the mixture.

  python -m jaxrl_reason.sft --config configs/pretrain_stage2.py --workdir runs/pretrain_stage2 \\
    --config.model=runs/pretrain/model

Goes on from the model that it is given with a fresh optimizer (experiments/embedded_model/README.md).
"""

from ml_collections import ConfigDict

from configs import pretrain

method = pretrain.method


def get_config():
  config = pretrain.get_config()
  del config.architecture
  config.model = "embedded"
  config.steps = 600
  config.optimizer.learning_rate = 1e-3
  config.eval.every, config.checkpoint.every, config.log.every = 200, 200, 200
  config.task.parts = ConfigDict(
    {
      "three_digits": {"name": "arithmetic", "digits": 3, "weight": 4.0},
      "two_digits": {"name": "arithmetic", "digits": 2, "weight": 1.0},
      "countdown": {"name": "countdown", "weight": 1.0},
      "counting": {"name": "counting", "weight": 1.0},
      "number_words": {"name": "number_words", "weight": 1.0},
      "shortest_path": {"name": "shortest_path", "weight": 1.0},
    }
  )
  return config
