"""What a person reads: rows of the rollout table, files, and the knobs that a task brings along."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from jaxrl_reason import collect, models, reporting, testbed
from jaxrl_reason import train as loop
from tests.train import tiny


@pytest.fixture(scope="module")
def batch():
  """(testbed, what was graded, rollouts, credit per token) of one small batch."""
  method, settings = loop.resolve(tiny.config(log__rollouts=3), tiny.method)
  bed = testbed.build(settings)
  _, problems, tokens, lengths, _ = collect.gather(method.prompts, method.prompts.init(0), bed, 4)
  prompts = collect.as_prompts(problems, tokens, lengths, 2)
  rollouts = collect.sample(bed, bed.params, prompts, jax.random.key(0))
  rollouts, graded = collect.grade(bed, method, problems, rollouts)
  credit = jnp.arange(4 * 2 * 5, dtype=jnp.float32).reshape(4, 2, 5)
  return bed, graded, rollouts, credit


def test_rows_are_the_first_prompts_with_text_credit_and_terms(batch):
  bed, graded, rollouts, credit = batch
  rows = reporting.rollout_rows(bed, graded, rollouts, credit)
  assert len(rows) == 3 * 2
  for i, row in enumerate(rows):
    p, g = divmod(i, 2)
    n = int(rollouts.length[p, g])
    assert row["length"] == n == len(row["tokens"]) == len(row["logprobs"])
    np.testing.assert_array_equal(row["credit"], np.asarray(credit[p, g, :n]))
    np.testing.assert_allclose(row["logprobs"], np.asarray(rollouts.logprobs[p, g, :n]))
    assert row["prompt"] == graded.problems[p].prompt
    assert row["completion"] == graded.texts[p][g]
    assert set(row["terms"]) == {"verified", "digits"}
    assert row["reward"] == pytest.approx(row["terms"]["verified"] + row["terms"]["digits"], rel=1e-5)


def test_credit_of_the_whole_answer_stands_on_every_token(batch):
  bed, graded, rollouts, _ = batch
  rows = reporting.rollout_rows(bed, graded, rollouts, jnp.full((4, 2, 1), 0.25))
  assert all(c == 0.25 for row in rows for c in row["credit"])


def test_no_rollouts_asked_for_writes_no_file(batch, tmp_path):
  bed, graded, rollouts, credit = batch
  silent = bed._replace(
    settings=dataclasses.replace(bed.settings, log=dataclasses.replace(bed.settings.log, rollouts=0))
  )
  rows = reporting.rollout_rows(silent, graded, rollouts, credit)
  reporting.write_samples(tmp_path, 1, rows)
  assert rows == []
  assert not (tmp_path / "samples").exists()


def test_special_tokens_are_shown_by_name_and_bytes_that_are_no_text_as_escapes():
  show = testbed.text.ByteTokenizer().token_text
  assert [show(t) for t in (ord("7"), 258, 256, 0xE9)] == ["7", "<eos>", "<pad>", "\\xe9"]


def test_a_finished_run_with_adapters_writes_a_plain_model(tmp_path):
  result = loop.train(tiny.config(lora__rank=2, steps=1), tiny.method, tmp_path)
  config, params = models.load(tmp_path / "model")
  assert config.width == 8
  tiny.assert_equal_trees(params, models.merge_lora(result.state.params))


DEFAULT = ConfigDict({"task": {"name": "arithmetic", "digits": 3, "terms": 2}})


@pytest.mark.parametrize(
  ("task", "kept"),
  [
    ({"name": "arithmetic", "digits": 3, "terms": 2}, {"name": "arithmetic", "digits": 3, "terms": 2}),
    ({"name": "arithmetic", "digits": 4, "terms": 2}, {"name": "arithmetic", "digits": 4, "terms": 2}),
    ({"name": "counting", "digits": 3, "terms": 2, "length": 5}, {"name": "counting", "length": 5}),
    ({"name": "arithmetic", "digits": 3, "terms": 2, "path": "x.jsonl"}, {"path": "x.jsonl"}),
    (
      {"name": "mine", "digits": 3, "terms": 2, "path": "x.jsonl", "question": "q"},
      {"name": "mine", "path": "x.jsonl", "question": "q"},
    ),
  ],
)
def test_knobs_of_the_file_stay_with_the_task_of_the_file(task, kept):
  config = testbed.without_stale_knobs(ConfigDict({"task": task}), DEFAULT)
  assert config.task.to_dict() == kept
