"""Do an annotator's answers depend on the task as those of others do, in another way, or not at all?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from conal.metrics.suspicion.left_out import LeftOut
from conal.metrics.suspicion.tails import lower_tail

__all__ = ["Attention", "attention", "dependence", "scores_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

RELATIVE = 0.6
"""Share of careful answers that an honest annotator has at least, beside what a quarter of the crowd has."""
LEAST, MOST = 0.25, 0.5
"""Ends of that share."""
SCORED = 0.5
"""Share of careful answers at which labels are scored."""
SHUFFLES = 399


class Attention(NamedTuple):
    """The share of answers that are as careful as the typical annotator's, and how surely it is too low.

    Attributes
    ----------
    share : (R,)
        Estimated share; NaN without labels.
    least : float
        The share that honest annotators of this crowd have at least.
    p_value : (R,)
        Of the hypothesis that the share is at least that; NaN where too few labels were given.
    """

    share: FloatArray
    least: float
    p_value: FloatArray


class Scores(NamedTuple):
    """What labels say about care: (P, C) scores of all labels of a task, (P,) of the one that was given, and means.

    ``by_habit`` and ``careful`` (P,) are the expected scores of an answer by habit, and of a careful one.
    """

    all: FloatArray
    given: FloatArray
    by_habit: FloatArray
    careful: FloatArray


def scores_of(found: LeftOut) -> Scores:
    r"""Log-likelihood ratios of the labels, partly careful against habit.

    .. math::
        \lambda_i^r(l) = \log \frac{\tfrac12 m_i^r(l) + \tfrac12 h^r_l}{h^r_l}

    where m is what the typical annotator says by the labels of the others, and h the annotator's own habit.
    """
    crowd = found.crowd
    habit = found.habits[crowd.annotators]
    scores = np.log(SCORED * found.expected / habit + 1 - SCORED)
    given = scores[np.arange(crowd.n_annotations), crowd.labels]
    return Scores(scores, given, (habit * scores).sum(1), (found.expected * scores).sum(1))


def attention(found: LeftOut, fewest: int, kept: npt.NDArray[np.bool_] | None = None) -> Attention:
    r"""Whether an annotator's answers are as careful as those of the typical annotator, at least in part.

    If a share a of the answers is careful, a label of task i has the probabilities
    :math:`a m_i^r(l) + (1 - a) h^r_l`. The statistic is the sum of :math:`\lambda_i^r(y_i^r)` (:func:`scores_of`), the
    estimate of a is that under which the sum is what one expects, and the p-value is the probability of a sum that
    small at the least share that honest people of this crowd have: 0.6 times the upper quartile of the estimates, and
    from 0.25 to 0.5. So a crowd of whom everybody errs in an own way is not called careless.

    Parameters
    ----------
    found : LeftOut
    fewest : int
        Annotators with fewer labels are not tested.
    kept : (P,) bool, optional
        Labels to judge; all by default. The least share is by all labels.
    """
    crowd, scores = found.crowd, scores_of(found)
    share = _share(found, scores, np.ones(crowd.n_annotations, dtype=bool))
    enough = (crowd.labels_per_annotator() >= fewest) & np.isfinite(share)
    least = float(np.clip(RELATIVE * np.quantile(share[enough], 0.75), LEAST, MOST)) if enough.any() else MOST
    rows = np.arange(crowd.n_annotations) if kept is None else np.flatnonzero(kept)
    who, R = crowd.annotators[rows].astype(np.int64), crowd.n_annotators
    proba = least * found.expected[rows] + (1 - least) * found.habits[who]
    observed = np.asarray(np.bincount(who, weights=scores.given[rows], minlength=R), dtype=np.float64)
    tested = np.bincount(who, minlength=R) >= fewest
    p_value = np.where(tested, lower_tail(scores.all[rows], proba, who, observed), np.nan)
    return Attention(share if kept is None else _share(found, scores, kept), least, p_value)


def _share(found: LeftOut, scores: Scores, kept: npt.NDArray[np.bool_]) -> FloatArray:
    """(R,) the share of careful answers among some labels, from 0 to 1; NaN where nothing tells."""
    room = found.sums((scores.careful - scores.by_habit) * kept)
    above = found.sums((scores.given - scores.by_habit) * kept)
    return np.clip(np.where(room > 1e-9, above / np.maximum(room, 1e-9), np.nan), 0.0, 1.0)


def dependence(found: LeftOut, annotator: int, seed: int = 0) -> float:
    r"""P-value of the hypothesis that an annotator's labels have nothing to do with the true classes.

    The likelihood-ratio statistic :math:`\sum_{cl} n_{cl} \log \frac{n_{cl} n}{n_{c\cdot} n_{\cdot l}}` of expected
    counts, by posteriors without the annotator's own labels, against the same labels shuffled over the tasks.
    """
    rows = np.flatnonzero(found.crowd.annotators == annotator)
    q, labels = found.posterior[rows], found.crowd.labels[rows]
    rng = np.random.default_rng(seed)
    observed = _information(q, labels)
    shuffled = [_information(q, rng.permutation(labels)) for _ in range(SHUFFLES)]
    return float((1 + np.sum(np.array(shuffled) >= observed - 1e-9)) / (1 + SHUFFLES))


def _information(q: FloatArray, labels: npt.NDArray[np.integer]) -> float:
    """The statistic up to what shuffling does not change: row and column sums are the same."""
    C = q.shape[1]
    counts = np.stack([np.bincount(labels, weights=q[:, c], minlength=C) for c in range(C)])
    return float(xlogy(counts, counts).sum())
