"""Rates of all tasks from a few true labels: what the model expects, corrected where the truth is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from conal.errors import InputError
from conal.parameters import share

__all__ = ["Difference", "Learned", "Rate", "Sample", "difference_of", "gold_rate", "learn", "rate_of"]

FloatArray = npt.NDArray[np.float64]

UNSEEN = 0.5
"""Misses of the predictions that a sample is taken to have just missed: few true labels show none of the rare ones."""


class Rate(NamedTuple):
    """A share with its interval.

    Attributes
    ----------
    value, low, high : float
        The estimate and its interval; NaN without true labels.
    n_gold : int
        True labels that it rests on.
    n_effective : float
        Random true labels that would give as narrow an interval without the predictions.
    """

    value: float
    low: float
    high: float
    n_gold: int
    n_effective: float

    @classmethod
    def unknown(cls) -> Rate:
        """No value, because there are no true labels."""
        return cls(np.nan, np.nan, np.nan, 0, 0.0)


class Difference(NamedTuple):
    """A share minus another one of the same tasks, with its interval; NaN where it is unknown.

    Attributes
    ----------
    value, low, high : float
    share : float
        The first share.
    """

    value: float
    low: float
    high: float
    share: float

    @classmethod
    def unknown(cls) -> Difference:
        """No value, because there are too few true labels."""
        return cls(np.nan, np.nan, np.nan, np.nan)


def gold_rate(
    predicted: npt.ArrayLike,
    rows: npt.ArrayLike,
    observed: npt.ArrayLike,
    *,
    inclusion: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Rate:
    r"""The mean of something over N tasks, which is predicted for all and known for a few.

    The mean of the predictions :math:`f_i` is wrong where the model is. True labels of a sample S say by how much:

    .. math::
        \hat\theta = \lambda \bar f + \frac{\sum_{i \in S} w_i (y_i - \lambda f_i)}{\sum_{i \in S} w_i}, \qquad
        w_i = 1 / \pi_i, \qquad
        \hat v = \frac{\sum_{i \in S} (1 - \pi_i) w_i^2 (e_i - \bar e)^2}{(\sum_{i \in S} w_i)^2}

    with :math:`\pi_i` the probability with which task i was drawn, :math:`e_i = y_i - \lambda f_i`, and the
    :math:`\lambda` between 0 and 1 with the smallest variance, so that useless predictions count for nothing. The
    factor :math:`1 - \pi_i` is there because the tasks are a finite set: if all are known, so is the mean.

    The interval is Wilson's for a sample of :math:`\hat\theta (1 - \hat\theta) / \hat v` tasks. That of the normal
    distribution fails for shares near 0 or 1: after 50 right labels of 50 it would claim certainty.

    Parameters
    ----------
    predicted : (N,) array
        :math:`f_i`, between 0 and 1, by a model that does not know the task's true label.
    rows : (n,) array of int
        Tasks of the sample S.
    observed : (n,) array
        :math:`y_i` of these tasks, between 0 and 1.
    inclusion : (n,) array, optional
        :math:`\pi_i` of these tasks; by default n / N, a random sample.
    confidence : float
        Level of the interval.

    References
    ----------
    Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023). Prediction-powered inference. Science 382.
    Angelopoulos, Duchi and Zrnic (2023). PPI++: efficient prediction-powered inference (for lambda).
    Särndal, Swensson and Wretman (1992). Model assisted survey sampling. Springer (the difference estimator).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(1000) < 0.3
    >>> predicted = np.where(truth, 0.9, 0.2)
    >>> sample = rng.choice(1000, size=50, replace=False)
    >>> found = gold_rate(predicted, sample, truth[sample])
    >>> print(f"{truth.mean():.3f} is in [{found.low:.3f}, {found.high:.3f}], as by {found.n_effective:.0f} labels")
    0.277 is in [0.210, 0.303], as by 350 labels
    """
    f, at, y, pi = _checked(predicted, rows, observed, inclusion)
    share().check("confidence", confidence)
    if not len(at):
        return Rate.unknown()
    sample = Sample(f[at], y, pi)
    return rate_of(float(f.mean()), sample, learn(sample), confidence)


class Sample(NamedTuple):
    """What is predicted and known of the sample's tasks, and the probability with which each was drawn."""

    f: FloatArray
    y: FloatArray
    pi: FloatArray

    @property
    def w(self) -> FloatArray:
        return 1 / self.pi

    @property
    def size(self) -> float:
        """Equally weighted tasks that it is worth, by Kish."""
        return float(self.w.sum() ** 2 / (self.w @ self.w))

    @property
    def unknown(self) -> float:
        """Of a finite set, the part that was not drawn."""
        return max(float(self.w**2 @ (1 - self.pi) / (self.w @ self.w)), 1e-9)


class Learned(NamedTuple):
    """How much predictions count, and how far the result varies.

    Attributes
    ----------
    weight : float
        lambda, by which predictions count.
    alone, left : float
        Variance of a task's y, and of what the predictions leave of it.
    size : float
        Tasks that say so.
    """

    weight: float
    alone: float
    left: float
    size: float


