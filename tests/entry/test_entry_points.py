"""What the commands of the README call: describe, evaluate, sample, stream, fine-tune."""

import importlib
import json
import runpy
import sys
from unittest import mock

import jax
import numpy as np
import pytest
from absl import app, flags

from experiments import readme
from jaxrl_reason import evaluate, generate, runtime, sft
from jaxrl_reason import train as loop
from jaxrl_reason.settings import Sampling, Settings
from jaxrl_reason.testbed import build
from tests.train import tiny


def command(module, *arguments):
  """The flags of a command line."""
  values, line = flags.FlagValues(), ["command", *arguments]
  with mock.patch.object(sys, "argv", line):  # where config overrides are looked up
    module.define_flags(values)
    values(line)
  return values


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  workdir = tmp_path_factory.mktemp("run")
  return workdir, loop.train(tiny.config(steps=2), tiny.method, workdir)


@pytest.fixture(scope="module")
def bed():
  sampling = Sampling(prompt_tokens=12, completion_tokens=24)
  return build(Settings(task={"name": "arithmetic"}, sampling=sampling))


def test_describe_names_slots_formula_signals_parameters_and_memory():
  text = loop.describe(tiny.config(), tiny.method)
  for words in ("reference_logprobs", "0.04·k3", "parameters", "memory", "updates    2 per batch of 4 x 2"):
    assert words in text


def test_describe_repeats_the_warnings():
  assert "cannot clip" in loop.describe(tiny.config(updates__minibatches=1), tiny.method)


@pytest.mark.parametrize("which", ["last", "best", "2"])
def test_evaluate_reads_a_checkpoint_by_name_or_step(run, which, capsys):
  workdir, result = run
  values = command(evaluate, f"--checkpoint={which}", "--problems=4", "--samples=2")
  got = evaluate.evaluate_run(workdir, values)
  assert "checkpoint of step 2" in capsys.readouterr().out
  assert got["arithmetic"].summary == result.after.summary


