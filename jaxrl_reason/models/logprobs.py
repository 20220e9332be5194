"""Log-probability and entropy of given tokens, in chunks: the logits of all tokens never exist at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxrl_reason.models.decoder import logits_of

# A rule of `sample.rules`: (logits, keep) → logits. Named here so that models do not import the sampler.
LogitRule = Callable[[Array, Array | None], Array]


def distribution_scores(
  logits: Float[Array, "*rows V"], targets: Int[Array, "*rows"]
) -> tuple[Float[Array, "*rows"], Float[Array, "*rows"]]:
  """log p(target) and the entropy −Σ p log p of softmax(logits), in nats. Logits may be −inf.

  H = lse − Σ p z, where z = 0 stands in for −inf so that neither value nor gradient is 0 · ∞.
  """
  peak = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
  shifted = logits - peak
  weights = jnp.exp(shifted)
  total = weights.sum(-1)
  normaliser = jnp.log(total)
  finite = jnp.where(jnp.isneginf(shifted), 0.0, shifted)
  entropy = normaliser - (weights * finite).sum(-1) / total
  chosen = jnp.take_along_axis(shifted, targets[..., None], axis=-1)[..., 0]
  return chosen - normaliser, entropy


def ruled_scores(
  logits: Float[Array, "*rows V"], targets: Int[Array, "*rows"], rules: Sequence[LogitRule]
) -> tuple[Float[Array, "*rows"], Float[Array, "*rows"]]:
  """The same after the rules, with the target kept in the support whatever they say."""
  keep = jax.nn.one_hot(targets, logits.shape[-1], dtype=bool)
  return distribution_scores(apply_rules(rules, logits, keep), targets)


def apply_rules(
  rules: Sequence[LogitRule], logits: Float[Array, "*rows V"], keep: Bool[Array, "*rows V"] | None = None
) -> Float[Array, "*rows V"]:
  """The rules in their order, in float32."""
  logits = logits.astype(jnp.float32)
  for rule in rules:
    logits = rule(logits, keep)
  return logits


def token_scores(
  hidden: Float[Array, "N D"],
  unembedding: Float[Array, "D V"],
  targets: Int[Array, "N"],
  rules: Sequence[LogitRule] = (),
  chunk: int = 1024,
) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
  """log p(targetₙ) and entropy of the policy's distribution at each hidden state, in nats, float32.

  The distribution is softmax(rules(hidden · unembedding)): temperature and support act before the normaliser,
  in the entropy too. The target always stays in the support, so a token that was sampled keeps a finite
  log-probability when an update has moved it out; where it was inside, nothing changes.
  At most `chunk` rows of logits exist at a time, in the backward pass too (they are computed again).
  """
  if chunk < 1:
    raise ValueError(f"chunk={chunk!r}; allowed: an integer of at least 1")

  @jax.checkpoint
  def score(hidden: Array, targets: Array) -> tuple[Array, Array]:
    return ruled_scores(logits_of(hidden, unembedding), targets, rules)

  count = targets.shape[0]
  if count <= chunk:
    return score(hidden, targets)
  missing = -count % chunk
  parts = (
    jnp.pad(hidden, ((0, missing), (0, 0))).reshape(-1, chunk, hidden.shape[1]),
    jnp.pad(targets, (0, missing)).reshape(-1, chunk),
  )
  logprobs, entropy = jax.lax.map(lambda part: score(*part), parts)
  return logprobs.reshape(-1)[:count], entropy.reshape(-1)[:count]
