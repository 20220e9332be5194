"""The evaluator: samples on held-out problems, and what they say with intervals over problems."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl_reason import collect, evals
from jaxrl_reason.testbed import Testbed
from jaxrl_reason.text import encode_prompts
from jaxrl_reason.types import Params

_EVAL_STREAM = 2**31 - 1  # the step number of evaluation keys: no training step has it


class Evaluation(NamedTuple):
  """`summary`: name → (value, low, high), 95 % bootstrap over problems; `rows`: one per completion."""

  summary: dict[str, evals.Estimate]
  rows: list[dict[str, Any]]

  @property
  def headline(self) -> float:
    return next(iter(self.summary.values()))[0]

  def row(self) -> dict[str, float]:
    """The summary as metrics: eval/<name>, with its interval."""
    out: dict[str, float] = {}
    for name, (value, low, high) in self.summary.items():
      out |= {f"eval/{name}": value, f"eval/{name}/low": low, f"eval/{name}/high": high}
    return out

  def to_json(self) -> dict[str, Any]:
    return {"summary": {k: list(v) for k, v in self.summary.items()}}

  @staticmethod
  def from_json(given: Mapping[str, Any]) -> Evaluation:
    return Evaluation({k: evals.Estimate(*v) for k, v in given["summary"].items()}, [])


def ks_of(samples: int) -> tuple[int, ...]:
  """1, and powers of two up to the number of samples."""
  return tuple(sorted({1, samples, *(2**i for i in range(int(math.log2(samples)) + 1))}))


def answer_ids(texts: list[list[str]], gold: list[str], answer_of: Callable[[str], str | None]):
  """Answers of a problem as integers: equal answers get equal ids, the gold answer 0, no answer −1."""
  ids = np.full((len(texts), len(texts[0])), evals.NO_ANSWER)
  for n, (row, target) in enumerate(zip(texts, gold, strict=True)):
    known = {target: 0}
    for i, text in enumerate(row):
      answer = answer_of(text)
      if answer is not None:
        ids[n, i] = known.setdefault(answer, len(known))
  return ids


def make_evaluator(bed: Testbed) -> Callable[[Params], Evaluation]:
  """Builds `evaluate(params) → Evaluation` on the first problems of the split that fit the prompt budget.

  Its keys depend on the seed, the problem and the draw alone; it touches no state of the training run.
  Greedy (temperature 0) takes one sample a problem.
  """
  settings = bed.settings.eval
  size = bed.task.size(settings.split)
  count = settings.problems if size is None else min(settings.problems, size)
  if count == 0:
    raise ValueError(f"config.eval.split={settings.split!r}: this split of task {bed.task.name!r} is empty")
  problems = [bed.task.problem(settings.split, i) for i in range(count)]
  encoded = encode_prompts(bed.tokenizer, [p.prompt for p in problems], bed.settings.sampling.prompt_tokens)
  problems = [problems[i] for i in encoded.kept]
  samples = settings.samples if settings.temperature > 0 else 1
  key = jax.random.fold_in(jax.random.key(bed.settings.seed), _EVAL_STREAM)
  size_at_once = min(settings.batch, len(problems))

  def sampled(params: Params, start: int) -> tuple[list[list[str]], np.ndarray, np.ndarray]:
    index = np.minimum(np.arange(start, start + size_at_once), len(problems) - 1)
    chosen = [problems[i] for i in index]
    prompts = collect.as_prompts(chosen, encoded.tokens[index], encoded.length[index], samples)
    rollouts = collect.sample(bed, params, prompts, key, evaluating=True)
    keep = min(size_at_once, len(problems) - start)
    length, truncated = jax.device_get((rollouts.length, rollouts["truncated"]))
    return collect.texts_of(bed, rollouts)[:keep], length[:keep], truncated[:keep]

  def evaluate(params: Params) -> Evaluation:
    parts = [sampled(params, start) for start in range(0, len(problems), size_at_once)]
    texts = [row for part in parts for row in part[0]]
    length, truncated = (np.concatenate([p[i] for p in parts]) for i in (1, 2))
    grades = [[bed.task.grade(p, text) for text in row] for p, row in zip(problems, texts, strict=True)]
    correct = np.asarray([[g.outcome == "correct" for g in row] for row in grades])
    ids = np.where(correct, 0, answer_ids(texts, [p.answer for p in problems], bed.answer_of))
    seed = bed.settings.seed
    summary = evals.summary(correct, ids, np.zeros(len(problems), int), ks_of(samples), seed=seed)
    for name, values in (("length", length), ("truncated_frac", truncated)):
      summary[name] = evals.bootstrap_interval(values.mean(1).astype(float), seed)
    rows = [
      {
        "problem": p.id,
        "prompt": p.prompt,
        "answer": p.answer,
        "completion": texts[n][i],
        "outcome": grades[n][i].outcome,
        "score": grades[n][i].score,
        "length": int(length[n, i]),
        "truncated": bool(truncated[n, i]),
      }
      for n, p in enumerate(problems)
      for i in range(samples)
    ]
    return Evaluation(summary, rows)

  return evaluate
