"""The byte tokenizer, batches of prompts, and the texts that the reward sees."""

import random

import numpy as np
import pytest

from jaxrl_reason.text import ByteTokenizer, Tokenizer, decode_completions, encode_prompts


@pytest.fixture
def tokenizer():
  return ByteTokenizer()


def test_golden_ids(tokenizer):
  assert tokenizer.encode("59+63=") == [53, 57, 43, 54, 51, 61]
  assert tokenizer.encode("श") == [0xE0, 0xA4, 0xB6]
  assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id) == (256, 257, 258, 259)
  assert tokenizer.special("reserved_3") == 263 == tokenizer.vocab_size - 1
  assert tokenizer.stop_ids == (258,)
  assert isinstance(tokenizer, Tokenizer)
  with pytest.raises(ValueError, match=r"no special token 'reserved_4'.*did you mean 'reserved_"):
    tokenizer.special("reserved_4")


def test_every_text_comes_back(tokenizer):
  draw = random.Random(0)
  for _ in range(200):
    text = "".join(
      chr(draw.choice([draw.randrange(128), draw.randrange(0x900, 0x980), 0x1F600])) for _ in range(9)
    )
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_decoding_drops_special_ids_and_survives_broken_bytes(tokenizer):
  assert tokenizer.decode([257, 49, 256, 50, 258, 263]) == "12"
  assert tokenizer.decode([0xE0, 0xA4, 49]) == "\ufffd1"


@pytest.mark.case(26)
def test_case_26_one_bos_and_the_prompt_is_a_prefix(tokenizer):
  """Case 26: golden ids; ids of prompt + completion start with the ids of the prompt."""
  assert tokenizer.encode_prompt("hi") == [257, 104, 105]
  prompt, completion = "गिन 1+1=", ">2"
  assert tokenizer.encode_prompt(prompt) + tokenizer.encode(completion) == tokenizer.encode_prompt(
    prompt + completion
  )
  assert tokenizer.encode_prompt(prompt).count(tokenizer.bos_id) == 1


@pytest.mark.case(27)
def test_case_27_long_prompts_are_dropped_and_counted_never_cut(tokenizer, caplog):
  """Case 27: what fits is whole and in order; what does not fit is named by its index and in the log."""
  prompts = ["ab", "abcdefgh", "", "abc", "शशश"]
  encoded = encode_prompts(tokenizer, prompts, 4)
  assert encoded.kept == (0, 2, 3)
  assert encoded.tokens.tolist() == [[257, 97, 98, 256], [257, 256, 256, 256], [257, 97, 98, 99]]
  assert encoded.length.tolist() == [3, 1, 4]
  assert (encoded.tokens.dtype, encoded.length.dtype) == (np.int32, np.int32)
  assert "dropped 2 of 5 prompts" in caplog.text
  for row, length, index in zip(*encoded):
    assert tokenizer.decode(row[:length].tolist()) == prompts[index]


@pytest.mark.case(27)
def test_case_27_no_prompt_left_is_an_error(tokenizer):
  """Case 27: a loud error that says which length would do."""
  with pytest.raises(ValueError, match=r"all 2 prompts are longer than max_length=2 .*shortest has 4.*>= 4"):
    encode_prompts(tokenizer, ["abc", "abcd"], 2)


@pytest.mark.case(43)
def test_case_43_texts_hold_the_tokens_inside_length_and_no_other(tokenizer):
  """Case 43: neither the tokens after `length` nor those after a stop id reach the reward."""
  ids = np.array([[[49, 50, 51, 52], [49, 258, 51, 52], [258, 50, 51, 52], [49, 50, 51, 52]]])
  lengths = np.array([[2, 4, 4, 0]])
  assert decode_completions(tokenizer, ids, lengths) == [["12", "1", "", ""]]
