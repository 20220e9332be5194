"""Credit: rewards in, per-token credit out. Transforms chain as in optax; credit is always `[P, G, #T]`."""

from jaxrl_reason.credit.chain import chain, from_rewards
from jaxrl_reason.credit.group import (
  center,
  center_by_group,
  leave_one_out,
  scale_by_group_std,
  scale_by_std,
  subtract_others_mean,
)

__all__ = [
  "center",
  "center_by_group",
  "chain",
  "from_rewards",
  "leave_one_out",
  "scale_by_group_std",
  "scale_by_std",
  "subtract_others_mean",
]
