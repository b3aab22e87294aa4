"""Intervals of figures: draws of the true labels, and a Bayesian bootstrap over tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from conal._arrays import FloatArray, IntArray, draw_from_rows
from conal.aggregation.counts import ranks_of
from conal.report.evidence import Evidence

# Draws of the true labels, given the annotations and the classifier.
#
# A model's posterior takes its confusion matrices as known. They are estimates themselves, from annotators with a few
# dozen labels each; and a method may weaken the votes on purpose, as ``xconal`` does against mistakes that annotators
# make together. So true labels and confusion matrices are drawn in turns, each given the other (Gibbs sampling with
# data augmentation; Tanner and Wong 1987), starting from the posterior:
#
# .. math::
#     \pi^r_{c \cdot} \mid z \sim \text{Dirichlet}(n^r_{c \cdot} + \alpha \kappa_{c \cdot}), \qquad
#     P(z_i = c \mid \pi) \propto f_c(x_i) \prod_r \pi^r_{c, y_i^r}
#
# with the counts :math:`n` of the drawn labels, their shares :math:`\kappa` over all annotators, and the classifier's
# probabilities :math:`f`, or the shares of the classes where labels alone were aggregated. On crowds too large for
# this, where the matrices are nearly certain, labels are drawn from the posterior as it is.


DRAWS = 200
MIN_DRAWS = 60
BURN_IN = 60
"""First Gibbs draws, which depend on the start and are left out."""
WORK = 200_000_000
"""Budget of all draws, in numbers read; larger crowds get fewer draws, down to ``MIN_DRAWS``."""
MAX_WORK = 6_000_000
"""Work of one draw up to which matrices are drawn too."""
GAMMA_COST = 5
"""Cost of drawing a cell of a confusion matrix, relative to reading a number."""
POOLING = 2.0
"""Pseudo-labels that shrink each row of an annotator's matrix to the shares over all annotators."""
LEAST = 1e-6
"""Floor of the classifier's probabilities: it cannot rule out a class."""


