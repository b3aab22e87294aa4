"""Measure labels by true labels: accuracy of the inferred ones, of the vote and of every judge, class shares, drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from conal._arrays import FloatArray, IntArray
from conal.data.annotations import Annotations
from conal.data.true_labels import labels_by_task
from conal.errors import InputError
from conal.metrics.agreement import cohen_kappa
from conal.metrics.rates import MIN_GOLD, MIN_OF_ANNOTATOR, Difference, Rate, gold_rates, wilson_interval
from conal.parameters import share

FORMAT, FORMAT_VERSION = "conal-measure", 1
CONFIDENCE = 0.95
"""Level of the intervals of reports."""
DRIFT_LEVEL = 0.05
"""Probability that anything is called drift where nothing has changed, at most (Holm)."""

Plain = dict[str, Any]


@dataclass(frozen=True)
class Measurement:
    """What true labels say about labels.

    Attributes
    ----------
    n_tasks, n_true_labels : int
        Labelled tasks, and how many of them have a true label.
    design : str
        "random", or "planned" if the true labels came with the probabilities by which their tasks were drawn.
    confidence : float
        Level of all intervals.
    believed : float
        The share of right labels that the model claims.
    inferred, vote : dict
        Measured accuracy of the inferred labels and of the majority vote: ``value``, ``low``, ``high``, ``n_gold``,
        ``n_effective``, and by random true labels ``kappa``; with two classes also ``sensitivity`` and
        ``specificity``. Inferred labels are judged by fits that did not see the task's true label.
    judges : list of dict
        The same of every annotator with ten true labels or more, ``worker`` by name, the best first; ``above`` is the
        accuracy of the inferred labels minus the annotator's on the same tasks, with its interval.
    above_vote : dict
        Accuracy of the inferred labels minus the vote's. This interval and those of ``above`` hold together.
    shares : list of dict
        The share of every class, ``class`` by name, with its interval.
    positive : str or None
        With two classes, the one whose sensitivity is given.
    """

    n_tasks: int
    n_true_labels: int
    design: str
    confidence: float
    believed: float
    inferred: Plain
    vote: Plain
    judges: list[Plain]
    above_vote: Plain
    shares: list[Plain]
    positive: Any = None

    def to_dict(self) -> Plain:
        """Everything as plain values, for JSON."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION} | vars(self)

    @property
    def best_judge(self) -> Plain | None:
        """The annotator who comes closest to the inferred labels, or is farthest above them."""
        return min(self.judges, key=lambda row: row["above"]["value"], default=None)


def measure(fitted: Any, *, positive: Any = None, confidence: float = CONFIDENCE) -> Measurement:
    """Measure the labels of a fitted object by the true labels that it was given.

    Parameters
    ----------
    fitted : Aggregator or CrowdClassifier
        Fitted with ``true_labels`` of ten labelled tasks or more.
    positive : optional
        With two classes, the one that sensitivity is about; the second by default.
    confidence : float
        Level of the intervals.

    Examples
    --------
    >>> import conal
    >>> data = conal.datasets.synthetic(n_train=300, n_classes=2, seed=0)
    >>> gold = dict(enumerate(data.classes[data.y_true[:50]]))
    >>> found = measure(conal.aggregation.GoldPool().fit(data.annotations, true_labels=gold))
    >>> found.n_true_labels, found.inferred["low"] < found.inferred["value"] < found.inferred["high"]
    (50, True)
    """
    share().check("confidence", confidence)
    evidence = fitted.results_.evidence
    crowd: Annotations = evidence.annotations
    tasks = np.flatnonzero(evidence.judged)
    if len(tasks) < MIN_GOLD:
        raise InputError(
            f"only {len(tasks)} tasks with labels have a true label; {MIN_GOLD} are needed to measure anything "
            "(fifty random ones measure well)"
        )
    q = evidence.unseen_posterior
    if q is None:
        raise InputError("the fit is too large to be repeated without each part of the true labels; measure a sample")
    truth = evidence.known
    rates = evidence.measured
    if confidence != CONFIDENCE:
        named = labels_by_task(crowd, np.where(evidence.judged, truth, -1))
        rates = gold_rates(crowd, q, named, inclusion=evidence.inclusion, confidence=confidence)
    detail = _Detail(crowd, truth, tasks, _code_of(crowd, positive), confidence, evidence.inclusion is None)
    labelled = crowd.labels_per_task() > 0
    return Measurement(
        n_tasks=int(labelled.sum()),
        n_true_labels=len(tasks),
        design="random" if evidence.inclusion is None else "planned",
        confidence=confidence,
        believed=float(q[labelled].max(1).mean()),
        inferred=rates.cleaned._asdict() | detail.of(q.argmax(1)),
        vote=rates.majority._asdict() | detail.of(_winners(crowd)),
        judges=_judges(crowd, rates.annotators, rates.above_annotators, detail),
        above_vote=rates.above_majority._asdict(),
        shares=[
            {"class": name, **rate._asdict()} for name, rate in zip(crowd.classes.tolist(), rates.classes, strict=True)
        ],
        positive=crowd.classes.tolist()[detail.positive] if crowd.n_classes == 2 else None,
    )


