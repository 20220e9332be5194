"""From the loop's settings to real objects: task, tokenizer, model, policy, optimizer, mesh."""

import functools
import importlib.util
import pathlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from jaxrl_reason import models, policy, runtime, tasks, text
from jaxrl_reason.sample import rules as decoding
from jaxrl_reason.settings import Optimizer, Sampling, Settings
from jaxrl_reason.types import Params, Policy, Task


class Testbed(NamedTuple):
  """What a run stands on. `params` are the initial ones and serve as the reference."""

  settings: Settings
  task: Task
  tokenizer: text.Tokenizer
  model: models.ModelConfig
  params: Params
  trainable: Params  # the same tree with True where training may change a leaf
  policy: Policy
  eval_policy: Policy
  optimizer: optax.GradientTransformation
  mesh: Any
  answer_of: Callable[[str], str | None] = text.final_answer


def sampling_rules(sampling: Sampling) -> tuple:
  """The logit rules of these settings, those that are off left out; temperature comes first."""
  rules: list[Any] = [decoding.Temperature(sampling.temperature)]
  if sampling.top_k:
    rules.append(decoding.TopK(sampling.top_k))
  if sampling.top_p < 1:
    rules.append(decoding.TopP(sampling.top_p))
  if sampling.min_p > 0:
    rules.append(decoding.MinP(sampling.min_p))
  return tuple(rules)


def learning_rate(settings: Optimizer, steps: int) -> optax.Schedule:
  """Linear warm-up from 0, then a cosine to `final_fraction` of the rate over the optimizer steps left."""
  warmup = optax.linear_schedule(0.0, settings.learning_rate, settings.warmup_steps)
  rest = max(steps - settings.warmup_steps, 1)
  cosine = optax.cosine_decay_schedule(settings.learning_rate, rest, settings.final_fraction)
  return optax.join_schedules([warmup, cosine], [settings.warmup_steps]) if settings.warmup_steps else cosine


def make_optimizer(settings: Optimizer, steps: int) -> optax.GradientTransformation:
  """Clipping by the global norm, then AdamW; weight decay on matrices alone."""
  adamw = optax.adamw(
    learning_rate(settings, steps),
    b1=settings.b1,
    b2=settings.b2,
    eps=settings.eps,
    weight_decay=settings.weight_decay,
    mask=lambda params: jax.tree.map(lambda x: x.ndim > 1, params),
  )
  return optax.chain(optax.clip_by_global_norm(settings.clip_norm), adamw)


def load_model(settings: Settings, tokenizer: text.Tokenizer) -> tuple[models.ModelConfig, Params]:
  """The model that `config.model` names: a fresh one, the embedded one, or a folder."""
  if settings.model == "scratch":
    model = models.from_dict({"vocab_size": tokenizer.vocab_size, **(settings.architecture or {})})
    return model, models.init_params(model, jax.random.key(settings.seed))
  folder = models.EMBEDDED if settings.model == "embedded" else pathlib.Path(settings.model)
  if not folder.is_dir():
    raise FileNotFoundError(
      f"config.model={settings.model!r}: no such folder; allowed: 'embedded', 'scratch', or a folder with "
      "config.json and model.safetensors"
    )
  model, params = models.load(folder)
  if model.vocab_size < tokenizer.vocab_size:
    raise ValueError(
      f"config.model={settings.model!r}: vocab_size={model.vocab_size} is smaller than the tokenizer's "
      f"{tokenizer.vocab_size}"
    )
  return model, params


def _with_lora(settings: Settings, model: models.ModelConfig, params: Params) -> tuple[Params, Params]:
  """(parameters, trainable): with adapters alone trainable where config.lora.rank > 0."""
  if not settings.lora.rank:
    return params, jax.tree.map(lambda _: True, params)
  key = jax.random.fold_in(jax.random.key(settings.seed), 1)
  params = models.with_lora(params, models.init_lora(model, key, **vars(settings.lora)))
  return params, models.trainable_mask(params)


def _axes(settings: Settings, model: models.ModelConfig) -> Params:
  """Logical axes of every parameter, the adapters included."""
  axes = models.logical_axes(model)
  if not settings.lora.rank:
    return axes
  return {"base": axes, "lora": models.lora_axes(model, settings.lora.targets), "scale": ()}


def build(settings: Settings) -> Testbed:
  """Builds every object of a run; raises on what does not fit together, before anything is compiled."""
  task = tasks.from_config(settings.task)
  tokenizer = text.ByteTokenizer()
  model, params = load_model(settings, tokenizer)
  params, trainable = _with_lora(settings, model, params)
  mesh = runtime.make_mesh(**vars(settings.mesh))
  if mesh.size > 1:
    params = jax.device_put(params, runtime.param_shardings(mesh, _axes(settings, model), params))
  make_policy = functools.partial(
    policy.autoregressive,
    model,
    stop_ids=tokenizer.stop_ids,
    max_new_tokens=settings.sampling.completion_tokens,
    pad_id=tokenizer.pad_id,
  )
  return Testbed(
    settings=settings,
    task=task,
    tokenizer=tokenizer,
    model=model,
    params=params,
    trainable=trainable,
    policy=make_policy(rules=sampling_rules(settings.sampling)),
    eval_policy=make_policy(rules=(decoding.Temperature(settings.eval.temperature),)),
    optimizer=make_optimizer(settings.optimizer, settings.steps * settings.updates_per_batch),
    mesh=mesh if mesh.size > 1 else None,
  )


def load_config_module(path: str) -> ModuleType:
  """The Python file of a config, for its `method`; an error names the file where it has none."""
  spec = importlib.util.spec_from_file_location("_jaxrl_reason_config", path)
  if spec is None or spec.loader is None:
    raise FileNotFoundError(f"--config={path}: cannot be read as a Python file")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  if not hasattr(module, "method"):
    raise AttributeError(
      f"--config={path}: defines no method(config); allowed: get_config() and method(config)"
    )
  return module


def without_stale_knobs(config: ConfigDict, default: ConfigDict) -> ConfigDict:
  """A task that the command line chose (name or path) does not inherit the knobs of the file's own task."""
  task, old = config.task, default.task
  if all(task.get(key) == old.get(key) for key in ("name", "path")):
    return config
  own = {
    key: value
    for key, value in task.items()
    if value != old.get(key) or (key == "name" and not task.get("path"))
  }
  with config.unlocked():
    config.task = ConfigDict(own)
  return config


def parameter_count(params: Params) -> int:
  return sum(x.size for x in jax.tree.leaves(params))


def memory_estimate(bed: Testbed, keeps_reference: bool) -> dict[str, float]:
  """Megabytes by kind: parameters, gradients, optimizer moments, reference, cache of one sampling batch."""
  size = jnp.dtype(jnp.float32).itemsize / 1e6
  trained = parameter_count(
    [x for x, keep in zip(jax.tree.leaves(bed.params), jax.tree.leaves(bed.trainable)) if keep]
  )
  s, m = bed.settings, bed.model
  per_token = 2 * m.layers * m.kv_heads * m.head_dim
  cache = (
    s.batch.prompts * (s.sampling.prompt_tokens + s.batch.group * s.sampling.completion_tokens) * per_token
  )
  return {
    "parameters": parameter_count(bed.params) * size,
    "gradients": trained * size,
    "optimizer": 2 * trained * size,
    "reference": parameter_count(bed.params) * size * keeps_reference,
    "cache": cache * size,
  }
