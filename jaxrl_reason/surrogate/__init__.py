"""Surrogates: log ratio and credit in, the loss of each token out."""

from jaxrl_reason.surrogate.clipping import clip, clipped_surrogate, importance_weighted

__all__ = ["clip", "clipped_surrogate", "importance_weighted"]
