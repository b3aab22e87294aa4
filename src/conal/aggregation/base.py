"""Base of all aggregators: registration, construction, fitting, results, and abstentions."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy

from conal._arrays import FloatArray, IntArray
from conal._registry import Registry
from conal.aggregation.counts import agreement, expected_skills, logarithm, normalised, vote_shares
from conal.aggregation.guard import Collapse, collapse_of
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import MISSING, Names, name_column
from conal.data.frames import kind_of_frame
from conal.data.joining import TrainingRecord, append_labels, training_record
from conal.data.problems import check_memory
from conal.data.scales import score_columns
from conal.data.true_labels import inclusion_of, known_codes
from conal.errors import CollapseWarning, ConvergenceWarning, InputError, examples, warn
from conal.parameters import Doc, check_parameters, parameters, parameters_of
from conal.reported import Reported

if TYPE_CHECKING:
    from conal.aggregation.combiner import Combiner
    from conal.report.findings import Findings


# Refused answers as evidence: how often each annotator declines tasks of each class.

STRENGTH = 4.0
"""Tasks of a class that an annotator's rate for it needs to outweigh the annotator's rate for all classes."""
CROWD = 1.0
"""Tasks by which an annotator's overall rate is drawn to the crowd's."""
N_ITER = 200
TOLERANCE = 1e-9
"""Gain of the objective per task below which EM stops."""


class Abstained(NamedTuple):
    """Posterior (N, C), rates (R, C) = P(annotator r declines | true c), and the objective after every step."""

    posterior: FloatArray
    rates: FloatArray
    history: list[float]


class Asked(NamedTuple):
    """Which annotator was asked about which task, (R, N) sparse: refused and answered; and rates beforehand (R,)."""

    refused: scipy.sparse.csr_array
    answered: scipy.sparse.csr_array
    usual: FloatArray


def with_abstentions(crowd: Annotations, posterior: FloatArray) -> Abstained:
    r"""The posterior once refused answers count.

    Whether annotator r declines a task of class c is a coin with probability :math:`e_{rc}`, independent of the label
    that is given otherwise. So the posterior :math:`q_i` by the labels is multiplied by one factor per annotator who
    was asked, and the rates follow from it, by EM:

    .. math::
        q'_i(c) \propto q_i(c) \prod_{r \text{ declined}} e_{rc} \prod_{r \text{ answered}} (1 - e_{rc}), \qquad
        e_{rc} = \frac{\sum_{i \text{ declined}} q'_i(c) + s\, \bar e_r}{\sum_{i \text{ asked}} q'_i(c) + s}

    :math:`\bar e_r` is the annotator's rate over all tasks: the mode under a Beta prior of strength s = 4 around it.
    An annotator who declines all classes alike says nothing about the truth. The objective never falls.

    Parameters
    ----------
    crowd : Annotations
        With ``abstentions``.
    posterior : (N, C)
        By the labels alone; a class that it rules out stays ruled out.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 0, "?"], [0, 1, "?"], [1, 1, 1], [1, 1, 1]] * 5, abstain="?")
    >>> even = np.tile([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.1, 0.9]], (5, 1))
    >>> found = with_abstentions(crowd, even)
    >>> bool(found.posterior[1, 0] > 0.75), (found.rates[2] > 0.5).tolist()
    (True, [True, False])
    """
    asked = _asked(crowd)
    rates, current, history = _rates(asked, posterior), posterior, [-np.inf]
    for _ in range(N_ITER):
        current, evidence = _expected(asked, posterior, rates)
        history.append(evidence + _log_prior(asked, rates))
        if history[-1] - history[-2] < TOLERANCE * max(crowd.n_tasks, 1):
            break
        rates = _rates(asked, current)
    return Abstained(current, rates, history[1:])


def abstention_rates(crowd: Annotations, posterior: FloatArray) -> FloatArray:
    """(R, C) P(annotator r declines | true c), by a posterior (N, C) that is taken as it is."""
    return _rates(_asked(crowd), posterior)


def _asked(crowd: Annotations) -> Asked:
    refused, answered = (_pairs(crowd, each) for each in (crowd.abstentions, crowd))
    declined, total = (np.asarray(each.sum(1)).ravel() for each in (refused, refused + answered))
    usual = (declined + CROWD * declined.sum() / max(total.sum(), 1)) / (total + CROWD)
    return Asked(refused, answered, usual)


def _pairs(crowd: Annotations, given: Annotations | None) -> scipy.sparse.csr_array:
    shape = crowd.n_annotators, crowd.n_tasks
    if given is None:
        return scipy.sparse.csr_array(shape)
    return scipy.sparse.csr_array((np.ones(given.n_annotations), (given.annotators, given.tasks)), shape=shape)


def _rates(asked: Asked, posterior: FloatArray) -> FloatArray:
    declined, answered = asked.refused @ posterior, asked.answered @ posterior
    return np.asarray((declined + STRENGTH * asked.usual[:, None]) / (declined + answered + STRENGTH))


def _expected(asked: Asked, posterior: FloatArray, rates: FloatArray) -> tuple[FloatArray, float]:
    """The E-step, and the log-probability of the refusals."""
    # Of classes that are ruled out, and of annotators who never or always decline, logarithms are infinite.
    logs = logarithm(posterior) + asked.refused.T @ logarithm(rates) + asked.answered.T @ logarithm(1 - rates)
    evidence = scipy.special.logsumexp(logs, axis=1, keepdims=True)
    return np.exp(logs - evidence), float(evidence.sum())


def _log_prior(asked: Asked, rates: FloatArray) -> float:
    usual = asked.usual[:, None]
    return float(STRENGTH * (scipy.special.xlogy(usual, rates) + scipy.special.xlogy(1 - usual, 1 - rates)).sum())


# Base of all aggregators: registration, construction, fitting and results.

LEAST_SHARE = 1e-12
"""Probabilities below it count as this in a combiner, whose file has no infinite numbers."""
FEW_LABELS = 4
"""Fewer labels per task than this may be the reason why a class is lost."""

aggregators: Registry[type[Aggregator]] = Registry("aggregator", "conal.aggregation")
register = aggregators.register


def posterior_of(member: Aggregator, crowd: Annotations, known: IntArray) -> FloatArray:
    """(N, C) of an aggregator that is a part of another, which adopts it or reads its parameters."""
    return member._guarded(crowd, known, member._aggregate(crowd, known))


def silent_posterior(member: Aggregator, crowd: Annotations, known: IntArray) -> FloatArray:
    """The same, where it is no news for the user that the part collapsed or has not converged."""
    with warnings.catch_warnings():
        for category in (CollapseWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        return posterior_of(member, crowd, known)


def reading_of(shares: FloatArray, confusion: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-probabilities of the classes (C,), and of each label given each class (R, C, C): annotator, label, class."""
    return logarithm(shares.clip(LEAST_SHARE)), logarithm(confusion.clip(LEAST_SHARE)).swapaxes(1, 2)


