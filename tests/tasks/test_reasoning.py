"""The reasoning of the reference solutions is true at every step, not only at its end."""

import itertools
import re
from fractions import Fraction

import pytest

from jaxrl_reason import tasks

SPLITS = ("train", "validation", "test")


def few(task, count=6):
  return [task.problem(split, index) for split in SPLITS for index in range(count)]


def thought(problem):
  head, _, answer = problem.solution.rpartition(">")
  assert answer == problem.answer
  return head


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_countdown_steps_hold_use_what_is_there_and_end_on_the_target(count):
  """Each step takes two numbers off the table and puts their result there; the last is the target."""
  for problem in few(tasks.Countdown(count=count), 4):
    table = [int(n) for n in problem.prompt.partition(" of ")[2][:-1].split(" ")]
    steps = thought(problem).split(";")
    assert len(steps) == count - 1
    for step in steps:
      left, operator, right, value = re.fullmatch(r"(\d+)([-+*/])(\d+)=(\d+)", step).groups()
      a, b = Fraction(left), Fraction(right)
      assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator] == int(value) > 0
      table.remove(int(left))
      table.remove(int(right))
      table.append(int(value))
    assert table == [int(problem.prompt.split(" ")[1])]


def test_countdown_expressions_have_no_needless_parentheses():
  """Taking any pair of parentheses away changes the value (a factor of 1 may hide it)."""
  task = tasks.Countdown(count=4)
  for problem in few(task):
    for at, char in enumerate(problem.answer):
      if char == "(":
        close = matching(problem.answer, at)
        bare = problem.answer[:at] + problem.answer[at + 1 : close] + problem.answer[close + 1 :]
        assert not task.accepts(problem, bare) or "1" in bare


def matching(text, at):
  depth = 0
  for i in range(at, len(text)):
    depth += (text[i] == "(") - (text[i] == ")")
    if depth == 0:
      return i
  raise AssertionError(text)


def test_sudoku_steps_take_a_cell_with_the_fewest_candidates():
  """Candidates counted here by sets of the cells that a cell sees; every blank is filled once."""
  for problem in few(tasks.Sudoku(blanks=8), 4):
    grid = [list(row) for row in problem.prompt.removeprefix("sudoku ").removesuffix("=").split("/")]
    for step in thought(problem).split(";"):
      r, c, digit = int(step[0]) - 1, int(step[1]) - 1, step[2]
      blanks = [(i, j) for i in range(4) for j in range(4) if grid[i][j] == "."]
      counts = {cell: len(set("1234") - seen(grid, *cell)) for cell in blanks}
      assert counts[r, c] == min(counts.values())
      assert digit not in seen(grid, r, c)
      grid[r][c] = digit
    assert "/".join(map("".join, grid)) == problem.answer


def seen(grid, r, c):
  box = {grid[i][j] for i in range(r // 2 * 2, r // 2 * 2 + 2) for j in range(c // 2 * 2, c // 2 * 2 + 2)}
  return box | set(grid[r]) | {grid[i][c] for i in range(4)}


def test_maze_trace_names_the_cell_before_every_move():
  for problem in few(tasks.Maze(side=5, walls=6)):
    rows = problem.prompt.removeprefix("maze ").removesuffix("=").split("/")
    trace = re.findall(r"(\d)(\d)([UDLR]?)", thought(problem))
    assert "".join(move for _, _, move in trace) == problem.answer
    cells = [(int(r) - 1, int(c) - 1) for r, c, _ in trace]
    assert rows[cells[0][0]][cells[0][1]] == "S"
    assert rows[cells[-1][0]][cells[-1][1]] == "G"
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in itertools.pairwise(cells))
    assert len(problem.answer) >= 3


def test_graph_layers_are_the_nodes_at_each_distance():
  for task in (tasks.ShortestPath(nodes=7, edges=8), tasks.Connectivity()):
    for problem in few(task):
      edges, _, ends = problem.prompt.partition(" ")[2].removesuffix("=").partition(";")
      layers = thought(problem).split(";")
      assert layers[0] == ends[0]
      earlier = set(layers[0])
      for before, layer in itertools.pairwise(layers):
        ahead = {x for e in edges.split() for x in e if set(e) & set(before)} - earlier
        assert layer == "".join(sorted(ahead))
        earlier |= ahead
      assert (ends[1] in earlier) == (problem.answer != "no")


def test_counting_and_walking_write_the_state_after_every_step():
  for problem in few(tasks.Counting()):
    word, letter, _, text = problem.prompt.removesuffix("=").split(" ")
    expected = "".join(f"{char}{text[: i + 1].count(letter)}" for i, char in enumerate(text))
    assert (word, thought(problem)) == ("count", expected)
  task = tasks.Spatial(moves=8)
  for problem in few(task):
    commands = re.findall(r"F\d|L|R", problem.prompt)
    states = thought(problem).split(";")
    assert len(states) == len(commands) == 8
    for command, before, after in zip(commands[1:], states, states[1:]):
      moved = before[:-1] != after[:-1]
      turned = before[-1] != after[-1]
      assert (moved, turned) == ((True, False) if command[0] == "F" else (False, True))


def test_knights_try_the_readings_in_order_and_stop_at_the_right_one():
  for problem in few(tasks.Knights(), 4):
    *tried, last = thought(problem).split(";")
    order = [f"{a}{b}{c}" for a in "+-" for b in "+-" for c in "+-"]
    assert [step[:3] for step in tried] + [last] == order[: len(tried) + 1]
    assert all(step[3] in "ABC" for step in tried)
    assert problem.answer == "".join(name + kind for name, kind in zip("ABC", last))


def test_number_words_reason_in_digits():
  for problem in few(tasks.NumberWords(languages=("en", "hi", "mr"))):
    left, operator, right, value = re.fullmatch(r"(\d+)([-+])(\d+)=(\d+)", thought(problem)).groups()
    assert int(value) == int(left) + (1 if operator == "+" else -1) * int(right)
    assert problem.fields["language"] in ("en", "hi", "mr")


@pytest.mark.parametrize(
  ("task", "least"),
  [
    (tasks.Counting(), 4),
    (tasks.ShortestPath(), 3),
    (tasks.Connectivity(), 2),
    (tasks.Knights(), 6),
    (tasks.Spatial(), 25),
    (tasks.Arithmetic(), 25),
  ],
)
def test_answers_vary_so_that_guessing_does_not_pay(task, least):
  answers = [task.problem("train", index).answer for index in range(40)]
  assert len(set(answers)) >= least
  assert max(answers.count(a) for a in answers) <= 27
