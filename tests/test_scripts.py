"""The shell scripts parse, and a dry run of the TPU scripts prints commands and runs none."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SCRIPTS = [ROOT / ".ci" / "run", *sorted((ROOT / "tpu_setup").glob("*.sh"))]


def dry_run(script, *arguments):
  """What a script prints where there is no gcloud at all."""
  environment = {"PATH": "/usr/bin:/bin", "NAME": "one two", "TYPE": "v4-32"}
  command = ["bash", str(ROOT / "tpu_setup" / script), "--dry-run", *arguments]
  return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_stop_at_errors(script):
  subprocess.run(["bash", "-n", str(script)], check=True)
  assert "set -euo pipefail" in script.read_text() or script.name == "common.sh"
  if shutil.which("shellcheck"):
    subprocess.run(["shellcheck", "-x", str(script)], check=True)


def test_create_prints_the_queued_resource():
  result = dry_run("create_tpu_vm.sh", "--spot")
  assert result.returncode == 0
  first = result.stdout.splitlines()[0]
  assert first.startswith("gcloud compute tpus queued-resources create one\\ two ")
  assert first.rstrip().endswith("--spot")
  assert "--accelerator-type v4-32" in first
  wrong = dry_run("create_tpu_vm.sh", "--sopt")
  assert wrong.returncode == 2
  assert "allowed: --spot" in wrong.stderr


def test_install_reaches_every_host():
  result = dry_run("install.sh")
  assert result.returncode == 0
  assert result.stdout.count("--worker all") == 3
  assert "jaxrl_reason[tpu]" in result.stdout


def test_launch_passes_flags_through_and_explains_itself():
  result = dry_run("launch.sh", "--config", "configs/x.py", "--config.name=a b")
  assert result.returncode == 0
  assert "jaxrl_reason.train" in result.stdout
  assert "--worker all" in result.stdout
  assert dry_run("launch.sh", "--delete").stdout.startswith("gcloud compute tpus queued-resources delete")
  nothing = dry_run("launch.sh")
  assert nothing.returncode == 2
  assert "--config configs/quickstart.py" in nothing.stderr
