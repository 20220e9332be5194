"""Slots: what is missing, what cannot stand together, which signals are needed, what is printed."""

import pytest

from jaxrl_reason import aggregate, credit, losses, penalty, prompts, ratio, reward, surrogate
from jaxrl_reason.method import Method
from jaxrl_reason.types import Signal, Transform

SLOTS = {
  "prompts": prompts.uniform(),
  "reward": reward.verified(),
  "credit": credit.chain(credit.center_by_group(), credit.scale_by_group_std()),
  "ratio": ratio.token(),
  "surrogate": surrogate.clip(0.2, 0.28),
  "penalties": (penalty.kl_k3(0.04),),
  "aggregate": aggregate.token_mean(),
}


def test_describe_prints_every_slot_the_formula_and_the_citations():
  text = Method(**SLOTS).describe()
  for words in (
    "r → c − mean_G(c) → c / (std_G(c) + 1e-06)",
    "−min(ρ c, clip(ρ, 0.8, 1.28) c)",
    "0.04·k3(π‖π_ref)",
    "Σ ℓ / Σ tokens",
    "reference_logprobs",
    "Shao et al. 2024, arXiv 2402.03300",
    "Schulman et al. 2017, arXiv 1707.06347",
  ):
    assert words in text


def test_needs_are_the_union_of_what_the_parts_declare():
  assert Method(**SLOTS).needs() == ("reference_logprobs",)
  assert Method(**{**SLOTS, "penalties": ()}).needs() == ()


def test_a_signal_that_nothing_makes_is_named_with_the_part_that_wants_it():
  odd = Transform(
    init=lambda: None, update=lambda c, s, r: (c, s), formula="odd", needs=("refrence_logprobs",)
  )
  with pytest.raises(
    ValueError, match=r"the credit needs the signal 'refrence_logprobs'.*'reference_logprobs'"
  ):
    Method(**{**SLOTS, "credit": odd})


def test_a_method_may_bring_its_own_signal():
  own = Signal("belief", lambda params, reference, policy, rollouts: rollouts.rewards, formula="b")
  part = Transform(init=lambda: None, update=lambda c, s, r: (c, s), formula="b", needs=("belief", "entropy"))
  method = Method(**{**SLOTS, "credit": part, "penalties": ()}, signals=(own,))
  assert method.makers() == (own,)


@pytest.mark.parametrize("slot", ["ratio", "surrogate", "aggregate"])
def test_a_missing_slot_is_named(slot):
  with pytest.raises(ValueError, match=f"{slot} missing"):
    Method(**{**SLOTS, slot: None})


def test_objective_and_policy_gradient_parts_exclude_each_other():
  with pytest.raises(ValueError, match="one or the other"):
    Method(**SLOTS, objective=losses.sft(aggregate.token_mean()))


def test_a_group_of_one_with_group_credit_is_refused():
  with pytest.raises(ValueError, match=r"batch\.group=1.*allowed: batch\.group >= 2"):
    Method(**SLOTS).check(1)
  Method(**SLOTS).check(2)
