"""One pass over the labels for both steps of Dawid-Skene's EM, compiled."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from conal._support.compiled import Kernel, kernel

__all__ = ["FUSED_ABOVE", "counting_for", "expectation_for"]

FUSED_ABOVE = 20_000
"""Annotations from which on a compiled pass pays for the time it takes to load."""


@cache
def expectation_for(n_classes: int) -> Kernel:  # noqa: C901 - one pass, made of plain loops
    """The pass for so many classes: where their number is known to the compiler, it takes half the time."""
    C = n_classes

    @kernel
    def expectation(  # type: ignore[no-untyped-def]  # noqa: C901  # pragma: no cover - compiled
        indptr, cells, known, rho, pi, counts, shares, posterior
    ):
        """E-step of every task, added up at once to what the M-step needs; returns the log-likelihood.

        Tasks are gone through in order and an annotator's matrix by the label that was given, so that memory is read
        in lines, and no posterior need be kept: cost follows the labels. Probabilities are multiplied, not their
        logarithms added, which saves an exponential per task and class; where the product gets too small for that,
        logarithms help.

        Parameters
        ----------
        indptr : (N + 1,), cells : (A,)
            Task i's labels are ``cells[indptr[i]:indptr[i + 1]]``, each as annotator x classes + label.
        known : (N,)
            True class, or -1.
        rho : (C,), pi : (R C, C)
            ``pi[r C + l, c]`` = P(annotator r says l | class c).
        counts : (R C, C), shares : (C,)
            To be added to: expected labels in the layout of pi, and expected tasks of each class.
        posterior : (N, C), or (0, C) if nobody wants it
        """
        joint = np.empty(C)
        total_log = 0.0
        for i in range(len(indptr) - 1):
            start, end = indptr[i], indptr[i + 1]
            for c in range(C):
                joint[c] = rho[c]
            for a in range(start, end):
                cell = np.uint64(cells[a])
                for c in range(C):
                    joint[c] *= pi[cell, c]
            total = 0.0
            for c in range(C):
                total += joint[c]
            shift = 0.0
            if total < 1e-200:
                shift = -math.inf
                for c in range(C):
                    joint[c] = math.log(rho[c])
                    for a in range(start, end):
                        joint[c] += math.log(pi[cells[a], c])
                    shift = max(shift, joint[c])
                total = 0.0
                for c in range(C):
                    joint[c] = math.exp(joint[c] - shift)
                    total += joint[c]
            if known[i] >= 0:  # no index that is not the loop's: the compiler keeps joint in registers then
                given = 0.0
                for c in range(C):
                    if c == known[i]:
                        given += joint[c]
                        joint[c] = 1.0
                    else:
                        joint[c] = 0.0
                total_log += math.log(given) + shift
            else:
                total_log += math.log(total) + shift
                inverse = 1.0 / total
                for c in range(C):
                    joint[c] *= inverse
            for c in range(C):
                shares[c] += joint[c]
            for a in range(start, end):
                cell = np.uint64(cells[a])
                for c in range(C):
                    counts[cell, c] += joint[c]
            if len(posterior):
                for c in range(C):
                    posterior[i, c] = joint[c]
        return total_log

    return expectation


@cache
def counting_for(n_classes: int) -> Kernel:
    """Expected labels by a posterior, for so many classes."""
    C = n_classes

    @kernel
    def counting(indptr, cells, posterior, counts):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
        """Add every task's posterior (N, C) to the rows of ``counts`` (R C, C) that its labels are."""
        for i in range(len(indptr) - 1):
            for a in range(indptr[i], indptr[i + 1]):
                cell = np.uint64(cells[a])
                for c in range(C):
                    counts[cell, c] += posterior[i, c]

    return counting
