r"""How sure the figures are: draws of the true labels, and a Bayesian bootstrap over tasks.

A figure about a crowd is uncertain twice. Which label is true is known with a probability only, so the true labels are
drawn from it again and again (multiple imputation; Rubin 1987). And other tasks would have given other counts, so tasks
get random weights (the Bayesian bootstrap; Rubin 1981). Half a label of either kind is added, Jeffreys' prior, without
which five right labels of five would be taken for perfection. For one annotator, who labels a task once, weights and
prior together are a Beta distribution given the drawn number of right labels.

What the model itself got wrong, such as a class taken for another throughout, is not in these intervals.
``conal reproduce coverage`` measures how often they hold the truth of simulated crowds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.findings.evidence import Evidence

__all__ = ["CONFIDENCE", "Interval", "confusion_interval", "n_draws", "quality_interval"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CONFIDENCE = 0.95
DRAWS = 200
MIN_DRAWS = 60
WORK = 200_000_000
"""Numbers drawn for one kind of interval; more data get fewer draws, but never fewer than the least."""
JEFFREYS = 0.5


class Interval(NamedTuple):
    """Lower and upper ends, alike in shape."""

    low: FloatArray
    high: FloatArray


def n_draws(work_per_draw: int) -> int:
    """How many draws are affordable.

    >>> n_draws(1_000), n_draws(2_000_000), n_draws(10**9)
    (200, 100, 60)
    """
    return int(np.clip(WORK // max(work_per_draw, 1), MIN_DRAWS, DRAWS))


def quality_interval(evidence: Evidence, seed: int, confidence: float = CONFIDENCE) -> Interval:
    r"""(R,) ends of the accuracy of every annotator on tasks such as those that he or she labelled.

    .. math::
        k_r \sim \sum_i \text{Bernoulli}(q_i(y_i^r)), \qquad a_r \sim \text{Beta}(k_r + \tfrac12, n_r - k_r + \tfrac12)

    An end reaches 0 or 1 where all labels may be wrong or right.
    """
    crowd = evidence.annotations
    rng = np.random.default_rng(seed)
    given = crowd.labels_per_annotator()
    low: FloatArray = np.empty((n_draws(crowd.n_annotations), crowd.n_annotators))
    high: FloatArray = np.empty_like(low)
    for k in range(len(low)):
        right = rng.random(crowd.n_annotations) < evidence.expected_right
        count = np.bincount(crowd.annotators[right], minlength=crowd.n_annotators)
        drawn = np.asarray(rng.beta(count + JEFFREYS, given - count + JEFFREYS))
        low[k], high[k] = np.where(count == 0, 0.0, drawn), np.where(count == given, 1.0, drawn)
    return _ends(low, high, confidence)


def confusion_interval(evidence: Evidence, seed: int, confidence: float = CONFIDENCE) -> Interval:
    r"""(C, C) ends of the share of label l among the labels that tasks of true class c get, over all annotators.

    .. math::
        z_i \sim q_i, \quad g_i \sim \text{Exp}(1), \qquad
        \kappa_{cl} \propto \sum_{i : z_i = c} g_i \, |\{r : y_i^r = l\}| + \text{Gamma}(\tfrac12)
    """
    crowd = evidence.annotations
    N, C = evidence.posterior.shape
    rng = np.random.default_rng(seed)
    edges = evidence.posterior.cumsum(1)[:, :-1]
    low = np.empty((n_draws(crowd.n_annotations + N * C), C, C))
    high = np.empty_like(low)
    for k in range(len(low)):
        z = (edges <= rng.random((N, 1))).sum(1)
        cells = z[crowd.tasks] * C + crowd.labels
        weights = rng.exponential(size=(N,))[crowd.tasks]
        counts = np.bincount(cells, weights=weights, minlength=C * C).reshape(C, C)
        drawn = counts + rng.gamma(JEFFREYS, size=(C, C))
        drawn /= drawn.sum(1, keepdims=True)
        low[k] = np.where(counts == 0, 0.0, drawn)
        high[k] = np.where(counts == counts.sum(1, keepdims=True), 1.0, drawn)
    return _ends(low, high, confidence)


def _ends(low: FloatArray, high: FloatArray, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    return Interval(np.quantile(low, tail, axis=0), np.quantile(high, 1 - tail, axis=0))
