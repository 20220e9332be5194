"""The evaluator: its numbers are those of its rows, its intervals those of the estimators."""

import dataclasses

import numpy as np
import pytest

from jaxrl_reason import evals
from jaxrl_reason import train as loop
from jaxrl_reason.evaluator import Evaluation, answer_ids, ks_of, make_evaluator
from jaxrl_reason.settings import Eval, Sampling, Settings
from jaxrl_reason.testbed import build
from jaxrl_reason.text import final_answer
from tests.train import tiny


@pytest.fixture(scope="module")
def bed():
  """The embedded model, which is right sometimes."""
  settings = Settings(
    task={"name": "arithmetic", "digits": 3},
    sampling=Sampling(prompt_tokens=12, completion_tokens=24),
    eval=Eval(problems=6, samples=3, batch=4),
  )
  return build(settings)


@pytest.fixture(scope="module")
def result(bed):
  return make_evaluator(bed)(bed.params)


@pytest.mark.parametrize(("samples", "ks"), [(1, (1,)), (3, (1, 2, 3)), (4, (1, 2, 4)), (6, (1, 2, 4, 6))])
def test_ks_are_powers_of_two_and_the_number_of_samples(samples, ks):
  assert ks_of(samples) == ks


def test_answer_ids_are_equal_for_equal_answers_and_zero_for_gold():
  ids = answer_ids([[">7", ">8", "none", ">8", ">3"]], ["3"], final_answer)
  np.testing.assert_array_equal(ids, [[1, 2, evals.NO_ANSWER, 2, 0]])


def test_the_summary_is_what_the_rows_say(bed, result):
  correct = np.asarray([r["outcome"] == "correct" for r in result.rows]).reshape(6, 3)
  assert result.summary["pass@1"].value == pytest.approx(correct.mean())
  for k in (1, 2, 3):
    want = evals.bootstrap_interval(evals.pass_at_k(correct, k), bed.settings.seed)
    assert result.summary[f"pass@{k}"] == want
  lengths = np.asarray([r["length"] for r in result.rows])
  assert result.summary["length"].value == pytest.approx(lengths.mean())
  assert result.headline == result.summary["pass@1"].value


def test_rows_name_problem_prompt_answer_and_completion(bed, result):
  first = bed.task.problem("test", 0)
  row = result.rows[0]
  assert (row["problem"], row["prompt"], row["answer"]) == (first.id, first.prompt, first.answer)
  grade = bed.task.grade(first, row["completion"])
  assert (row["outcome"], row["score"]) == (grade.outcome, grade.score)


def test_metrics_of_an_evaluation_carry_their_interval(result):
  row = result.row()
  assert row["eval/pass@1/low"] <= row["eval/pass@1"] <= row["eval/pass@1/high"]
  again = Evaluation.from_json(result.to_json())
  assert again.summary == result.summary


def test_greedy_takes_one_sample_and_repeats_itself(bed):
  greedy = build(
    dataclasses.replace(bed.settings, eval=Eval(problems=5, samples=4, batch=4, temperature=0.0))
  )
  one, two = make_evaluator(greedy)(greedy.params), make_evaluator(greedy)(greedy.params)
  assert len(one.rows) == 5
  assert one.rows == two.rows
  assert set(one.summary) == {"pass@1", "length", "truncated_frac"}


def test_a_small_split_is_evaluated_once_over(tmp_path):
  path = tmp_path / "small.jsonl"
  path.write_text("".join(f'{{"question": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(3)))
  task = {"path": {"train": str(path), "test": str(path)}}
  settings = dataclasses.replace(loop.resolve(tiny.config(), tiny.method)[1], task=task)
  small = build(dataclasses.replace(settings, eval=Eval(problems=100, samples=2, batch=8)))
  assert len(make_evaluator(small)(small.params).rows) == 6


def test_an_empty_split_is_named(tmp_path):
  path = tmp_path / "train.jsonl"
  path.write_text('{"question": "1+1=", "answer": "2"}\n')
  settings = dataclasses.replace(
    loop.resolve(tiny.config(), tiny.method)[1], task={"path": {"train": str(path)}}
  )
  with pytest.raises(ValueError, match="test"):
    make_evaluator(build(settings))
