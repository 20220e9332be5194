"""The verifier on the device against the one on the host, over ragged random completions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason import tasks
from jaxrl_reason.tasks.verify import answer_arrays
from jaxrl_reason.text import ByteTokenizer, decode_completions, exact_match

TOKENIZER = ByteTokenizer()
MARKER = ord(">")
P, G, T, A = 12, 10, 24, 12


@jax.jit
def device(completion, length, answer, answer_length):
  return exact_match(
    jnp.asarray(completion),
    jnp.asarray(length),
    answer,
    answer_length,
    MARKER,
    TOKENIZER.stop_ids,
    TOKENIZER.special_ids,
  )


def mutated(draw, ids):
  """Near misses: tokens of a right completion changed, dropped, inserted; specials and markers mixed in."""
  ids = list(ids)
  for _ in range(draw.integers(4)):
    at = int(draw.integers(len(ids) + 1))
    new = [int(draw.choice([MARKER, 48, 49, 50, 32, 256, 257, 258, 259, 263, 0xE0, 0xA4, 255]))]
    ids[at : at + int(draw.integers(2))] = new if draw.random() < 0.7 else []
  return ids[:T]


@pytest.mark.case(43)
@pytest.mark.parametrize(
  "task",
  [
    tasks.Arithmetic(),
    tasks.Spatial(moves=2),
    tasks.Connectivity(),
    tasks.NumberWords(languages=("hi",), largest=9),
  ],
)
def test_case_43_device_and_host_agree_on_every_completion(task):
  """Case 43: garbage beyond `length`, stops in the middle, special ids and broken UTF-8 included."""
  draw = np.random.default_rng(0)
  verdicts = []
  for round_ in range(8):
    problems = [task.problem("train", round_ * P + i) for i in range(P)]
    completion = draw.integers(0, TOKENIZER.vocab_size, (P, G, T))
    length = np.zeros((P, G), np.int32)
    for p, problem in enumerate(problems):
      for g in range(G):
        ids = mutated(draw, TOKENIZER.encode("7" * int(draw.integers(9)) + task.direct(problem)))
        ids = (ids + [TOKENIZER.eos_id] * int(draw.integers(2)))[:T]
        completion[p, g, : len(ids)], length[p, g] = ids, len(ids)
    answer, answer_length = answer_arrays(TOKENIZER, problems, 4 * A)
    got = device(completion, length, jnp.asarray(answer), jnp.asarray(answer_length))
    texts = decode_completions(TOKENIZER, completion, length)
    want = [[task.grade(problem, text).score for text in group] for problem, group in zip(problems, texts)]
    np.testing.assert_array_equal(got, np.array(want, np.float32))
    verdicts.append(np.asarray(got))
  assert 0.1 < np.mean(verdicts) < 0.9  # both verdicts are frequent, so agreement means something


def one(text, answer, length=None, tail=()):
  ids = (text if isinstance(text, list) else TOKENIZER.encode(text)) + list(tail)
  ids = np.array(ids + [0] * (T - len(ids)))[None, None]
  length = len(text) if length is None else length
  gold = TOKENIZER.encode(answer)
  padded = jnp.array([gold + [256] * (A - len(gold))])
  return float(device(ids, np.array([[length]]), padded, jnp.array([len(gold)]))[0, 0])


@pytest.mark.parametrize(
  ("text", "answer", "reward"),
  [
    ("1;2>122", "122", 1),
    (">122", "122", 1),
    (">7>122", "122", 1),
    (">122>7", "122", 0),
    ("122", "122", 0),
    (">1220", "122", 0),
    (">12", "122", 0),
    (">0122", "122", 0),
    (">122>", "122", 0),
    (">", "122", 0),
    (">", "", 0),
    ("", "122", 0),
  ],
)
def test_worked_examples(text, answer, reward):
  assert one(text, answer) == reward


@pytest.mark.case(43)
def test_case_43_tokens_at_length_and_beyond_are_never_read():
  """Case 43: cutting `length` before or after the last digit changes the verdict, a tail does not."""
  assert one(">122", "122", tail=[51, 62, 51]) == 1
  assert one(">122", "122", length=3) == 0
  assert one(">12", "122", length=3, tail=[50]) == 0
  assert one(">122", "122", length=0) == 0
  assert one([62, 49, 50, 50, 258, 51], "122") == 1
  assert one([258, 62, 49, 50, 50], "122") == 0


def test_padding_of_either_axis_changes_nothing():
  ids = np.array([[TOKENIZER.encode("9>42")]])
  for more in (0, 1, 7):
    completion = np.concatenate([ids, np.full((1, 1, more), MARKER)], axis=-1)
    answer = jnp.array([TOKENIZER.encode("42") + [50] * more])
    assert device(completion, np.array([[4]]), answer, jnp.array([2]))[0, 0] == 1


def test_an_answer_wider_than_the_array_is_named():
  problem = tasks.Sudoku().problem("train", 0)
  with pytest.raises(ValueError, match="has 19 tokens; allowed: at most width=8"):
    answer_arrays(TOKENIZER, [problem], 8)


def by_loops(completion, length, answer, answer_length, *ids):
  """The same verdict, one row at a time, in lists."""
  marker, stops, ignored = ids
  rewards = np.zeros(length.shape, np.float32)
  for p, g in np.ndindex(*length.shape):
    row = completion[p, g, : length[p, g]].tolist()
    row = row[: min((row.index(s) for s in stops if s in row), default=len(row))]
    gold = answer[p, : answer_length[p]].tolist()
    if marker in row and gold:
      after = row[len(row) - row[::-1].index(marker) :]
      rewards[p, g] = [token for token in after if token not in ignored] == gold
  return rewards


@pytest.mark.parametrize(("stops", "ignored"), [((5,), ()), ((5, 6), ()), ((), (7,)), ((5, 6), (5, 6, 7))])
def test_any_vocabulary_stop_and_ignored_ids_against_loops(stops, ignored):
  """Tiny vocabulary and short answers, so that matches are frequent by chance."""
  draw = np.random.default_rng(1)
  hits = 0
  match = jax.jit(exact_match, static_argnums=(4, 5, 6))
  for _ in range(20):
    completion = draw.choice(8, (6, 16, 7), p=[0.3, 0.2, 0.02, 0.02, 0.28, 0.06, 0.06, 0.06])
    length = draw.integers(0, 8, (6, 16))
    answer = draw.choice(2, (6, 3), p=[0.6, 0.4])
    answer_length = draw.integers(0, 4, 6)
    got = match(*map(jnp.asarray, (completion, length, answer, answer_length)), 4, stops, ignored)
    want = by_loops(completion, length, answer, answer_length, 4, stops, ignored)
    np.testing.assert_array_equal(got, want)
    hits += want.sum()
  assert hits > 40


def test_rows_are_judged_alone():
  """Permuted rows give permuted rewards; batch-mates change nothing; vmap over seeds agrees."""
  task = tasks.Arithmetic()
  problems = [task.problem("train", i) for i in range(3)]
  texts = [[task.direct(p), ">7", p.solution, task.direct(problems[0])] for p in problems]
  ids = [[TOKENIZER.encode(text) for text in group] for group in texts]
  length = np.array([[len(row) for row in group] for group in ids])
  completion = np.array([[row + [9] * (T - len(row)) for row in group] for group in ids])
  answer, answer_length = map(jnp.asarray, answer_arrays(TOKENIZER, problems, A))
  whole = device(completion, length, answer, answer_length)
  order = np.array([2, 3, 1, 0])
  np.testing.assert_array_equal(
    device(completion[:, order], length[:, order], answer, answer_length), whole[:, order]
  )
  for p in range(3):
    alone = device(completion[p : p + 1], length[p : p + 1], answer[p : p + 1], answer_length[p : p + 1])
    np.testing.assert_array_equal(alone, whole[p : p + 1])
  seeds = jax.vmap(device, in_axes=(0, 0, None, None))(
    jnp.stack([completion, completion[:, order]]),
    jnp.stack([length, length[:, order]]),
    answer,
    answer_length,
  )
  np.testing.assert_array_equal(seeds, jnp.stack([whole, whole[:, order]]))
