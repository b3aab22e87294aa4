"""Dirichlet distributions over the last axis: what variational aggregators need of them."""

from __future__ import annotations

import numpy as np
import scipy

from conal.aggregation.arrays import FloatArray

__all__ = ["divergence", "expected_log", "log_normaliser"]


def expected_log(alpha: FloatArray) -> FloatArray:
    """E log p under Dirichlet(alpha) over the last axis."""
    return np.asarray(scipy.special.digamma(alpha) - scipy.special.digamma(alpha.sum(-1, keepdims=True)))


def log_normaliser(alpha: FloatArray) -> FloatArray:
    """Logarithm of the multivariate beta function over the last axis."""
    return np.asarray(scipy.special.gammaln(alpha).sum(-1) - scipy.special.gammaln(alpha.sum(-1)))


def divergence(alpha: FloatArray, prior: FloatArray) -> FloatArray:
    """KL of Dirichlet(alpha) from Dirichlet(prior) over the last axis."""
    change = ((alpha - prior) * expected_log(alpha)).sum(-1)
    return np.asarray(log_normaliser(prior) - log_normaliser(alpha) + change)
