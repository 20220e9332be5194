"""Published tokenizers behind the same interface: all stop ids, and exactly one BOS."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

_PROBE = "probe"  # the assistant's text in a rendered template; what follows it ends a turn


@dataclasses.dataclass(frozen=True)
class HFTokenizer:
  """A tokenizer of `transformers` from a local folder or a hub identifier.

  Stop ids are the union of the tokenizer's EOS, those of `config.json` and `generation_config.json` in the
  folder, and the token with which the chat template ends the assistant's turn.
  """

  path: str
  tokenizer: Any = dataclasses.field(init=False, repr=False, compare=False)
  stop_ids: tuple[int, ...] = dataclasses.field(init=False, compare=False)

  def __post_init__(self) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(self.path)
    stops = {tokenizer.eos_token_id, *_configured_stops(pathlib.Path(self.path)), _turn_end(tokenizer)} - {
      None
    }
    if not stops:
      raise ValueError(
        f"tokenizer {self.path!r} names no stop token; allowed: an eos_token in tokenizer_config.json, an "
        f"eos_token_id in generation_config.json or config.json, or a chat template that ends a turn with a "
        f"special token"
      )
    object.__setattr__(self, "tokenizer", tokenizer)
    object.__setattr__(self, "stop_ids", tuple(sorted(stops)))

  @property
  def vocab_size(self) -> int:
    return len(self.tokenizer)

  @property
  def pad_id(self) -> int:
    """The pad id, or a stop id where there is none: masks come from lengths, so the two may coincide."""
    return self.stop_ids[0] if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id

  @property
  def bos_id(self) -> int | None:
    return self.tokenizer.bos_token_id

  @property
  def eos_id(self) -> int:
    return self.stop_ids[0] if self.tokenizer.eos_token_id is None else self.tokenizer.eos_token_id

  @property
  def special_ids(self) -> tuple[int, ...]:
    return tuple(sorted(self.tokenizer.all_special_ids))

  def encode(self, text: str) -> list[int]:
    return list(self.tokenizer.encode(text, add_special_tokens=False))

  def encode_prompt(self, text: str) -> list[int]:
    """Ids with exactly one BOS if the tokenizer adds one or the text (a rendered template) brings one."""
    ids, bos = self.encode(text), self.bos_id
    own = self.tokenizer.encode("", add_special_tokens=True)
    wanted = bos is not None and (bos in own[:1] or ids[:1] == [bos])
    while ids and wanted and ids[0] == bos:
      ids = ids[1:]
    return [int(bos), *ids] if wanted and bos is not None else ids

  def token_text(self, token: int) -> str:
    return self.tokenizer.decode([token])

  def decode(self, ids: Sequence[int]) -> str:
    return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)

  def chat(self, question: str, system: str = "") -> str:
    """A question as the chat template renders it, up to where the assistant starts to write."""
    messages = [{"role": "system", "content": system}] * bool(system) + [
      {"role": "user", "content": question}
    ]
    if not self.tokenizer.chat_template:
      raise ValueError(f"tokenizer {self.path!r} has no chat template; allowed: a plain prompt template")
    return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def _configured_stops(folder: pathlib.Path) -> set[int]:
  """The `eos_token_id` entries (one id or a list) of the two config files, where the folder has them."""
  stops: set[int] = set()
  for name in ("config.json", "generation_config.json"):
    file = folder / name
    if file.is_file():
      ids = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id")
      stops |= {ids} if isinstance(ids, int) else set(ids or ())
  return stops


def _turn_end(tokenizer: Any) -> int | None:
  """The special token that follows the assistant's text in the chat template, None where there is none."""
  if not tokenizer.chat_template:
    return None
  turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": _PROBE}]
  tail = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(_PROBE)[2]
  special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
  ids = tokenizer.encode(tail, add_special_tokens=False)
  return next((i for i in ids if i in special), None)
