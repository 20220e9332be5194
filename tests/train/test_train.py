"""The loop at the level where a user meets it: metrics, files, resume, errors that lose nothing."""

import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from jaxrl_reason import reward, runtime
from jaxrl_reason import train as loop
from jaxrl_reason.evaluator import make_evaluator
from jaxrl_reason.testbed import build
from jaxrl_reason.types import Penalty
from tests.train import tiny

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """One uninterrupted run of four steps."""
  workdir = tmp_path_factory.mktemp("whole")
  return workdir, loop.train(tiny.config(), tiny.method, workdir)


def test_a_run_writes_everything_a_person_reads(whole):
  workdir, result = whole
  for name in ("metrics.jsonl", "config.json", "curve.png", "model/config.json", "model/model.safetensors"):
    assert (workdir / name).stat().st_size > 0, name
  html = (workdir / "samples" / "step_4.html").read_text()
  assert "<html" in html
  assert "PROMPT" in (workdir / "samples" / "step_4.txt").read_text()
  assert result.progress.step == 4
  assert set(result.before.summary) == set(result.after.summary)


METRICS = (
  "reward/mean reward/std reward/verified/mean reward/digits/mean accuracy group/uniform_frac "
  "credit/mean credit/max credit/min entropy kl_ref/k1 kl_ref/k2 kl_ref/k3 ratio/mean ratio/max "
  "ratio/min clip/low_frac clip/high_frac grad_norm update_norm loss/surrogate loss/kl_k3 "
  "loss/total length/mean length/max truncated_frac stop_frac mismatch/k1 mismatch/k3 "
  "mismatch/max_abs staleness grade/correct_frac grade/wrong_frac grade/format_frac "
  "grade/timeout_frac tokens_per_s/sample tokens_per_s/train time/sample time/reward time/signals "
  "time/update time/checkpoint pad_frac compile_count prompts_dropped"
).split()


@pytest.mark.case(6)
def test_case_6_every_metric_of_the_table_is_logged_and_the_aggregation_is_named(whole, capsys):
  workdir, _ = whole
  row = next(r for r in tiny.rows(workdir) if r["step"] == 3)
  assert not [name for name in METRICS if name not in row]
  assert row["mismatch/max_abs"] < 1e-4
  assert row["staleness"] == 0
  assert "Σ ℓ / Σ tokens" in loop.describe(tiny.config(), tiny.method)


def test_nothing_is_compiled_after_the_second_step(whole):
  workdir, _ = whole
  counts = {r["step"]: r["compile_count"] for r in tiny.rows(workdir) if "compile_count" in r}
  assert counts[4] == counts[3]


@pytest.mark.case(28)
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_case_28_resuming_at_every_step_is_bit_exact(whole, tmp_path, stop):
  full_dir, full = whole
  shutil.copytree(full_dir, tmp_path / "run")
  checkpoints = runtime.Checkpoints(tmp_path / "run", keep=10)
  for step in checkpoints.steps():
    if step > stop:
      shutil.rmtree(tmp_path / "run" / "checkpoints" / str(step))
  checkpoints.close()
  again = loop.train(tiny.config(), tiny.method, tmp_path / "run")
  tiny.assert_equal_trees(again.state, full.state)
  assert dataclasses.asdict(again.progress) == dataclasses.asdict(full.progress)
  want = [tiny.timeless(r) for r in tiny.rows(full_dir)]
  assert [tiny.timeless(r) for r in tiny.rows(tmp_path / "run")] == want


@pytest.mark.case(33)
def test_case_33_evaluation_leaves_no_trace(whole, tmp_path):
  _, full = whole
  often = loop.train(tiny.config(eval__every=1), tiny.method, tmp_path)
  tiny.assert_equal_trees(often.state, full.state)
  assert sum("eval/pass@1" in r for r in tiny.rows(tmp_path)) == 5


@pytest.mark.case(33)
def test_case_33_evaluation_repeats_itself_and_its_draws_do_not_depend_on_the_batch():
  settings = loop.resolve(tiny.config(), tiny.method)[1]
  bed = build(settings)
  first = make_evaluator(bed)(bed.params)
  small = build(dataclasses.replace(settings, eval=dataclasses.replace(settings.eval, batch=3)))
  assert make_evaluator(small)(small.params).rows == first.rows


