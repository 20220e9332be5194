"""Rules that turn logits into the distribution that is sampled and scored: temperature, top-k, top-p, min-p.

A rule is a frozen dataclass with one method, `rule(logits [..., V], keep) → logits [..., V]`, float32; −inf
leaves the support. `keep` marks entries that a rule must not remove: the scorer keeps the token that was
taken, so that its log-probability stays finite after an update has moved the support's edge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxrl_reason.models.logprobs import LogitRule, apply_rules

__all__ = ["MinP", "Rule", "Temperature", "TopK", "TopP", "apply_rules", "is_greedy"]

Rule = LogitRule


@dataclasses.dataclass(frozen=True)
class Temperature:
  """logits / value. 0 is greedy: a point mass on the first largest logit.

  Greedy text is for evaluation: every log-probability of a point mass is 0, so policies refuse to score it.
  """

  value: float | int = 1.0

  def __post_init__(self):
    _check("Temperature.value", self.value, self.value >= 0, "at least 0 (0 = greedy)")

  def __call__(self, logits, keep=None):
    if self.value == 0:
      best = jnp.argmax(logits, axis=-1)
      return _support(jnp.zeros_like(logits), jax.nn.one_hot(best, logits.shape[-1], dtype=bool), keep)
    return logits if self.value == 1 else logits / self.value


@dataclasses.dataclass(frozen=True)
class TopK:
  """The k largest logits; of equal ones the first."""

  k: int

  def __post_init__(self):
    whole = isinstance(self.k, int) and not isinstance(self.k, bool)
    _check("TopK.k", self.k, whole and self.k >= 1, "an integer of at least 1")

  def __call__(self, logits, keep=None):
    if self.k >= logits.shape[-1]:
      return logits
    ranked = jax.lax.top_k(logits, self.k)[0]
    count = jnp.full(logits.shape[:-1], self.k, jnp.int32)
    return _support(logits, _largest(logits, ranked[..., -1], count), keep)


@dataclasses.dataclass(frozen=True)
class TopP:
  """The smallest set of most likely tokens whose mass is at least p; of equally likely ones the first."""

  p: float | int

  def __post_init__(self):
    _check("TopP.p", self.p, 0 < self.p <= 1, "above 0 and at most 1")

  def __call__(self, logits, keep=None):
    if self.p == 1:
      return logits
    ranked = -jnp.sort(-logits, axis=-1)
    mass = jax.nn.softmax(ranked, axis=-1)
    before = jnp.cumsum(mass, axis=-1) - mass
    count = jnp.maximum((before < self.p).sum(-1, dtype=jnp.int32), 1)
    edge = jnp.take_along_axis(ranked, count[..., None] - 1, axis=-1)[..., 0]
    return _support(logits, _largest(logits, edge, count), keep)


@dataclasses.dataclass(frozen=True)
class MinP:
  """The tokens at least `p` times as likely as the most likely one."""

  p: float | int

  def __post_init__(self):
    _check("MinP.p", self.p, 0 <= self.p <= 1, "0 to 1")

  def __call__(self, logits, keep=None):
    if self.p == 0:
      return logits
    edge = logits.max(-1, keepdims=True) + jnp.log(jnp.float32(self.p))
    return _support(logits, logits >= edge, keep)


def is_greedy(rules: Sequence[Rule]) -> bool:
  return any(isinstance(rule, Temperature) and rule.value == 0 for rule in rules)


def _support(logits: Array, inside: Array, keep: Array | None) -> Array:
  if keep is not None:
    inside = inside | keep
  return jnp.where(inside, logits, -jnp.inf)


def _largest(
  logits: Float[Array, "*rows V"], edge: Float[Array, "*rows"], count: Int[Array, "*rows"]
) -> Bool[Array, "*rows V"]:
  """Exactly the `count` largest logits, the last of which is `edge`: all above, then the first equal ones."""
  above = logits > edge[..., None]
  equal = logits == edge[..., None]
  room = count - above.sum(-1, dtype=jnp.int32)
  return above | (equal & (jnp.cumsum(equal, axis=-1, dtype=jnp.int32) <= room[..., None]))


def _check(field: str, value: object, good: bool, allowed: str) -> None:
  if not good:
    raise ValueError(f"{field}={value!r}; allowed: {allowed}")
