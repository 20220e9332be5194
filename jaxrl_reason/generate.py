"""Completions of prompts: batched, or streamed as they are written.

python -m jaxrl_reason.sample --prompt "655+122=" --n 4
python -m jaxrl_reason.sample --model runs/quickstart/model --prompt "655+122=" --stream
"""

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from jaxrl_reason import collect, runtime
from jaxrl_reason.settings import Sampling, Settings
from jaxrl_reason.testbed import Testbed, build
from jaxrl_reason.text import encode_prompts
from jaxrl_reason.types import Problem, Prompts

_CHUNK = 8  # tokens between two prints of a stream


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
  """The flags of this command."""
  on: Any = {"flag_values": values}
  flags.DEFINE_string(
    "model", "embedded", "'embedded', or a folder with config.json, model.safetensors.", **on
  )
  flags.DEFINE_multi_string(
    "prompt", None, "Prompt; may be repeated. Else the lines of standard input.", **on
  )
  flags.DEFINE_integer("n", 1, "Completions of each prompt.", **on)
  flags.DEFINE_float("temperature", 1.0, "Sampling temperature.", **on)
  flags.DEFINE_integer("top_k", 0, "Keep the k most likely tokens; 0 = all.", **on)
  flags.DEFINE_float("top_p", 1.0, "Keep the smallest set of tokens with this probability.", **on)
  flags.DEFINE_float("min_p", 0.0, "Keep tokens of at least this share of the best one's probability.", **on)
  flags.DEFINE_integer("prompt_tokens", 128, "Longest prompt, in tokens.", **on)
  flags.DEFINE_integer("completion_tokens", 96, "Longest completion, in tokens.", **on)
  flags.DEFINE_integer("seed", 0, "Seed of the draws.", **on)
  flags.DEFINE_bool("stream", False, "Print one completion as it is written.", **on)


def encode(bed: Testbed, prompts: list[str], n: int) -> Prompts:
  """Prompts given by hand, as the sampler takes them; raises if one is too long."""
  encoded = encode_prompts(bed.tokenizer, prompts, bed.settings.sampling.prompt_tokens)
  if len(encoded.kept) < len(prompts):
    lost = prompts[min(set(range(len(prompts))) - set(encoded.kept))]
    raise ValueError(f"prompt {lost!r} is longer than --prompt_tokens={bed.settings.sampling.prompt_tokens}")
  problems = [Problem(id=i, prompt=p, answer="") for i, p in enumerate(prompts)]
  return collect.as_prompts(problems, encoded.tokens, encoded.length, n)


def complete(bed: Testbed, prompts: list[str], n: int, key: jax.Array) -> list[list[str]]:
  """`n` completions of each prompt, as text."""
  return collect.texts_of(bed, collect.sample(bed, bed.params, encode(bed, prompts, n), key))


def stream(bed: Testbed, prompt: str, key: jax.Array) -> Iterator[str]:
  """The completion of one prompt, piece by piece; together the pieces are what `complete` gives.

  Each round resumes from the tokens so far (forced) with a larger budget; since a draw's key is its position,
  the text is the same as without rounds.
  """
  prompts = encode(bed, [prompt], 1)
  width = bed.settings.sampling.completion_tokens
  forced, printed = np.full((1, 1, width), -1, np.int32), ""
  for budget in range(_CHUNK, width + _CHUNK, _CHUNK):
    limited = Prompts(
      **{
        **vars(prompts),
        "forced": jnp.asarray(forced),
        "budget": jnp.full((1, 1), min(budget, width), jnp.int32),
      }
    )
    rollouts = collect.sample(bed, bed.params, limited, key)
    length = int(rollouts.length[0, 0])
    text = collect.texts_of(bed, rollouts)[0][0]
    yield text[len(printed) :]
    printed = text
    if not bool(rollouts["truncated"][0, 0]):
      return
    forced[0, 0, :length] = np.asarray(rollouts.completion[0, 0, :length])


def main(argv: list[str], values: flags.FlagValues = flags.FLAGS) -> None:
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}; give prompts with --prompt")
  runtime.quiet_logs()
  runtime.enable_compilation_cache()
  given: dict[str, Any] = {f.name: values[f.name].value for f in dataclasses.fields(Sampling)}
  sampling = Sampling(**given)
  bed = build(Settings(task={"name": "arithmetic"}, model=values.model, seed=values.seed, sampling=sampling))
  prompts = values.prompt or [line.rstrip("\n") for line in sys.stdin if line.strip()]
  key = jax.random.key(values.seed)
  if values.stream:
    for prompt in prompts:
      print(prompt, end="", flush=True)
      for piece in stream(bed, prompt, key):
        print(piece, end="", flush=True)
      print()
    return
  for prompt, row in zip(prompts, complete(bed, prompts, values.n, key), strict=True):
    for text in row:
      print(f"{prompt}{text}")


if __name__ == "__main__":
  define_flags()
  app.run(main)