@pytest.mark.case(30)
def test_case_30_draws_differ_between_steps_and_between_repeats_of_a_problem(tmp_path):
  path = tmp_path / "one.jsonl"
  path.write_text('{"question": "1+1=", "answer": "2"}\n')
  settings = tiny.config(task=ConfigDict({"path": {"train": str(path), "test": str(path)}}), steps=1)
  run = tmp_path / "run"
  loop.train(settings, tiny.method, run)
  texts = [line for line in (run / "samples" / "step_1.txt").read_text().splitlines() if line.strip()]
  assert len(texts) > 4
  seeds = [loop.train(tiny.config(seed=s, steps=1), tiny.method, tmp_path / f"seed{s}").state for s in (1, 2)]
  leaves = [np.concatenate([np.ravel(x) for x in jax.tree.leaves(s.params)]) for s in seeds]
  assert not np.array_equal(*leaves)


@pytest.mark.slow
def test_more_devices_do_not_change_the_run(whole, tmp_path):
  _, full = whole
  eight = loop.train(tiny.config(mesh__data=4, mesh__fsdp=2), tiny.method, tmp_path)
  for a, b in zip(jax.tree.leaves(eight.state.params), jax.tree.leaves(full.state.params), strict=True):
    np.testing.assert_allclose(a, b, atol=2e-4)


# --- bad input loses nothing -----------------------------------------------------------------------


def nan_reward(at_call):
  calls = iter(range(10**6))

  def make(config):
    bad = reward.term("bad", lambda row: float("nan") if next(calls) >= at_call else 1.0)
    return dataclasses.replace(tiny.method(config), reward=bad, objective=None)

  return make


def test_a_nan_reward_names_term_and_problem_and_keeps_what_was_trained(tmp_path):
  with pytest.raises(ValueError, match=r"term 'bad' gave nan for problem \d+"):
    loop.train(tiny.config(checkpoint__every=0), nan_reward(16), tmp_path)
  assert runtime.Checkpoints(tmp_path, keep=2).steps() == [2]


def test_a_non_finite_loss_stops_with_step_part_and_batch_and_keeps_the_parameters(tmp_path):
  def make(config):
    bad = Penalty("bad", 1.0, lambda scores, rollouts: scores.logprobs * jnp.nan, formula="nan")
    return dataclasses.replace(tiny.method(config), penalties=(bad,), objective=None)

  with pytest.raises(loop.NonFiniteError, match=r"step 0: not finite in .*loss/bad.*nonfinite_step_0\.npz"):
    loop.train(tiny.config(), make, tmp_path)
  saved = np.load(tmp_path / "nonfinite_step_0.npz")
  assert saved["rewards"].shape == (4, 2)
  bed = build(loop.resolve(tiny.config(), tiny.method)[1])
  kept = runtime.Checkpoints(tmp_path, keep=2).restore("last", {"params": bed.params}, subset=True)
  tiny.assert_equal_trees(kept.state["params"], bed.params)


@pytest.mark.case(27)
def test_case_27_over_long_prompts_are_dropped_and_counted(tmp_path):
  path = tmp_path / "problems.jsonl"
  lines = [{"question": "9" * (3 if i % 2 else 30), "answer": "1"} for i in range(20)]
  path.write_text(
    "\n".join(json.dumps(x | {"question": x["question"] + str(i)}) for i, x in enumerate(lines))
  )
  task = ConfigDict({"path": {"train": str(path), "test": str(path)}})
  loop.train(tiny.config(task=task, steps=2), tiny.method, tmp_path / "run")
  assert sum(r.get("prompts_dropped", 0) for r in tiny.rows(tmp_path / "run")) > 0
  with pytest.raises(ValueError, match=r"prompt_tokens=2|max_length=2"):
    loop.train(tiny.config(task=task, sampling__prompt_tokens=2), tiny.method, tmp_path / "none")


def test_a_checkpoint_of_another_model_is_refused_by_name(whole, tmp_path):
  shutil.copytree(whole[0], tmp_path / "run")
  other = tiny.config()
  other.architecture.width = 12
  with pytest.raises(ValueError, match="is of another state: at params"):
    loop.train(other, tiny.method, tmp_path / "run")


