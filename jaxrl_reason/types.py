"""Words and shapes: the one page to read first.

Shape letters: `P` prompts in a batch, `G` rollouts of one prompt (a group), `L` prompt length (padded),
`T` completion length (padded), `V` vocabulary, `D` model width, `B` rows (= P·G where the group is flat).

A step of the loop, as data flows:
  Problem → Prompts → policy.sample → Rollouts → reward → signals → credit → objective → optimizer.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer

Split = Literal["train", "validation", "test"]
Outcome = Literal["correct", "wrong", "format", "timeout"]
Params = Any  # a pytree of arrays
CreditState = Any  # a pytree that the caller holds


def nearest(name: str, allowed: Iterable[str]) -> str:
  """The words that end an error about an unknown name: what is allowed, and the nearest of it."""
  allowed = sorted(allowed)
  close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
  hint = f"; did you mean {close[0]!r}?" if close else ""
  return f"allowed: {', '.join(allowed) or 'nothing'}{hint}"


# --- host side -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Problem:
  """One problem. `id` is stable and seeds every draw made for it; every field reaches the reward."""

  id: int
  prompt: str
  answer: str
  solution: str = ""  # a reference step-by-step solution that ends in the answer, "" where there is none
  fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Grade(NamedTuple):
  """What a verifier says of one completion. `score` None = cannot be scored (differs from 0.0)."""

  score: float | None
  outcome: Outcome


@runtime_checkable
class Task(Protocol):
  """Problems by (split, index): a pure function, so order and resume need no state."""

  @property
  def name(self) -> str: ...

  def problem(self, split: Split, index: int) -> Problem: ...

  def size(self, split: Split) -> int | None:
    """The number of distinct problems of a finite split; None for a stream without end."""

  def grade(self, problem: Problem, completion: str) -> Grade: ...


# --- device side ---------------------------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prompts:
  """A batch of tokenised prompts, right-padded, with what seeds and constrains their rollouts."""

  tokens: Int[Array, "P L"]
  length: Int[Array, "P"]
  problem_id: Integer[
    Array, "P"
  ]  # uint32, keys are fold_in of (seed, step, problem_id, rollout_id, position)
  rollout_id: Integer[Array, "P G"]  # distinct for every draw of a problem in one step
  forced: Int[Array, "P G T"] | None = None  # token to force at a position; -1 where the policy chooses
  budget: Int[Array, "P G"] | None = None  # most completion tokens of a row; None = T for every row


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rollouts:
  """What the policy wrote, and every named array that samplers, tasks and signals attach to it.

  Masks come from lengths, never from a pad id. `marks` are read as `rollouts["name"]`; each has a leading
  `P G`. Names in use: rewards-side `correct [P,G]`, `truncated [P,G]`, `weights [P,G]` (0 = dropped rollout),
  `state_mask [P,G,T]` (True on tokens that the policy did not choose: attended, never credited), `entropy
  [P,G,T]` (nats), `reference_logprobs [P,G,T]` (nats), `policy_version [P,G]`, and what a method adds.
  """

  prompt: Int[Array, "P L"]
  prompt_length: Int[Array, "P"]
  completion: Int[Array, "P G T"]
  length: Int[Array, "P G"]  # tokens of the completion, the stop token included
  logprobs: Float[Array, "P G T"]  # behaviour policy, temperature and support included, nats
  rewards: Float[Array, "P G"]
  marks: dict[str, Array] = dataclasses.field(default_factory=dict)

  def __getitem__(self, name: str) -> Array:
    if name not in self.marks:
      raise KeyError(
        f"rollouts[{name!r}] is not there ({nearest(name, self.marks)}). A part that reads it must declare "
        f"needs=({name!r},) so that the loop computes it, with the signal of that name in Method.signals."
      )
    return self.marks[name]

  def get(self, name: str, default: Array | None = None) -> Array | None:
    return self.marks.get(name, default)

  def mark(self, **arrays: Array) -> Rollouts:
    """These rollouts with more named arrays."""
    return dataclasses.replace(self, marks={**self.marks, **arrays})

  @property
  def inside(self) -> Bool[Array, "P G T"]:
    """True on the tokens of the completion (policy's or environment's)."""
    position = jax.lax.broadcasted_iota(jnp.int32, self.completion.shape, 2)
    return position < self.length[..., None]

  @property
  def mask(self) -> Bool[Array, "P G T"]:
    """True on the tokens that the policy chose: the only ones that credit and loss count."""
    forced = self.marks.get("state_mask")
    return self.inside if forced is None else self.inside & ~forced

  @property
  def weights(self) -> Float[Array, "P G"]:
    """Row weights: 1, or the mark `weights` (0 = dropped rollout)."""
    weights = self.marks.get("weights")
    return jnp.ones_like(self.rewards) if weights is None else weights

  def as_rows(self) -> Rollouts:
    """The same rollouts with every row its own group: [P, G, ...] → [P·G, 1, ...], prompts repeated."""
    group = self.completion.shape[1]

    def flat(x: Array) -> Array:
      return x.reshape(x.shape[0] * x.shape[1], 1, *x.shape[2:])

    return Rollouts(
      prompt=jnp.repeat(self.prompt, group, axis=0),
      prompt_length=jnp.repeat(self.prompt_length, group, axis=0),
      completion=flat(self.completion),
      length=flat(self.length),
      logprobs=flat(self.logprobs),
      rewards=flat(self.rewards),
      marks={name: flat(x) for name, x in self.marks.items()},
    )


class Scores(NamedTuple):
  """The policy's own view of given completions: log-probability and entropy of each token, in nats."""

  logprobs: Float[Array, "P G T"]
  entropy: Float[Array, "P G T"]


