"""The only loop: prompts → rollouts → reward → signals → credit → update → evaluation → checkpoint.

python -m jaxrl_reason.train --config configs/quickstart.py --workdir runs/quickstart
"""

import dataclasses
import pathlib
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from ml_collections import ConfigDict, config_flags

from jaxrl_reason import collect, credit, runtime
from jaxrl_reason.evals.rollout_metrics import credit_metrics, rollout_metrics
from jaxrl_reason.evaluator import Evaluation, make_evaluator
from jaxrl_reason.method import Method
from jaxrl_reason.reporting import finish, rollout_rows, write_samples
from jaxrl_reason.settings import Reads, settings_from
from jaxrl_reason.testbed import (
  Testbed,
  build,
  load_config_module,
  memory_estimate,
  parameter_count,
  without_stale_knobs,
)
from jaxrl_reason.types import Mean, Metrics, Params, Rollouts
from jaxrl_reason.update import make_update, partition

MakeMethod = Callable[[Any], Method]


class NonFiniteError(RuntimeError):
  """A loss, gradient or log-probability is not a finite number. What was trained before is saved."""


class State(NamedTuple):
  """What a checkpoint holds on the device side; keys and cursors follow from the step and `Progress`."""

  params: Params
  opt_state: Any
  credit_state: Any


@dataclasses.dataclass
class Progress:
  """What a checkpoint holds on the host side."""

  step: int = 0  # steps done
  curriculum: dict[str, Any] = dataclasses.field(default_factory=dict)
  before: dict[str, Any] | None = None  # the evaluation of the initial parameters


class Result(NamedTuple):
  state: State
  progress: Progress
  before: Evaluation
  after: Evaluation


# --- set-up --------------------------------------------------------------------------------------


def resolve(config: ConfigDict, make_method: MakeMethod) -> tuple[Method, Any]:
  """(method, settings), every field checked, nothing compiled yet."""
  reads = Reads(config)
  method = make_method(reads)
  settings = settings_from(config, reads.read)
  method.check(settings.batch.group)
  return method, settings


def make_prepare(bed: Testbed, method: Method) -> Callable:
  """The jitted step from graded rollouts to signals, credit and what they say of themselves."""

  def prepare(params: Params, reference: Params, rollouts: Rollouts, credit_state: Any, step: jax.Array):
    for maker in method.makers():
      rollouts = rollouts.mark(**{maker.name: maker.compute(params, reference, bed.policy, rollouts)})
    value, credit_state = method.credit.update(credit.from_rewards(rollouts), credit_state, rollouts)
    value = value * rollouts.weights[..., None]
    return rollouts, value, credit_state, rollout_metrics(rollouts, step) | credit_metrics(value, rollouts)

  return jax.jit(prepare)


def reward_metrics(batch: Any) -> Metrics:
  """Means of every term, of accuracy, and of the four verdicts, as (sum, count) pairs."""
  outcomes = np.asarray(batch.outcomes)
  count = jnp.float32(outcomes.size)
  metrics: Metrics = {"accuracy": Mean(jnp.float32((outcomes == "correct").sum()), count)}
  for outcome in ("correct", "wrong", "format", "timeout"):
    metrics[f"grade/{outcome}_frac"] = Mean(jnp.float32((outcomes == outcome).sum()), count)
  for name, values in batch.terms.items():
    known = ~np.isnan(values)
    metrics[f"reward/{name}/mean"] = Mean(jnp.float32(values[known].sum()), jnp.float32(known.sum()))
  return metrics


# --- the loop ------------------------------------------------------------------------------------


