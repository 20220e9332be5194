"""Composition of credit transforms, and the credit that a chain starts from."""

from jaxtyping import Array, Float

from jaxrl_reason.types import CreditState, Rollouts, Transform


def from_rewards(rollouts: Rollouts) -> Float[Array, "P G 1"]:
  """The credit that every chain starts from: the reward of the row, on the whole answer."""
  return rollouts.rewards[..., None]


def chain(*transforms: Transform) -> Transform:
  """Applies transforms from left to right; its state is the tuple of their states.

    c₀ = r,   cᵢ₊₁ = fᵢ(cᵢ)

  An empty chain leaves the raw reward as credit.
  """

  def init() -> CreditState:
    return tuple(t.init() for t in transforms)

  def update(credit: Float[Array, "P G _"], state: CreditState, rollouts: Rollouts):
    if len(state) != len(transforms):
      raise ValueError(f"credit state has {len(state)} parts, the chain has {len(transforms)}: not its state")
    new = []
    for transform, part in zip(transforms, state, strict=True):
      credit, part = transform.update(credit, part, rollouts)
      new.append(part)
    return credit, tuple(new)

  return Transform(
    init=init,
    update=update,
    formula=" → ".join(["r", *(t.formula for t in transforms)]),
    needs=tuple(dict.fromkeys(name for t in transforms for name in t.needs)),
    source="; ".join(dict.fromkeys(t.source for t in transforms if t.source != "this project")),
    group_at_least=max((t.group_at_least for t in transforms), default=1),
  )