class Policy(NamedTuple):
  """One interface for every kind of generator.

  `sample(params, prompts, key) → Rollouts` with zero rewards; `logp(params, rollouts) → Scores`. Sampler and
  scorer share one forward implementation, so the on-policy ratio is 1 up to rounding.
  """

  sample: Callable[[Params, Prompts, Array], Rollouts]
  logp: Callable[[Params, Rollouts], Scores]


# --- metrics: every mean is a (sum, count) pair, equal on 1 and on 8 devices -----------------------


class Mean(NamedTuple):
  sum: Array
  count: Array  # type: ignore[assignment]  # the pair's own field, not tuple.count


class Max(NamedTuple):
  value: Array


class Min(NamedTuple):
  value: Array


Metric = Mean | Max | Min
Metrics = dict[str, Metric]


# --- the parts of a method ---------------------------------------------------------------------------


class Transform(NamedTuple):
  """A credit transform, as in optax: `update(credit, state, rollouts) → (credit, state)`.

  Credit is always rank 3, `[P, G, #T]`: 1 for the whole answer, T per token.
  """

  init: Callable[[], CreditState]
  update: Callable[
    [Float[Array, "P G #T"], CreditState, Rollouts], tuple[Float[Array, "P G #T"], CreditState]
  ]
  formula: str
  needs: tuple[str, ...] = ()
  source: str = "this project"
  group_at_least: int = 1  # smallest group for which the transform is defined


class Ratio(NamedTuple):
  """`log_ratio(logprobs, rollouts) → [P, G, #T]`: log of the importance ratio, in nats."""

  log_ratio: Callable[[Float[Array, "P G T"], Rollouts], Float[Array, "P G #T"]]
  formula: str
  needs: tuple[str, ...] = ()
  source: str = "this project"


class Surrogate(NamedTuple):
  """`loss(log_ratio, credit) → [P, G, #T]`: what is minimised per token, before masks and weights."""

  loss: Callable[[Float[Array, "P G #T"], Float[Array, "P G #T"]], Float[Array, "P G #T"]]
  formula: str
  metrics: Callable[[Float[Array, "P G #T"], Float[Array, "P G #T"]], Mapping[str, Bool[Array, "P G #T"]]] = (
    lambda log_ratio, credit: {}
  )
  source: str = "this project"
  needs: tuple[str, ...] = ()
  off_policy_only: bool = False  # True if it cannot act while the ratio is exactly 1


class Penalty(NamedTuple):
  """`loss(scores, rollouts) → [P, G, T]` per token, added to the surrogate with its coefficient."""

  name: str
  coefficient: float
  loss: Callable[[Scores, Rollouts], Float[Array, "P G T"]]
  formula: str
  needs: tuple[str, ...] = ()
  source: str = "this project"


class Aggregate(NamedTuple):
  """`weights(mask, row_weights) → [P, G, T]`: the weight of each token in the loss of the whole step.

  Fixed from step-wide counts before the micro-batch loop; after that everything is a plain sum, so every
  split into devices, micro-batches, padding and packing gives the same gradient.
  """

  weights: Callable[[Bool[Array, "P G T"], Float[Array, "P G"]], Float[Array, "P G T"]]
  formula: str
  source: str = "this project"


class Objective(NamedTuple):
  """What one update minimises: `sum(loss(scores, rollouts, credit)[0] * weights)`.

  `weights(rollouts)` is computed once for all rows of the update; `loss` gives the per-token loss
  `[P, G, T]` of any subset of the rows, and its metrics.
  """

  weights: Callable[[Rollouts], Float[Array, "P G T"]]
  loss: Callable[[Scores, Rollouts, Float[Array, "P G #T"]], tuple[Float[Array, "P G T"], Metrics]]
  formula: str
  needs: tuple[str, ...] = ()
  sources: tuple[str, ...] = ()
  warnings: Callable[[int], tuple[str, ...]] = lambda updates_per_batch: ()


class Signal(NamedTuple):
  """A named array that a part may need: `compute(params, reference, policy, rollouts) → [P, G, ...]`."""

  name: str
  compute: Callable[[Params, Params, Policy, Rollouts], Array]
  formula: str


class Curriculum(NamedTuple):
  """The prompts slot: which problems come next. The state is JSON-able and saved with the checkpoint.

  `init(seed) → state`; `propose(state, task, count) → (state, problems)`, `count` train problems;
  `observe(state, stats) → state` hears what the step measured, one entry per problem of the batch.
  """

  init: Callable[[int], dict[str, Any]]
  propose: Callable[[dict[str, Any], Task, int], tuple[dict[str, Any], list[Problem]]]
  observe: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
  formula: str
  source: str = "this project"
