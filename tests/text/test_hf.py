"""The adapter of published tokenizers, on small ones built here."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from jaxrl_reason.text import HFTokenizer, Tokenizer, decode_completions, encode_prompts

WORDS = ["<s>", "</s>", "<|end|>", "<|stop|>", "<unk>", "user", "assistant", "hello", "probe", "a", "b"]
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m['role'] }} {{ m['content'] }}<|end|>{% endfor %}"


def build(folder, *, add_bos=True, template=TEMPLATE, eos="</s>"):
  raw = RawTokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
  raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  if add_bos:
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
  tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw,
    bos_token="<s>",
    eos_token=eos,
    unk_token="<unk>",
    additional_special_tokens=["<|end|>"],
  )
  tokenizer.chat_template = template
  tokenizer.save_pretrained(folder)
  return folder


@pytest.mark.case(24)
def test_case_24_stop_ids_are_the_union_of_all_that_name_one(tmp_path):
  """Case 24: the tokenizer's EOS, both config files (one id or a list), and the template's terminator."""
  folder = build(tmp_path)
  assert HFTokenizer(str(folder)).stop_ids == (1, 2)
  (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 3]}))
  assert HFTokenizer(str(folder)).stop_ids == (1, 2, 3)
  (folder / "config.json").write_text(json.dumps({"eos_token_id": 9, "model_type": "llama"}))
  assert HFTokenizer(str(folder)).stop_ids == (1, 2, 3, 9)


@pytest.mark.case(24)
def test_case_24_without_any_stop_id_it_says_what_is_needed(tmp_path):
  """Case 24: a model that cannot stop is an error at start."""
  with pytest.raises(ValueError, match="names no stop token; allowed: an eos_token"):
    HFTokenizer(str(build(tmp_path, template=None, eos=None)))


@pytest.mark.case(26)
@pytest.mark.parametrize("add_bos", [True, False])
def test_case_26_exactly_one_bos(tmp_path, add_bos):
  """Case 26: added by the tokenizer, brought by a rendered template, or both: one. Never in a completion."""
  tokenizer = HFTokenizer(str(build(tmp_path, add_bos=add_bos)))
  assert tokenizer.encode("a b") == [9, 10]
  assert tokenizer.encode_prompt("a b") == ([0] if add_bos else []) + [9, 10]
  assert tokenizer.encode_prompt("<s> a b") == [0, 9, 10]
  assert tokenizer.encode_prompt("<s> <s> a b") == [0, 9, 10]
  rendered = tokenizer.encode_prompt(tokenizer.chat("hello"))
  assert rendered.count(0) == 1
  assert rendered[0] == 0
  prompt = tokenizer.encode_prompt("hello a")
  assert tokenizer.encode_prompt("hello a b")[: len(prompt)] == prompt


def test_the_same_interface_as_the_byte_tokenizer(tmp_path):
  tokenizer = HFTokenizer(str(build(tmp_path)))
  assert isinstance(tokenizer, Tokenizer)
  assert tokenizer.vocab_size == len(WORDS)
  assert tokenizer.decode([9, 1, 10]).split() == ["a", "b"]
  assert tokenizer.pad_id in tokenizer.stop_ids  # no pad token: masks come from lengths
  assert (tokenizer.bos_id, tokenizer.eos_id) == (0, 1)


def test_a_missing_template_is_named(tmp_path):
  with pytest.raises(ValueError, match="has no chat template"):
    HFTokenizer(str(build(tmp_path, template=None))).chat("hello")


@pytest.mark.case(27)
def test_case_27_prompts_of_a_published_tokenizer_are_never_cut(tmp_path):
  """Case 27: the BOS counts; the pad id may be a stop id, so lengths say where a prompt ends."""
  tokenizer = HFTokenizer(str(build(tmp_path)))
  encoded = encode_prompts(tokenizer, ["a b", "a b a b", "hello"], 4)
  assert encoded.kept == (0, 2)
  assert encoded.length.tolist() == [3, 2]
  assert encoded.tokens.tolist() == [[0, 9, 10, 1], [0, 7, 1, 1]]


@pytest.mark.case(24)
def test_case_24_the_first_of_several_stop_ids_ends_the_text(tmp_path):
  """Case 24: at position 0 too."""
  tokenizer = HFTokenizer(str(build(tmp_path)))
  ids = np.array([[[9, 2, 10, 1], [1, 9, 9, 9], [9, 10, 9, 1]]])
  assert decode_completions(tokenizer, ids, np.array([[4, 4, 3]])) == [["a", "", "a b a"]]
