"""Co-direction: do different people make the same mistakes, as far as one person makes the same mistake again?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.metrics.jackknife import jackknife_margin
from conal.metrics.validation import task_posterior
from conal.parameters import share

__all__ = ["CoDirection", "Estimate", "co_direction"]

FloatArray = npt.NDArray[np.float64]

# Values and intervals by inferred against true labels on 280 simulated crowds: studies/results/0.2.0/commonness.csv.
MIN_MISTAKES = 2.0
"""An annotator counts for a class with at least this many expected mistakes on it: fewer make no pair."""
MIN_ANNOTATORS = 3
WIDEST = 1.0
"""A wider interval says nothing."""
RESOLUTION = 0.02
"""Intervals end at least this far from the value: inferred labels are never better than that."""
LEAST = 1e-9


class Estimate(NamedTuple):
    """A value with its interval; all NaN, with the reason, where the data do not tell.

    Attributes
    ----------
    value, low, high : float
    reason : str
        Why there is no value; empty if there is one.
    """

    value: float
    low: float
    high: float
    reason: str = ""

    @classmethod
    def unknown(cls, reason: str) -> Estimate:
        """No value, for this reason."""
        return cls(np.nan, np.nan, np.nan, reason)


class CoDirection(NamedTuple):
    """How far mistakes have a direction that people share.

    Attributes
    ----------
    overall : Estimate
    by_class : list of Estimate
        For the mistakes on each true class.
    by_annotator : (R,)
        Of the annotator's mistakes with those of the others; NaN for annotators with too few mistakes, and where
        ``overall`` has no value.
    mistakes : (R,)
        Expected number of mistakes of every annotator.
    """

    overall: Estimate
    by_class: list[Estimate]
    by_annotator: FloatArray
    mistakes: FloatArray


def co_direction(
    data: Any,
    posterior: npt.ArrayLike,
    *,
    confusion: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    min_labels_per_class: float = 0.0,
) -> CoDirection:
    r"""Of two mistakes on tasks of the same true class: are they the same mistake, whoever makes them?

    Take two mistakes on different tasks of one true class. Let b be the probability that they are the same wrong label
    if two people made them, w if one person did, and 1 / (C - 1) what chance gives. Co-direction is

    .. math::
        \frac{b - \tfrac{1}{C - 1}}{w - \tfrac{1}{C - 1}}

    0 if everybody has confusions of their own, 1 if all confuse the same classes. It is *not* the share of mistakes
    that are common: simulated crowds in which half of all labels come from a common confusion have 0.44 to 0.61.
    Neither is it about single tasks; see :func:`effective_number`.

    Both probabilities are U-statistics: no mistake is paired with itself, and two people's mistakes on one task are no
    pair. Everybody counts alike, however many labels they gave. Mistakes are expected ones, by the posterior. Its own
    errors blur directions, and the label that is judged has a part in it. So the statistic is computed a second time
    with posteriors that leave this label out (if ``confusion`` is given), which errs to the other side; the interval
    covers both, with the jackknife over annotators.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    posterior : (N, C)
        Probability of every class for every task; one-hot rows where the truth is known.
    confusion : (R, C, C), optional
        P(observed | true) of every annotator, by which an annotator's own label is taken out of the posterior.
    confidence : float
        Of the intervals.
    min_labels_per_class : float
        Without a value if half of the annotators gave fewer labels than this times the number of classes. Labels that
        were inferred from such crowds are too often wrong to judge mistakes by.

    Examples
    --------
    Six people take 0 for 1; then three of them take it for 2.

    >>> truth = np.zeros(12, dtype=int)
    >>> alike = np.where(np.arange(12)[:, None] % 6 == np.arange(6), 1, 0)
    >>> co_direction(Annotations.from_matrix(alike, classes=range(3)), np.eye(3)[truth]).overall.value
    1.0
    >>> apart = np.where(np.arange(6) < 3, alike, 2 * alike)
    >>> round(co_direction(Annotations.from_matrix(apart, classes=range(3)), np.eye(3)[truth]).overall.value, 2)
    -0.2
    """
    crowd = Annotations.of(data)
    q = task_posterior(posterior, crowd)
    share().check("confidence", confidence)
    first = _Mistakes(crowd, q[crowd.tasks])
    sides = [first]
    if confusion is not None:
        sides.append(_Mistakes(crowd, _without_own(crowd, q, np.asarray(confusion, dtype=np.float64))))
    reason = _reason(crowd, min_labels_per_class)
    every = np.arange(crowd.n_classes)
    overall = Estimate.unknown(reason) if reason else _estimate(sides, every, confidence)
    by_class = [Estimate.unknown(reason) if reason else _estimate(sides, every[[c]], confidence) for c in every]
    by_annotator = first.by_annotator() if np.isfinite(overall.value) else np.full(crowd.n_annotators, np.nan)
    return CoDirection(overall, by_class, by_annotator, first.mistakes)


def _reason(crowd: Annotations, min_labels_per_class: float) -> str:
    if crowd.n_classes < 3:
        return "with two classes there is only one possible mistake"
    given = crowd.labels_per_annotator()
    given = given[given > 0]
    if len(given) and np.median(given) < min_labels_per_class * crowd.n_classes:
        return "most annotators gave too few labels"
    return ""


def _without_own(crowd: Annotations, q: FloatArray, confusion: FloatArray) -> FloatArray:
    """(P, C) posterior of every annotation's task without the annotation itself; certain ones stay certain."""
    others = q[crowd.tasks] / np.maximum(confusion[crowd.annotators, :, crowd.labels], LEAST)
    return np.asarray(others / np.maximum(others.sum(1, keepdims=True), LEAST))