def make(name: str, **parameters: Any) -> Aggregator:
    """An aggregator by its registered name; an unknown parameter is an error that lists the known ones.

    >>> make("dawid-skene", prior=0.1).prior
    0.1
    """
    cls = aggregators.get(name)
    known = cls.parameter_names()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise InputError(f"{name} has no parameter {examples(unknown)}; it has {', '.join(known) or 'none'}")
    return cls(**parameters)


class Fitted:
    """Results of ``fit``; not parameters of the constructor."""

    classes_: Names
    task_ids_: Names
    annotator_ids_: Names
    probas_: FloatArray
    codes_: npt.NDArray[np.int64]
    labels_: Names
    abstention_: FloatArray | None = None
    annotations_: Annotations
    known_codes_: npt.NDArray[np.int64]
    inclusion_: FloatArray | None = None
    annotator_info_: AnnotatorInfo | None = None
    learned_from_: tuple[TrainingRecord, ...] = ()
    columns_: Mapping[str, str] = MappingProxyType({})
    """Columns of the files of labels that the command line has read, which further files may have too."""
    class_prior_: FloatArray
    _previous: FloatArray | None = None
    """Posterior (N, C) from which an update starts, while it lasts."""


@parameters
class Aggregator(Fitted, Reported, ABC):
    """From crowd labels alone to one label per task.

    A subclass declares its parameters as annotated attributes (:func:`conal.parameters.parameters`) and supplies
    :meth:`_aggregate`. It may set ``confusion_`` and ``skills_`` there; otherwise they follow from the labels that it
    infers, when they are asked for.

    Attributes
    ----------
    classes_, task_ids_, annotator_ids_ : arrays
        What the user called them.
    probas_ : (n_tasks, n_classes)
        ``probas_[i, c]`` = P(true class c) of task i.
    codes_, labels_ : (n_tasks,)
        The most probable class, as a position in ``classes_`` and in the user's names; the first if several are.
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = P(annotator r says l | true c): true before observed. By default the share of l among
        the annotator's labels of tasks that are labelled c.
    skills_ : (n_annotators,)
        Probability that a label of the annotator is right. By default sum_c rho_c confusion_[r, c, c] where the
        aggregator has shares of the classes, and the share that equals the inferred labels otherwise.
    abstention_ : (n_annotators, n_classes) or None
        ``abstention_[r, c]`` = P(annotator r declines to answer | true c), where refused answers were listed
        (``abstain``); ``confusion_`` is then given that an answer was given.
    annotations_ : Annotations
        The labels that were aggregated.
    known_codes_ : (n_tasks,)
        True classes of the tasks, where they were given, and -1 elsewhere.
    inclusion_ : (n_tasks,) or None
        Probabilities with which these tasks were drawn, if the true labels came with them; None for a random sample.
    annotator_info_ : AnnotatorInfo or None
        What was given about the annotators.
    learned_from_ : tuple of TrainingRecord
        What it has learned from: the labels of the fit, and of every update.
    """

    name: ClassVar[str] = "this aggregator"
    """What messages call it, and the name under which it is registered, if it is."""

    ordered: ClassVar[bool] = False
    """Whether the classes must be a scale: numbers, or classes whose order was stated."""

    learns_from_abstentions: ClassVar[bool] = False
    """Whether refused answers change the probabilities; votes are not probabilities that they could correct."""

    quick: ClassVar[bool] = True
    """Whether it is fast enough to be fitted once for every annotator who is left out."""

    guard: Annotated[
        Literal["repair", "warn", "off"],
        Doc(
            "What to do when the labels collapse: a class is lost, classes are exchanged, the most frequent class has "
            "more than twice its share of the votes, or any class more than three times. 'repair' tries other starts "
            "and priors of the same model, if it has any, and says what helped; 'warn' only tells; 'off' does not "
            "look."
        ),
    ] = "repair"

    @classmethod
    def parameter_names(cls) -> list[str]:
        """The names of the constructor's parameters."""
        return list(parameters_of(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, for scikit-learn's ``clone``."""
        return {name: getattr(self, name) for name in parameters_of(self)}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name."""
        for name, value in parameters.items():
            if name not in parameters_of(self):
                raise InputError(f"{type(self).__name__} has no parameter {name!r}; it has {self.parameter_names()}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [(k, v) for k, v in self.get_params().items() if v != parameters_of(self)[k].default]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed)})"

    def _repr_html_(self) -> str:
        from conal.report.notebook import aggregator_summary

        return aggregator_summary(self)

    def fit(self, data: Any, *, true_labels: Any = None, annotator_info: Any = None) -> Self:
        """Aggregate.

        Parameters
        ----------
        data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
        true_labels : mapping, pandas Series or frame, optional
            True labels of some tasks: by task id, or in columns task and label. They are taken as certain. Missing
            ones, and those of other tasks, are ignored. A column ``inclusion_probability`` says how likely each task
            was to be drawn.
        annotator_info : frame or AnnotatorInfo, optional
            What is known about the annotators: a row for each, with columns worker, ``group``, ``cost``, and features
            (:class:`conal.data.annotator_info.AnnotatorInfo`). ``group-confusion`` uses the groups.
        """
        check_parameters(self)
        crowd = Annotations.of(data)
        self._check_memory(crowd)
        self._forget_defaults()
        self.annotator_info_ = None if annotator_info is None else AnnotatorInfo.of(annotator_info, crowd)
        self._frame = None if data is crowd else kind_of_frame(data)  # which loads narwhals
        self.known_codes_ = known = known_codes(crowd, true_labels)
        self.inclusion_ = inclusion_of(crowd, true_labels)
        self.learned_from_ = (training_record("fit", crowd),)
        probas = self._guarded(crowd, known, self._aggregate(crowd, known))
        self.adopt_posterior(crowd, self._with_abstentions(crowd, probas))
        return self

    def update(self, data: Any, *, annotator_info: Any = None, where: str = "new labels") -> Self:
        """Add new labels to those that it was fitted to, and fit again from where it is.

        Labels may be of known and new tasks, by known and new annotators, and must be of known classes. True labels
        that were given to :meth:`fit` stay.

        Parameters
        ----------
        data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
            New labels alone. One by an annotator who has labelled the task already takes the place of the old one.
        annotator_info : frame or AnnotatorInfo, optional
            What is known about the annotators, old and new; needed where it was given to :meth:`fit` and annotators are
            new.
        where : str
            How messages name the source, such as the file.

        Examples
        --------
        >>> from conal import Annotations
        >>> from conal.aggregation import DawidSkene
        >>> crowd = Annotations.from_triples([1, 1, 2, 2], list("abab"), ["x", "x", "y", "y"])
        >>> new = Annotations.from_triples([3, 3, 1], list("abc"), ["x", "x", "x"])
        >>> fitted = DawidSkene(prior=0.1).fit(crowd).update(new)
        >>> fitted.task_ids_.tolist(), fitted.labels_.tolist()
        ([1, 2, 3], ['x', 'y', 'x'])
        """
        if not hasattr(self, "annotations_"):
            raise InputError(f"{self.name} is not fitted yet; fit it first, and update it with further labels")
        new = Annotations.of(data, where=where)
        crowd, changed = append_labels(self.annotations_, new, where=where)
        self._check_memory(crowd)
        about = self.annotator_info_ if annotator_info is None else annotator_info
        n_new = crowd.n_tasks - len(self.task_ids_)
        start = np.concatenate([self.probas_, np.empty((n_new, crowd.n_classes))])
        start[changed] = vote_shares(crowd[changed])
        made = copy.copy(self)  # whatever goes wrong, this one stays as it is
        made._forget_defaults()
        made.annotator_info_ = None if about is None else AnnotatorInfo.of(about, crowd)
        made.known_codes_ = np.append(self.known_codes_, np.full(n_new, MISSING))
        if self.inclusion_ is not None:
            made.inclusion_ = np.append(self.inclusion_, np.full(n_new, np.nan))
        probas = made._guarded(crowd, made.known_codes_, made._aggregate_from(start, crowd, made.known_codes_))
        made.adopt_posterior(crowd, made._with_abstentions(crowd, probas))
        made.learned_from_ = (*self.learned_from_, training_record("update", new))
        self.__dict__.clear()
        self.__dict__.update(vars(made))
        return self

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write labels and all that was learned to a folder, which :func:`conal.aggregation.load` reads."""
        from conal.updates import save

        save(self, folder, overwrite=overwrite)

    def combiner(self) -> Combiner:
        """What it makes of new votes of its annotators, without a fit; ``conal export`` writes it as one JSON file."""
        from conal.aggregation.combiner import FORMAT, Combiner

        given = self.annotations_.labels_per_annotator().astype(np.float64)
        share = given / max(given.sum(), 1)
        readings = []
        for each in self._readings():
            usual = np.exp if each["logarithms"] else np.positive  # a judge who is not known is like all together
            others = np.einsum("r,rlc->lc", share, usual(each["votes"]))
            others = logarithm(others) if each["logarithms"] else others
            plain = {name: each[name].tolist() for name in ("start", "votes")} | {"others": others.tolist()}
            readings.append({"weight": each["weight"], "doubt": each["doubt"]} | plain)
        names = {"classes": self.classes_, "judges": self.annotator_ids_}
        texts = {key: [str(name) for name in values.tolist()] for key, values in names.items()}
        return Combiner(
            {"format": FORMAT, "format_version": 1, "conal_method": self.name} | texts | {"readings": readings}
        )

    def _readings(self) -> list[dict[str, Any]]:
        """The parts whose weighted sum has the logarithms of the posterior."""
        raise InputError(f"{self.name} has no combiner; use 'gold-pool', 'dawid-skene' or 'one-coin'")

    def _aggregate_from(self, start: FloatArray, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        """As :meth:`_aggregate`, from a posterior (N, C) to start at, for aggregators that start somewhere."""
        return self._aggregate(crowd, known)

    def _with_abstentions(self, crowd: Annotations, probas: FloatArray) -> FloatArray:
        """The probabilities once refused answers count, for aggregators whose probabilities they can correct."""
        self.abstention_ = None
        if crowd.abstentions is None:
            return probas
        if not self.learns_from_abstentions:
            self.abstention_ = abstention_rates(crowd, probas)
            return probas
        found = with_abstentions(crowd, probas)
        self.abstention_ = found.rates
        return found.posterior

    def again(self) -> Aggregator:
        """An aggregator like this one, not fitted and silent; if this one chose among several, the chosen one."""
        silent = {"verbose": False} if "verbose" in parameters_of(self) else {}
        return type(self)(**{**self.get_params(), **silent})

    def _guarded(self, crowd: Annotations, known: npt.NDArray[np.int64], probas: FloatArray) -> FloatArray:
        """The probabilities, or those of another start or prior if these have collapsed; with a warning, if so."""
        problem = None if self.guard == "off" else collapse_of(crowd, probas, known)
        if problem is None:
            return probas
        repaired = self._repaired(crowd, known, problem) if self.guard == "repair" else None
        if repaired is not None:
            probas, cure = repaired
            warn(f"{self.name}: {problem.sentence}. {cure} helped, and is used instead", CollapseWarning)
        else:
            doubt = "This may be wrong" if problem.certain else "This may be right or wrong"
            warn(f"{self.name}: {problem.sentence}. {doubt}; {self._advice(crowd)}", CollapseWarning)
        return probas

    def _repaired(
        self, crowd: Annotations, known: npt.NDArray[np.int64], problem: Collapse
    ) -> tuple[FloatArray, str] | None:
        """Probabilities that have not collapsed, and what helped, for models with other starts or priors to try."""
        return None

    def _advice(self, crowd: Annotations) -> str:
        """What to use instead."""
        others = [name for name in ("majority-vote", "dawid-skene", "common-confusion") if name != self.name]
        per_task = crowd.n_annotations / max(int((crowd.labels_per_task() > 0).sum()), 1)
        few = f"{per_task:.1f} labels per task may be too few; " if per_task < FEW_LABELS else ""
        return f"{few}compare with {others[0]!r} or {others[1]!r}, or add true_labels"

    def adopt_posterior(self, crowd: Annotations, probas: FloatArray) -> None:
        """Store the probabilities (N, C) of the tasks, and what follows from them."""
        self._store(crowd, probas, self._winners(probas))

    @cached_property
    def confusion_(self) -> FloatArray:
        """By the inferred labels, for aggregators that have no matrices of their own."""
        crowd = self.annotations_
        R, C = crowd.n_annotators, crowd.n_classes
        check_memory(crowd, 4 * R * C * C, f"{self.name}: confusion_")
        cells = (crowd.annotators.astype(np.int64) * C + self.codes_[crowd.tasks]) * C + crowd.labels
        return normalised(np.bincount(cells, minlength=R * C * C).astype(np.float64).reshape(R, C, C))

    @cached_property
    def skills_(self) -> FloatArray:
        """By class shares and matrices, or else by the inferred labels, for aggregators without skills of their own."""
        if hasattr(self, "class_prior_"):
            return expected_skills(self.class_prior_, self.confusion_)
        return agreement(self.annotations_, self.codes_)

    def _forget_defaults(self) -> None:
        """Drop what was computed from earlier labels when it was asked for."""
        for name in ("confusion_", "skills_"):
            self.__dict__.pop(name, None)

    def _check_memory(self, crowd: Annotations) -> None:
        check_memory(crowd, self._numbers(crowd), self.name)

    def _numbers(self, crowd: Annotations) -> float:
        """About how many numbers a fit keeps at once: measured, and rather too many."""
        return 10 * crowd.n_tasks * crowd.n_classes + 24 * crowd.n_annotators * crowd.n_classes**2

    def _store(self, crowd: Annotations, probas: FloatArray, codes: npt.NDArray[np.int64]) -> None:
        self.__dict__.pop("results_", None)  # those of an earlier fit
        self.annotations_ = crowd
        self.classes_, self.task_ids_, self.annotator_ids_ = crowd.classes, crowd.task_ids, crowd.annotator_ids
        self.probas_, self.codes_ = probas, codes
        self.labels_ = self.classes_[codes]

    @property
    def scores_(self) -> pa.Table:
        """Of classes that are a scale: columns task, mean, median, low and high, a row per task.

        The mean is in the numbers that the classes are, or in places from 1 for classes that are no numbers. Low and
        high are classes between which the true one is with a probability of at least 95 %.
        """
        columns = score_columns(self.probas_, self.classes_, self.annotations_.levels())
        return pa.table({"task": name_column(self.task_ids_)} | columns)

    @cached_property
    def results_(self) -> Findings:  # type: ignore[override]
        """Tables and the content of the report; computed on first use."""
        from conal.report.labels_alone import findings_of_labels

        return findings_of_labels(self)

    def fit_predict(self, data: Any, *, true_labels: Any = None, annotator_info: Any = None) -> Any:
        """The labels by task: a Series for a pandas frame, a frame for a polars one, ``labels_`` otherwise."""
        self.fit(data, true_labels=true_labels, annotator_info=annotator_info)
        return self._like(data, self.labels_)

    def fit_predict_proba(self, data: Any, *, true_labels: Any = None, annotator_info: Any = None) -> Any:
        """The probabilities by task: a frame with a column per class for a frame, ``probas_`` otherwise."""
        self.fit(data, true_labels=true_labels, annotator_info=annotator_info)
        return self._like(data, self.probas_)

    @abstractmethod
    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        """(N, C) probabilities; ``known`` contains true classes of some tasks and -1 elsewhere."""

    def _winners(self, probas: FloatArray) -> npt.NDArray[np.int64]:
        return np.asarray(probas.argmax(1), dtype=np.int64)

    def _like(self, data: Any, values: Any) -> Any:
        """Labels (N,) or probabilities (N, C) in the kind of frame that came in."""
        module = type(data).__module__.split(".")[0]
        if module == "pandas":
            return self._in_pandas(values)
        if module == "polars":
            return self._in_polars(values)
        return values

    def _in_pandas(self, values: Any) -> Any:
        import pandas as pd

        index = pd.Index(self.task_ids_, name="task", tupleize_cols=False)
        if values.ndim == 1:
            return pd.Series(values, index=index, name="label")
        return pd.DataFrame(values, index=index, columns=pd.Index(self.classes_, tupleize_cols=False))

    def _in_polars(self, values: Any) -> Any:
        import polars as pl

        names = ["label"] if values.ndim == 1 else [str(name) for name in self.classes_.tolist()]
        if "task" in names or len(set(names)) < len(names):
            raise InputError(f"classes {examples(names)} cannot be columns beside 'task'; rename them, or use probas_")
        columns = dict(zip(names, values.reshape(len(values), -1).T, strict=True))
        return pl.DataFrame({"task": self.task_ids_.tolist()} | {k: v.tolist() for k, v in columns.items()})
