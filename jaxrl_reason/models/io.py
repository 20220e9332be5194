"""Parameters on disk: a folder with `config.json` and `model.safetensors`, keys as dotted paths."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from jaxrl_reason.models import config as configs
from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.params import abstract_params, dotted, flatten, nest
from jaxrl_reason.types import Params, nearest

CONFIG, WEIGHTS = "config.json", "model.safetensors"
DTYPES: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}


def save(folder: str | os.PathLike, config: ModelConfig, params: Params, *, dtype: str = "float32") -> None:
  """Writes config and weights; each file appears whole or not at all. `dtype` is that of the disk."""
  if dtype not in DTYPES:
    raise ValueError(f"dtype={dtype!r}; {nearest(dtype, DTYPES)}")
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  tensors = {dotted(path): np.asarray(x).astype(DTYPES[dtype]) for path, x in flatten(params).items()}
  _check_keys(folder / WEIGHTS, config, {name: x.shape for name, x in tensors.items()})
  part = folder / (WEIGHTS + ".part")
  save_file(tensors, part)
  os.replace(part, folder / WEIGHTS)
  part = folder / (CONFIG + ".part")
  part.write_text(json.dumps(configs.to_dict(config), indent=2) + "\n")
  os.replace(part, folder / CONFIG)


def load(folder: str | os.PathLike, config: ModelConfig | None = None) -> tuple[ModelConfig, Params]:
  """Config and float32 parameters of a folder. With `config` the weights must be those of that model.

  Errors name file and key: a file that is missing or cut short, a key too few or too many, a wrong shape.
  """
  folder = pathlib.Path(folder)
  config = config or load_config(folder)
  path = folder / WEIGHTS
  if not path.exists():
    raise FileNotFoundError(f"{path} is not there; a model's folder holds {CONFIG} and {WEIGHTS}")
  try:
    with safe_open(path, framework="numpy") as file:
      shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (not a dict)
      _check_keys(path, config, shapes)
      tensors = {name: jnp.asarray(file.get_tensor(name).astype(np.float32)) for name in shapes}
  except SafetensorError as error:
    raise ValueError(f"{path} is not a whole safetensors file (cut short or damaged): {error}") from error
  return config, nest({key: tensors[dotted(key)] for key in flatten(abstract_params(config))})


def load_config(folder: str | os.PathLike) -> ModelConfig:
  """The config of a folder."""
  path = pathlib.Path(folder) / CONFIG
  if not path.exists():
    raise FileNotFoundError(f"{path} is not there; a model's folder holds {CONFIG} and {WEIGHTS}")
  try:
    return configs.from_dict(json.loads(path.read_text()))
  except (ValueError, TypeError) as error:
    raise ValueError(f"{path}: {error}") from error


def _check_keys(path: pathlib.Path, config: ModelConfig, found: dict[str, tuple[int, ...]]) -> None:
  """Every parameter of the model, no other, each of its shape."""
  wanted = {dotted(key): x.shape for key, x in flatten(abstract_params(config)).items()}
  for name, shape in wanted.items():
    if name not in found:
      raise ValueError(f"{path} lacks {name!r} of shape {shape}; it holds {_nearest(name, found)}")
    if found[name] != shape:
      raise ValueError(f"{path}: {name!r} has shape {found[name]}; allowed: {shape} by ModelConfig")
  for name in found:
    if name not in wanted:
      raise ValueError(f"{path} holds {name!r}, which is no parameter of the model; {_nearest(name, wanted)}")


def _nearest(name: str, allowed: Any) -> str:
  """`nearest` without listing hundreds of keys."""
  text = nearest(name, allowed)
  return f"{len(allowed)} keys" + (";" + text.split(";", 1)[1] if ";" in text else "")
