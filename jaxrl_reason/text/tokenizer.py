"""Tokenizers: what the loop asks of one, the byte-level one of the embedded models, batches of prompts."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from jaxrl_reason.types import nearest

_SPECIAL = ("pad", "bos", "eos", "mask", "reserved_0", "reserved_1", "reserved_2", "reserved_3")


@runtime_checkable
class Tokenizer(Protocol):
  """Text to ids and back. Ids travel end to end: the loop never re-encodes what it decoded."""

  @property
  def vocab_size(self) -> int: ...

  @property
  def pad_id(self) -> int: ...

  @property
  def stop_ids(self) -> tuple[int, ...]:
    """Every id that ends a completion."""

  @property
  def special_ids(self) -> tuple[int, ...]:
    """Ids that decode to nothing."""

  def encode(self, text: str) -> list[int]:
    """The ids of a piece of text, with no special id added."""

  def encode_prompt(self, text: str) -> list[int]:
    """The ids of the start of a sequence: exactly one BOS first, where the model has one."""

  def decode(self, ids: Sequence[int]) -> str: ...

  def token_text(self, token: int) -> str:
    """One token for a person to read; special tokens by name."""


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
  """Ids 0-255 are the bytes of UTF-8; 256-263 are pad, bos, eos, mask and four reserved ones.

  Every string encodes, and `decode(encode(text)) == text`. Bytes that are no UTF-8 decode to U+FFFD.
  """

  @property
  def vocab_size(self) -> int:
    return 256 + len(_SPECIAL)

  @property
  def pad_id(self) -> int:
    return self.special("pad")

  @property
  def bos_id(self) -> int:
    return self.special("bos")

  @property
  def eos_id(self) -> int:
    return self.special("eos")

  @property
  def mask_id(self) -> int:
    """What hides a token in masked diffusion."""
    return self.special("mask")

  @property
  def stop_ids(self) -> tuple[int, ...]:
    return (self.eos_id,)

  @property
  def special_ids(self) -> tuple[int, ...]:
    return tuple(range(256, self.vocab_size))

  def special(self, name: str) -> int:
    """The id of a special token by name; `reserved_0` to `reserved_3` are free for methods."""
    if name not in _SPECIAL:
      raise ValueError(f"ByteTokenizer has no special token {name!r}; {nearest(name, _SPECIAL)}")
    return 256 + _SPECIAL.index(name)

  def encode(self, text: str) -> list[int]:
    return list(text.encode("utf-8"))

  def encode_prompt(self, text: str) -> list[int]:
    return [self.bos_id, *self.encode(text)]

  def token_text(self, token: int) -> str:
    return f"<{_SPECIAL[token - 256]}>" if token >= 256 else chr(token) if token < 128 else f"\\x{token:02x}"

  def decode(self, ids: Sequence[int]) -> str:
    return bytes(int(i) for i in ids if 0 <= i < 256).decode("utf-8", errors="replace")


class Encoded(NamedTuple):
  """Prompts as right-padded ids; `kept` are the indices of the prompts that fit, in order."""

  tokens: Int[np.ndarray, "P L"]
  length: Int[np.ndarray, "P"]
  kept: tuple[int, ...]


def encode_prompts(
  tokenizer: Tokenizer, prompts: Sequence[str], max_length: int, empty_ok: bool = False
) -> Encoded:
  """Right-pads prompts to `[P, max_length]`; over-long ones are dropped and counted, never cut.

  Raises:
    ValueError: if no prompt fits in `max_length` tokens, unless `empty_ok` (the caller asks for other ones).
  """
  ids = [tokenizer.encode_prompt(prompt) for prompt in prompts]
  kept = tuple(i for i, row in enumerate(ids) if len(row) <= max_length)
  if not kept and not empty_ok:
    shortest = min((len(row) for row in ids), default=0)
    raise ValueError(
      f"all {len(ids)} prompts are longer than max_length={max_length} tokens (the shortest has {shortest}); "
      f"allowed: max_length >= {shortest}, or a task with shorter prompts"
    )
  if len(kept) < len(ids) and not empty_ok:
    logging.getLogger(__name__).warning(
      "dropped %d of %d prompts longer than max_length=%d tokens", len(ids) - len(kept), len(ids), max_length
    )
  tokens = np.full((len(kept), max_length), tokenizer.pad_id, np.int32)
  for row, i in enumerate(kept):
    tokens[row, : len(ids[i])] = ids[i]
  return Encoded(tokens, np.array([len(ids[i]) for i in kept], np.int32), kept)


def decode_completions(
  tokenizer: Tokenizer, completion: Int[np.ndarray, "P G T"], length: Int[np.ndarray, "P G"]
) -> list[list[str]]:
  """The texts that the reward sees: exactly the tokens before `length`, up to the first stop id."""
  texts = []
  for rows, lengths in zip(completion, length, strict=True):
    texts.append([_completion(tokenizer, row[:n].tolist()) for row, n in zip(rows, lengths, strict=True)])
  return texts


def _completion(tokenizer: Tokenizer, ids: list[int]) -> str:
  ends = [ids.index(stop) for stop in tokenizer.stop_ids if stop in ids]
  return tokenizer.decode(ids[: min(ends, default=len(ids))])
