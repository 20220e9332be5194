"""Evaluation numbers as pure functions of host arrays: each with an interval over problems."""

from jaxrl_reason.evals.intervals import Estimate as Estimate
from jaxrl_reason.evals.intervals import bootstrap_interval as bootstrap_interval
from jaxrl_reason.evals.intervals import summary as summary
from jaxrl_reason.evals.sampled import NO_ANSWER as NO_ANSWER
from jaxrl_reason.evals.sampled import maj_at_k as maj_at_k
from jaxrl_reason.evals.sampled import pass_at_k as pass_at_k
