"""Objectives that are not policy gradients."""

from jaxrl_reason.losses.sft import negative_log_likelihood, sft

__all__ = ["negative_log_likelihood", "sft"]
