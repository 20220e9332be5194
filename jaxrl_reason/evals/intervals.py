"""Every evaluation number with its interval: bootstrap over problems, and the usual table of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer

from jaxrl_reason.evals.sampled import HostOrDevice, maj_at_k, pass_at_k


class Estimate(NamedTuple):
  """A mean over problems and the ends of its confidence interval, in the units of the values."""

  value: float
  low: float
  high: float


def bootstrap_interval(
  values: Float[HostOrDevice, " N"], seed: int = 0, level: float = 0.95, draws: int = 2000
) -> Estimate:
  """The mean of `values` over problems with its percentile-bootstrap interval.

    m_b = N⁻¹ Σᵢ v[r_bi],  r_bi ~ uniform{1..N};   interval = quantiles (1∓level)/2 of m₁ … m_draws

  Problems are resampled, not samples: with several samples of one problem, give that problem's mean.
  Deterministic in `seed`, so two arms evaluated on the same problems share their resamples.
  Errors: ValueError for no problems, a value that is not finite, or a level outside (0, 1).
  Source: Efron 1979.
  """
  values = np.asarray(values, np.float64)
  if values.size == 0:
    raise ValueError("bootstrap_interval: there are no problems (values is empty)")
  if not np.isfinite(values).all():
    row = int(np.argmin(np.isfinite(values)))
    raise ValueError(f"bootstrap_interval: values[{row}] = {values[row]} is not finite")
  if not 0 < level < 1:
    raise ValueError(f"bootstrap_interval: level = {level} must lie between 0 and 1")
  random = np.random.Generator(np.random.Philox(seed))
  means = [values[random.integers(0, values.size, values.size)].mean() for _ in range(draws)]
  low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
  return Estimate(float(values.mean()), float(low), float(high))


def summary(
  correct: Bool[HostOrDevice, "N n"],
  answers: Integer[HostOrDevice, "N n"] | None = None,
  gold: Integer[HostOrDevice, " N"] | None = None,
  ks: Sequence[int] = (1,),
  seed: int = 0,
) -> dict[str, Estimate]:
  """`pass@k` for each k, and `maj@k` for each k > 1 where answer ids are given, each with its 95 % interval.

  pass@1 is the accuracy. All numbers share the same resamples of problems. Errors: those of `pass_at_k`,
  `maj_at_k` and `bootstrap_interval`; ValueError if only one of `answers` and `gold` is given.
  """
  if (answers is None) != (gold is None):
    raise ValueError("summary: give both answers and gold (for maj@k), or neither")
  values = {f"pass@{k}": pass_at_k(correct, k) for k in ks}
  if answers is not None and gold is not None:
    values |= {f"maj@{k}": maj_at_k(answers, gold, k) for k in ks if k > 1}
  return {name: bootstrap_interval(value, seed) for name, value in values.items()}
