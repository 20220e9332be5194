"""Text: tokenizers, answer extraction and equivalence, and the verifier that never leaves the device."""

from jaxrl_reason.text.answers import MARKER, after_marker, equivalent, final_answer
from jaxrl_reason.text.exact import exact_match
from jaxrl_reason.text.hf import HFTokenizer
from jaxrl_reason.text.tokenizer import ByteTokenizer, Encoded, Tokenizer, decode_completions, encode_prompts

__all__ = [
  "MARKER",
  "ByteTokenizer",
  "Encoded",
  "HFTokenizer",
  "Tokenizer",
  "after_marker",
  "decode_completions",
  "encode_prompts",
  "equivalent",
  "exact_match",
  "final_answer",
]
