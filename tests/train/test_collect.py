"""The host half of a step: which problems, which keys, which tokens, which rows count."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason import aggregate, collect, prompts, ratio, reward, runtime, surrogate, tasks, text
from jaxrl_reason import train as loop
from jaxrl_reason.objective import policy_gradient
from jaxrl_reason.testbed import build
from jaxrl_reason.types import Curriculum, Grade, Problem, Scores
from tests.train import tiny


@functools.cache
def bed(**changes):
  return build(loop.resolve(tiny.config(**changes), tiny.method)[1])


@functools.cache
def method():
  return loop.resolve(tiny.config(), tiny.method)[0]


def with_reward(term):
  return dataclasses.replace(method(), reward=term, objective=None)


def problems(*lengths):
  return [Problem(id=i, prompt="9" * n, answer="1") for i, n in enumerate(lengths)]


def scripted(batches) -> Curriculum:
  """A curriculum that proposes the given problems one after another."""

  def propose(state, task, count):
    at = state["at"]
    return {"at": at + count}, batches[at : at + count]

  return Curriculum(lambda seed: {"at": 0}, propose, lambda state, stats: state, formula="given")


@pytest.mark.case(32)
def test_case_32_rounds_are_bounded_and_what_was_accepted_is_kept():
  # prompt_tokens is 8 and one token is BOS: 7 digits fit
  given = problems(3, 30, 4, 30, 30, 5, 6, 30, 7, 7)
  state, kept, tokens, lengths, dropped = collect.gather(scripted(given), {"at": 0}, bed(), 4)
  assert [p.id for p in kept] == [0, 2, 5, 6]
  assert dropped == 3
  assert state == {"at": 7}
  np.testing.assert_array_equal(lengths, [4, 5, 6, 7])
  assert tokens.shape == (4, 8)
  with pytest.raises(ValueError, match=r"prompt_tokens=8: 80 prompts .* only 0 of 4 fit"):
    collect.gather(scripted(problems(*[30] * 1000)), {"at": 0}, bed(), 4)


@pytest.mark.case(30)
def test_case_30_a_problem_that_stands_twice_in_a_batch_is_drawn_anew():
  twice = [Problem(id=5, prompt="1+1=", answer="2")] * 3 + [Problem(id=6, prompt="1+1=", answer="2")]
  encoded = text.encode_prompts(text.ByteTokenizer(), [p.prompt for p in twice], 8)
  made = collect.as_prompts(twice, encoded.tokens, encoded.length, 2)
  np.testing.assert_array_equal(made.rollout_id, [[0, 1], [2, 3], [4, 5], [0, 1]])
  rollouts = collect.sample(bed(), bed().params, made, jax.random.key(0))
  rows = {tuple(row) for group in np.asarray(rollouts.logprobs) for row in group}
  assert len(rows) == 8


@pytest.mark.case(34)
def test_case_34_a_batch_that_the_mesh_does_not_divide_is_padded_and_cut_again():
  meshed = bed(mesh__data=8)
  made = collect.gather(method().prompts, {"seed": 0, "cursor": 0}, meshed, 5)[1:4]
  prompts_ = collect.as_prompts(*made, 2)
  eight = collect.sample(meshed, meshed.params, prompts_, jax.random.key(0))
  one = collect.sample(bed(), bed().params, prompts_, jax.random.key(0))
  assert eight.completion.shape == (5, 2, 5)
  np.testing.assert_array_equal(eight.completion, one.completion)
  np.testing.assert_allclose(eight.logprobs, one.logprobs, atol=1e-5)


@pytest.mark.case(43)
def test_case_43_the_reward_sees_exactly_the_tokens_inside_the_length():
  seen = []
  spy = reward.term("spy", lambda row: float(seen.append((row.text, row.length)) or 0.0))
  watching = with_reward(spy)
  tokenizer = bed().tokenizer
  rows = [b"12", b">3", b"", b"4>5"]
  completion = np.full((2, 2, 5), ord("7"), np.int32)  # garbage behind every length
  length = np.zeros((2, 2), np.int32)
  for i, row in enumerate(rows):
    ids = [*row, tokenizer.stop_ids[0]]
    completion[i // 2, i % 2, : len(ids)], length[i // 2, i % 2] = ids, len(ids)
  _, given, tokens, lengths, _ = collect.gather(method().prompts, {"seed": 0, "cursor": 0}, bed(), 2)
  base = collect.sample(bed(), bed().params, collect.as_prompts(given, tokens, lengths, 2), jax.random.key(0))
  rollouts = dataclasses.replace(base, completion=jnp.asarray(completion), length=jnp.asarray(length))
  collect.grade(bed(), watching, given, rollouts)
  assert seen == [("12", 3), (">3", 3), ("", 1), ("4>5", 4)]


@pytest.mark.case(20)
def test_case_20_ids_are_never_decoded_and_encoded_again():
  _, given, tokens, lengths, _ = collect.gather(method().prompts, {"seed": 0, "cursor": 0}, bed(), 4)
  rollouts = collect.sample(
    bed(), bed().params, collect.as_prompts(given, tokens, lengths, 2), jax.random.key(1)
  )
  graded, seen = collect.grade(bed(), method(), given, rollouts)
  np.testing.assert_array_equal(graded.completion, rollouts.completion)
  encode = bed().tokenizer.encode
  spelled = [encode(t) for row in seen.texts for t in row]
  inside = [
    [int(t) for t in row[: int(n)]]
    for row, n in zip(np.asarray(rollouts.completion).reshape(8, -1), np.asarray(rollouts.length).ravel())
  ]
  assert spelled != inside  # an untrained model writes bytes that are no text: encoding would change them


@pytest.mark.case(20)
def test_case_20_only_tokens_that_the_policy_made_get_a_gradient():
  _, given, tokens, lengths, _ = collect.gather(method().prompts, {"seed": 0, "cursor": 0}, bed(), 3)
  made = collect.as_prompts(given, tokens, lengths, 2)
  forced = np.full((3, 2, 5), -1, np.int32)
  forced[:, 0, :2] = [ord("4"), ord(";")]
  made = dataclasses.replace(made, forced=jnp.asarray(forced))
  rollouts = collect.sample(bed(), bed().params, made, jax.random.key(2))
  np.testing.assert_array_equal(rollouts.completion[:, 0, :2], np.tile([ord("4"), ord(";")], (3, 1)))
  objective = policy_gradient(ratio.token(), surrogate.importance_weighted(), (), aggregate.token_mean())

  def loss(logprobs):
    per_token, _ = objective.loss(Scores(logprobs, logprobs), rollouts, jnp.ones((3, 2, 1)))
    return (per_token * objective.weights(rollouts)).sum()

  grad = np.asarray(jax.grad(loss)(rollouts.logprobs))
  assert not grad[:, 0, :2].any()
  assert (grad[np.asarray(rollouts.mask)] != 0).all()


def test_demonstrations_end_in_the_stop_token_and_over_long_ones_are_marked():
  given = [
    Problem(id=1, prompt="1+1=", answer="2", solution="110>2"),
    Problem(id=2, prompt="1+2=", answer="3", solution=">3"),
  ]
  teach = dataclasses.replace(method(), demonstrations=tasks.demonstrations(), objective=None)
  encoded = text.encode_prompts(text.ByteTokenizer(), [p.prompt for p in given], 8)
  made = collect.as_prompts(given, encoded.tokens, encoded.length, 1)
  rollouts = collect.demonstrate(bed(), teach, given, made, step=0)
  np.testing.assert_array_equal(rollouts["truncated"][:, 0], [True, False])  # 5 tokens: no room for the stop
  np.testing.assert_array_equal(rollouts.length[:, 0], [5, 3])
  assert bed().tokenizer.decode(np.asarray(rollouts.completion[0, 0]).tolist()) == "110>2"
  assert int(rollouts.completion[1, 0, 2]) == bed().tokenizer.stop_ids[0]


def test_direct_fraction_is_kept_and_is_the_same_in_every_run():
  task = tasks.Arithmetic()
  teach = tasks.demonstrations(0.6)
  given = [task.problem("train", i) for i in range(400)]
  first = [teach(task, p, 0) for p in given]
  assert first == [teach(task, p, 0) for p in given]
  assert 0.5 < np.mean([t.startswith(">") for t in first]) < 0.7
  assert [teach(task, p, 1) for p in given] != first
  assert all(tasks.demonstrations(1.0)(task, p, 0) == ">" + p.answer for p in given[:20])


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_direct_fraction_is_checked(fraction):
  with pytest.raises(ValueError, match="direct_fraction="):
    tasks.demonstrations(fraction)


def test_a_problem_without_a_solution_is_named():
  with pytest.raises(ValueError, match="problem 9 has no reference solution"):
    tasks.demonstrations()(tasks.Arithmetic(), Problem(id=9, prompt="?", answer="1"), 0)


@pytest.mark.case(10)
def test_case_10_a_row_that_cannot_be_scored_is_dropped_and_one_of_zero_reward_is_not():
  unsure = reward.term("unsure", lambda row: None if row.length % 2 else 0.0)
  _, given, tokens, lengths, _ = collect.gather(method().prompts, {"seed": 0, "cursor": 0}, bed(), 4)
  rollouts = collect.sample(
    bed(), bed().params, collect.as_prompts(given, tokens, lengths, 2), jax.random.key(0)
  )
  length = jnp.asarray([[1, 2], [3, 4], [5, 2], [4, 4]])
  rollouts = dataclasses.replace(rollouts, length=length)
  graded, _ = collect.grade(bed(), with_reward(unsure), given, rollouts)
  np.testing.assert_array_equal(graded.weights, (np.asarray(length) % 2 == 0).astype(np.float32))


def test_metrics_of_terms_leave_out_what_could_not_be_scored():
  batch = reward.RewardBatch(
    np.zeros((1, 4), np.float32),
    np.ones((1, 4), bool),
    {"a": np.asarray([[1.0, np.nan, 0.0, 0.5]])},
    [["correct", "wrong", "format", "timeout"]],
  )
  row = runtime.finalise(loop.reward_metrics(batch))
  assert row["reward/a/mean"] == 0.5
  assert row["accuracy"] == 0.25
  assert {row[f"grade/{k}_frac"] for k in ("correct", "wrong", "format", "timeout")} == {0.25}


def test_a_curriculum_hears_rewards_and_problems_of_its_batch(tmp_path):
  heard = []

  def observe(state, stats):
    heard.append((stats["rewards"].shape, [p.id for p in stats["problems"]], stats["correct"].dtype))
    return state

  def make(config):
    return dataclasses.replace(
      tiny.method(config), prompts=prompts.uniform()._replace(observe=observe), objective=None
    )

  loop.train(tiny.config(steps=2), make, tmp_path)
  assert [h[0] for h in heard] == [(4, 2), (4, 2)]
  assert heard[0][1] != heard[1][1]
  assert heard[0][2] == np.dtype(bool)


def test_grades_carry_the_verdict():
  assert tasks.Arithmetic().grade(Problem(id=0, prompt="1+1=", answer="2"), ">2") == Grade(1.0, "correct")
