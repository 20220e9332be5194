"""What every procedural task owes: right solutions, verdicts that bite, determinism, disjoint splits."""

import functools
import itertools

import numpy as np
import pytest

from jaxrl_reason import tasks
from jaxrl_reason.tasks.stream import Stream, split_of, stable_hash
from jaxrl_reason.types import Problem

EVERY = (
  tasks.Arithmetic(),
  tasks.Arithmetic(terms=3, digits=2, operators="+-*"),
  tasks.Arithmetic(terms=4, digits=3),
  tasks.Countdown(),
  tasks.Countdown(count=4),
  tasks.Sudoku(),
  tasks.Sudoku(blanks=10),
  tasks.Maze(),
  tasks.Maze(side=5, walls=8, shortest=True),
  tasks.ShortestPath(),
  tasks.Connectivity(),
  tasks.Counting(),
  tasks.Spatial(),
  tasks.Knights(),
  tasks.Knights(people=2),
  tasks.NumberWords(),
  tasks.NumberWords(languages=("en", "hi", "mr")),
)
DEFAULTS = tuple(t for t in EVERY if t == type(t)())
COUNTS = {"arithmetic": 900, "counting": 600, "spatial": 300, "sudoku": 30, "knights": 30}
SPLITS = ("train", "validation", "test")


@functools.cache
def drawn(task, split, index):
  return task.problem(split, index)


def few(task, count=8):
  return [drawn(task, split, index) for split in SPLITS for index in range(count)]


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_solution_and_direct_answer_are_correct(task):
  for problem in few(task):
    assert task.grade(problem, problem.solution) == (1.0, "correct"), problem
    assert task.grade(problem, task.direct(problem)) == (1.0, "correct"), problem
    assert problem.solution.endswith(">" + problem.answer)


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_changed_answers_are_wrong_and_missing_ones_a_format_miss(task):
  """Prefixes, extensions and repetitions of the answer are judged as they stand, never by resemblance."""
  for problem in few(task, 3):
    answer = problem.answer
    for wrong in (
      answer + "0",
      "0" + answer,
      answer[:-1],
      f"{answer} or {answer}",
      answer + "\n",
      "x" + answer,
    ):
      if wrong and wrong != answer and not (not task.exact and task.accepts(problem, wrong)):
        assert task.grade(problem, f"{problem.solution}>{wrong}") == (0.0, "wrong"), (problem, wrong)
    assert task.grade(problem, answer) == (0.0, "format")
    assert task.grade(problem, "") == (0.0, "format")
    assert task.grade(problem, problem.solution + ">") == (0.0, "format")


@pytest.mark.parametrize("task", DEFAULTS, ids=repr)
def test_default_difficulty_fits_the_byte_budget(task):
  for problem in few(task):
    assert len(problem.prompt.encode()) <= 48
    assert len(problem.solution.encode()) <= 64
    assert ">" not in problem.prompt


def test_prompts_of_different_tasks_start_differently():
  starts = [task.problem("train", 0).prompt[:4] for task in DEFAULTS]
  assert len(set(starts)) == len(starts)
  assert len({task.name for task in DEFAULTS}) == len(DEFAULTS)


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_problem_is_a_pure_function(task):
  """The same object, an equal one, and any order of the calls give the same problems."""
  forward = few(task, 2)
  other = type(task)(**{name: getattr(task, name) for name in task.__dataclass_fields__})
  backward = [other.problem(split, index) for split in reversed(SPLITS) for index in reversed(range(2))]
  assert forward == backward[::-1]
  assert all(0 <= problem.id < 2**31 for problem in forward)
  assert task.size("train") is None


