"""A method: the seven slots, what they need, and what they say of themselves."""

import dataclasses
from collections.abc import Callable

from jaxrl_reason import signals as standard_signals
from jaxrl_reason.credit import chain
from jaxrl_reason.objective import policy_gradient
from jaxrl_reason.reward import Reward
from jaxrl_reason.types import (
  Aggregate,
  Curriculum,
  Objective,
  Penalty,
  Problem,
  Ratio,
  Signal,
  Surrogate,
  Task,
  Transform,
  nearest,
)

Demonstrate = Callable[[Task, Problem, int], str]  # (task, problem, draw) → the completion to learn from


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
  """prompts → reward → credit → ratio → surrogate → penalties → aggregate.

  The last four make a policy-gradient objective; a method that is not one gives `objective` in their place.
  `demonstrations` replaces sampling by given completions (supervised methods). `signals` adds makers of named
  arrays to the standard ones.
  """

  prompts: Curriculum
  reward: Reward
  credit: Transform = dataclasses.field(default_factory=chain)
  ratio: Ratio | None = None
  surrogate: Surrogate | None = None
  penalties: tuple[Penalty, ...] = ()
  aggregate: Aggregate | None = None
  objective: Objective = None  # type: ignore[assignment]  # made in __post_init__ where not given
  demonstrations: Demonstrate | None = None
  signals: tuple[Signal, ...] = ()

  def __post_init__(self):
    parts = {"ratio": self.ratio, "surrogate": self.surrogate, "aggregate": self.aggregate}
    missing = [name for name, part in parts.items() if part is None]
    if self.objective is None:
      if missing:
        raise ValueError(
          f"Method: {', '.join(missing)} missing; allowed: all of {sorted(parts)}, or objective"
        )
      made = policy_gradient(self.ratio, self.surrogate, self.penalties, self.aggregate)
      object.__setattr__(self, "objective", made)
    elif len(missing) < len(parts) or self.penalties:
      given = sorted(set(parts) - set(missing)) + ["penalties"] * bool(self.penalties)
      raise ValueError(f"Method: objective and {', '.join(given)}; allowed: one or the other, not both")
    self.makers()

  def needs(self) -> tuple[str, ...]:
    """Names of the signals that the parts declare, each once, in order."""
    return tuple(dict.fromkeys((*self.credit.needs, *self.objective.needs)))

  def makers(self) -> tuple[Signal, ...]:
    """The signals to compute, in the order in which they are needed."""
    known = {s.name: s for s in (*standard_signals.STANDARD, *self.signals)}
    made = []
    for name in self.needs():
      if name in standard_signals.FROM_SAMPLER:
        continue
      if name not in known:
        wanting = "credit" if name in self.credit.needs else "objective"
        allowed = nearest(name, (*known, *standard_signals.FROM_SAMPLER))
        raise ValueError(f"Method: the {wanting} needs the signal {name!r}, which nothing makes; {allowed}")
      made.append(known[name])
    return tuple(made)

  def check(self, group: int) -> None:
    """Refuses a group that is too small for the credit, before anything is compiled."""
    if group < self.credit.group_at_least:
      raise ValueError(
        f"batch.group={group}: the credit {self.credit.formula} compares rows of a group; "
        f"allowed: batch.group >= {self.credit.group_at_least}"
      )

  def sources(self) -> tuple[str, ...]:
    """Citations of what was composed, each once."""
    given = (*self.credit.source.split("; "), *self.objective.sources, self.prompts.source)
    return tuple(dict.fromkeys(s for s in given if s and s != "this project"))

  def describe(self) -> str:
    """Slots, formula, signals and citations, as text."""
    rows = [
      ("prompts", self.prompts.formula),
      ("rollouts", "demonstrations" if self.demonstrations else "sampled from the policy"),
      ("reward", self.reward.formula),
      ("credit", self.credit.formula),
      ("ratio", self.ratio.formula if self.ratio else "—"),
      ("surrogate", self.surrogate.formula if self.surrogate else "—"),
      ("penalties", ", ".join(f"{p.coefficient:g}·{p.formula}" for p in self.penalties) or "—"),
      ("aggregate", self.aggregate.formula if self.aggregate else "—"),
      ("objective", f"minimise {self.objective.formula}"),
      ("signals", ", ".join(self.needs()) or "none"),
      ("sources", "; ".join(self.sources()) or "this project"),
    ]
    return "\n".join(f"{name:<10} {text}" for name, text in rows)
