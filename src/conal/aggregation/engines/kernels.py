"""Loops over the labels, compiled: the E-step of a confusion matrix per annotator, and expected counts."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from conal._support.compiled import Kernel, kernel

__all__ = ["counting_for", "expectation_for"]


@cache
def expectation_for(n_classes: int) -> Kernel:  # noqa: C901 - one pass, made of plain loops
    """The E-step for a number of classes: it takes half the time if the compiler knows that number."""
    C = n_classes

    @kernel
    def expectation(  # type: ignore[no-untyped-def]  # noqa: C901  # pragma: no cover - compiled
        indptr, cells, known, rho, pi, counts, shares, posterior
    ):
        """E-step of every task, added at once to the counts that the M-step needs; returns the log-likelihood.

        One pass over the tasks keeps no posterior, and reads a row of an annotator's matrix per label, so that cost
        scales with the number of labels. Probabilities are multiplied, which saves an exponential per task and class
        over adding their logarithms; only where the product becomes too small are logarithms added.

        Parameters
        ----------
        indptr : (N + 1,), cells : (A,)
            Task i's labels are ``cells[indptr[i]:indptr[i + 1]]``, each as annotator x classes + label.
        known : (N,)
            True class, or -1.
        rho : (C,), pi : (R C, C)
            ``pi[r C + l, c]`` = P(annotator r says l | class c).
        counts : (R C, C), shares : (C,)
            Changed: expected labels in the layout of pi, and expected tasks of each class, are added.
        posterior : (N, C)
            Filled; (0, C) if it is not wanted.
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
            if known[i] >= 0:  # joint is indexed by loop variables only, so that the compiler keeps it in registers
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
    """Expected labels by a posterior, for a number of classes."""
    C = n_classes

    @kernel
    def counting(indptr, cells, posterior, counts):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
        """Add every task's posterior (N, C) to the rows of ``counts`` (R C, C) that its labels select."""
        for i in range(len(indptr) - 1):
            for a in range(indptr[i], indptr[i + 1]):
                cell = np.uint64(cells[a])
                for c in range(C):
                    counts[cell, c] += posterior[i, c]

    return counting
