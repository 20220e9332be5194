"""The decoder: shapes, parameters, forward passes, low-rank updates, files."""

import pathlib

from jaxrl_reason.models.config import ModelConfig, from_dict, to_dict
from jaxrl_reason.models.io import load, load_config, save
from jaxrl_reason.models.lora import init_lora, lora_axes, merge_lora, trainable_mask, with_lora
from jaxrl_reason.models.params import (
  abstract_params,
  init_params,
  logical_axes,
  stack_layers,
  unstack_layers,
)

EMBEDDED = pathlib.Path(__file__).parent / "embedded"  # the pretrained model that ships with the package

__all__ = [
  "EMBEDDED",
  "ModelConfig",
  "abstract_params",
  "from_dict",
  "init_lora",
  "init_params",
  "load",
  "load_config",
  "logical_axes",
  "lora_axes",
  "merge_lora",
  "save",
  "stack_layers",
  "to_dict",
  "trainable_mask",
  "unstack_layers",
  "with_lora",
]