def n_draws(work_per_draw: int) -> int:
    """How many draws are affordable.

    >>> n_draws(1_000), n_draws(2_000_000), n_draws(10**9)
    (200, 100, 60)
    """
    return int(np.clip(WORK // max(work_per_draw, 1), MIN_DRAWS, DRAWS))


def label_draws(evidence: Evidence, rng: np.random.Generator) -> Iterator[IntArray]:
    """(N,) draws of the true classes of all tasks."""
    crowd, C = evidence.annotations, evidence.annotations.n_classes
    labels, matrices = (crowd.n_annotations + crowd.n_tasks) * C, GAMMA_COST * crowd.n_annotators * C * C
    if labels + matrices > MAX_WORK:
        return posterior_draws(evidence, rng, n_draws(labels))
    return gibbs_draws(evidence, rng, n_draws(labels + matrices))


def posterior_draws(evidence: Evidence, rng: np.random.Generator, number: int) -> Iterator[IntArray]:
    """Independent draws from the posterior."""
    for _ in range(number):
        yield draw_from_rows(evidence.posterior, rng.random(len(evidence.posterior)))


def annotator_order(evidence: Evidence) -> IntArray:
    """(R,) annotators in an order that does not depend on their names, so that pseudonyms get the same draws."""
    return np.argsort(ranks_of(evidence.annotations).annotators)


def gibbs_draws(evidence: Evidence, rng: np.random.Generator, number: int) -> Iterator[IntArray]:
    """Draws of the labels and of all matrices in turns, after the burn-in."""
    crowd = evidence.annotations
    C = crowd.n_classes
    log_prior = _log_prior(evidence)
    rows = crowd.annotators.astype(np.int64) * C + crowd.labels
    labelled = np.flatnonzero(crowd.labels_per_task())
    starts = crowd.indptr[labelled]
    z, order = evidence.inferred, annotator_order(evidence)
    for step in range(BURN_IN + number):
        log_pi = _draw_log_confusion(evidence, z, order, rng)  # (R, observed, true): a label picks one row
        log_joint = log_prior.copy()
        if len(labelled):
            log_joint[labelled] += np.add.reduceat(log_pi.reshape(-1, C)[rows], starts, axis=0)
        joint = np.exp(log_joint - log_joint.max(1, keepdims=True))
        z = draw_from_rows(joint, rng.random(len(joint)))
        if step >= BURN_IN:
            yield z


def _log_prior(evidence: Evidence) -> FloatArray:
    """(N, C) log-probability of each class before the annotations; a class that is known not to be true has none."""
    if evidence.classifier is not None:
        log_prior = np.log(np.maximum(evidence.classifier, LEAST))
    else:
        informed = evidence.informed if evidence.informed.any() else slice(None)
        shares = evidence.posterior[informed].mean(0)
        log_prior = np.tile(np.log(np.maximum(shares, LEAST)), (len(evidence.posterior), 1))
    if evidence.known is not None:
        (given,) = np.nonzero(evidence.known >= 0)
        log_prior[given] = -np.inf
        log_prior[given, evidence.known[given]] = 0.0
    return np.asarray(log_prior)


def _draw_log_confusion(evidence: Evidence, z: IntArray, order: IntArray, rng: np.random.Generator) -> FloatArray:
    """(R, C, C) ``[r, l, c]`` = log of a draw of P(r says l | true c), given the true classes; drawn in this order."""
    crowd = evidence.annotations
    R, C = crowd.n_annotators, crowd.n_classes
    cells = (crowd.annotators.astype(np.int64) * C + crowd.labels) * C + z[crowd.tasks]
    counts = np.bincount(cells, minlength=R * C * C).reshape(R, C, C)
    shares = counts.sum(0) + 0.5
    drawn = np.empty(counts.shape)
    drawn[order] = rng.gamma((counts + POOLING * shares / shares.sum(0))[order]) + 1e-12
    return np.asarray(np.log(drawn / drawn.sum(1, keepdims=True)))


# Figures with their intervals: draws of the true labels, and a Bayesian bootstrap over tasks.
#
# A figure about a crowd is uncertain for two reasons. The true labels are known only with a probability, so they are
# drawn many times (:mod:`conal.report.intervals`; multiple imputation, Rubin 1987). And other tasks would have given
# other counts, so tasks get random weights (the Bayesian bootstrap; Rubin 1981). Half a label of either kind is added
# (Jeffreys' prior); without it, five right labels of five would count as perfect. For one annotator, who labels a task
# once, weights and prior together give a Beta distribution, given the drawn number of right labels. A figure is the
# mean of the same draws that give its interval.
#
# Where labels that were left out, or true labels, showed that the model is too sure (``evidence.tempered``), labels are
# drawn from the posterior, which was made less sure: the Gibbs sampler takes annotators as independent, and would be
# surer still.

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


def intervals_of(evidence: Evidence, seed: int) -> Intervals:
    """All figures with their intervals; the same seed gives the same."""
    rng = np.random.default_rng(seed)
    crowd = evidence.annotations
    if evidence.tempered:
        draws = posterior_draws(evidence, rng, n_draws((crowd.n_annotations + crowd.n_tasks) * crowd.n_classes))
    else:
        draws = label_draws(evidence, rng)
    return intervals_from(evidence, draws, rng)


def intervals_from(evidence: Evidence, draws: Iterable[IntArray], rng: np.random.Generator) -> Intervals:
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
        Estimate(right / number / np.maximum(given, 1), *_ends(quality)),
        Estimate(shares, *_ends(confusion)),
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


def _ends(draws: list[Ends]) -> Ends:
    tail = (1 - CONFIDENCE) / 2
    low, high = (np.stack(end) for end in zip(*draws, strict=True))
    return np.quantile(low, tail, axis=0), np.quantile(high, 1 - tail, axis=0)
