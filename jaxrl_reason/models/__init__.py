"""The decoder: shapes, parameters, forward passes, low-rank updates, files."""

from jaxrl_reason.models.config import ModelConfig, from_dict, to_dict
from jaxrl_reason.models.params import abstract_params, init_params, logical_axes, stack_layers, unstack_layers

__all__ = [
  "ModelConfig",
  "abstract_params",
  "from_dict",
  "init_params",
  "logical_axes",
  "stack_layers",
  "to_dict",
  "unstack_layers",
]
