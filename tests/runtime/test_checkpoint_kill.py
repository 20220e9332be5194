"""A process that saves without pause is killed at random moments; what it leaves can always be resumed."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from jaxrl_reason.runtime.checkpoint import Checkpoints

ROOT = pathlib.Path(__file__).parents[2]

SAVES_FOREVER = """
import sys, numpy as np
from jaxrl_reason.runtime.checkpoint import Checkpoints
with Checkpoints(sys.argv[1], keep=2) as checkpoints:
  target = {"a": np.zeros(50_000), "b": np.zeros(50_000)}
  found = checkpoints.restore_latest(target)
  step = found.step if found else 0
  while True:
    step += 1
    checkpoints.save(step, {name: np.full(50_000, float(step)) for name in "ab"}, {"step": step})
    print(step, flush=True)
"""


@pytest.mark.case(29)
def test_killed_at_any_moment_the_run_resumes(tmp_path):
  environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
  command = [sys.executable, "-W", "error::UserWarning", "-c", SAVES_FOREVER, str(tmp_path)]
  random, target = np.random.default_rng(0), {"a": np.zeros(50_000), "b": np.zeros(50_000)}
  reached = 0
  for _ in range(2):
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
      first = int(process.stdout.readline())
      time.sleep(random.uniform(0, 0.3))
      process.send_signal(signal.SIGKILL)
      printed = [first, *(int(line) for line in process.stdout.read().split())]
    assert first == reached + 1
    with Checkpoints(tmp_path) as checkpoints:
      restored = checkpoints.restore_latest(target)
    assert restored.step in (printed[-1], printed[-1] + 1)
    assert restored.extra == {"step": restored.step}
    assert all((array == restored.step).all() for array in restored.state.values())
    reached = restored.step
