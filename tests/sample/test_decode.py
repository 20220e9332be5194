"""The decode loop says what the full forward says, and only a row's own identity moves its draws."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason.models.params import unstack_layers
from jaxrl_reason.sample import decode as module
from jaxrl_reason.sample.decode import decode
from jaxrl_reason.sample.rules import MinP, Temperature, TopK, TopP
from tests.models import oracle, toys

KEY = jax.random.key(11)
STOPS = (3, 5)
WIDTH = 8
RULES = {
  "cool": ((Temperature(0.6),), {"temperature": 0.6}),
  "top_k": ((Temperature(1.0), TopK(5)), {"top_k": 5}),
  "top_p": ((Temperature(1.3), TopP(0.8)), {"temperature": 1.3, "top_p": 0.8}),
  "min_p": ((Temperature(1.3), MinP(0.1)), {"temperature": 1.3, "min_p": 0.1}),
}


@functools.lru_cache
def run(name="top_p", group=6, seed=11):
  return decode(
    toys.BASE,
    toys.toy(),
    toys.prompts(group=group),
    jax.random.key(seed),
    max_new_tokens=WIDTH,
    rules=RULES[name][0],
    stop_ids=STOPS,
  )


def assert_same_rows(a, b, pairs, width=WIDTH):
  """Rows (p, g) of `a` equal rows of `b` in their first `width` tokens."""
  for i, j in pairs:
    n = min(int(a.length[i]), width)
    assert n == min(int(b.length[j]), width)
    np.testing.assert_array_equal(a.completion[i][:n], b.completion[j][:n])
    np.testing.assert_allclose(a.logprobs[i][:n], b.logprobs[j][:n], atol=1e-5)
    np.testing.assert_allclose(a["entropy"][i][:n], b["entropy"][j][:n], atol=1e-5)


@pytest.mark.case(15)
@pytest.mark.case(16)
@pytest.mark.parametrize("name", list(RULES))
def test_logprobs_and_entropy_are_those_of_the_full_forward(name):
  rollouts, params = run(name), toys.as_float64(toys.toy())
  for prompt, completion, row in list(toys.rows(rollouts))[::3]:
    logits = oracle.logits(toys.BASE, params, np.concatenate([prompt, completion]))
    for t, token in enumerate(completion):
      p = oracle.distribution(logits[len(prompt) - 1 + t], **RULES[name][1])
      assert p[token] > 0
      assert abs(np.log(p[token]) - rollouts.logprobs[row][t]) < 1e-4
      assert abs(-(p[p > 0] * np.log(p[p > 0])).sum() - rollouts["entropy"][row][t]) < 1e-4


@pytest.mark.case(23)
@pytest.mark.case(24)
@pytest.mark.case(25)
@pytest.mark.parametrize("name", list(RULES))
def test_rows_end_with_their_first_stop_id_or_their_budget(name):
  rollouts = run(name)
  for _, completion, row in toys.rows(rollouts):
    stops = [t for t, token in enumerate(completion) if token in STOPS]
    assert stops in ([], [len(completion) - 1])
    assert bool(rollouts["truncated"][row]) == (not stops)
    assert stops or len(completion) == WIDTH
    outside = np.arange(WIDTH) >= len(completion)
    assert (np.asarray(rollouts.completion[row])[outside] == STOPS[0]).all()  # the pad is a stop id
    assert not np.asarray(rollouts.logprobs[row])[outside].any()
    assert not np.asarray(rollouts["entropy"][row])[outside].any()
  assert not rollouts.rewards.any()
  np.testing.assert_array_equal(rollouts.mask, rollouts.inside)  # the stop token is trained


@pytest.mark.case(24)
def test_the_fixture_has_rows_that_end_early_and_never():
  lengths = np.concatenate([np.ravel(run(name).length) for name in RULES])
  assert {2, 3, WIDTH} < set(lengths.tolist())  # length 1: the forced stop below
  assert any(bool(run(name)["truncated"].any()) for name in RULES)
  ends = {int(completion[-1]) for name in RULES for _, completion, _ in toys.rows(run(name))}
  assert set(STOPS) <= ends


@pytest.mark.case(18)
@pytest.mark.case(23)
@pytest.mark.case(30)
def test_draws_do_not_depend_on_batch_mates_order_padding_width_or_pad():
  small = toys.prompts(group=6)
  order = jnp.asarray([2, 0])
  other = dataclasses.replace(
    small,
    tokens=jnp.pad(small.tokens[order], ((0, 0), (0, 3)), constant_values=13),
    length=small.length[order],
    problem_id=small.problem_id[order],
    rollout_id=small.rollout_id[order][:, ::-1],
  )
  rollouts = decode(
    toys.BASE, toys.toy(), other, KEY, max_new_tokens=5, rules=RULES["top_p"][0], stop_ids=STOPS, pad_id=9
  )
  pairs = [((i, g), (int(p), 5 - g)) for i, p in enumerate(order) for g in range(6)]
  assert_same_rows(rollouts, run(), pairs, width=5)
  assert any(9 in completion for _, completion, _ in toys.rows(rollouts))  # the pad id inside the text


@pytest.mark.case(30)
def test_draws_differ_between_rows_and_keys_and_repeat_for_the_same_key():
  again, moved = run.__wrapped__(), run(seed=12)
  jax.tree.map(np.testing.assert_array_equal, again, run())
  assert not np.array_equal(moved.completion, again.completion)
  for p in range(3):
    assert len({tuple(row) for row in np.asarray(again.completion[p]).tolist()}) > 1


@pytest.mark.case(30)
def test_draws_do_not_depend_on_the_number_of_devices():
  config = toys.BASE.replace(layers=1)
  prompts = toys.prompts(lengths=(5, 2, 4, 1, 3, 5, 2, 4), group=2)
  results = []
  for count in (1, 8):
    mesh = jax.make_mesh(
      (count,), ("data",), devices=jax.devices()[:count], axis_types=(jax.sharding.AxisType.Auto,)
    )
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    results.append(
      decode(
        config,
        jax.device_put(toys.toy(config), everywhere),
        jax.device_put(prompts, rows),
        jax.device_put(KEY, everywhere),
        max_new_tokens=4,
        rules=(TopP(0.9),),
        stop_ids=STOPS,
      )
    )
  assert len(results[1].completion.sharding.device_set) == 8
  assert_same_rows(*(jax.device_get(r) for r in results), [(i, i) for i in np.ndindex(8, 2)])


@pytest.mark.case(17)
@pytest.mark.parametrize("name", ["qk_norm", "untied", "stacked"])
def test_greedy_decode_is_the_argmax_of_the_full_forward(name):
  config = toys.FAMILIES[name]
  params = toys.toy(config)
  rollouts = decode(config, params, toys.prompts(group=1), KEY, max_new_tokens=5, rules=(Temperature(0.0),))
  plain = toys.as_float64(unstack_layers(params) if config.scan_layers else params)
  for prompt, completion, row in toys.rows(rollouts):
    logits = oracle.logits(config, plain, np.concatenate([prompt, completion]))
    np.testing.assert_array_equal(logits[len(prompt) - 1 : -1].argmax(-1), completion)
    assert not rollouts.logprobs[row].any()
  assert bool(rollouts["truncated"].all())


@functools.lru_cache
def forced_run():
  forced = np.full((3, 6, 4), -1, np.int32)
  forced[0, :, :3] = [7, 8, 9]
  forced[1, 0, 0], forced[1, 1, 1] = STOPS[1], STOPS[0]
  budget = np.full((3, 6), 99, np.int32)
  budget[0, 1], budget[2, :2] = 2, (0, 1)
  prompts = toys.prompts(group=6, forced=jnp.asarray(forced), budget=jnp.asarray(budget))
  return decode(
    toys.BASE, toys.toy(), prompts, KEY, max_new_tokens=WIDTH, rules=RULES["top_p"][0], stop_ids=STOPS
  )


def test_forced_tokens_are_taken_marked_and_scored():
  rollouts = forced_run()
  np.testing.assert_array_equal(rollouts.completion[0, 0, :3], [7, 8, 9])
  np.testing.assert_array_equal(rollouts["state_mask"][0, 0, :4], [True, True, True, False])
  assert not rollouts.mask[0, 0, :3].any()
  assert bool(rollouts.mask[0, 0, 3])
  assert int(rollouts.length[1, 0]) == 1
  assert int(rollouts.length[1, 1]) <= 2
  assert not rollouts["truncated"][1, 0]
  params = toys.as_float64(toys.toy())
  prompt, completion, _ = next(toys.rows(rollouts))
  logits = oracle.logits(toys.BASE, params, np.concatenate([prompt, completion]))
  for t, token in enumerate(completion[:3]):
    row = logits[len(prompt) - 1 + t]
    p = oracle.distribution(row, temperature=1.3, top_p=0.8)
    if p[token] > 0:
      assert abs(np.log(p[token]) - rollouts.logprobs[0, 0, t]) < 1e-4
    else:  # outside the support: kept in it, finite
      kept = np.exp(row / 1.3) * ((p > 0) | (np.arange(17) == token))
      assert abs(np.log(kept[token] / kept.sum()) - rollouts.logprobs[0, 0, t]) < 1e-4


@pytest.mark.case(25)
def test_a_row_ends_at_its_budget():
  rollouts = forced_run()
  np.testing.assert_array_equal(rollouts.length[2, :2], [0, min(1, int(rollouts.length[2, 1]))])
  assert bool(rollouts["truncated"][2, 0])
  assert int(rollouts.length[0, 1]) == 2
  assert not rollouts.inside[2, 0].any()


@pytest.mark.case(22)
def test_rows_come_out_as_they_went_in():
  rollouts, prompts = run(), toys.prompts(group=6)
  np.testing.assert_array_equal(rollouts.prompt, prompts.tokens)
  assert rollouts.completion.shape == (3, 6, WIDTH)
  np.testing.assert_array_equal(forced_run()["state_mask"][2, 2:], False)
  free = [((p, g), (p, g)) for p, g in np.ndindex(3, 6) if (p == 1 and g > 1) or (p == 2 and g > 1)]
  assert_same_rows(forced_run(), run(), free)  # forcing other rows changes nothing


def test_new_parameters_and_prompts_compile_nothing():
  run()
  before = module._decode._cache_size()
  decode(
    toys.BASE,
    toys.toy(toys.BASE, 5),
    toys.prompts(group=6, seed=4, lengths=(1, 5, 3)),
    KEY,
    max_new_tokens=WIDTH,
    rules=RULES["top_p"][0],
    stop_ids=STOPS,
  )
  assert module._decode._cache_size() == before


@pytest.mark.slow
def test_the_loop_needs_no_jit():
  config = toys.BASE.replace(layers=1)
  call = functools.partial(decode, config, toys.toy(config), toys.prompts(lengths=(2,), group=2), KEY)
  with jax.disable_jit():
    plain = call(max_new_tokens=2, rules=(TopK(6),), stop_ids=STOPS)
  jitted = call(max_new_tokens=2, rules=(TopK(6),), stop_ids=STOPS)
  assert_same_rows(plain, jitted, [((0, g), (0, g)) for g in range(2)])


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"max_new_tokens": 0}, "max_new_tokens=0; allowed"),
    ({"stop_ids": (17,)}, r"stop_ids holds 17; allowed: 0 to 16"),
    ({"pad_id": -1}, r"pad_id holds -1; allowed: 0 to 16"),
  ],
)
def test_impossible_arguments_are_refused(changes, words):
  with pytest.raises(ValueError, match=words):
    decode(toys.BASE, toys.toy(), toys.prompts(), KEY, **{"max_new_tokens": 3, "stop_ids": (3,), **changes})
