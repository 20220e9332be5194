"""The display: a bar on a terminal, plain lines elsewhere, the table of before and after, the phase timer."""

import contextlib
import io
import time

import pytest
from rich.console import Console

from jaxrl_reason.runtime.display import Display, PhaseTimer, before_after_table, summary_table

ROW = {"reward/mean": 0.5, "accuracy": 0.25, "length/mean": 31.6, "tokens_per_s/sample": 12345.6}


def console(terminal, width=120):
  return Console(file=io.StringIO(), force_terminal=terminal, width=width)


def test_plain_lines_where_there_is_no_terminal():
  out = console(False)
  with Display(100, workdir="runs/quick[start]", console=out, plain_every=50) as display:
    for step in range(1, 101):
      display.update(step, ROW)
  lines = out.file.getvalue().splitlines()
  assert [line.split()[2] for line in lines] == ["1/100", "50/100", "100/100"]
  assert lines[1].startswith(
    "quick[start]  step 50/100  reward 0.500  accuracy 25.0%  length 32  tok/s 12,346"
  )
  assert lines[-1].endswith("left 0:00")
  assert "\x1b" not in out.file.getvalue()


def test_a_resumed_run_starts_where_it_was_and_missing_numbers_are_left_out():
  out = console(False)
  with Display(10, start=7, console=out) as display:
    display.update(8, {"accuracy": 0.5, "reward/mean": None})
    display.note("a [note]")
  first, second = out.file.getvalue().splitlines()
  assert first.startswith("training  step 8/10  accuracy 50.0%  left")
  assert second == "a [note]"


def test_a_bar_on_a_terminal():
  out = console(True)
  with Display(4, start=1, workdir="runs/x[y]", console=out) as display:
    display.update(2, ROW)
    display.note("kept")
    display.update(4, {"accuracy": 1.0})
  text = out.file.getvalue()
  assert "x[y]" in text
  assert "4/4" in text
  assert "accuracy 100.0%" in text
  assert "reward 0.500" in text.splitlines()[-1] or "reward 0.500" in text
  assert "kept" in text


def test_remaining_time_has_hours(monkeypatch):
  display = Display(102, console=console(False))
  assert display._left(1) == "unknown yet"  # the first step compiles: it says nothing about the pace
  after_compiling = display._began
  monkeypatch.setattr(time, "perf_counter", lambda: after_compiling + 90.0)
  assert display._left(2) == "2:30:00"
  assert display._left(92) == "0:10"


def test_phases_add_up_and_reset():
  timer = PhaseTimer()
  for _ in range(2):
    with timer("sample"):
      time.sleep(0.01)
  with contextlib.suppress(RuntimeError), timer("eval"):
    time.sleep(0.02)
    raise RuntimeError
  row = timer.row(tokens=100)
  assert set(row) == {"time/sample", "time/eval", "time/step", "tokens_per_s/sample"}
  assert 0.02 <= row["time/sample"] <= row["time/step"]
  assert row["time/eval"] >= 0.02
  assert row["tokens_per_s/sample"] == pytest.approx(100 / row["time/sample"])
  timer.reset()
  assert set(timer.row()) == {"time/step"}


def test_an_unknown_phase_names_the_nearest():
  with pytest.raises(ValueError, match="did you mean 'sample'"), PhaseTimer()("sampel"):
    pass


def test_table_before_and_after():
  out = console(False)
  rows = [("pass@1", (0.2, 0.1, 0.3), (0.5, 0.4, 0.6)), ("length", (10.0, 5.0, 15.0), (9.0, 4.0, 14.0))]
  before_after_table(rows, out)
  text = out.file.getvalue()
  assert "0.200 [0.100, 0.300]" in text
  assert "0.500 [0.400, 0.600]" in text
  assert "+0.300" in text
  assert "-1.000" in text
  styled = console(True)
  before_after_table(rows, styled)
  assert "\x1b[1m+0.300" in styled.file.getvalue()
  assert "\x1b[1m-1.000" not in styled.file.getvalue()


def test_table_of_several_tasks_leaves_gaps():
  out = console(False)
  table = summary_table({"sum[s]": {"pass@1": (0.5, 0.25, 0.75)}, "chains": {"maj@4": (1.0, 1.0, 1.0)}}, out)
  text = out.file.getvalue()
  assert "sum[s]" in text
  assert "0.500 [0.250, 0.750]" in text
  assert table.row_count == 2
  assert [len(list(column.cells)) for column in table.columns] == [2, 2, 2]
  assert list(table.columns[1].cells)[1] == ""