class _Mistakes:
    """Sums over pairs of mistakes, by class and annotator, so that annotators can be left out without a new pass.

    ``same`` and ``pairs`` are (2, C, R): index 0 within an annotator, 1 with all others. A pair counts 1 / (M_r M_s),
    with M the annotator's mistakes on the class: everybody counts alike.
    """

    def __init__(self, crowd: Annotations, weights: FloatArray) -> None:
        self.chance = 1.0 / max(crowd.n_classes - 1, 1)
        wrong = weights.copy()
        wrong[np.arange(len(wrong)), crowd.labels] = 0.0
        made = np.bincount(crowd.annotators, weights=wrong.sum(1), minlength=crowd.n_annotators)
        self.mistakes = np.asarray(made, dtype=np.float64)
        found = [self._of_class(crowd, wrong[:, c]) for c in range(crowd.n_classes)]
        self.same = np.array([same for same, _ in found]).transpose(1, 0, 2)
        self.pairs = np.array([pairs for _, pairs in found]).transpose(1, 0, 2)

    @staticmethod
    def _of_class(crowd: Annotations, wrong: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(2, R) same and all pairs of the mistakes on one class; ``wrong`` (P,) weighs the labels."""
        R, C = crowd.n_annotators, crowd.n_classes
        cells = crowd.annotators.astype(np.int64) * C + crowd.labels
        by_label = np.bincount(cells, weights=wrong, minlength=R * C).reshape(R, C)
        total = by_label.sum(1)
        counts = total >= MIN_MISTAKES
        scale = np.where(counts, 1.0 / np.maximum(total, LEAST), 0.0)
        share = wrong * scale[crowd.annotators]
        itself = np.bincount(crowd.annotators, weights=share**2, minlength=R)
        p = by_label * scale[:, None]
        within_same, within_all = (p**2).sum(1) - itself, counts - itself
        at_task = np.zeros((crowd.n_tasks, C))
        np.add.at(at_task, (crowd.tasks, crowd.labels), share)
        there_same = share * (at_task[crowd.tasks, crowd.labels] - share)
        there_all = share * (at_task.sum(1)[crowd.tasks] - share)
        same_task, all_task = (np.bincount(crowd.annotators, weights=w, minlength=R) for w in (there_same, there_all))
        between_same = (p * (p.sum(0) - p)).sum(1) - same_task
        between_all = counts * (counts.sum() - 1.0) - all_task
        return np.array([within_same, between_same]), np.array([within_all, between_all])

    def ratio(self, classes: npt.NDArray[np.int64]) -> tuple[float, float]:
        """Co-direction and w - chance, over some classes."""
        found = self._ratios(classes, np.zeros((2, 2, 1)))
        return float(found[0, 0]), float(found[0, 1])

    def ratios_without(self, classes: npt.NDArray[np.int64], who: npt.NDArray[np.int64]) -> FloatArray:
        """(n, 2) the same with each of these annotators left out; a pair of two is in the sums of both."""
        times = np.array([1, 2])[:, None]
        return self._ratios(classes, np.array([times * table[:, classes].sum(1)[:, who] for table in self._tables]))

    def _ratios(self, classes: npt.NDArray[np.int64], left_out: FloatArray) -> FloatArray:
        """(n, 2) from the sums over all annotators, less ``left_out[same or pairs, within or between, n]``."""
        totals = np.array([table[:, classes].sum((1, 2)) for table in self._tables])[:, :, None]
        same, pairs = totals - left_out
        within, between = same / np.maximum(pairs, LEAST) - self.chance
        ratio = np.where(within > 0, between / np.where(within > 0, within, 1.0), np.nan)
        return np.column_stack([ratio, within])

    @property
    def _tables(self) -> tuple[FloatArray, FloatArray]:
        return self.same, self.pairs

    def who(self, classes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Annotators who count."""
        return np.flatnonzero(self.pairs[0][classes].sum(0) > 0)

    def by_annotator(self) -> FloatArray:
        """(R,) b of the annotator with all others, against w of all."""
        _, within = self.ratio(np.arange(len(self.same[0])))
        same, pairs = self.same[1].sum(0), self.pairs[1].sum(0)
        return np.where(pairs > 0, (same / np.maximum(pairs, LEAST) - self.chance) / within, np.nan)


def _estimate(sides: list[_Mistakes], classes: npt.NDArray[np.int64], confidence: float) -> Estimate:
    """The value by the first side, and an interval that covers the jackknife intervals of all."""
    n = len(sides[0].who(classes))
    if n < MIN_ANNOTATORS:
        return Estimate.unknown("too few annotators made mistakes")
    ends, within = [], []
    for side in sides:
        who = side.who(classes)
        left = side.ratios_without(classes, who)
        value, room = side.ratio(classes)
        margin = jackknife_margin(left, confidence)
        ends += [value - margin[0], value + margin[0]]
        within.append(room - margin[1])
    if not min(within) > 0:
        return Estimate.unknown("single annotators have no clear direction either")
    value, low, high = sides[0].ratio(classes)[0], min(ends), max(ends)
    if len(sides) > 1:  # by inferred labels
        low, high = min(low, value - RESOLUTION), max(high, value + RESOLUTION)
    if not high - low <= WIDEST:
        return Estimate.unknown("too few mistakes to tell")
    return Estimate(value, low, high)
