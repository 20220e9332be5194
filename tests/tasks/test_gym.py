"""The adapter of reasoning-gym (an extra): three data sets of different kinds, and its errors."""

import sys

import numpy as np
import pytest

from jaxrl_reason import reward, tasks


def test_a_missing_extra_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "reasoning_gym", None)
  with pytest.raises(ImportError, match=r"pip install 'jaxrl-reason\[reasoning-gym\]'"):
    tasks.reasoning_gym("chain_sum")


@pytest.mark.extra
@pytest.mark.case(42)
@pytest.mark.parametrize("name", ["chain_sum", "leg_counting", "word_sorting", "jugs"])
def test_case_42_gym_splits_are_disjoint_and_golds_correct(name):
  """Case 42: seeds s and s+1 share items; these splits share none. Answers may hold `>`."""
  task = tasks.reasoning_gym(name)
  owner = {}
  for split in ("train", "validation", "test"):
    for index in range(8):
      problem = task.problem(split, index)
      assert owner.setdefault(task.canonical(problem), split) == split
      assert task.grade(problem, problem.solution) == (1.0, "correct")
      assert task.grade(problem, "no answer here") == (0.0, "format")
  assert task.problem("test", 3) == tasks.reasoning_gym(name).problem("test", 3)


@pytest.mark.extra
@pytest.mark.case(42)
def test_case_42_no_partial_credit_for_a_substring_unless_asked():
  """Case 42: the gym pays len(gold)/len(answer) for an answer that contains the gold."""
  strict, lenient = tasks.reasoning_gym("leg_counting"), tasks.reasoning_gym("leg_counting", partial=True)
  problem = strict.problem("train", 0)
  hedged = f">{problem.answer} or perhaps not"
  assert strict.grade(problem, hedged) == (0.0, "wrong")
  score, outcome = lenient.grade(problem, hedged)
  assert 0 < score < 1
  assert outcome == "wrong"


@pytest.mark.extra
def test_names_and_knobs_are_checked():
  assert tasks.from_config({"name": "reasoning_gym", "dataset": "chain_sum", "min_terms": 3}).knobs == (
    ("min_terms", 3),
  )
  with pytest.raises(ValueError, match=r"dataset is 'chain_sun'.*did you mean 'chain_sum'"):
    tasks.reasoning_gym("chain_sun")
  with pytest.raises(ValueError, match=r"chain_sum has no knob 'min_term'.*did you mean 'min_terms'"):
    tasks.reasoning_gym("chain_sum", min_term=3)
  with pytest.raises(ValueError, match=r"takes every answer"):
    tasks.reasoning_gym("game_of_life_halting")


@pytest.mark.extra
def test_gym_rewards_come_from_the_workers():
  task = tasks.reasoning_gym("chain_sum")
  problems = [task.problem("train", i) for i in range(2)]
  texts = [[p.solution, ">nothing", "no marker"] for p in problems]
  batch = reward.verified()(task, problems, texts, np.ones((2, 3), int))
  assert batch.rewards.tolist() == [[1, 0, 0]] * 2
  assert batch.outcomes == [["correct", "wrong", "format"]] * 2
