r"""Draws of the true labels: what they may have been, given the annotations and the classifier.

A model's posterior says how likely every class is if its confusion matrices are right. They are estimates themselves,
of annotators with a few dozen labels; and a method may weaken the votes on purpose, as ``xconal`` does against mistakes
that people make together. So true labels and confusion matrices are drawn in turns, each given the other (Gibbs
sampling, with data augmentation; Tanner and Wong 1987), starting from the posterior:

.. math::
    \pi^r_{c \cdot} \mid z \sim \text{Dirichlet}(n^r_{c \cdot} + \alpha \kappa_{c \cdot}), \qquad
    P(z_i = c \mid \pi) \propto f_c(x_i) \prod_r \pi^r_{c, y_i^r}

with the counts :math:`n` of the drawn labels, their shares :math:`\kappa` over all annotators, and the classifier's
probabilities :math:`f`. On crowds that are too large for this, where little is uncertain but what the posterior says,
labels are drawn from it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from conal.findings.evidence import Evidence

__all__ = ["gibbs_draws", "label_draws", "n_draws", "posterior_draws"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DRAWS = 200
MIN_DRAWS = 60
BURN_IN = 60
WORK = 200_000_000
"""Numbers looked at for all draws; more data get fewer draws, but never fewer than the least."""
MAX_WORK = 6_000_000
"""Work of a draw up to which matrices are drawn too."""
GAMMA_COST = 5
"""A drawn cell of a confusion matrix costs as much as so many numbers that are looked at."""
POOLING = 2.0
"""Labels by which every row of an annotator's matrix is drawn to everybody's."""
LEAST = 1e-6
"""No class is taken to be impossible on the classifier's word."""


def n_draws(work_per_draw: int) -> int:
    """How many draws are affordable.

    >>> n_draws(1_000), n_draws(2_000_000), n_draws(10**9)
    (200, 100, 60)
    """
    return int(np.clip(WORK // max(work_per_draw, 1), MIN_DRAWS, DRAWS))


def label_draws(evidence: Evidence, rng: np.random.Generator) -> Iterator[IntArray]:
    """(N,) true classes of all tasks, again and again."""
    crowd, C = evidence.annotations, evidence.annotations.n_classes
    labels, matrices = (crowd.n_annotations + crowd.n_tasks) * C, GAMMA_COST * crowd.n_annotators * C * C
    if labels + matrices > MAX_WORK:
        return posterior_draws(evidence, rng, n_draws(labels))
    return gibbs_draws(evidence, rng, n_draws(labels + matrices))


def posterior_draws(evidence: Evidence, rng: np.random.Generator, number: int) -> Iterator[IntArray]:
    """Independent draws from the posterior."""
    edges = evidence.posterior.cumsum(1)[:, :-1]
    for _ in range(number):
        yield (edges <= rng.random((len(edges), 1))).sum(1)


def gibbs_draws(evidence: Evidence, rng: np.random.Generator, number: int) -> Iterator[IntArray]:
    """Draws of the labels and of all matrices in turns; the first ones, which remember the start, are left out."""
    crowd = evidence.annotations
    C = crowd.n_classes
    log_prior = np.log(np.maximum(evidence.classifier, LEAST))
    rows = crowd.annotators.astype(np.int64) * C + crowd.labels
    labelled = np.flatnonzero(crowd.labels_per_task())
    starts = crowd.indptr[labelled]
    z = evidence.inferred
    for step in range(BURN_IN + number):
        log_pi = _draw_log_confusion(evidence, z, rng)  # (R, observed, true): what a label says is one row
        log_joint = log_prior.copy()
        if len(labelled):
            log_joint[labelled] += np.add.reduceat(log_pi.reshape(-1, C)[rows], starts, axis=0)
        joint = np.exp(log_joint - log_joint.max(1, keepdims=True)).cumsum(1)
        z = (joint[:, :-1] <= rng.random((len(joint), 1)) * joint[:, -1:]).sum(1)
        if step >= BURN_IN:
            yield z


def _draw_log_confusion(evidence: Evidence, z: IntArray, rng: np.random.Generator) -> FloatArray:
    """(R, C, C) ``[r, l, c]`` = log of a draw of P(r says l | true c), given the true classes."""
    crowd = evidence.annotations
    R, C = crowd.n_annotators, crowd.n_classes
    cells = (crowd.annotators.astype(np.int64) * C + crowd.labels) * C + z[crowd.tasks]
    counts = np.bincount(cells, minlength=R * C * C).reshape(R, C, C)
    shares = counts.sum(0) + 0.5
    drawn = rng.gamma(counts + POOLING * shares / shares.sum(0)) + 1e-12
    return np.asarray(np.log(drawn / drawn.sum(1, keepdims=True)))
