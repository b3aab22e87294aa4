"""Rates of a crowd from a few true labels: the size of every class, and how many labels are right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, stdtrit

from conal._arrays import BoolArray, FloatArray, IntArray, grouped_sums
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.data.true_labels import known_codes
from conal.errors import DataWarning, InputError, warn
from conal.metrics.classification import task_posterior
from conal.parameters import share

# Rates of all tasks from a few true labels: what the model expects, corrected where the truth is known.


CHANCE = 1e-5
"""How improbable a random sample of tasks must be for a warning."""
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

    def at_most(self, limit: float) -> Difference:
        """The same, where it is known that neither share can be larger than the other by more than ``limit``."""
        value, low, high = np.clip(self[:3], -limit, limit).tolist()
        return self._replace(value=value, low=low, high=high)


UNKNOWN_RATE = Rate(np.nan, np.nan, np.nan, 0, 0.0)
UNKNOWN_DIFFERENCE = Difference(np.nan, np.nan, np.nan, np.nan)
"""No value, because there are too few true labels."""


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
        return UNKNOWN_RATE
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
    low, high = (float(end) for end in wilson_interval(value, n, z))
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


def paired_difference(
    first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_], n_tasks: int, confidence: float = 0.95
) -> Difference:
    """A share minus another one, of all ``n_tasks`` tasks, by random tasks (n,) that were looked at.

    >>> right = np.arange(50) < 40
    >>> found = paired_difference(right, right, 1000)
    >>> print(f"{found.value} ({found.low:.3f} to {found.high:.3f})")
    0.0 (-0.054 to 0.054)
    """
    pi, nothing = np.full(len(first), len(first) / n_tasks), np.zeros(len(first))
    samples = [Sample(nothing, right.astype(float), pi) for right in (first, second)]
    one, other = ((0.0, sample, learn(sample)) for sample in samples)
    return difference_of(one, other, confidence)


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


def wilson_interval(value: npt.ArrayLike, n: npt.ArrayLike, z: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of shares in n draws, which need not be a whole number; z is the quantile."""
    value, n = np.asarray(value, float), np.asarray(n, float)
    centre = (value + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(value * (1 - value) / n + (z / (2 * n)) ** 2)
    return np.minimum(np.maximum(centre - half, 0.0), value), np.maximum(np.minimum(centre + half, 1.0), value)


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
    if pi.shape != at.shape:
        raise InputError("inclusion must be a probability above 0 for every known task")
    _check_inclusion(pi)
    return f, at, y, pi


def _check_inclusion(pi: FloatArray) -> None:
    if not np.all((pi > 0) & (pi <= 1)):
        raise InputError("inclusion must be a probability above 0 for every known task")


# Rates of a crowd from a few true labels: the size of every class, and how many labels are right.


MIN_GOLD = 10
"""From so many labelled tasks with a known true label on, shares of right labels are measured."""
MIN_OF_ANNOTATOR = 10
"""An annotator is compared with the cleaned labels from so many labels on tasks with a true label on."""


class GoldRates(NamedTuple):
    """Rates of a crowd, each for the tasks that have labels.

    Attributes
    ----------
    classes : list of Rate
        Share of every class.
    cleaned : Rate
        Share of the cleaned labels that are right.
    crowd : Rate
        Share of the crowd's labels that are right.
    annotators : list of Rate
        Share of every annotator's labels that are right.
    majority : Rate
        Share of the majority votes that are right; ties are drawn.
    above_majority : Difference
        Cleaned labels minus majority votes.
    above_annotators : list of Difference
        Cleaned labels minus each annotator's labels of the same tasks, for annotators with ten true labels or more.
        These intervals and that of ``above_majority`` hold together, so that the best annotator may be picked by them.
    """

    classes: list[Rate]
    cleaned: Rate
    crowd: Rate
    annotators: list[Rate]
    majority: Rate
    above_majority: Difference
    above_annotators: list[Difference]


def gold_rates(
    data: Any,
    posterior: npt.ArrayLike | None,
    true_labels: Any,
    *,
    cleaned: npt.ArrayLike | None = None,
    inclusion: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> GoldRates:
    """How large every class is, and how many labels are right: of a crowd, of its cleaned labels, of each annotator.

    Every rate is that of :func:`gold_rate`, about the tasks that have labels. How far predictions can be trusted about
    single annotators is learned from the labels of all: few true labels fall on one person's tasks.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    posterior : (n_tasks, n_classes) array or None
        Class probabilities of all tasks, by a model that does not know the true labels. Without one, only classes,
        annotators and majority votes have rates, by the true labels alone.
    true_labels : dict, Series or DataFrame
        True labels of some tasks.
    cleaned : (n_tasks,) array of int, optional
        Classes of the cleaned labels, as columns of ``posterior``; by default the most probable ones.
    inclusion : (n_tasks,) array, optional
        Probability with which each task was drawn for a true label; by default the tasks are a random sample.

    Examples
    --------
    >>> import conal
    >>> data = conal.datasets.synthetic(n_train=400, n_classes=3, seed=0)
    >>> found = conal.aggregation.DawidSkene().fit(data.annotations)
    >>> gold = dict(enumerate(data.classes[data.y_true[:60]]))
    >>> rates = conal.metrics.gold_rates(data.annotations, found.probas_, gold)
    >>> right = (found.codes_ == data.y_true).mean()
    >>> rates.cleaned.n_gold, bool(rates.cleaned.low <= right <= rates.cleaned.high)
    (60, True)
    """
    crowd = Annotations.of(data)
    q = np.full((crowd.n_tasks, crowd.n_classes), 1 / crowd.n_classes)
    if posterior is not None:
        q = task_posterior(posterior, crowd)
    truth = known_codes(crowd, true_labels)
    best = q.argmax(1) if cleaned is None else np.asarray(cleaned)
    tasks = np.flatnonzero(crowd.labels_per_task() > 0)
    known = _Known(truth, None if inclusion is None else np.asarray(inclusion, float))
    if known.inclusion is not None:
        _check_inclusion(known.inclusion[tasks[truth[tasks] != MISSING]])
    else:
        warn_of_selection(crowd, truth != MISSING)
    votes, everything = _votes(crowd), np.arange(crowd.n_tasks)
    of_cleaned = _Guesses(q[everything, best], best == truth, everything).at(tasks)
    of_votes = _Guesses((votes * q).sum(1), votes[everything, truth], everything).at(tasks)
    of_labels = _Guesses(q[crowd.tasks, crowd.labels], crowd.labels == truth[crowd.tasks], crowd.tasks)
    own = np.split(np.argsort(crowd.annotators, kind="stable"), np.cumsum(crowd.labels_per_annotator())[:-1])
    of_each = [of_labels.at(labels) for labels in own]
    # how far predictions of single labels can be trusted, by those of all annotators
    trust = learn(known.sample(of_labels)) if known.number(of_labels) else None
    above, above_each = UNKNOWN_DIFFERENCE, [UNKNOWN_DIFFERENCE] * len(own)
    if posterior is not None and trust is not None:
        compared = [r for r, each in enumerate(of_each) if known.number(each) >= MIN_OF_ANNOTATOR]
        level = 1 - (1 - confidence) / (1 + len(compared))  # all intervals hold together (Bonferroni)
        cleaned_trust = learn(known.sample(of_cleaned))
        above = known.difference(of_cleaned, of_votes, cleaned_trust, learn(known.sample(of_votes)), level)
        place = np.cumsum(crowd.labels_per_task() > 0) - 1
        for r in compared:
            same = of_cleaned.at(place[of_each[r].tasks])
            above_each[r] = known.difference(same, of_each[r], cleaned_trust, trust, level)
    return GoldRates(
        [known.rate(_Guesses(q[:, c], truth == c, everything).at(tasks), confidence) for c in range(crowd.n_classes)],
        UNKNOWN_RATE if posterior is None else known.rate(of_cleaned, confidence),
        known.rate(_by_task(crowd, of_labels, tasks), confidence),
        [known.rate(each, confidence, trust) for each in of_each],
        known.rate(of_votes, confidence),
        above,
        above_each,
    )


def warn_of_selection(crowd: Annotations, judged: BoolArray) -> None:
    """Warn where the tasks with a true label (N,) are not like random ones: other classes win their votes.

    >>> crowd = Annotations.from_matrix(np.repeat([[0, 0], [1, 1]], 60, axis=0))
    >>> warn_of_selection(crowd, np.arange(120) % 3 == 0)
    """
    labelled = crowd.labels_per_task() > 0
    winners, drawn = crowd.votes().argmax(1)[labelled], judged[labelled]
    found = np.array([np.bincount(winners[drawn == side], minlength=crowd.n_classes) for side in (True, False)])
    expected = np.outer(found.sum(1), found.sum(0)) / max(found.sum(), 1)
    usual = expected[0] >= 1
    table, even = ([*each[:, usual].T, each[:, ~usual].sum(1)] for each in (found, expected))
    statistic = sum(((one - two) ** 2 / np.maximum(two, 1e-9)).sum() for one, two in zip(table, even, strict=True))
    if chdtrc(max(int(usual.sum()) - int(usual.all()), 1), statistic) < CHANCE:
        shares = found / np.maximum(found.sum(1, keepdims=True), 1)
        most = int(np.argmax(shares[0] - shares[1]))
        warn(
            f"the tasks with a true label do not look random: {crowd.classes[most]!s} wins the vote on "
            f"{shares[0, most]:.0%} of them, and on {shares[1, most]:.0%} of the others; measured shares hold for "
            "random tasks, or for those of conal plan with their inclusion_probability",
            DataWarning,
        )


class _Guesses(NamedTuple):
    """What is expected of tasks or labels, what is observed where the truth is known, and their tasks."""

    expected: FloatArray
    observed: npt.NDArray[Any]
    tasks: npt.NDArray[Any]

    def at(self, rows: IntArray) -> _Guesses:
        return _Guesses(*(column[rows] for column in self))


class _Known(NamedTuple):
    """(N,) true classes, -1 where they are not known, and the probability with which each task was drawn, if given."""

    truth: IntArray
    inclusion: FloatArray | None

    def number(self, guesses: _Guesses) -> int:
        return int((self.truth[guesses.tasks] != MISSING).sum())

    def sample(self, guesses: _Guesses) -> Sample:
        known = guesses.at(np.flatnonzero(self.truth[guesses.tasks] != MISSING))
        n = len(known.tasks)
        drawn = np.full(n, n / max(len(guesses.tasks), 1)) if self.inclusion is None else self.inclusion[known.tasks]
        return Sample(known.expected, known.observed.astype(float), drawn)

    def rate(self, guesses: _Guesses, confidence: float, trust: Learned | None = None) -> Rate:
        """The share that is right; unknown without a known one."""
        if not self.number(guesses):
            return UNKNOWN_RATE
        sample = self.sample(guesses)
        return rate_of(float(guesses.expected.mean()), sample, trust or learn(sample), confidence)

    def difference(
        self, first: _Guesses, second: _Guesses, trust: Learned, other_trust: Learned, level: float
    ) -> Difference:
        one, other = ((float(each.expected.mean()), self.sample(each)) for each in (first, second))
        return difference_of((*one, trust), (*other, other_trust), level)


def _votes(crowd: Annotations) -> FloatArray:
    """(N, C) probability with which each class wins the vote, if ties are drawn; 0 without votes."""
    votes = crowd.votes()
    won = (votes == votes.max(1, initial=0, keepdims=True)) & (votes > 0)
    return np.asarray(won / np.maximum(won.sum(1, keepdims=True), 1))


def _by_task(crowd: Annotations, labels: _Guesses, tasks: IntArray) -> _Guesses:
    """Labels summed per task, because tasks are drawn; one label of the mean task counts 1."""
    size = crowd.labels_per_task()[tasks].mean()
    expected, observed = (grouped_sums(crowd.tasks, each, crowd.n_tasks)[tasks] / size for each in labels[:2])
    return _Guesses(expected, observed, tasks)
