"""The learning curve and the text of samples."""

import numpy as np
import pytest

from jaxrl_reason.runtime.metrics import MetricsWriter
from jaxrl_reason.runtime.report import learning_curve, samples_text, series, smooth


def png_size(path):
  content = path.read_bytes()
  assert content.startswith(b"\x89PNG")
  return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def curve_of(tmp_path, rows):
  with MetricsWriter(tmp_path, tensorboard=False) as writer:
    for step, row in enumerate(rows, 1):
      writer.write(step, row)
  path = tmp_path / "curve.png"
  return learning_curve(tmp_path / "metrics.jsonl", path), png_size(path)


def test_only_panels_with_numbers_are_drawn(tmp_path):
  rows = [{"reward/mean": float(s), "entropy": float("nan"), "unknown": 1.0} for s in range(50)]
  rows[9] |= {"eval/pass@1": 0.5, "eval/pass@1/low": 0.4, "eval/pass@1/high": 0.6}
  titles, size = curve_of(tmp_path, rows)
  assert titles == ["Reward", "Accuracy on held-out problems"]
  assert size == (1260, 435)


def test_many_panels_fill_a_grid_of_three_columns(tmp_path):
  names = ("reward/mean", "accuracy", "length/mean", "entropy", "kl_ref/k1", "kl_ref/k3", "grad_norm")
  titles, size = curve_of(tmp_path, [dict.fromkeys(names, 0.1 * s) for s in range(5)])
  assert len(titles) == 6
  assert size == (1890, 870)


@pytest.mark.parametrize("rows", [[], [{"reward/mean": 1.0}], [{"other": 1.0}]])
def test_a_run_of_no_or_one_step_has_a_picture(tmp_path, rows):
  titles, size = curve_of(tmp_path, rows)
  assert titles == (["Reward"] if rows and "reward/mean" in rows[0] else [])
  assert size == (630, 435)


def test_series_skips_what_is_missing_or_null():
  rows = [{"step": 1, "x": 2.0}, {"step": 2}, {"step": 3, "x": None}, {"step": 4, "x": 5}]
  steps, values = series(rows, "x")
  np.testing.assert_array_equal(steps, [1, 4])
  np.testing.assert_array_equal(values, [2, 5])


@pytest.mark.parametrize("window", [1, 2, 3, 8, 99])
def test_smoothing_is_the_mean_of_a_window_cut_at_the_ends(window):
  values = np.random.default_rng(window).normal(size=20)
  half = window // 2
  expected = [values[max(t - half, 0) : t + half + 1].mean() for t in range(20)]
  np.testing.assert_allclose(smooth(values, window), expected, rtol=1e-10)
  np.testing.assert_allclose(smooth(np.full(20, 3.0), window), 3.0)


def test_samples_are_grouped_by_prompt(tmp_path):
  base = {"prompt": "2 + 2\n= ?", "answer": "4", "length": 3, "truncated": False}
  rows = [
    base
    | {"completion": "It is\n\n4", "outcome": "correct", "reward": 1.1, "terms": {"exact": 1.0, "form": 0.1}},
    base | {"completion": "5", "outcome": "wrong", "reward": np.float32(-0.5), "truncated": True},
    {"prompt": "other", "completion": "ü"},
  ]
  samples_text(tmp_path / "samples.txt", rows)
  text = (tmp_path / "samples.txt").read_text(encoding="utf-8")
  assert text.count("PROMPT") == 2
  assert "  2 + 2\n  = ?\nANSWER  4\n" in text
  assert "correct  |  reward 1.1 (exact +1, form +0.1)  |  3 tokens\n  It is\n  \n  4\n" in text
  assert "wrong  |  reward -0.5  |  3 tokens  |  truncated\n  5\n" in text
  assert text.endswith("  ü\n")
  samples_text(tmp_path / "samples.txt", [])
  assert (tmp_path / "samples.txt").read_text() == ""
