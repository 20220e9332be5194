"""What a person reads after a run: samples, the rollout table, the curve, the table before and after."""

import pathlib
from typing import Any

import jax
import numpy as np

from jaxrl_reason import models, runtime
from jaxrl_reason.collect import Collected
from jaxrl_reason.evaluator import Evaluation
from jaxrl_reason.testbed import Testbed
from jaxrl_reason.types import Params, Rollouts


def rollout_rows(
  bed: Testbed, graded: Collected, rollouts: Rollouts, credit: jax.Array
) -> list[dict[str, Any]]:
  """Plain rows of the first `log.rollouts` prompts: tokens as text, credit per token, reward by term."""
  count = min(bed.settings.log.rollouts, len(graded.problems))
  completion, length, logprobs, truncated = jax.device_get(
    (
      rollouts.completion[:count],
      rollouts.length[:count],
      rollouts.logprobs[:count],
      rollouts["truncated"][:count],
    )
  )
  token_credit = np.broadcast_to(np.asarray(credit[:count]), completion.shape)
  rows = []
  for p in range(count):
    for g in range(completion.shape[1]):
      n = int(length[p, g])
      rows.append(
        {
          "prompt": graded.problems[p].prompt,
          "answer": graded.problems[p].answer,
          "completion": graded.texts[p][g],
          "tokens": [bed.tokenizer.token_text(int(t)) for t in completion[p, g, :n]],
          "credit": token_credit[p, g, :n].tolist(),
          "logprobs": logprobs[p, g, :n].tolist(),
          "reward": float(graded.reward.rewards[p, g]),
          "terms": {name: float(values[p, g]) for name, values in graded.reward.terms.items()},
          "outcome": graded.reward.outcomes[p][g],
          "length": n,
          "truncated": bool(truncated[p, g]),
        }
      )
  return rows


def write_samples(workdir: pathlib.Path, step: int, rows: list[dict[str, Any]]) -> None:
  """samples/step_N.txt to read and samples/step_N.html with the credit of every token in colour."""
  if rows:
    folder = workdir / "samples"
    folder.mkdir(exist_ok=True)
    runtime.samples_text(folder / f"step_{step}.txt", rows)
    runtime.rollout_table(folder / f"step_{step}.html", rows)


def finish(
  workdir: pathlib.Path, bed: Testbed, params: Params, before: Evaluation, after: Evaluation
) -> None:
  """Writes the model and the learning curve, and prints the table before and after and where things are."""
  models.save(workdir / "model", bed.model, models.merge_lora(params))
  runtime.learning_curve(workdir / "metrics.jsonl", workdir / "curve.png")
  runtime.before_after_table(
    [(name, before.summary[name], after.summary[name]) for name in after.summary if name in before.summary]
  )
  print(
    f"curve      {workdir / 'curve.png'}\n"
    f"metrics    {workdir / 'metrics.jsonl'}  (TensorBoard: tensorboard --logdir {workdir})\n"
    f"samples    {workdir / 'samples'}\n"
    f"model      {workdir / 'model'}\n"
    "try next   "
    f"python -m jaxrl_reason.evaluate --workdir {workdir} --samples 16\n"
    "           "
    f"python -m jaxrl_reason.sample --model {workdir / 'model'} --n 4 --prompt ..."
  )
