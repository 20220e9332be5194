"""Prompts: which problems a step trains on, as `(init, propose, observe)`."""

from jaxrl_reason.prompts.uniform import uniform

__all__ = ["uniform"]
