"""Differences between two ways of learning, with intervals, and what they say about a claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import stats
from statsmodels.stats.multitest import multipletests

Pair = tuple[Sequence[float], Sequence[float]]
"""Figures of two ways on the same seeds or crowds, in the same order."""
Key = TypeVar("Key")
Verdict = str

CONFIDENCE = 0.95
POINTS = 100.0
"""Shares are compared in points of a percent."""
MARGIN = 2.0
"""Points within which all of an interval must be for "no difference"."""
N_DRAWS = 100_000
"""Samples of the bootstrap: with few, chance decides about p-values near 0.05 after Holm's correction."""


class Difference(NamedTuple):
    """A mean difference with its 95 % interval, the p-value of no difference, and what n counts.

    Interval and p are NaN where there are too few pairs.
    """

    value: float
    low: float
    high: float
    p: float
    n: int = 0

    def __str__(self) -> str:
        """As tables print it; the ends keep their signs, which say whether 0 is between them.

        >>> str(Difference(1.25, 0.5, 2.0, 0.01)), str(Difference(1.25, np.nan, np.nan, np.nan))
        ('+1.2 (+0.5 to +2.0)', '+1.2')
        """
        return self.written(1)

    def __neg__(self) -> Difference:
        """The other way round."""
        return Difference(-self.value, -self.high, -self.low, self.p, self.n)

    def written(self, digits: int) -> str:
        """With so many decimals."""
        value = f"{round(self.value, digits) + 0.0:+.{digits}f}"  # no negative zero
        return value if np.isnan(self.low) else f"{value} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"

    @property
    def sign(self) -> Literal[-1, 0, 1]:
        """1 or -1 if the interval excludes 0 and p, corrected or not, is below 0.05; else 0, not significant."""
        if np.isnan(self.low) or self.low <= 0 <= self.high or self.p >= 1 - CONFIDENCE:
            return 0
        return 1 if self.value > 0 else -1

    @property
    def starred(self) -> str:
        """As tables print it, with a star if it is significant."""
        return f"{self}" + (" \\*" if self.sign else "")


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


def paired_difference(*crowds: Pair, scale: float = POINTS) -> Difference:
    r"""The mean over crowds of the mean difference of paired figures; of one crowd, the paired t-test.

    .. math:: \bar d = \tfrac1K \sum_k \bar d_k, \qquad v_k = s_k^2 / (K^2 n_k)

    with Welch and Satterthwaite's degrees of freedom. The interval is about these crowds and other seeds.
    """
    gaps = [scale * (np.asarray(ours, float) - np.asarray(theirs, float)) for ours, theirs in crowds]
    value, n = float(np.mean([gap.mean() for gap in gaps])), sum(map(len, gaps))
    parts = [(gap.var(ddof=1) / len(gap) / len(gaps) ** 2, len(gap) - 1) for gap in gaps if len(gap) > 1]
    return _by_student(value, parts if len(parts) == len(gaps) else [], n)


def above_published(ours: Pair, papers: tuple[Published, Published]) -> Difference:
    """How far a mean difference over seeds, in points, is above a published one, which has an error over runs as well.

    The degrees of freedom are Welch and Satterthwaite's, but never more than those of the seeds: a further error must
    not make a difference surer. Published figures count as independent: nobody says which runs belong together.
    """
    gap = POINTS * (np.asarray(ours[0], float) - np.asarray(ours[1], float))
    value = float(gap.mean()) - (papers[0].mean - papers[1].mean)
    parts = [(gap.var(ddof=1) / len(gap), len(gap) - 1)] if len(gap) > 1 else []
    parts += [(each.deviation**2 / each.runs, each.runs - 1) for each in papers if parts]
    return _by_student(value, parts, len(gap), most=len(gap) - 1)


def _by_student(value: float, parts: Sequence[tuple[float, int]], n: int, most: float = np.inf) -> Difference:
    """A sum of independent means, with the variance and the degrees of freedom of each (Welch and Satterthwaite)."""
    if not parts:
        return Difference(value, np.nan, np.nan, np.nan, n)
    variances, freedoms = np.array(parts, float).T
    error = float(np.sqrt(variances.sum()))
    if error == 0:
        return Difference(value, value, value, float(value == 0), n)
    freedom = min(variances.sum() ** 2 / (variances**2 / freedoms).sum(), most)
    low, high = stats.t.interval(CONFIDENCE, freedom, loc=value, scale=error)
    return Difference(value, float(low), float(high), float(2 * stats.t.sf(abs(value) / error, freedom)), n)