def learn(sample: Sample) -> Learned:
    """The weight of the predictions in a sample, and what they explain there."""
    weight = _tuned_weight(sample)
    alone, left = (_variance(sample.y - each * sample.f, sample.w) for each in (0.0, weight))
    if weight > 0:  # it was tuned on the same tasks
        left *= len(sample.y) / max(len(sample.y) - 2, 1)
    return Learned(weight, alone, min(left, alone), sample.size)


def rate_of(mean: float, sample: Sample, learned: Learned, confidence: float) -> Rate:
    """The rate by a sample, for tasks whose predictions have this mean."""
    w = sample.w
    error = float((sample.y - learned.weight * sample.f) @ w / w.sum())
    value = float(np.clip(learned.weight * mean + error, 0, 1))
    n = sample.size * _gain(sample, learned) / sample.unknown
    z = float(stdtrit(max(learned.size - 1, 1), 0.5 + confidence / 2))
    low, high = _wilson(value, n, z)
    return Rate(value, low, high, len(sample.y), n)


def difference_of(
    first: tuple[float, Sample, Learned], second: tuple[float, Sample, Learned], confidence: float
) -> Difference:
    r"""A rate minus another one of the same tasks, each as :func:`rate_of` estimates it.

    The interval is that of the paired differences of what predictions leave, :math:`e_i - e_i'`, by Student's
    distribution. A task of either kind, +1 and -1, is added to their variance (Bonett and Price 2012): a few equal
    differences would claim certainty.
    """
    one, other = (rate_of(*each, confidence).value for each in (first, second))
    sample = first[1]
    left = [each.y - learned.weight * each.f for _, each, learned in (first, second)]
    variance = (sample.size * _variance(left[0] - left[1], sample.w) + 2) / (sample.size + 2)
    quantile = float(stdtrit(max(sample.size - 1, 1), 0.5 + confidence / 2))
    half = quantile * np.sqrt(variance * sample.unknown / sample.size)
    return Difference(one - other, float(max(one - other - half, -1)), float(min(one - other + half, 1)), one)


def _tuned_weight(sample: Sample) -> float:
    """lambda: the regression of y on f, with each task's weight in the variance."""
    v = sample.w**2 * (1 - sample.pi)
    if v.sum() <= 0:
        return 0.0
    centred = sample.f - v @ sample.f / v.sum()
    spread = float(v @ centred**2)
    return float(np.clip((v * centred) @ sample.y / spread, 0, 1)) if spread > 0 else 0.0


def _gain(sample: Sample, learned: Learned) -> float:
    """How many times as many true labels of yes or no would be needed without the predictions."""
    if learned.alone <= 0:
        return 1.0
    unseen = UNSEEN * (1 - learned.left / learned.alone) / sample.size
    gain = max(learned.alone / (learned.left + unseen), 1.0)
    if np.isin(sample.y, (0, 1)).all():
        return gain
    mean = float(np.clip(sample.y @ sample.w / sample.w.sum(), 0, 1))
    return gain * max(mean * (1 - mean) / learned.alone, 0.1)  # sums of labels vary less, or more, than yes and no


def _variance(e: FloatArray, w: FloatArray) -> float:
    """Variance of a task's value, weighted as in the variance of a weighted mean."""
    return float(w**2 @ (e - e @ w / w.sum()) ** 2 / (w @ w))


def _wilson(value: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share in n draws."""
    centre = (value + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(value * (1 - value) / n + (z / (2 * n)) ** 2)
    return float(min(max(centre - half, 0.0), value)), float(max(min(centre + half, 1.0), value))


def _checked(
    predicted: npt.ArrayLike, rows: npt.ArrayLike, observed: npt.ArrayLike, inclusion: npt.ArrayLike | None
) -> tuple[FloatArray, npt.NDArray[np.int64], FloatArray, FloatArray]:
    f, at, y = np.asarray(predicted, float), np.asarray(rows, np.int64), np.asarray(observed, float)
    if f.ndim != 1 or at.ndim != 1 or at.shape != y.shape:
        raise InputError("predicted must have a value per task, and rows and observed one per known task")
    for name, values in (("predicted", f), ("observed", y)):
        if not np.all((values >= 0) & (values <= 1)):
            raise InputError(f"{name} must be shares between 0 and 1")
    if len(at) and (at.min() < 0 or at.max() >= len(f) or len(np.unique(at)) < len(at)):
        raise InputError(f"rows must be different tasks between 0 and {len(f) - 1}")
    pi = np.full(len(at), len(at) / max(len(f), 1)) if inclusion is None else np.asarray(inclusion, float)
    if pi.shape != at.shape or not np.all((pi > 0) & (pi <= 1)):
        raise InputError("inclusion must be a probability above 0 for every known task")
    return f, at, y, pi
