"""The evidence for the report: annotations, a model's predictions, and how much may be shown of single annotators."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import BoolArray, FloatArray, IntArray, grouped_sums
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import MISSING, Names, as_names
from conal.data.true_labels import labels_by_task
from conal.errors import ConalWarning
from conal.io.images import is_link
from conal.metrics.rates import MIN_GOLD, GoldRates, Rate, gold_rates
from conal.metrics.shared_mistakes import CoDirection, EffectiveNumber, co_direction, effective_number
from conal.metrics.suspicion import Detections, LeftOut, detect, left_out

Plain = dict[str, Any]
"""An object of ``report.json``; the finding that makes it says which keys it has."""
Report = dict[str, Any]
"""The content of ``report.json``: format, version, confidence, classes, and the sections by their names."""

# How much a report shows of single annotators whose names are hidden.

DIGITS = 2
"""Decimals of shares of such annotators."""


@dataclass(frozen=True)
class AnnotatorPrivacy:
    """Where names are hidden, annotators with few labels are left out, and figures about the others are rounded.

    Whoever knows all labels recognises an annotator with few of them by nearly any figure: by their number, by the
    share of each class, by the agreement with the inferred labels.

    Parameters
    ----------
    hide_below : int
        Annotators with fewer labels are left out. Counts of the others are rounded to multiples of it. With 0, names
        are not hidden, and nothing is left out or rounded.

    Examples
    --------
    >>> privacy = AnnotatorPrivacy(10)
    >>> privacy.visible(np.array([3, 10])).tolist(), privacy.counts(np.array([17, 143])).tolist()
    ([False, True], [20, 140])
    """

    hide_below: int = 0

    @property
    def hides_names(self) -> bool:
        """Whether anything is hidden."""
        return self.hide_below > 0

    def visible(self, labels: IntArray) -> BoolArray:
        """(R,) whom the report may show, by their numbers of labels."""
        return np.asarray(labels >= self.hide_below)

    def counts(self, numbers: npt.NDArray[Any]) -> IntArray:
        """Counts, rounded; no visible annotator has none."""
        step = max(self.hide_below, 1)
        return np.asarray((np.asarray(numbers) + step // 2) // step * step, dtype=np.int64)

    def shares(self, values: npt.ArrayLike, digits: int | None = None) -> FloatArray:
        """Shares in whole percents; where names are not hidden, with so many digits."""
        exact = np.asarray(values, dtype=np.float64)
        return np.round(exact, DIGITS) if self.hides_names else exact if digits is None else np.round(exact, digits)

    def table(self, table: pa.Table, labels: IntArray) -> pa.Table:
        """Rows of the visible annotators, floats rounded as shares."""
        if not self.hides_names:
            return table
        kept = table.filter(pa.array(self.visible(labels)))
        for k, name in enumerate(kept.column_names):
            if pa.types.is_floating(kept[name].type):
                values = [None if value is None else float(self.shares(value)) for value in kept[name].to_pylist()]
                kept = kept.set_column(k, name, pa.array(values, pa.float64()))
        return kept


# What rows about tasks have in common: how the report shows a task.

_EMBEDDED = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/]+=*")


def is_embedded(uri: str) -> bool:
    """Whether this is a picture as conal embeds it, and nothing that could be anything else."""
    return _EMBEDDED.fullmatch(uri) is not None


def safe_link(address: str | None) -> str | None:
    """The address, if it may become a link; a report may come from anybody.

    >>> safe_link("javascript:alert(1)") is None, safe_link("https://x.org/1")
    (True, 'https://x.org/1')
    """
    return address if address is not None and is_link(address) else None


# The evidence for findings: annotations, and a model's predictions for tasks and annotators.

Refit = Callable[[Annotations, bool], FloatArray]
"""From other annotations of the same tasks to their posterior (N, C), with or without the true labels."""

MAX_TASKS = 20_000
"""Of larger crowds, this many random tasks settle figures about the whole crowd."""
MIN_LABELS_PER_CLASS = 6.0
"""Most annotators must have given this many labels per class, or inferred labels cannot judge their mistakes."""
BELIEF, MEASURED = "belief", "measured"
"""What a share of right labels rests on: the model's posterior, or true labels."""
MIN_TRUE_LABELS = 30
"""From so many labelled tasks with a known true label on, shared mistakes are judged by true labels alone."""
MAX_TEXT = 300
"""Characters of a text that the report quotes."""


