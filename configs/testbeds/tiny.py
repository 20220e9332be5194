"""Testbeds for the model that ships with the package: minutes on two cores."""

from ml_collections import ConfigDict


def tiny_arithmetic() -> ConfigDict:
  """The embedded model on sums of two three-digit numbers, which it answers at once or after thinking.

  Evaluation has the shape of a training batch, so that one sampling program serves both.
  """
  config = ConfigDict()
  config.seed = 0
  config.steps = 100
  config.model = "embedded"
  config.truncated = "grade"
  config.task = ConfigDict({"name": "arithmetic", "digits": 3})
  config.batch = ConfigDict({"prompts": 16, "group": 8})
  config.sampling = ConfigDict(
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "prompt_tokens": 12, "completion_tokens": 24}
  )
  config.updates = ConfigDict({"epochs": 1, "minibatches": 1, "micro_batch": 0})
  config.optimizer = ConfigDict(
    {
      "learning_rate": 1.5e-4,
      "warmup_steps": 5,
      "final_fraction": 1.0,
      "b1": 0.9,
      "b2": 0.99,
      "eps": 1e-8,
      "weight_decay": 0.0,
      "clip_norm": 1.0,
    }
  )
  config.eval = ConfigDict(
    {"every": 0, "problems": 128, "samples": 8, "temperature": 1.0, "split": "test", "batch": 16}
  )
  config.checkpoint = ConfigDict({"every": 50, "keep": 2})
  config.log = ConfigDict({"every": 20, "rollouts": 4, "tensorboard": True, "wandb": False})
  config.mesh = ConfigDict({"data": -1, "fsdp": 1, "tensor": 1})
  config.lora = ConfigDict({"rank": 0, "alpha": 16.0, "targets": ("q", "v")})
  return config


def tiny_countdown() -> ConfigDict:
  """The embedded model on countdown with three numbers."""
  config = tiny_arithmetic()
  config.task = ConfigDict({"name": "countdown"})
  config.sampling.prompt_tokens = 32
  config.sampling.completion_tokens = 40
  return config


def tiny_pretraining() -> ConfigDict:
  """A model from scratch on generated solutions of several tasks."""
  config = tiny_arithmetic()
  del config.lora
  config.model = "scratch"
  config.architecture = ConfigDict(
    {"width": 128, "layers": 4, "heads": 4, "kv_heads": 4, "head_dim": 32, "mlp_width": 512}
  )
  config.batch = ConfigDict({"prompts": 64, "group": 1})
  config.eval.samples, config.eval.batch = 4, 64
  config.sampling.prompt_tokens = 40
  config.sampling.completion_tokens = 28
  config.optimizer.learning_rate = 2e-3
  config.optimizer.warmup_steps = 50
  config.optimizer.weight_decay = 0.01
  config.optimizer.final_fraction = 0.1
  return config