def train(config: ConfigDict, make_method: MakeMethod, workdir: str | pathlib.Path) -> Result:
  """Trains `config.steps` steps in `workdir`, from its newest checkpoint if there is one.

  Writes metrics.jsonl, TensorBoard events, checkpoints, samples, a rollout table and a learning curve.
  Raises NonFiniteError with the batch saved; a SIGTERM saves a checkpoint and ends the process with code 143.
  """
  workdir = pathlib.Path(workdir)
  method, settings = resolve(config, make_method)
  bed = build(settings)
  for warning in method.objective.warnings(settings.updates_per_batch):
    print(f"warning: {warning}", file=sys.stderr)
  workdir.mkdir(parents=True, exist_ok=True)
  (workdir / "config.json").write_text(config.to_json_best_effort(indent=2))

  prepare = make_prepare(bed, method)
  update = make_update(
    bed.policy, method.objective, bed.optimizer, bed.trainable, mesh=bed.mesh, **vars(settings.updates)
  )
  evaluate = make_evaluator(bed)
  checkpoints = runtime.Checkpoints(workdir, keep=settings.checkpoint.keep)
  state, progress = restore(checkpoints, bed, method)
  wandb = {"dir": str(workdir), "config": config.to_dict()} if settings.log.wandb else False
  compiles, timer = runtime.CompileCounter(), runtime.PhaseTimer()
  root = jax.random.key(settings.seed)
  terminated = _catch_sigterm()

  def save(metric: float | None = None) -> None:
    with timer("checkpoint"):
      checkpoints.save(progress.step, state, dataclasses.asdict(progress), metric)

  def evaluation() -> Evaluation:
    with timer("eval"):
      return evaluate(state.params)

  before = Evaluation.from_json(progress.before) if progress.before else evaluation()
  progress.before, last = before.to_json(), before
  with (
    runtime.MetricsWriter(workdir, progress.step, settings.log.tensorboard, wandb) as writer,
    runtime.Display(settings.steps, start=progress.step, workdir=workdir) as display,
  ):
    if progress.step == 0:
      writer.write(0, before.row())
    timer.reset()
    try:
      while progress.step < settings.steps:
        step = progress.step
        key = jax.random.fold_in(root, step)
        curriculum, problems, tokens, lengths, dropped = collect.gather(
          method.prompts, progress.curriculum, bed, settings.batch.prompts
        )
        prompts = collect.as_prompts(problems, tokens, lengths, settings.batch.group)
        with timer("sample"):
          if method.demonstrations:
            rollouts = collect.demonstrate(bed, method, problems, prompts, step)
          else:
            rollouts = collect.sample(bed, state.params, prompts, key)
          jax.block_until_ready(rollouts)
        with timer("reward"):
          rollouts, graded = collect.grade(bed, method, problems, rollouts)
        with timer("signals"):
          rollouts, value, credit_state, metrics = prepare(
            state.params, bed.params, rollouts, state.credit_state, jnp.int32(step)
          )
          jax.block_until_ready(value)
        with timer("update"):
          params, opt_state, update_metrics = update(state.params, state.opt_state, rollouts, value)
          jax.block_until_ready(params)
        row = runtime.finalise(metrics | update_metrics | reward_metrics(graded.reward))
        row["reward/std"] = row.pop("reward/variance", 0.0) ** 0.5
        state = State(params, opt_state, credit_state if row["finite"] == 1 else state.credit_state)
        if row["finite"] < 1:
          raise NonFiniteError(save_batch(workdir, step, row, rollouts, value))
        stats = {"rewards": np.asarray(rollouts.rewards), "correct": np.asarray(rollouts["correct"])}
        progress.curriculum = method.prompts.observe(curriculum, stats | {"problems": problems})
        progress.step = step + 1

        every, metric = settings.eval.every, None
        if every and progress.step % every == 0 and progress.step < settings.steps:
          last = evaluation()
          row |= last.row()
          metric = last.headline
        row |= timer.row(tokens=float(np.asarray(rollouts.length).sum()))
        row |= {"compile_count": compiles.count, "prompts_dropped": dropped}
        timer.reset()  # what a checkpoint costs stands in the next row
        writer.write(progress.step, row)
        display.update(progress.step, row)
        if progress.step % settings.log.every == 0 or progress.step == settings.steps:
          write_samples(workdir, progress.step, rollout_rows(bed, graded, rollouts, value))
        due = settings.checkpoint.every and progress.step % settings.checkpoint.every == 0
        if due or metric is not None or terminated:
          save(metric)
        if terminated:
          raise SystemExit(143)
    except Exception:
      _save_what_is_left(save, state)
      raise

    last = evaluation()
    writer.write(progress.step, last.row())
    save(last.headline)
  finish(workdir, bed, state.params, before, last)
  return Result(state, progress, before, last)


