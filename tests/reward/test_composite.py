"""Composites of named terms: sums, validity, order, and loud non-finite numbers."""

import math

import numpy as np
import pytest

from jaxrl_reason import reward, tasks
from jaxrl_reason.text import ByteTokenizer, decode_completions
from jaxrl_reason.types import Grade, Problem

TASK = tasks.Arithmetic()


@pytest.fixture
def batch():
  problems = [TASK.problem("train", i) for i in range(2)]
  right = [TASK.direct(p) for p in problems]
  texts = [[right[0], right[1], "no answer", right[0]], ["", right[1], right[0], problems[1].solution]]
  return problems, texts, np.array([[4, 4, 9, 4], [0, 4, 4, 12]])


def test_weighted_sum_of_terms(batch):
  total = reward.composite(reward.verified(), reward.format_ok(0.25), reward.length_penalty(4, 12, 0.5))
  result = total(TASK, *batch)
  verified = np.array([[1, 0, 0, 1], [0, 1, 0, 1]])
  format_ok = np.array([[1, 1, 0, 1], [0, 1, 1, 1]])
  penalty = -np.array([[0, 0, 5 / 8, 0], [0, 0, 0, 1]])
  np.testing.assert_array_equal(result.terms["verified"], verified)
  np.testing.assert_array_equal(result.terms["format_ok"], format_ok)
  np.testing.assert_allclose(result.terms["length_penalty"], penalty)
  np.testing.assert_allclose(result.rewards, verified + 0.25 * format_ok + 0.5 * penalty, rtol=1e-6)
  assert result.rewards.dtype == np.float32
  assert result.valid.all()
  assert result.outcomes == [
    ["correct", "wrong", "format", "correct"],
    ["format", "correct", "wrong", "correct"],
  ]
  assert [result.count(o) for o in ("correct", "wrong", "format", "timeout")] == [4, 2, 2, 0]
  assert total.formula == "1·verified + 0.25·format_ok + 0.5·length_penalty"


@pytest.mark.case(10)
def test_case_10_a_missing_reward_is_not_a_zero(batch):
  """Case 10: None makes the row invalid where the term acts; 0.0 is a reward; weight 0 only logs."""
  some = reward.term("judge", lambda row: None if "answer" in row.text else 0.0)
  result = reward.composite(reward.verified(), some)(TASK, *batch)
  assert result.valid.tolist() == [[True, True, False, True], [True] * 4]
  assert result.rewards.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1]]
  assert np.isnan(result.terms["judge"]).tolist() == (~result.valid).tolist()
  logged = reward.composite(reward.verified(), reward.term("judge", lambda row: None, 0.0))(TASK, *batch)
  assert logged.valid.all()
  assert logged.rewards.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1]]
  assert np.isnan(logged.terms["judge"]).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_nan_reward_stops_with_term_problem_and_value(batch, value):
  bad = reward.term("judge", lambda row: value if row.problem.id == batch[0][1].id else 1.0)
  with pytest.raises(
    ValueError, match=f"NaN reward: term 'judge' gave {value} for problem {batch[0][1].id};"
  ):
    reward.composite(reward.verified(), bad)(TASK, *batch)


class Fragile:
  """A verifier that raises on what it cannot parse."""

  name = "fragile"

  def problem(self, split, index):
    return Problem(index, "?", str(index))

  def size(self, split):
    return None

  def grade(self, problem, completion):
    return Grade(
      float(int(completion) == problem.id), "correct" if int(completion) == problem.id else "wrong"
    )


@pytest.mark.case(35)
def test_case_35_a_row_that_cannot_be_parsed_shifts_no_other(caplog):
  """Case 35: rewards out = rewards in, in order; the bad rows are invalid and said to be so."""
  task = Fragile()
  problems = [task.problem("train", i) for i in range(3)]
  texts = [["0", "1"], ["what", "1"], ["2", "?"]]
  result = reward.verified()(task, problems, texts, np.ones((3, 2), int))
  assert result.rewards.tolist() == [[1, 0], [0, 1], [1, 0]]
  assert result.valid.tolist() == [[True, True], [False, True], [True, False]]
  assert "failed on 2 of 6 rows; first: ValueError" in caplog.text
  with pytest.raises(RuntimeError, match="verifier of task 'fragile' failed on all 2 rows"):
    reward.verified()(task, problems[:1], [["a", "b"]], np.ones((1, 2), int))