@dataclass(frozen=True, eq=False)
class Evidence:
    r"""A crowd's labels, and what a model learned from them.

    Parameters
    ----------
    annotations : Annotations
        The crowd labels.
    posterior : (N, C)
        ``posterior[i, c]`` = P(true class c | features and annotations) of task i.
    classifier : (N, C) or None
        ``classifier[i, c]`` = P(true class c | features alone); None where labels alone were aggregated.
    held_out : bool
        Whether the classifier was not trained on the tasks that it predicts here.
    common : (C, C)
        ``common[c, l]`` = P(observed l | true c), shared by all.
    individual : (R, C, C)
        ``individual[r, c, l]`` = P(observed l | true c) of annotator r.
    omega : (n_annotations,), optional
        P(an annotation comes from the common confusion), for methods that estimate it.
    common_of_annotators : (R, C, C), optional
        The common confusion of everybody's group, where groups have their own; ``common`` is then their mean.
    texts : mapping, optional
        The text of each task, by the task's plain name; the report quotes it.
    model : Plain, optional
        How the model was trained.
    aggregation : Plain, optional
        How labels alone were aggregated.
    labels : (N,), optional
        The class that was chosen for each task; the most probable one by default.
    known : (N,), optional
        True classes of the tasks, where the user supplied them as such, and -1 elsewhere.
    inclusion : (N,), optional
        Probability with which each of these tasks was drawn for a true label; a random sample by default.
    unseen : (N, C), optional
        As ``posterior``, but for tasks whose true label is known by a model that has not seen that label; or what
        computes it, when it is asked for.
    tempered : bool
        Whether labels that were left out, or true labels, have made ``posterior`` less sure than the model is: votes
        and classifier together, taken as independent, would then claim too much.
    privacy : AnnotatorPrivacy
        How much may be shown of single annotators; everything by default. Findings that list annotators obey it.
    common_meaning : str
        A sentence that says what ``common`` is, for readers of the report.
    groups : (R,), optional
        The group of each annotator, such as "human" or the family of a model; None where it is unknown.
    costs : (R,), optional
        Cost of a label of each annotator; equal by default.
    refit : callable, optional
        How the labels would have been inferred from other annotations of the same tasks, where that is quick.
    times : (n_annotations,), optional
        When each label was given, anything that sorts; by default those of the annotations, if they have any.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 0], [1, 0]])
    >>> sure = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> found = Evidence(crowd, sure, sure, np.eye(2), np.stack([np.eye(2)] * 2))
    >>> found.inferred.tolist(), found.majority.tolist(), found.expected_right.tolist()
    ([0, 1], [0, 1], [0.9, 0.9, 0.6, 0.4])
    """

    annotations: Annotations
    posterior: FloatArray
    classifier: FloatArray | None
    common: FloatArray
    individual: FloatArray
    omega: FloatArray | None = None
    texts: Mapping[Any, str] | None = None
    model: Plain | None = None
    privacy: AnnotatorPrivacy = field(default_factory=AnnotatorPrivacy)
    aggregation: Plain | None = None
    labels: IntArray | None = None
    known: IntArray | None = None
    inclusion: FloatArray | None = None
    unseen: FloatArray | Callable[[], FloatArray] | None = None
    common_meaning: str = ""
    common_of_annotators: FloatArray | None = None
    groups: Names | None = None
    costs: FloatArray | None = None
    refit: Refit | None = None
    tempered: bool = False
    held_out: bool = False
    times: npt.NDArray[Any] | None = None

    @cached_property
    def visible_annotators(self) -> BoolArray:
        """(R,) the annotators who may be listed."""
        return self.privacy.visible(self.annotations.labels_per_annotator())

    @cached_property
    def visible_names(self) -> set[Any]:
        """Their names."""
        return set(self.annotations.annotator_ids[self.visible_annotators].tolist())

    @cached_property
    def inferred(self) -> IntArray:
        """(N,) the class of each task: the most probable one, unless another of equal probability was chosen."""
        return np.asarray(self.posterior.argmax(1) if self.labels is None else self.labels)

    @cached_property
    def informed(self) -> BoolArray:
        """(N,) the tasks about which anything is known; labels alone say nothing about a task without a label."""
        if self.classifier is not None:
            return np.full(self.annotations.n_tasks, True)
        labelled = self.annotations.labels_per_task() > 0
        return np.asarray(labelled if self.known is None else labelled | (self.known >= 0))

    @cached_property
    def votes(self) -> IntArray:
        """(N, C) number of annotators who gave each label."""
        return self.annotations.votes()

    @cached_property
    def majority(self) -> IntArray:
        """(N,) the label with the most votes, or -1 where nobody voted.

        A tie is not a mistake of the crowd: the inferred label is taken, or else the more probable of the tied labels.
        """
        most = self.votes.max(1, initial=0)
        winner = np.where(self.votes == most[:, None], self.posterior, -1.0).argmax(1)
        inferred_won = self.votes[np.arange(len(most)), self.inferred] == most
        return np.where(most > 0, np.where(inferred_won, self.inferred, winner), -1)

    @cached_property
    def dawid_skene(self) -> IntArray:
        """(N,) the label that Dawid-Skene infers from the annotations alone; takes a while on large crowds."""
        from conal.aggregation import DawidSkene

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConalWarning)  # nobody asked for it, or for all of its digits
            return np.asarray(DawidSkene(verbose=False).fit(self.annotations).codes_)

    @cached_property
    def some_tasks(self) -> IntArray:
        """All tasks, or as many at random as settle figures about the whole crowd."""
        n = self.annotations.n_tasks
        return np.arange(n) if n <= MAX_TASKS else np.sort(np.random.default_rng(0).choice(n, MAX_TASKS, replace=False))

    @cached_property
    def judged(self) -> BoolArray:
        """(N,) the labelled tasks whose true label is known."""
        labelled = self.annotations.labels_per_task() > 0
        return np.asarray(np.zeros_like(labelled) if self.known is None else labelled & (self.known >= 0))

    @cached_property
    def unseen_posterior(self) -> FloatArray | None:
        """(N, C) as ``posterior``, by models that have not seen a task's true label; computed when it is asked for."""
        return self.unseen() if callable(self.unseen) else self.unseen

    @cached_property
    def measured(self) -> GoldRates | None:
        """How many labels are right, by true labels; None where there are too few.

        Tasks with a true label are judged as if it were unknown. Where no fit did so, nothing is predicted, and the
        inferred labels have no rate.
        """
        if self.known is None or self.judged.sum() < MIN_GOLD:
            return None
        truth = labels_by_task(self.annotations, np.where(self.judged, self.known, MISSING))
        return gold_rates(self.annotations, self.unseen_posterior, truth, inclusion=self.inclusion)

    @property
    def inferred_rate(self) -> Rate | None:
        """The share of right inferred labels, by true labels; None where it was not measured."""
        rate = None if self.measured is None else self.measured.cleaned
        return None if rate is None or np.isnan(rate.value) else rate

    @cached_property
    def true_tasks(self) -> IntArray:
        """Random labelled tasks whose true label is known, if enough to judge mistakes by; otherwise none."""
        if self.inclusion is not None:
            return np.empty(0, dtype=np.int64)
        tasks = self.some_tasks[self.judged[self.some_tasks]]
        return tasks if len(tasks) >= MIN_TRUE_LABELS else tasks[:0]

    @cached_property
    def by_truth(self) -> tuple[Annotations, FloatArray] | None:
        """The annotations of :attr:`true_tasks`, and the posterior, which is certain; None where there are none."""
        if self.known is None or not len(self.true_tasks):
            return None
        return self.annotations[self.true_tasks], np.eye(self.annotations.n_classes)[self.known[self.true_tasks]]

    @cached_property
    def co_direction_by_truth(self) -> CoDirection | None:
        """Whether different annotators make the same mistakes, by true labels; None where these do not tell."""
        found = None if self.by_truth is None else co_direction(*self.by_truth)
        return found if found is not None and np.isfinite(found.overall.value) else None

    @cached_property
    def co_direction(self) -> CoDirection:
        """Whether different annotators make the same mistakes: by true labels where they tell, or by the posterior."""
        return self.co_direction_by_truth or co_direction(
            self.annotations[self.some_tasks],
            self.posterior[self.some_tasks],
            confusion=self.confusion_of(np.arange(self.annotations.n_annotators)),
            min_labels_per_class=MIN_LABELS_PER_CLASS,
        )

    @cached_property
    def errors_by_truth(self) -> EffectiveNumber | None:
        """How annotators err together, by true labels; None where there are too few, or no two people share them."""
        found = None if self.by_truth is None else effective_number(*self.by_truth)
        return found if found is not None and np.isfinite([found.value, found.low]).all() else None

    @cached_property
    def errors_by_posterior(self) -> EffectiveNumber:
        """How annotators err together, by inferred labels: less than they do."""
        return effective_number(self.annotations[self.some_tasks], self.posterior[self.some_tasks])

    @cached_property
    def left_out(self) -> LeftOut:
        """Every label, judged by the other labels of its task and by the classifier."""
        times = self.annotations.times if self.times is None else self.times
        return left_out(self.annotations, self.posterior, self.classifier, times)

    @cached_property
    def detections(self) -> Detections:
        """Annotators who are careless, collude or copy."""
        return detect(self.left_out)

    @cached_property
    def expected_right(self) -> FloatArray:
        """(n_annotations,) P(the label is the true class), by the posterior of its task."""
        crowd = self.annotations
        return np.asarray(self.posterior[crowd.tasks, crowd.labels])

    @cached_property
    def common_share(self) -> FloatArray:
        """(R,) mean omega of an annotator's labels; 0 if the method has no omega."""
        crowd = self.annotations
        if self.omega is None:
            return np.zeros(crowd.n_annotators)
        total = grouped_sums(crowd.annotators, self.omega, crowd.n_annotators)
        return np.asarray(total / np.maximum(crowd.labels_per_annotator(), 1))

    def confusion_of(self, annotators: IntArray) -> FloatArray:
        r"""(n, C, C) how these annotators label: :math:`\bar\omega_r \pi^g + (1 - \bar\omega_r) \pi^r`."""
        share, common = self.common_share[annotators][:, None, None], self.common
        if self.common_of_annotators is not None and self.common_of_annotators.ndim > 2:
            common = self.common_of_annotators[annotators]
        return np.asarray(share * common + (1 - share) * self.individual[annotators])

    @cached_property
    def class_names(self) -> list[Any]:
        """Names of the classes, as JSON values."""
        return plain_names(self.annotations.classes)

    @cached_property
    def annotator_names(self) -> list[Any]:
        """Names of the annotators, as JSON values."""
        return plain_names(self.annotations.annotator_ids)

    def task_row(self, i: int) -> Plain:
        """How a row about a task begins: its name, and the beginning of its text where the tasks are texts."""
        (task,) = plain_names(self.annotations.task_ids[i : i + 1])
        return {"task": task} if self.texts is None else {"task": task, "text": quoted(self.texts.get(task, ""))}

    @cached_property
    def expected_counts(self) -> FloatArray:
        """(R, C, C) ``[r, c, l]``: expected number of labels l of annotator r on tasks of class c."""
        return self.annotations.expected_counts(self.posterior[self.annotations.tasks])

    @cached_property
    def classes_met(self) -> FloatArray:
        """(R, C) expected number of tasks of each true class among those that an annotator labelled."""
        return np.asarray(self.expected_counts.sum(2))


def about_annotators(info: AnnotatorInfo | None, *, names_hidden: bool = False) -> dict[str, Any]:
    """What findings take of what is known about the annotators; groups that may be shown where names are hidden.

    Costs stay as they are: findings then tell rounded shares of their sum only.
    """
    shown = info.shareable() if info is not None and names_hidden else info
    groups = None if shown is None or shown.groups is None else as_names(shown.groups)
    return {} if info is None else {"groups": groups, "costs": info.costs}


def quoted(text: str) -> str:
    """The beginning of a text, as long as the report quotes it."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def entropy(probas: FloatArray) -> FloatArray:
    """Entropy along the last axis, in bits.

    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    logs = np.log2(np.where(probas > 0, probas, 1.0))
    return np.asarray(np.abs((probas * logs).sum(-1)))


def plain(name: Any) -> Any:
    """A name as a JSON value: text, numbers and booleans stay as they are, anything else becomes text."""
    return name if isinstance(name, str | bool | int | float) else str(name)


def plain_names(names: Names) -> list[Any]:
    """Names as JSON values."""
    return [plain(name) for name in names.tolist()]