def drift(now: Measurement, before: Mapping[str, Any], *, level: float = DRIFT_LEVEL) -> list[Plain]:
    """What differs from an earlier measurement, as :meth:`Measurement.to_dict` gives it: all figures, and a test each.

    Every figure that both have is compared by a test of two proportions. A figure is worth ``n_effective`` tasks of its
    own N tasks, and these are a sample themselves: :math:`1 / (1 / n + 1 / N)`. ``drifted`` says which differ; the
    probability that any does where nothing has changed is at most ``level`` (Holm). Where true labels are of the same
    tasks, it is smaller.

    Returns
    -------
    list of dict
        ``figure`` ("inferred labels", "majority vote", or the class or judge by name), ``kind``, ``value``,
        ``before``, ``p``, ``drifted``; the least probable first.
    """
    if before.get("format") != FORMAT:
        raise InputError("the baseline is not a measurement; pass a file that conal measure wrote")
    if before.get("format_version") != FORMAT_VERSION:
        raise InputError("the baseline was written by a newer version of conal; upgrade conal")
    try:
        known = _figures(before)
    except (ArithmeticError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the baseline is damaged ({error!r}); measure again") from error
    rows = [
        {"kind": key[0], "figure": key[1], "value": figure[0], "before": known[key][0]}
        | {"p": _two_proportions(*figure, *known[key])}
        for key, figure in _figures(now.to_dict()).items()
        if key in known
    ]
    rows.sort(key=lambda row: row["p"])
    passed = True
    for rank, row in enumerate(rows):
        passed = passed and row["p"] <= level / (len(rows) - rank)
        row["drifted"] = passed
    return rows


def _figures(measured: Mapping[str, Any]) -> dict[tuple[str, Any], tuple[float, float]]:
    """Every figure, and how many tasks of all that there could be it is worth."""
    rows = {("accuracy", "inferred labels"): measured["inferred"], ("accuracy", "majority vote"): measured["vote"]}
    rows |= {("judge", row["worker"]): row for row in measured["judges"]}
    rows |= {("share", row["class"]): row for row in measured["shares"]}
    n_tasks = float(measured["n_tasks"])
    return {key: (float(row["value"]), 1 / (1 / float(row["n_effective"]) + 1 / n_tasks)) for key, row in rows.items()}


def _two_proportions(first: float, n_first: float, second: float, n_second: float) -> float:
    """The p-value of a difference: by pooled shares, with a task of either kind added to them."""
    sizes = n_first + n_second
    pooled = (first * n_first + second * n_second + 1) / (sizes + 2)
    error = np.sqrt(pooled * (1 - pooled) * (1 / n_first + 1 / n_second))
    return float(2 * ndtr(-abs(first - second) / error))


@dataclass(frozen=True)
class _Detail:
    """What random true labels alone say about labels: kappa, sensitivity and specificity."""

    crowd: Annotations
    truth: IntArray
    tasks: IntArray
    positive: int
    confidence: float
    random: bool

    def of(self, labels: npt.NDArray[Any]) -> Plain:
        """Of labels (N,), -1 where there is none."""
        tasks = self.tasks[labels[self.tasks] >= 0]
        if not self.random or not len(tasks):  # planned tasks are not like all
            return {}
        said, truth = labels[tasks], self.truth[tasks]
        kappa = cohen_kappa(
            Annotations.from_triples(
                np.tile(tasks, 2), np.repeat([0, 1], len(tasks)), np.concatenate([truth, said]),
                classes=list(range(self.crowd.n_classes)),
            ),
            confidence=self.confidence,
        )  # fmt: skip
        found: Plain = {"kappa": kappa._asdict()}
        if self.crowd.n_classes == 2:
            is_positive = truth == self.positive
            found["sensitivity"] = self._share((said == truth)[is_positive])
            found["specificity"] = self._share((said == truth)[~is_positive])
        return found

    def _share(self, right: npt.NDArray[np.bool_]) -> Plain | None:
        """With Wilson's interval; None without a task."""
        if not len(right):
            return None
        z = float(ndtri(0.5 + self.confidence / 2))
        low, high = wilson_interval(right.mean(), len(right), z)
        return {"value": float(right.mean()), "low": float(low), "high": float(high), "n_gold": len(right)}


def _judges(crowd: Annotations, rates: list[Rate], above: list[Difference], detail: _Detail) -> list[Plain]:
    rows, names = [], crowd.annotator_ids.tolist()
    for r, (rate, difference) in enumerate(zip(rates, above, strict=True)):
        if rate.n_gold >= MIN_OF_ANNOTATOR:
            own = np.full(crowd.n_tasks, -1)
            mine = crowd.annotators == r
            own[crowd.tasks[mine]] = crowd.labels[mine]
            row = {"worker": names[r], **rate._asdict(), "above": difference._asdict()}
            rows.append(row | detail.of(own))
    return sorted(rows, key=lambda row: row["above"]["value"])


def _winners(crowd: Annotations) -> IntArray:
    """(N,) the class with the most votes; -1 without votes and at a tie."""
    votes: FloatArray = np.sort(crowd.votes(), axis=1)
    clear = votes[:, -1] > (votes[:, -2] if crowd.n_classes > 1 else 0)
    return np.where(clear, crowd.votes().argmax(1), -1)


def _code_of(crowd: Annotations, positive: Any) -> int:
    """The class that sensitivity is about."""
    if positive is None:
        return crowd.n_classes - 1
    names = [str(name) for name in crowd.classes.tolist()]
    if str(positive) not in names or len(names) != 2:
        raise InputError(f"positive={positive!r}: must be one of two classes; the classes are {', '.join(names)}")
    return names.index(str(positive))