def bootstrap_difference(ours: npt.ArrayLike, theirs: npt.ArrayLike, *, seed: int = 0) -> Difference:
    """The difference of two accuracies on the same instances, in points, by resampling the instances.

    The interval is about these fits, (S, N) and (T, N) whether each is right, and other test instances, which seeds say
    nothing about. Few values occur: drawing how often each does is far faster than :func:`scipy.stats.bootstrap`.
    """
    gaps = POINTS * (np.atleast_2d(ours).astype(float).mean(0) - np.atleast_2d(theirs).astype(float).mean(0))
    values, counted = np.unique(gaps.round(9), return_counts=True)
    n = len(gaps)
    means = np.random.default_rng(seed).multinomial(n, counted / n, size=N_DRAWS) @ values / n
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    rarer = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return Difference(float(gaps.mean()), float(low), float(high), min(2 * (rarer + 1) / (N_DRAWS + 1), 1.0), n)


def holm(family: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """Differences with p-values after Holm's correction for all of them; NaN stays NaN and does not count."""
    p = np.array([each.p for each in family.values()], float)
    known = np.isfinite(p)
    if known.any():
        p[known] = multipletests(p[known], method="holm")[1]
    return {key: each._replace(p=float(q)) for (key, each), q in zip(family.items(), p, strict=True)}


def judge(gaps: Sequence[Difference], *, above_paper: Sequence[Difference] = (), margin: float = MARGIN) -> Verdict:
    """What differences say about the claim that all of them are above 0.

    "holds": every interval is above 0, which needs no correction, since all must speak for the claim. "fails": one is
    significantly below 0; or it includes 0 and is significantly smaller than the paper's. "no difference beyond N
    points": all intervals are within this margin. Everything else is "inconclusive". p-values of ``gaps`` are corrected
    for their family, and those of ``above_paper``, how far the first gaps are above the paper's, for theirs.

    >>> judge([Difference(2.0, 1.0, 3.0, 0.09)]), judge([Difference(-2.0, -3.0, -1.0, 0.001)])
    ('holds', 'fails')
    >>> judge([Difference(0.1, -1.0, 1.2, 0.8)]), judge([Difference(0.1, -3.0, 3.2, 0.8)])
    ('no difference beyond 2 points', 'inconclusive')
    """
    if gaps and all(gap.low > 0 for gap in gaps):
        return "holds"
    less = any(gap.low <= 0 and more.sign < 0 for gap, more in zip(gaps, above_paper, strict=False))
    if less or any(gap.sign < 0 for gap in gaps):
        return "fails"
    if gaps and all(-margin < gap.low and gap.high < margin for gap in gaps):
        return f"no difference beyond {margin:g} points"
    return "inconclusive"


def within(gaps: Iterable[Difference], margin: float) -> Verdict:
    """What differences say about the claim that all of them are within a margin.

    >>> within([Difference(1.0, 0.5, 1.5, 0.01)], 2.0), within([Difference(4.0, 3.5, 4.5, 0.01)], 2.0)
    ('holds', 'fails')
    """
    gaps = list(gaps)
    if any(gap.low > margin or gap.high < -margin for gap in gaps):
        return "fails"
    return "holds" if gaps and all(-margin < gap.low and gap.high < margin for gap in gaps) else "inconclusive"


def coverage(held: int, n: int) -> tuple[float, float, float]:
    """The share of intervals that hold the truth, with its exact 95 % interval (Clopper and Pearson)."""
    found = stats.binomtest(held, n).proportion_ci(CONFIDENCE)
    return held / n, float(found.low), float(found.high)


def counts(gaps: Iterable[Difference]) -> str:
    """How many differences are significantly above and below 0.

    >>> counts([Difference(2.0, 1.0, 3.0, 0.001), Difference(0.1, -1.0, 1.2, 0.8)])
    'above in 1 of 2, below in 0'
    """
    signs = [gap.sign for gap in gaps]
    return f"above in {signs.count(1)} of {len(signs)}, below in {signs.count(-1)}"