@pytest.mark.case(44)
def test_case_44_the_penalty_counts_tokens_not_characters():
  """Case 44: 5 Devanagari characters are 15 byte tokens; the same length in ASCII pays the same."""
  tokenizer = ByteTokenizer()
  ids = np.stack([tokenizer.encode("शशशशश"), tokenizer.encode("x" * 15), tokenizer.encode("x" * 15)])[None]
  lengths = np.array([[15, 15, 5]])
  texts = decode_completions(tokenizer, ids, lengths)
  assert [len(text) for text in texts[0]] == [5, 15, 5]
  result = reward.length_penalty(5, 25)(TASK, [TASK.problem("train", 0)], texts, lengths)
  assert result.rewards.tolist() == [[-0.5, -0.5, 0.0]]


def test_terms_see_every_field_of_the_problem():
  task = tasks.NumberWords(languages=("mr",))
  problem = task.problem("train", 0)
  term = reward.term("marathi", lambda row: float(row.problem.fields["language"] == "mr"))
  assert term(task, [problem], [[">x"]], np.array([[2]])).rewards.tolist() == [[1.0]]


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: reward.Reward(()), "allowed: one or more terms"),
    (lambda: reward.composite(reward.verified(), reward.verified(0.5)), "each name once"),
    (lambda: reward.verified(math.nan), "weight of term 'verified' is nan"),
    (lambda: reward.length_penalty(5, 5), "start=5, stop=5; allowed: 0 <= start < stop, in tokens"),
  ],
)
def test_mistakes_are_named(make, message):
  with pytest.raises(ValueError, match=message):
    make()


def test_shapes_are_checked(batch):
  problems, texts, lengths = batch
  with pytest.raises(ValueError, match="2 problems but texts of 1"):
    reward.verified()(TASK, problems, texts[:1], lengths[:1])
  with pytest.raises(ValueError, match=r"lengths have shape \(2, 3\)"):
    reward.verified()(TASK, problems, texts, lengths[:, :3])
  with pytest.raises(ValueError, match="groups of one size"):
    reward.verified()(TASK, problems, [texts[0], texts[1][:2]], lengths)


def test_composites_flatten_and_keep_the_order_of_their_terms():
  inner = reward.composite(reward.verified(), reward.format_ok(0.1))
  outer = reward.composite(inner, reward.length_penalty(1, 2, 0.5), workers=3, seconds=1.0)
  assert [term.name for term in outer.terms] == ["verified", "format_ok", "length_penalty"]
  assert (outer.workers, outer.seconds) == (3, 1.0)
  assert inner.formula == "1·verified + 0.1·format_ok"


def test_rewards_are_linear_in_the_weights(batch):
  """r(w) from terms kept in the batch: what is logged explains what was paid."""
  draw = np.random.default_rng(0)
  for _ in range(5):
    a, b, c = (float(w) for w in draw.normal(size=3))
    result = reward.composite(reward.verified(a), reward.format_ok(b), reward.length_penalty(2, 7, c))(
      TASK, *batch
    )
    terms = result.terms
    want = a * terms["verified"] + b * terms["format_ok"] + c * terms["length_penalty"]
    np.testing.assert_allclose(result.rewards, want, rtol=1e-5, atol=1e-6)


def test_permuting_rollouts_permutes_rewards(batch):
  problems, texts, lengths = batch
  total = reward.composite(reward.verified(), reward.length_penalty(2, 7, 0.3))
  straight = total(TASK, problems, texts, lengths)
  order = [2, 0, 3, 1]
  moved = total(TASK, problems, [[group[i] for i in order] for group in texts], lengths[:, order])
  np.testing.assert_array_equal(moved.rewards, straight.rewards[:, order])
  assert moved.outcomes == [[group[i] for i in order] for group in straight.outcomes]


def test_length_penalty_is_flat_linear_flat():
  lengths = np.array([[0, 4, 5, 10, 14, 15, 90]])
  result = reward.length_penalty(5, 15)(TASK, [TASK.problem("train", 0)], [[""] * 7], lengths)
  np.testing.assert_allclose(result.rewards, [[0, 0, 0, -0.5, -0.9, -1, -1]], rtol=1e-6)
