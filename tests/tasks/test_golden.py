"""Problems that must never move: ids seed rollouts, and published numbers rest on test problems by index."""

import os
import pathlib
import subprocess
import sys

import pytest

from jaxrl_reason import tasks

TASKS = {
  "arithmetic": tasks.Arithmetic(),
  "connectivity": tasks.Connectivity(),
  "countdown": tasks.Countdown(),
  "counting": tasks.Counting(),
  "knights": tasks.Knights(),
  "maze": tasks.Maze(),
  "number_words": tasks.NumberWords(languages=("hi",)),
  "shortest_path": tasks.ShortestPath(),
  "spatial": tasks.Spatial(),
  "sudoku": tasks.Sudoku(),
}
GOLDEN = {
  "arithmetic": (
    1912075428,
    "27+72=",
    "72009;27009>99",
  ),
  "connectivity": (
    1291935280,
    "link fa bf be ef;ab=",
    "a;f;be>yes",
  ),
  "countdown": (
    1490212198,
    "make 14 of 5 6 3=",
    "6+3=9;9+5=14>6+3+5",
  ),
  "counting": (
    1490936547,
    "count c in bdaabbabadcc=",
    "b0d0a0a0b0b0a0b0a0d0c1c2>2",
  ),
  "knights": (
    754081915,
    "knights A:A-&C- B:A~C C:B-=",
    "+++A;++-A;+-+A;+--A;-++B;-+-A;--+>A-B-C+",
  ),
  "maze": (
    1198074028,
    "maze ..#./G.#./.#.#/.S..=",
    "42L41U31U21>LUU",
  ),
  "number_words": (
    430499107,
    "शब्द चौहत्तर घटा पंद्रह=",
    "74-15=59>उनसठ",
  ),
  "shortest_path": (
    881805982,
    "path dc ef db de ac ba af;bc=",
    "b;ad;cef>2",
  ),
  "spatial": (
    1691600624,
    "walk F4LF9RF8R=",
    "0,4N;0,4W;-9,4W;-9,4N;-9,12N;-9,12E>-9,12E",
  ),
  "sudoku": (
    723058837,
    "sudoku .421/1.4./.3../2134=",
    "113;222;243;314;331;342>3421/1243/4312/2134",
  ),
}


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_first_test_problem_is_the_recorded_one(name):
  problem = TASKS[name].problem("test", 0)
  assert (problem.id, problem.prompt, problem.solution) == GOLDEN[name]


def test_another_process_with_another_hash_seed_draws_the_same():
  """Python's own hash() differs between processes; no problem may depend on it."""
  code = (
    "from jaxrl_reason import tasks\n"
    "for t in (tasks.ShortestPath(), tasks.Maze(), tasks.Sudoku()):\n"
    "  print(t.problem('test', 0).id)"
  )
  root = pathlib.Path(__file__).parents[2]
  env = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(root)}
  done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
  assert [int(line) for line in done.stdout.split()] == [
    GOLDEN[n][0] for n in ("shortest_path", "maze", "sudoku")
  ]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_change_of_one_character_of_an_exact_answer_is_wrong(name):
  """Exhaustive over positions; tasks with many right answers are judged in their own tests."""
  task = TASKS[name]
  problem = task.problem("test", 0)
  if task.exact:
    for at in range(len(problem.answer)):
      for char in "0123456789+-/,NESWABCnoyes ":
        changed = problem.answer[:at] + char + problem.answer[at + 1 :]
        if changed != problem.answer:
          assert task.grade(problem, ">" + changed) == (0.0, "wrong")
