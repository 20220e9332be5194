"""Turns the model of the second pretraining stage into the one that ships, and says what it can do.

  python -m jaxrl_reason.sft --config configs/pretrain.py --workdir runs/pretrain
  python -m jaxrl_reason.sft --config configs/pretrain_stage2.py --workdir runs/pretrain_stage2 \\
    --config.model=runs/pretrain/model
  python -m experiments.embedded_model.make

The last command writes jaxrl_reason/models/embedded (bfloat16) and experiments/embedded_model/README.md.
"""

import pathlib
import sys

from jaxrl_reason import models
from jaxrl_reason.evaluator import Evaluation, make_evaluator
from jaxrl_reason.settings import Eval, Sampling, Settings
from jaxrl_reason.testbed import build, parameter_count

README = """# The embedded model

{parameters:,} parameters ({layers} layers, width {width}), byte-level tokenizer, bfloat16 on disk
({size:.1f} MB). Pretrained by maximum likelihood on generated solutions of which 40 % reason step by step
and 60 % give the answer at once. Training and test problems share no content. To make it again, in about 25
minutes on two cores:

```bash
python -m jaxrl_reason.sft --config configs/pretrain.py --workdir runs/pretrain
python -m jaxrl_reason.sft --config configs/pretrain_stage2.py --workdir runs/pretrain_stage2 \\
  --config.model=runs/pretrain/model
python -m experiments.embedded_model.make
```

What it can do, sampled at temperature 1 on 256 held-out problems, four samples each, seed 0 (written by the
last command). An answer "at once" starts with `>`; the others reason first.

| task | accuracy (95 % interval) | pass@4 | right at once | right after reasoning |
|---|---|---|---|---|
{rows}

Sums of three-digit numbers are what the quickstart trains on: the model is nearly always right when it
reasons, nearly never when it does not, and does not yet prefer to reason.
"""

HERE = pathlib.Path(__file__).parent
TASKS = {
  "sums of two-digit numbers": {"name": "arithmetic"},
  "sums of three-digit numbers": {"name": "arithmetic", "digits": 3},
  "counting letters": {"name": "counting"},
  "shortest path": {"name": "shortest_path"},
  "countdown with three numbers": {"name": "countdown"},
  "number words": {"name": "number_words"},
}


def evaluate(task: dict) -> Evaluation:
  """256 held-out problems, four samples each, at temperature 1."""
  settings = Settings(
    task=task,
    sampling=Sampling(prompt_tokens=41, completion_tokens=28),
    eval=Eval(problems=256, samples=4, batch=64),
  )
  bed = build(settings)
  return make_evaluator(bed)(bed.params)


def share(rows: list[dict], direct: bool) -> str:
  """How many completions of a kind are right, and how many there are."""
  kind = [r["outcome"] == "correct" for r in rows if r["completion"].startswith(">") == direct]
  return f"{sum(kind) / max(len(kind), 1):.2f} of {len(kind)}"


def row(name: str, result: Evaluation) -> str:
  value, low, high = result.summary["pass@1"]
  cells = (name, f"{value:.3f} [{low:.3f}, {high:.3f}]", f"{result.summary['pass@4'].value:.3f}")
  return "| " + " | ".join((*cells, share(result.rows, True), share(result.rows, False))) + " |"


def main(source: str = "runs/pretrain_stage2/model") -> None:
  config, params = models.load(source)
  models.save(models.EMBEDDED, config, params, dtype="bfloat16")
  size = (models.EMBEDDED / "model.safetensors").stat().st_size / 1e6
  rows = "\n".join(row(name, evaluate(task)) for name, task in TASKS.items())
  text = README.format(
    parameters=parameter_count(params), layers=config.layers, width=config.width, size=size, rows=rows
  )
  (HERE / "README.md").write_text(text)


if __name__ == "__main__":
  main(*sys.argv[1:])
