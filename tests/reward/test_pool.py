"""Killable workers: limits, order, deaths, threads."""

import os
import threading
import time

import pytest

from jaxrl_reason.reward import Pool, grading
from jaxrl_reason.types import Grade, Problem


def work(item):
  """A verifier with every vice, by the name of the item."""
  if item == "hang":
    while True:
      pass
  if item == "sleep":
    time.sleep(60)
  if item == "raise":
    raise KeyError("no such thing")
  if item == "die":
    os._exit(3)
  if item == "unpicklable":
    return lambda: None
  return item * 2


@pytest.fixture(scope="module")
def pool():
  pool = Pool(work, workers=2, seconds=0.7)
  yield pool
  pool.close()


@pytest.mark.case(35)
@pytest.mark.case(36)
def test_cases_35_and_36_a_bad_item_costs_only_itself(pool):
  """Cases 35, 36: results = items, in order, though some hang, raise, die or cannot be sent."""
  start = time.monotonic()
  items = [1, "hang", 2, "raise", 3, "die", 4, "unpicklable", 5]
  results = pool.map(items)
  assert time.monotonic() - start < 60
  assert [r.value for r in results] == [2, None, 4, None, 6, None, 8, None, 10]
  assert [r.timeout for r in results] == [item == "hang" for item in items]
  assert "KeyError" in results[3].error
  assert "the worker died" in results[5].error
  assert "cannot be sent" in results[7].error
  assert pool.map(list(range(20))) == [(2 * n, "", False) for n in range(20)]
  assert len(pool.pids()) == 2


@pytest.mark.case(36)
def test_case_36_off_the_main_thread_and_after_a_worker_was_killed_from_outside(pool):
  """Case 36: no signal handler, no main thread needed; an idle worker that dies is replaced."""
  pool.map([1, 2])
  os.kill(pool.pids()[0], 9)
  heard = []
  threads = [threading.Thread(target=lambda n=n: heard.append((n, pool.map([n, n + 1])))) for n in range(3)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  values = {n: [r.value for r in results] for n, results in heard}
  lost = sum(value is None for pair in values.values() for value in pair)
  assert lost <= 1  # at most the item that the dead worker was handed
  assert all(v in (None, 2 * (n + i)) for n, pair in values.items() for i, v in enumerate(pair))
  assert pool.map([7])[0].value == 14


def test_a_call_that_fails_leaves_nothing_behind(pool):
  with pytest.raises(Exception, match=r"pickle"):
    pool.map([1, lambda: None, 2])
  assert [r.value for r in pool.map([5])] == [10]
  assert pool.map([]) == []


def test_knobs_are_checked():
  with pytest.raises(ValueError, match=r"workers=0, seconds=5.0; allowed"):
    Pool(work, workers=0)
  with pytest.raises(ValueError, match=r"seconds=0.0"):
    Pool(work, seconds=0.0)


class Slow:
  """A user's task whose verifier may hang."""

  name = "slow"
  slow = True

  def problem(self, split, index):
    return Problem(index, "?", str(index))

  def size(self, split):
    return None

  def prepare(self):
    self.base = 0.5

  def grade(self, problem, completion):
    if completion in ("sleep", "raise"):
      work(completion)
    if ">" not in completion:
      return Grade(0.0, "format")
    return Grade(self.base + 0.5, "correct") if completion == f">{problem.id}" else Grade(0.0, "wrong")


@pytest.mark.case(36)
def test_case_36_timeouts_wrong_answers_and_format_misses_are_told_apart():
  """Case 36: four outcomes, a failed verifier is none of them; `prepare` ran in the worker."""
  task = Slow()
  problems = [task.problem("train", i) for i in range(2)]
  texts = [[">0", "sleep", "x"], ["raise", ">9", ">1"]]
  grades = grading.grade(task, problems, texts, workers=2, seconds=0.7)
  assert [[g.outcome for g in row] for row in grades] == [
    ["correct", "timeout", "format"],
    ["wrong", "wrong", "correct"],
  ]
  assert [[g.score for g in row] for row in grades] == [[1.0, 0.0, 0.0], [None, 0.0, 1.0]]


def unprepared():
  raise ImportError("the verifier's package is missing")


@pytest.mark.slow
def test_workers_that_cannot_start_are_an_error_and_not_a_loop():
  pool = Pool(work, workers=1, prepare=unprepared)
  with pytest.raises(RuntimeError, match="3 verifier workers in a row did not start"):
    pool.map([1])
  assert pool.pids() == []


def test_pools_are_kept_by_task_and_the_oldest_is_closed():
  """Steps reuse the workers of their task; many tasks do not pile up processes."""
  many = [Slow() for _ in range(6)]
  pools = [grading._pool(task, 1, 0.5) for task in many]
  assert grading._pool(many[-1], 1, 0.5) is pools[-1]
  assert grading._pool(many[0], 1, 0.5) is not pools[0]
  assert len(grading._POOLS) <= 4
