"""Sleepers: answers that are careful up to a point in time, and not afterwards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.metrics.suspicion.attention import attention, scores_of
from conal.metrics.suspicion.left_out import LeftOut

__all__ = ["Turning", "turning"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FEWEST_AFTER = 5
"""Labels after a turn, at least."""
CARELESS = 0.05
"""P-value of careful answers after the turn, below which they are not careful."""
SHUFFLES = 4999
WORTH_SHUFFLING = (1e-4, 0.3)
"""P-values of the approximation, which is too large for few labels, that are made exact by shuffling."""


class Turning(NamedTuple):
    """When annotators turned, if they did.

    Attributes
    ----------
    p_value : (R,)
        Of the hypothesis that the order of the labels does not matter, or that answers stay careful; NaN: not tested.
    before : (R,)
        Number of labels before the most probable turn.
    after : (n_annotations,) bool
        The labels after it.
    """

    p_value: FloatArray
    before: IntArray
    after: npt.NDArray[np.bool_]


def turning(found: LeftOut, times: npt.NDArray[np.generic], fewest: int, seed: int = 0) -> Turning:
    r"""Whether answers become careless at some point: the largest partial sum of residuals in the order of time.

    With :math:`x_k` the log-likelihood ratio of the k-th label (:func:`scores_of`), less its expectation at the share
    of careful answers that the annotator has in all, :math:`S_t = \sum_{k \le t} x_k` and :math:`V = \sum_k x_k^2`,

    .. math:: P(\max_t S_t \ge s) \approx e^{-2 s^2 / V}

    as for a Brownian bridge; where that is small, but not very small, labels are shuffled instead. Tasks that are hard
    for all do not count against the annotator. A fall from good to fair is not a turn: the answers afterwards must not
    be careful (:func:`attention`).
    """
    crowd, R = found.crowd, found.crowd.n_annotators
    order = np.lexsort((times, crowd.annotators))
    starts = np.searchsorted(crowd.annotators[order], np.arange(R + 1))
    residuals = _residuals(found)[order]
    rng = np.random.default_rng(seed)
    p_value, before = np.full(R, np.nan), np.diff(starts)
    for r in np.flatnonzero((np.diff(starts) >= fewest) & _timed(crowd.annotators, times, R)).tolist():
        p_value[r], before[r] = _largest_fall(residuals[starts[r] : starts[r + 1]], rng)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - starts[crowd.annotators[order]]
    after = np.asarray(place >= before[crowd.annotators])
    careless = attention(found, FEWEST_AFTER, after).p_value < CARELESS
    return Turning(np.where(careless | np.isnan(p_value), p_value, 1.0), before, after)


def _timed(annotators: npt.NDArray[np.integer], times: npt.NDArray[np.generic], R: int) -> npt.NDArray[np.bool_]:
    """(R,) the annotators all of whose labels have a time."""
    missing = np.isnat(times) if times.dtype.kind in "mM" else np.zeros(len(times), dtype=bool)
    return np.asarray(np.bincount(annotators[missing], minlength=R) == 0)


def _residuals(found: LeftOut) -> FloatArray:
    """(P,) the score of each label, less its expectation at the annotator's overall share of careful answers."""
    scores = scores_of(found)
    room = scores.careful - scores.by_habit
    share = found.sums(scores.given - scores.by_habit) / np.maximum(found.sums(room), 1e-9)
    return np.asarray(scores.given - scores.by_habit - np.clip(share, 0.0, 1.5)[found.crowd.annotators] * room)


def _largest_fall(residuals: FloatArray, rng: np.random.Generator) -> tuple[float, int]:
    """P-value of the largest partial sum, and after how many labels it is reached."""
    centred = residuals - residuals.mean()
    last = len(centred) - FEWEST_AFTER
    sums = np.cumsum(centred)[:last]
    top, spread = float(sums.max()), float((centred**2).sum())
    p = float(np.exp(-2 * max(top, 0.0) ** 2 / spread)) if spread > 1e-9 else 1.0
    if WORTH_SHUFFLING[0] < p < WORTH_SHUFFLING[1]:
        reached = 0
        for _ in range(SHUFFLES // 500 + 1):
            shuffled = rng.permuted(np.broadcast_to(centred, (500, len(centred))), axis=1)
            reached += int((np.cumsum(shuffled, axis=1)[:, :last].max(1) >= top - 1e-12).sum())
        p = (1 + reached) / (1 + 500 * (SHUFFLES // 500 + 1))
    return p, int(sums.argmax()) + 1
