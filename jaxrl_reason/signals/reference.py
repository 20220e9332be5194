"""Log-probabilities of the rollouts under the policy that training started from."""

from jaxtyping import Array, Float

from jaxrl_reason.types import Params, Policy, Rollouts, Signal


def reference_logprobs() -> Signal:
  """log π_ref(yₜ | x, y₍<ₜ₎) `[P, G, T]`, nats, by the same scorer (temperature and support included)."""

  def compute(params: Params, reference: Params, policy: Policy, rollouts: Rollouts) -> Float[Array, "P G T"]:
    del params
    return policy.logp(reference, rollouts).logprobs

  return Signal("reference_logprobs", compute, formula="log π_ref(yₜ)")
