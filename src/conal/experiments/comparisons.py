"""Differences between two ways of learning, with intervals: the one place where tables decide what is above what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

__all__ = [
    "CONFIDENCE",
    "POINTS",
    "RULE",
    "Difference",
    "Pair",
    "Published",
    "Verdict",
    "beyond_published",
    "bootstrap_difference",
    "corrected",
    "holm",
    "paired_difference",
]

Pair = tuple[Sequence[float], Sequence[float]]
"""Figures of one crowd by two ways, in the order of the seeds."""
Verdict = Literal["above", "level", "below", "unknown"]
Key = TypeVar("Key")

CONFIDENCE = 0.95
POINTS = 100.0
"""Shares are compared in points of a percent."""
RULE = (
    "Differences are paired and have 95 % intervals, by Student's distribution unless another way is named. *Level*: "
    "the interval contains 0, or p is not below 0.05 after Holm's correction for all comparisons of the same claim, or "
    "of the same dataset in a table unless it names another family. Level means not told apart, which is not equal."
)
"""How tables decide, in words."""
N_DRAWS = 100_000
"""Samples of the bootstrap: with few, chance decides about p-values near 0.05 after the correction."""


class Difference(NamedTuple):
    """A mean difference with its interval, and the p-value of no difference; NaN where seeds are too few."""

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        """As tables print it.

        >>> str(Difference(1.25, 0.5, 2.0, 0.01)), str(Difference(1.25, np.nan, np.nan, np.nan))
        ('+1.2 (+0.5 to +2.0)', '+1.2')
        """
        return self.written(1)

    def written(self, digits: int) -> str:
        """With so many decimals; the ends keep their signs, which say whether 0 is between them.

        >>> Difference(-0.004, -0.001, 2.0, 0.01).written(2)
        '+0.00 (-0.00 to +2.00)'
        """
        value = f"{round(self.value, digits) + 0.0:+.{digits}f}"  # no negative zero
        return value if np.isnan(self.low) else f"{value} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"

    @property
    def verdict(self) -> Verdict:
        """Level unless the interval excludes 0, and the p-value, corrected or not, is below 0.05.

        >>> Difference(1.2, 0.5, 2.0, 0.01).verdict, Difference(1.2, 0.5, 2.0, 0.06).verdict
        ('above', 'level')
        >>> Difference(-1.2, -2.0, -0.5, 0.01).verdict, Difference(1.2, np.nan, np.nan, np.nan).verdict
        ('below', 'unknown')
        """
        if np.isnan(self.low):
            return "unknown"
        if self.low <= 0 <= self.high or self.p >= 1 - CONFIDENCE:
            return "level"
        return "above" if self.value > 0 else "below"

    def __neg__(self) -> Difference:
        """The other way round.

        >>> -Difference(1.0, 0.5, 2.0, 0.01)
        Difference(value=-1.0, low=-2.0, high=-0.5, p=0.01)
        """
        return Difference(-self.value, -self.high, -self.low, self.p)

    @property
    def starred(self) -> str:
        """As tables print it, with a star unless it is level."""
        return f"{self}" + (" \\*" if self.verdict in ("above", "below") else "")


class Published(NamedTuple):
    """A figure of a paper, in percent: the mean and the standard deviation over so many runs."""

    mean: float
    deviation: float
    runs: int = 5

    @classmethod
    def read(cls, text: str) -> Published:
        """As tables print it.

        >>> Published.read("87.12 ± 0.55")
        Published(mean=87.12, deviation=0.55, runs=5)
        """
        mean, _, deviation = text.partition(" ± ")
        return cls(float(mean), float(deviation))

    def above(self, other: Published) -> float:
        """By how many points this figure is above another."""
        return self.mean - other.mean


def paired_difference(*crowds: Pair, confidence: float = CONFIDENCE, scale: float = POINTS) -> Difference:
    r"""The mean over crowds of the mean difference of paired figures, by Student's distribution.

    .. math::
        \bar d = \frac1K \sum_k \bar d_k, \qquad
        v_k = \frac{s_k^2}{K^2 n_k}, \qquad
        \nu = \frac{(\sum_k v_k)^2}{\sum_k v_k^2 / (n_k - 1)}

    with the mean :math:`\bar d_k` and standard deviation :math:`s_k` of the differences of crowd k over its
    :math:`n_k` seeds, the variance :math:`\sum_k v_k`, and Welch and Satterthwaite's degrees of freedom, which are few
    where one crowd makes most of the variance. So the interval is about these crowds and other seeds.

    Parameters
    ----------
    crowds : pairs of sequences
        Ours and theirs, seed by seed.
    confidence : float
    scale : float
        What the differences are multiplied by: shares are given in points.

    Examples
    --------
    >>> found = paired_difference(([0.9, 0.8, 0.85], [0.8, 0.8, 0.8]))
    >>> round(found.value, 6), round(found.low, 3), round(found.high, 3)
    (5.0, -7.421, 17.421)
    """
    gaps = [scale * (np.asarray(ours, float) - np.asarray(theirs, float)) for ours, theirs in crowds]
    value = float(np.mean([gap.mean() for gap in gaps]))
    if min(len(gap) for gap in gaps) < 2:
        return Difference(value, np.nan, np.nan, np.nan)
    return _by_student(value, [(gap.var(ddof=1) / len(gap) / len(gaps) ** 2, len(gap) - 1) for gap in gaps], confidence)


def beyond_published(ours: Pair, papers: tuple[Published, Published], *, confidence: float = CONFIDENCE) -> Difference:
    r"""How far a mean difference over seeds, in points, is above a published one, which has an error as well.

    .. math::
        (\bar d - (a - b)), \qquad v = \frac{s_d^2}{n} + \frac{s_a^2}{n_a} + \frac{s_b^2}{n_b}

    with the published means a and b and their standard deviations over runs. The degrees of freedom are Welch and
    Satterthwaite's, but never more than those of the seeds: a further error must not make a difference surer. The
    published figures count as independent, since nobody tells which runs belong together.

    Parameters
    ----------
    ours : pair of sequences
        Two shares, seed by seed.
    papers : pair of Published
        The same two figures of the paper, in percent.
    confidence : float

    Examples
    --------
    >>> seeds = [0.9, 0.91, 0.92], [0.9, 0.9, 0.9]
    >>> str(beyond_published(seeds, (Published(90.0, 0.0), Published(90.0, 0.0))))
    '+1.0 (-1.5 to +3.5)'
    >>> str(beyond_published(seeds, (Published(92.0, 1.0), Published(90.0, 1.0))))
    '-1.0 (-4.7 to +2.7)'
    """
    gap = POINTS * (np.asarray(ours[0], float) - np.asarray(ours[1], float))
    value = float(gap.mean()) - papers[0].above(papers[1])
    if len(gap) < 2:
        return Difference(value, np.nan, np.nan, np.nan)
    parts = [(gap.var(ddof=1) / len(gap), len(gap) - 1)]
    parts += [(each.deviation**2 / each.runs, each.runs - 1) for each in papers]
    return _by_student(value, parts, confidence, most=len(gap) - 1)


def _by_student(
    value: float, parts: Sequence[tuple[float, int]], confidence: float, most: float = np.inf
) -> Difference:
    """A sum of independent means, with the variance and the degrees of freedom of each (Welch and Satterthwaite)."""
    variances, freedoms = np.array(parts, float).T
    error = float(np.sqrt(variances.sum()))
    if error == 0:
        return Difference(value, value, value, float(value == 0))
    freedom = min(variances.sum() ** 2 / (variances**2 / freedoms).sum(), most)
    half = float(student.ppf(0.5 + confidence / 2, freedom)) * error
    p = 2 * float(student.sf(abs(value) / error, freedom))
    return Difference(value, value - half, value + half, p)


def bootstrap_difference(
    ours: npt.ArrayLike, theirs: npt.ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0
) -> Difference:
    r"""The difference of two accuracies on the same instances, in points, by resampling the instances.

    The interval is about these fits and other test instances, which seeds say nothing about. It holds the middle of
    :math:`\bar d^* = \frac1N \sum_i w_i d_i` over draws of :math:`w \sim \mathrm{Mult}(N, 1/N)`.

    Parameters
    ----------
    ours, theirs : (S, N) and (T, N) array of bool or share
        Whether each fit is right on each instance; the numbers of fits may differ.
    confidence : float
    seed : int

    Examples
    --------
    >>> right, wrong = [[True] * 90 + [False] * 10], [[True] * 80 + [False] * 20]
    >>> found = bootstrap_difference(right, wrong)
    >>> round(found.value, 6), 3 < found.low < 6, 14 < found.high < 17
    (10.0, True, True)

    References
    ----------
    Efron and Tibshirani (1993). An Introduction to the Bootstrap. Chapter 13.
    """
    gaps = POINTS * (np.atleast_2d(ours).astype(float).mean(0) - np.atleast_2d(theirs).astype(float).mean(0))
    values, counts = np.unique(gaps.round(9), return_counts=True)  # few: a fit is right or wrong
    low, high, p = _resampled(tuple(values), tuple(counts), confidence, seed)
    return Difference(float(gaps.mean()), low, high, p)


@cache  # several pages show the same differences
def _resampled(
    values: tuple[float, ...], counts: tuple[int, ...], confidence: float, seed: int
) -> tuple[float, float, float]:
    """Interval and p-value of the mean of so many of each of these values."""
    n = sum(counts)
    means = np.random.default_rng(seed).multinomial(n, np.array(counts) / n, size=N_DRAWS) @ np.array(values) / n
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    rarer = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return float(low), float(high), min(2 * (rarer + 1) / (N_DRAWS + 1), 1.0)


def corrected(found: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """A family of differences with the p-values of Holm's correction, by which their verdicts then are.

    >>> family = {"a": Difference(1.0, 0.1, 1.9, 0.03), "b": Difference(2.0, 1.0, 3.0, 0.001)}
    >>> {name: each.verdict for name, each in family.items()}
    {'a': 'above', 'b': 'above'}
    >>> {name: each.verdict for name, each in corrected(family | {"c": Difference(0.0, -1, 1, 1.0)}).items()}
    {'a': 'level', 'b': 'above', 'c': 'level'}
    """
    adjusted = holm([each.p for each in found.values()])
    return {key: each._replace(p=float(p)) for (key, each), p in zip(found.items(), adjusted, strict=True)}


def holm(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """p-values after Holm's correction for looking at all of them; NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]

    References
    ----------
    Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
    """
    p = np.asarray(p_values, float)
    adjusted = np.full(p.shape, np.nan)
    given = np.flatnonzero(np.isfinite(p))
    order = given[np.argsort(p[given], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
