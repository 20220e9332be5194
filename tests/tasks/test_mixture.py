"""Mixtures: proportions, gapless parts, grading by the right task; and tasks from configs."""

import json

import pytest
from ml_collections import ConfigDict

from jaxrl_reason import tasks


def test_every_prefix_is_close_to_the_weights_and_parts_have_no_gaps():
  parts = (tasks.Arithmetic(), tasks.Counting(), tasks.Spatial())
  mixed = tasks.mixture(parts, (0.5, 0.3, 0.2))
  taken = [0, 0, 0]
  for index in range(60):
    problem = mixed.problem("train", index)
    (which,) = problem.fields["parts"]
    assert problem.prompt == parts[which].problem("train", taken[which]).prompt
    taken[which] += 1
    assert all(abs(n - w * (index + 1)) <= 1 for n, w in zip(taken, (0.5, 0.3, 0.2)))
    assert mixed.grade(problem, problem.solution).outcome == "correct"
    assert mixed.grade(problem, mixed.direct(problem)).outcome == "correct"
    assert mixed.grade(problem, problem.solution + "9").outcome == "wrong"
    assert problem.fields["task"] == parts[which].name
  assert taken == [30, 18, 12]
  assert mixed.size("train") is None
  assert mixed.exact
  assert not mixed.slow
  assert not tasks.mixture((*parts, tasks.Maze())).exact


def test_weights_are_exact_where_a_short_round_can_be_and_close_where_not():
  two = (tasks.Arithmetic(), tasks.Maze())
  assert tasks.mixture(two).shares == (1, 1)
  assert tasks.mixture(two, (2.0, 1.0)).shares == (2, 1)
  assert tasks.mixture(two, (0.25, 0.75)).shares == (1, 3)
  assert tasks.mixture(two, (1.0, 3.14159)).shares == (24, 76)
  assert tasks.mixture(two, (1.0, 1e6)).shares == (1, 100)


def test_mixtures_nest():
  inner = tasks.mixture((tasks.Counting(), tasks.Arithmetic()))
  outer = tasks.mixture((tasks.Spatial(), inner))
  seen = set()
  for index in range(8):
    problem = outer.problem("train", index)
    seen.add((problem.fields["parts"], problem.fields["task"]))
    assert outer.grade(problem, problem.solution).outcome == "correct"
    assert outer.grade(problem, outer.direct(problem) + "0").outcome == "wrong"
    assert outer.canonical(problem).count("|") == len(problem.fields["parts"])
  assert seen == {((0,), "spatial"), ((1, 0), "counting"), ((1, 1), "arithmetic")}


def test_a_finite_part_starts_over_and_sets_the_size(tmp_path):
  path = tmp_path / "a.jsonl"
  path.write_text("".join(json.dumps({"question": f"{i}?", "answer": i}) + "\n" for i in range(3)))
  mixed = tasks.mixture((tasks.jsonl({"train": str(path)}), tasks.Arithmetic()), (2.0, 1.0))
  asked = [mixed.problem("train", i).prompt for i in range(9)]
  assert [prompt for prompt in asked if prompt.endswith("?\n")] == ["0?\n", "1?\n", "2?\n"] * 2
  size = mixed.size("train")
  assert [p.endswith("?\n") for p in asked[:size]].count(True) == 3
  assert asked[size] == "0?\n"


@pytest.mark.parametrize(
  "weights", [(1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, float("nan")), (1.0, float("inf"))]
)
def test_weights_are_checked(weights):
  with pytest.raises(ValueError, match="allowed: one positive number for each task"):
    tasks.mixture((tasks.Arithmetic(), tasks.Maze()), weights)


def test_tasks_from_configs(tmp_path):
  assert tasks.from_config(ConfigDict({"name": "arithmetic", "terms": 3})) == tasks.Arithmetic(terms=3)
  words = tasks.from_config(ConfigDict({"name": "number_words", "languages": ["hi", "mr"]}))
  assert words == tasks.NumberWords(languages=("hi", "mr"))
  path = tmp_path / "a.jsonl"
  path.write_text('{"q": "1?", "answer": 1}\n')
  task = tasks.from_config(ConfigDict({"name": "mine", "path": str(path), "question": "q"}))
  assert task.name == "mine"
  task = tasks.from_config(ConfigDict({"path": {"test": str(path)}, "question": "q"}))
  assert (task.name, task.size("test")) == ("jsonl", 1)
  parts = {"a": {"name": "arithmetic", "weight": 3}, "b": {"name": "sudoku", "blanks": 4}}
  mixed = tasks.from_config(ConfigDict({"name": "mixture", "parts": parts}))
  assert mixed == tasks.mixture((tasks.Arithmetic(), tasks.Sudoku(blanks=4)), (0.75, 0.25))


@pytest.mark.parametrize(
  ("config", "message"),
  [
    ({"name": "arithmatic"}, "task.name is 'arithmatic'; allowed: .*did you mean 'arithmetic'"),
    ({}, "task.name is ''"),
    ({"name": "arithmetic", "term": 3}, "task.term is not a knob of 'arithmetic'.*did you mean 'terms'"),
    ({"name": "jsonl"}, "lacks the knob 'path'"),
    ({"name": "sudoku", "blanks": 12}, "Sudoku.blanks is 12"),
    ({"name": "mixture"}, "allowed: parts"),
  ],
)
def test_unknown_names_and_knobs_are_named(config, message):
  with pytest.raises(ValueError, match=message):
    tasks.from_config(ConfigDict(config))


def test_every_constructor_is_reachable_by_its_own_name():
  for name, make in tasks.TASKS.items():
    if isinstance(make, type):
      assert make().name == name