def test_evaluate_on_another_task_and_on_a_file(run, tmp_path):
  path = tmp_path / "mine.jsonl"
  path.write_text("".join(f'{{"question": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(60)))
  values = command(evaluate, "--task=arithmetic", f"--task={path}", "--problems=4", "--samples=2")
  assert set(evaluate.evaluate_run(run[0], values)) == {"arithmetic", "jsonl"}


def test_evaluate_of_a_folder_that_is_no_run_is_refused(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"holds no config\.json"):
    evaluate.evaluate_run(tmp_path, command(evaluate))


def test_evaluate_of_a_step_that_is_not_there_names_those_that_are(run):
  with pytest.raises(FileNotFoundError, match="steps there"):
    evaluate.evaluate_run(run[0], command(evaluate, "--checkpoint=17"))


def test_evaluate_writes_table_and_json(run, tmp_path, capsys):
  out = tmp_path / "deep" / "result.json"
  arguments = ("--workdir", str(run[0]), "--out", str(out), "--problems=4", "--samples=2")
  evaluate.main(["evaluate"], command(evaluate, *arguments))
  written = json.loads(out.read_text())["arithmetic"]
  assert len(written["rows"]) == 8
  assert set(written["summary"]) >= {"pass@1", "maj@2", "length"}
  assert "pass@1" in capsys.readouterr().out


def test_evaluate_of_a_model_folder(run):
  model = str(run[0] / "model")
  values = command(evaluate, "--model", model, "--problems=3", "--samples=2", "--completion_tokens=5")
  result = evaluate.evaluate_model(evaluate.settings_from_flags(values, "arithmetic"))
  assert len(result.rows) == 6


def test_stream_gives_in_pieces_what_complete_gives_at_once(bed):
  key = jax.random.key(3)
  pieces = list(generate.stream(bed, "655+122=", key))
  assert "".join(pieces) == generate.complete(bed, ["655+122="], 1, key)[0][0]


def test_complete_gives_n_different_draws_of_each_prompt(bed):
  rows = generate.complete(bed, ["655+122=", "12+34="], 6, jax.random.key(0))
  assert [len(r) for r in rows] == [6, 6]
  assert len(set(rows[0])) > 1


def test_a_prompt_that_is_too_long_is_refused_by_name(bed):
  with pytest.raises(ValueError, match=r"prompt '9+' is longer than --prompt_tokens=12"):
    generate.complete(bed, ["1+1=", "9" * 30], 1, jax.random.key(0))


def test_sample_prints_prompt_and_completion(capsys):
  sizes = ("--prompt=655+122=", "--completion_tokens=24", "--prompt_tokens=12")
  generate.main(["sample"], command(generate, *sizes, "--n=2"))
  lines = capsys.readouterr().out.strip().splitlines()
  assert len(lines) == 2
  assert all(line.startswith("655+122=") for line in lines)
  generate.main(["sample"], command(generate, *sizes, "--stream"))
  assert capsys.readouterr().out.startswith("655+122=")


def test_train_takes_overrides_new_task_knobs_and_prints_the_dry_run(capsys):
  config = str(readme.ROOT / "configs" / "grpo.py")
  values = command(loop, "--config", config, "--config.batch.group=4", "--config.task.terms=3", "--dry_run")
  loop.main(["train"], values)
  out = capsys.readouterr().out
  assert "batch of 16 x 4" in out
  assert "terms=3" in out


def test_a_task_of_the_command_line_does_not_inherit_the_knobs_of_the_file(tmp_path, capsys):
  config = str(readme.ROOT / "configs" / "grpo.py")
  loop.main(["train"], command(loop, "--config", config, "--config.task.name=countdown", "--dry_run"))
  assert "Countdown(" in capsys.readouterr().out
  path = tmp_path / "mine.jsonl"
  path.write_text("".join(f'{{"q": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(60)))
  given = (f"--config.task.path={path}", "--config.task.question=q")
  loop.main(["train"], command(loop, "--config", config, *given, "--dry_run"))
  assert "JsonLines(name='jsonl', content=('q',)" in capsys.readouterr().out
  with pytest.raises(ValueError, match=r"holds no problem|field 'question'|question"):
    loop.main(["train"], command(loop, "--config", config, given[0], "--dry_run"))


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (("--dry_run",), "--config is missing"),
    (("--config", str(readme.ROOT / "configs" / "grpo.py")), "--workdir is missing"),
  ],
)
def test_what_a_command_line_lacks_is_named(arguments, message):
  with pytest.raises(app.UsageError, match=message):
    loop.main(["train"], command(loop, *arguments))


def test_a_misspelt_override_is_refused_with_the_nearest_name():
  config = str(readme.ROOT / "configs" / "grpo.py")
  values = command(loop, "--config", config, "--config.optimizer.learning_rat=1.0", "--dry_run")
  with pytest.raises(ValueError, match=r"learning_rat: no such field.*'learning_rate'"):
    loop.main(["train"], values)


def test_sft_refuses_a_method_that_samples():
  values = command(loop, "--config", str(readme.ROOT / "configs" / "grpo.py"))
  with pytest.raises(app.UsageError, match="samples from the policy"):
    sft.main(["sft"], values)


def test_sampling_is_the_same_command_under_the_name_of_the_package(monkeypatch):
  calls = []
  monkeypatch.setattr("absl.app.run", calls.append)
  monkeypatch.setattr(generate, "define_flags", lambda: None)
  runpy.run_module("jaxrl_reason.sample", run_name="__main__")
  assert calls[0] is sys.modules["jaxrl_reason.generate"].main


@pytest.mark.parametrize("module", ["jaxrl_reason.types", "jaxrl_reason.credit", "jaxrl_reason.settings"])
def test_kernels_import_without_the_heavy_packages(module):
  import subprocess

  heavy = ("transformers", "datasets", "tensorflow_datasets", "matplotlib", "orbax", "reasoning_gym")
  code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
  out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
  assert out.stdout.strip() == "[]"


def test_sft_improves_the_likelihood_of_its_demonstrations_and_refuses_a_sampling_method(tmp_path):
  module = importlib.import_module("configs.sft")
  config = module.get_config()
  plain = tiny.config()
  for name in ("architecture", "model", "sampling", "eval", "log", "mesh", "checkpoint", "task"):
    config[name] = plain[name]
  config.sampling.completion_tokens = 10
  config.steps, config.optimizer.learning_rate = 12, 3e-2
  config.batch = {"prompts": 16, "group": 1}
  loop.train(config, module.method, tmp_path)
  losses = [r["loss/sft"] for r in tiny.rows(tmp_path) if "loss/sft" in r]
  assert len(losses) == 12
  assert np.mean(losses[-3:]) < np.mean(losses[:3]) - 0.5
  assert runtime.Checkpoints(tmp_path, keep=10).steps()[-1] == 12


def test_a_made_up_method_works_as_the_readme_pastes_it(tmp_path, monkeypatch):
  text = (readme.ROOT / "README.md").read_text()
  code = text.split("```python\n")[1].split("```")[0]
  path = tmp_path / "better_half.py"
  path.write_text(code)
  from jaxrl_reason.testbed import load_config_module

  module = load_config_module(str(path))
  config = module.get_config()
  assert "max(c, 0)" in loop.describe(config, module.method)
  for name in ("architecture", "model", "sampling", "eval", "log", "mesh", "task", "batch"):
    config[name] = tiny.config()[name]
  config.steps = 1
  assert loop.train(config, module.method, tmp_path / "run").progress.step == 1
