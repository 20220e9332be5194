"""Named testbeds: model, task, optimizer and budget, which a method's config must not repeat."""

from configs.testbeds.tiny import tiny_arithmetic, tiny_countdown, tiny_pretraining

__all__ = ["tiny_arithmetic", "tiny_countdown", "tiny_pretraining"]
