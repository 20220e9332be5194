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