BAD = [
  ({"batch__promts": 3}, r"config\.batch\.promts.*'prompts'"),
  ({"task": ConfigDict({"name": "arithmetik"})}, r"'arithmetik'.*'arithmetic'"),
  ({"task": ConfigDict({"name": "arithmetic", "digts": 2})}, r"digts.*'digits'"),
  ({"batch__group": 1}, r"batch\.group=1.*>= 2"),
  ({"clip": 1.5}, r"clip: low=1\.5"),
  ({"clipp": 0.1}, r"config\.clipp: nothing reads.*'clip'"),
  ({"model": "no/such/folder", "architecture": None}, r"no such folder"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[next(iter(b[0])) for b in BAD])
def test_bad_config_is_an_error_before_anything_is_compiled(tmp_path, changes, message):
  with runtime.CompileCounter() as compiled, pytest.raises((ValueError, FileNotFoundError), match=message):
    loop.train(tiny.config(**changes), tiny.method, tmp_path)
  assert compiled.count < 30  # initial parameters at the most, never a sampling or training program


def test_an_empty_data_set_is_an_error_that_names_the_file(tmp_path):
  (tmp_path / "empty.jsonl").write_text("")
  task = ConfigDict({"path": str(tmp_path / "empty.jsonl")})
  with pytest.raises(ValueError, match=r"empty\.jsonl holds no problem"):
    loop.train(tiny.config(task=task), tiny.method, tmp_path / "run")


@pytest.mark.case(12)
def test_case_12_a_clip_that_cannot_act_warns_at_start(tmp_path, capsys):
  loop.train(tiny.config(updates__minibatches=1, steps=1), tiny.method, tmp_path)
  assert "cannot clip" in capsys.readouterr().err


@pytest.mark.case(25)
@pytest.mark.parametrize(("policy", "weights"), [("grade", 1.0), ("zero", 1.0), ("drop", 0.0)])
def test_case_25_what_truncation_does_is_explicit(policy, weights):
  from jaxrl_reason import collect

  method, settings = loop.resolve(tiny.config(truncated=policy, sampling__completion_tokens=1), tiny.method)
  bed = build(settings)
  _, problems, tokens, lengths, _ = collect.gather(method.prompts, method.prompts.init(0), bed, 4)
  rollouts = collect.sample(
    bed, bed.params, collect.as_prompts(problems, tokens, lengths, 2), jax.random.key(0)
  )
  graded, batch = collect.grade(bed, method, problems, rollouts)
  cut = np.asarray(graded["truncated"])
  assert cut.any()
  assert (np.asarray(graded.weights)[cut] == weights).all()
  raw = batch.reward.rewards[cut]
  assert (np.asarray(graded.rewards)[cut] == (0 if policy == "zero" else raw)).all()


# --- killed and resumed ------------------------------------------------------------------------------

SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from jaxrl_reason import train
from tests.train import tiny
train.train(tiny.config(steps={steps}), tiny.method, sys.argv[1])
"""


def start(workdir, steps):
  environment = {**os.environ, "XLA_FLAGS": "", "JAX_COMPILATION_CACHE_DIR": str(workdir.parent / "cache")}
  code = SCRIPT.format(root=str(ROOT), steps=steps)
  return subprocess.Popen(
    [sys.executable, "-c", code, str(workdir)],
    env=environment,
    stderr=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
  )


def wait_for_step(workdir, step):
  path = workdir / "metrics.jsonl"
  for _ in range(2400):
    if path.exists() and any(f'"step": {s},' in path.read_text() for s in range(step, step + 50)):
      return
    time.sleep(0.05)
  raise AssertionError("the run did not get there")


@pytest.mark.slow
@pytest.mark.case(29)
def test_case_29_killed_at_random_moments_the_run_ends_as_if_it_had_not_been(tmp_path):
  reference = start(tmp_path / "whole", 30)
  assert reference.wait(300) == 0
  random.seed(0)
  for step in (2, 11, 19):
    run = start(tmp_path / "killed", 30)
    wait_for_step(tmp_path / "killed", step)
    time.sleep(random.uniform(0, 0.2))
    run.kill()
    assert run.wait() == -signal.SIGKILL
  assert start(tmp_path / "killed", 30).wait(300) == 0
  one = (tmp_path / "whole" / "model" / "model.safetensors").read_bytes()
  assert one == (tmp_path / "killed" / "model" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_sigterm_saves_and_leaves(tmp_path):
  run = start(tmp_path / "run", 2000)
  wait_for_step(tmp_path / "run", 3)
  run.terminate()
  assert run.wait(60) == 143
  steps = runtime.Checkpoints(tmp_path / "run", keep=10).steps()
  last = tiny.rows(tmp_path / "run")[-1]["step"]
  assert max(steps) == last
