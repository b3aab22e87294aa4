r"""Figures with their intervals: draws of the true labels, and a Bayesian bootstrap over tasks.

A figure about a crowd is uncertain for two reasons. The true labels are known only with a probability, so they are
drawn many times (:mod:`conal.findings.draws`; multiple imputation, Rubin 1987). And other tasks would have given other
counts, so tasks get random weights (the Bayesian bootstrap; Rubin 1981). Half a label of either kind is added
(Jeffreys' prior); without it, five right labels of five would count as perfect. For one annotator, who labels a task
once, weights and prior together give a Beta distribution, given the drawn number of right labels. A figure is the mean
of the same draws that give its interval.

Where labels that were left out, or true labels, showed that the model is too sure (``evidence.tempered``), labels are
drawn from the posterior, which was made less sure: the Gibbs sampler takes annotators as independent, and would be
surer still.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.findings.draws import annotator_order, label_draws, n_draws, posterior_draws
from conal.findings.evidence import Evidence

__all__ = ["CONFIDENCE", "Estimate", "Intervals", "intervals_from", "intervals_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Coverage on 70 simulated crowds, three methods: studies/results/0.2.0/coverage.csv.
CONFIDENCE = 0.95
JEFFREYS = 0.5


class Estimate(NamedTuple):
    """A figure and the ends of its interval, arrays of one shape."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


class Intervals(NamedTuple):
    """Each annotator's quality (R,), the shares of labels (C, C) given to each true class, and their numbers (C, C)."""

    quality: Estimate
    confusion: Estimate
    counts: FloatArray


def intervals_of(evidence: Evidence, seed: int, confidence: float = CONFIDENCE) -> Intervals:
    """All figures with their intervals; the same seed gives the same."""
    rng = np.random.default_rng(seed)
    crowd = evidence.annotations
    if evidence.tempered:
        draws = posterior_draws(evidence, rng, n_draws((crowd.n_annotations + crowd.n_tasks) * crowd.n_classes))
    else:
        draws = label_draws(evidence, rng)
    return intervals_from(evidence, draws, rng, confidence)


def intervals_from(
    evidence: Evidence, draws: Iterable[IntArray], rng: np.random.Generator, confidence: float = CONFIDENCE
) -> Intervals:
    r"""Figures and intervals given draws z of the true classes.

    .. math::
        a_r \sim \text{Beta}(k_r + \tfrac12, n_r - k_r + \tfrac12), \quad k_r = |\{i : y_i^r = z_i\}|; \qquad
        \kappa_{cl} \propto \sum_{i : z_i = c} g_i \, |\{r : y_i^r = l\}| + \text{Gamma}(\tfrac12), \quad
        g_i \sim \text{Exp}(1)

    The figures are the means of :math:`k_r / n_r`, and the shares among the mean counts. A draw without a right label
    counts as 0 at the lower end, one with right labels only as 1 at the upper end.
    """
    crowd, C = evidence.annotations, evidence.annotations.n_classes
    given = crowd.labels_per_annotator()
    right, counts = np.zeros(crowd.n_annotators), np.zeros((C, C))
    quality, confusion, number = [], [], 0
    order = annotator_order(evidence)
    for z in draws:
        own = np.bincount(crowd.annotators[z[crowd.tasks] == crowd.labels], minlength=crowd.n_annotators)
        cells = z[crowd.tasks] * C + crowd.labels
        quality.append(_quality(own, given, order, rng))
        confusion.append(_confusion(evidence, cells, rng))
        right += own
        counts += np.bincount(cells, minlength=C * C).reshape(C, C)
        number += 1
    counts /= number
    total = counts.sum(1, keepdims=True)
    shares = np.where(total > 0, counts / np.maximum(total, 1e-300), evidence.common)
    return Intervals(
        Estimate(right / number / np.maximum(given, 1), *_ends(quality, confidence)),
        Estimate(shares, *_ends(confusion, confidence)),
        counts,
    )


Ends = tuple[FloatArray, FloatArray]


def _quality(right: IntArray, given: IntArray, order: IntArray, rng: np.random.Generator) -> Ends:
    """(R,) a draw of each annotator's accuracy, as a lower and as an upper end; drawn in this order."""
    drawn = np.empty(len(given))
    drawn[order] = rng.beta((right + JEFFREYS)[order], (given - right + JEFFREYS)[order])
    return np.where(right == 0, 0.0, drawn), np.where(right == given, 1.0, drawn)


def _confusion(evidence: Evidence, cells: IntArray, rng: np.random.Generator) -> Ends:
    """(C, C) a draw of the shares of labels, as a lower and as an upper end."""
    crowd, C = evidence.annotations, evidence.annotations.n_classes
    weights = rng.exponential(size=(crowd.n_tasks,))[crowd.tasks]
    counts = np.bincount(cells, weights=weights, minlength=C * C).reshape(C, C)
    drawn = counts + rng.gamma(JEFFREYS, size=(C, C))
    drawn = drawn / drawn.sum(1, keepdims=True)
    alone = counts == counts.sum(1, keepdims=True)
    return np.where(counts == 0, 0.0, drawn), np.where(alone, 1.0, drawn)


def _ends(draws: list[Ends], confidence: float) -> Ends:
    tail = (1 - confidence) / 2
    low, high = (np.stack(end) for end in zip(*draws, strict=True))
    return np.quantile(low, tail, axis=0), np.quantile(high, 1 - tail, axis=0)