# --- what surrounds the loop -----------------------------------------------------------------------


def restore(checkpoints: runtime.Checkpoints, bed: Testbed, method: Method) -> tuple[State, Progress]:
  """The newest complete checkpoint, or the start; initial parameters are copied, since updates donate."""
  params = jax.tree.map(jnp.copy, bed.params)
  opt_state = bed.optimizer.init(partition(params, bed.trainable)[0])
  start = State(params, opt_state, method.credit.init())
  saved = checkpoints.restore_latest(start)
  if saved is None:
    return start, Progress(curriculum=method.prompts.init(bed.settings.seed))
  print(f"resuming from step {saved.step} of {checkpoints.directory}", file=sys.stderr)
  return State(*saved.state), Progress(**saved.extra)


def save_batch(
  workdir: pathlib.Path, step: int, row: dict[str, Any], rollouts: Rollouts, value: jax.Array
) -> str:
  """Saves the batch that gave a non-finite number; returns the message that names step, part and file."""
  path = workdir / f"nonfinite_step_{step}.npz"
  fields = {k: v for k, v in vars(rollouts).items() if k != "marks"} | rollouts.marks | {"credit": value}
  np.savez(path, allow_pickle=False, **{k: np.asarray(v) for k, v in fields.items()})
  bad = [k for k in ("loss/total", "grad_norm", *row) if not np.isfinite(row.get(k, 0.0))]
  return (
    f"step {step}: not finite in {', '.join(dict.fromkeys(bad)) or 'the gradient'}; the update was not "
    f"applied, the batch is in {path}, and the parameters before it are in the newest checkpoint"
  )


def _save_what_is_left(save: Callable[[], None], state: State) -> None:
  """Saves after an error, unless the error came from inside the update, which owns the parameters."""
  if not any(x.is_deleted() for x in jax.tree.leaves(state) if isinstance(x, jax.Array)):
    save()


def _catch_sigterm() -> list[int]:
  """A list that a SIGTERM fills, so that the loop can end its step, save and leave."""
  received: list[int] = []
  if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
  return received


def describe(config: ConfigDict, make_method: MakeMethod) -> str:
  """What a run would do: slots, formula, signals, citations, parameters, memory; nothing is compiled."""
  method, settings = resolve(config, make_method)
  bed = build(settings)
  memory = memory_estimate(bed, keeps_reference="reference_logprobs" in method.needs())
  lines = [
    method.describe(),
    f"task       {bed.task}",
    f"parameters {parameter_count(bed.params):,}",
    "memory     " + ", ".join(f"{k} {v:.1f} MB" for k, v in memory.items()),
    f"updates    {settings.updates_per_batch} per batch of {settings.batch.prompts} x {settings.batch.group}",
    *(f"warning    {w}" for w in method.objective.warnings(settings.updates_per_batch)),
  ]
  return "\n".join(lines)


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
  """The flags of this command. New config fields are taken (tasks have knobs of their own)."""
  config_flags.DEFINE_config_file(
    "config",
    None,
    "The method's config file.",
    flag_values=values,
    lock_config=False,
    accept_new_attributes=True,
  )
  flags.DEFINE_string("workdir", None, "Where everything of this run is written.", flag_values=values)
  flags.DEFINE_bool("dry_run", False, "Print the resolved method and stop.", flag_values=values)


def main(argv: list[str], values: flags.FlagValues = flags.FLAGS) -> None:
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}")
  runtime.quiet_logs()
  if values.config is None:
    raise app.UsageError("--config is missing, for example --config configs/quickstart.py")
  module = load_config_module(config_flags.get_config_filename(values["config"]))
  config, make_method = without_stale_knobs(values.config, module.get_config()), module.method
  if values.dry_run:
    print(describe(config, make_method))
    return
  if not values.workdir:
    raise app.UsageError("--workdir is missing, for example --workdir runs/quickstart")
  runtime.enable_compilation_cache()
  train(config, make_method, values.workdir)


if __name__ == "__main__":
  define_flags()
  app.run(main)