@pytest.mark.case(42)
@pytest.mark.parametrize(("task", "count"), [(t, COUNTS.get(t.name, 60)) for t in DEFAULTS])
def test_case_42_splits_never_share_content(task, count):
  """Case 42: neither within one task nor with the splits of the same task at another difficulty."""
  owner = {}
  others = {
    "arithmetic": tasks.Arithmetic(terms=2, digits=1),
    "countdown": tasks.Countdown(largest=9),
    "number_words": tasks.NumberWords(languages=("hi", "mr"), largest=40),
  }
  for stream, split in itertools.product({task, others.get(task.name, task)}, SPLITS):
    for index in range(count // 3):
      content = stream.canonical(stream.problem(split, index))
      assert owner.setdefault(content, split) == split
      assert split_of(f"{stream.name}|{content}") == split
  assert set(owner.values()) == set(SPLITS)


@pytest.mark.case(42)
def test_case_42_reordered_terms_and_translations_stay_in_their_split():
  """Case 42: 12+34 and 34+12, make 7 of 1 6 and of 6 1, the same sum in three languages: one content."""
  task = tasks.Arithmetic()
  forward, backward = (
    Problem(0, prompt, "46", fields={"numbers": numbers, "operators": "+"})
    for prompt, numbers in (("12+34=", (12, 34)), ("34+12=", (34, 12)))
  )
  assert task.canonical(forward) == task.canonical(backward)
  words = tasks.NumberWords(languages=("en", "hi", "mr"), largest=9)
  contents = {}
  for index in range(120):
    problem = words.problem("train", index)
    contents.setdefault(words.canonical(problem), set()).add(problem.fields["language"])
  assert max(map(len, contents.values())) >= 2


def test_streams_differ_between_splits_indices_and_knobs():
  task = tasks.Arithmetic(digits=6)
  assert len({task.problem(split, index).prompt for split in SPLITS for index in range(50)}) == 150
  assert task.problem("train", 0) != tasks.Arithmetic(digits=6, terms=3).problem("train", 0)


def test_split_shares_are_eight_one_one():
  counts = {split: 0 for split in SPLITS}
  for item in range(5000):
    counts[split_of(str(item))] += 1
  np.testing.assert_allclose([counts[s] / 5000 for s in SPLITS], [0.8, 0.1, 0.1], atol=0.015)


def test_hash_is_stable_across_processes():
  """A number worked once: problem ids seed rollouts, so they must never move."""
  assert stable_hash("abc") == 0xD8BB14D833D59559


def test_too_small_a_space_says_so():
  class One(Stream):
    name = "one"

    def generate(self, random):
      return Problem(0, "same", "1")

  owner = split_of("one|same")
  assert One().problem(owner, 5).prompt == "same"
  with pytest.raises(ValueError, match="space of problems is too small"):
    One().problem(next(s for s in SPLITS if s != owner), 0)
  with pytest.raises(ValueError, match="index is -1; allowed: 0 and above"):
    One().problem(owner, -1)


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: tasks.Arithmetic(terms=1), "Arithmetic.terms is 1; allowed: 2 to 9"),
    (lambda: tasks.Arithmetic(operators="+/"), "Arithmetic.operators holds '/'"),
    (lambda: tasks.Arithmetic(operators=""), "Arithmetic.operators is empty"),
    (lambda: tasks.Countdown(count=9), "Countdown.count is 9; allowed: 2 to 6"),
    (lambda: tasks.Sudoku(blanks=0), "Sudoku.blanks is 0; allowed: 1 to 10"),
    (lambda: tasks.Maze(walls=15), "Maze.walls is 15; allowed: 0 to 14"),
    (lambda: tasks.ShortestPath(edges=99), "ShortestPath.edges is 99; allowed: 1 to 15"),
    (lambda: tasks.Counting(letters=1), "Counting.letters is 1; allowed: 2 to 26"),
    (lambda: tasks.Spatial(longest=10), "Spatial.longest is 10; allowed: 1 to 9"),
    (lambda: tasks.Knights(people=4), "Knights.people is 4; allowed: 2 to 3"),
    (lambda: tasks.NumberWords(languages=("hj",)), "languages holds 'hj'.*did you mean 'hi'"),
  ],
)
def test_knobs_out_of_range_are_named(make, message):
  with pytest.raises(ValueError, match=message):
    make()
