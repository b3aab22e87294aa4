"""What aggregators share: what they take, what they give, and one loop for all that learn by EM."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from conal.annotations import Annotations
from conal.checking import is_number, is_whole
from conal.encoding import MISSING, Names, as_names, decode_position
from conal.errors import ConvergenceWarning, InputError, examples

__all__ = ["Aggregator", "EMAggregator", "Votes", "clamped"]

FloatArray = npt.NDArray[np.float64]
Parameters = TypeVar("Parameters")


class Votes:
    """The annotations as a sparse one-hot matrix, in both orders that EM needs.

    Attributes
    ----------
    by_task : (N, R C) sparse
        ``by_task[i, r C + l]`` = 1 where annotator r gave task i the label l.
    by_annotator : (R C, N) sparse
        Its transpose, stored by row.
    """

    def __init__(self, annotations: Annotations) -> None:
        self.annotations = annotations
        self.shape = annotations.n_tasks, annotations.n_annotators, annotations.n_classes
        N, R, C = self.shape
        column = annotations.annotators.astype(np.int64) * C + annotations.labels
        ones = np.ones(annotations.n_annotations)
        self.by_task = csr_array((ones, column, annotations.indptr), shape=(N, R * C))
        self.by_annotator = self.by_task.T.tocsr()

    def counts(self, posterior: FloatArray) -> FloatArray:
        """(R, C, C) expected ``[r, c, l]``: how often annotator r labelled l what is c, by the posterior (N, C)."""
        _, R, C = self.shape
        return np.asarray(self.by_annotator @ posterior).reshape(R, C, C).transpose(0, 2, 1)

    def log_evidence(self, log_confusion: FloatArray) -> FloatArray:
        """(N, C) sum over a task's labels of log pi_r[c, y], for every class c."""
        _, R, C = self.shape
        return np.asarray(self.by_task @ np.ascontiguousarray(log_confusion.transpose(0, 2, 1)).reshape(R * C, C))


class Aggregator(ABC):
    """From crowd labels alone to one label per task.

    Takes :class:`conal.Annotations`, a long DataFrame or an (n_tasks, n_annotators) matrix.

    Attributes
    ----------
    classes_, task_ids_, annotator_ids_ : arrays
        What the user called them.
    probas_ : (n_tasks, n_classes)
        ``probas_[i, c]`` = P(true class c) of task i.
    codes_, labels_ : (n_tasks,)
        The most probable class, as a position in ``classes_`` and in the user's names; the first of equals.
    """

    classes_: Names
    task_ids_: Names
    annotator_ids_: Names
    probas_: FloatArray
    codes_: npt.NDArray[np.int64]
    labels_: Names

    def fit(self, data: Any, *, true_labels: Any = None) -> Self:
        """Aggregate.

        Parameters
        ----------
        data : Annotations, long DataFrame or matrix
        true_labels : mapping or pandas Series, optional
            True labels of some tasks, by task id. They are taken as certain.
        """
        crowd = Annotations.of(data)
        self.classes_, self.task_ids_, self.annotator_ids_ = crowd.classes, crowd.task_ids, crowd.annotator_ids
        known = _known_codes(crowd, true_labels)
        self.probas_ = self._aggregate(crowd, known)
        self.codes_ = self._winners(self.probas_)
        self.labels_ = self.classes_[self.codes_]
        return self

    def fit_predict(self, data: Any, *, true_labels: Any = None) -> Any:
        """The labels by task: a Series for a pandas frame, a frame for a polars one, ``labels_`` otherwise."""
        self.fit(data, true_labels=true_labels)
        return self._like(data, {"label": self.labels_.tolist()}, self.labels_)

    def fit_predict_proba(self, data: Any, *, true_labels: Any = None) -> Any:
        """The probabilities by task: a frame with a column per class for a frame, ``probas_`` otherwise."""
        self.fit(data, true_labels=true_labels)
        columns = {name: self.probas_[:, k] for k, name in enumerate(self.classes_.tolist())}
        return self._like(data, columns, self.probas_)

    @abstractmethod
    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        """(N, C) probabilities; ``known`` holds true classes of some tasks and -1 elsewhere."""

    def _winners(self, probas: FloatArray) -> npt.NDArray[np.int64]:
        return np.asarray(probas.argmax(1), dtype=np.int64)

    def _like(self, data: Any, columns: dict[Any, Any], otherwise: Any) -> Any:
        """Results in the kind of frame that came in."""
        module = type(data).__module__.split(".")[0]
        if module == "pandas":
            import pandas as pd

            index = pd.Index(self.task_ids_.tolist(), name="task", tupleize_cols=False)
            frame = pd.DataFrame(columns, index=index)
            return frame["label"] if list(columns) == ["label"] else frame
        if module == "polars":
            import polars as pl

            return pl.DataFrame({"task": self.task_ids_.tolist(), **{str(k): v for k, v in columns.items()}})
        return otherwise


class EMAggregator(Aggregator, Generic[Parameters]):
    """Expectation-maximisation: the loop, its restarts and its convergence, written once.

    A subclass supplies :meth:`_initialize`, :meth:`_m_step` and :meth:`_e_step`; the objective that the last returns
    is a log-likelihood (or log-posterior) and never falls.

    Parameters
    ----------
    n_iter : int
        Iterations at most.
    tol : float
        Stop when an iteration gains less than this per annotation.
    n_restarts : int
        Runs from different starts; the one with the highest objective is kept. The first start is the usual one.
    seed : int
        For the other starts.

    Attributes
    ----------
    objective_history_ : list of float
        The objective of the kept run after every E-step.
    n_iter_ : int
        Its iterations.
    converged_ : bool
        Whether it stopped by ``tol``.
    """

    objective_history_: list[float]
    n_iter_: int
    converged_: bool

    def __init__(self, *, n_iter: int = 100, tol: float = 1e-5, n_restarts: int = 1, seed: int = 0) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.n_restarts = n_restarts
        self.seed = seed

    @abstractmethod
    def _initialize(self, votes: Votes, rng: np.random.Generator | None) -> FloatArray:
        """(N, C) posterior to start from; ``rng`` is None for the usual start."""

    @abstractmethod
    def _m_step(self, votes: Votes, posterior: FloatArray) -> Parameters:
        """The parameters that fit a posterior best."""

    @abstractmethod
    def _log_joint(self, votes: Votes, parameters: Parameters) -> FloatArray:
        """(N, C) log P(z = c, labels of the task)."""

    @abstractmethod
    def _adopt(self, parameters: Parameters) -> None:
        """Keep the parameters of the best run as attributes."""

    def _log_prior(self, parameters: Parameters) -> float:
        """Log-prior of the parameters, up to a constant; 0 without one."""
        return 0.0

    def _aggregate(self, crowd: Annotations, known: npt.NDArray[np.int64]) -> FloatArray:
        self._check()
        votes = Votes(crowd)
        streams = [None, *np.random.default_rng(self.seed).spawn(self.n_restarts - 1)]
        runs = [self._run(votes, known, rng) for rng in streams]
        history, converged, parameters, posterior = max(runs, key=lambda run: run[0][-1])
        self.objective_history_, self.converged_, self.n_iter_ = history, converged, len(history) - 1
        self._adopt(parameters)
        if not converged:
            warnings.warn(
                f"{type(self).__name__} has not converged after {self.n_iter} iterations (last gain per annotation "
                f"{(history[-1] - history[-2]) / max(crowd.n_annotations, 1):.1e}); raise n_iter, or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        return posterior

    def _run(
        self, votes: Votes, known: npt.NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[list[float], bool, Parameters, FloatArray]:
        parameters = self._m_step(votes, clamped(self._initialize(votes, rng), known))
        posterior, objective = self._e_step(votes, parameters, known)
        history = [objective]
        enough = self.tol * max(votes.annotations.n_annotations, 1)
        for _ in range(self.n_iter):
            parameters = self._m_step(votes, posterior)
            posterior, objective = self._e_step(votes, parameters, known)
            history.append(objective)
            if history[-1] - history[-2] < enough:
                return history, True, parameters, posterior
        return history, False, parameters, posterior

    def _e_step(self, votes: Votes, parameters: Parameters, known: npt.NDArray[np.int64]) -> tuple[FloatArray, float]:
        """The posterior and the objective under the current parameters; known tasks contribute their joint."""
        log_joint = self._log_joint(votes, parameters)
        top = log_joint.max(1, keepdims=True)  # taken off first, so that nothing underflows
        weights = np.exp(log_joint - top)
        total = weights.sum(1, keepdims=True)
        evidence = (top + np.log(total))[:, 0]
        given = np.flatnonzero(known != MISSING)
        evidence[given] = log_joint[given, known[given]]
        return clamped(weights / total, known), float(evidence.sum()) + self._log_prior(parameters)

    def _check(self) -> None:
        for name, low in (("n_iter", 1), ("n_restarts", 1), ("seed", 0)):
            value = getattr(self, name)
            if not (is_whole(value) and value >= low):
                raise InputError(f"{name} must be a whole number of at least {low}, not {value!r}")
        if not (is_number(self.tol) and self.tol >= 0):
            raise InputError(f"tol must be a number of at least 0, not {self.tol!r}")


def clamped(posterior: FloatArray, known: npt.NDArray[np.int64]) -> FloatArray:
    """The posterior with certainty where the truth is known."""
    given = np.flatnonzero(known != MISSING)
    if len(given):
        posterior[given] = np.eye(posterior.shape[1])[known[given]]
    return posterior


def _known_codes(crowd: Annotations, true_labels: Any) -> npt.NDArray[np.int64]:
    codes = np.full(crowd.n_tasks, MISSING, dtype=np.int64)
    if true_labels is None:
        return codes
    if not (isinstance(true_labels, Mapping) or hasattr(true_labels, "items")):
        raise InputError("true_labels must map task ids to labels: a dict, or a pandas Series indexed by task")
    tasks, labels = (as_names(part) for part in (true_labels.keys(), [label for _, label in true_labels.items()]))
    at, classes = decode_position(crowd.task_ids, tasks), decode_position(crowd.classes, labels)
    strange = labels[classes == MISSING].tolist()
    if strange:
        raise InputError(f"true_labels: {examples(strange)} are none of the classes {examples(crowd.classes)}")
    here = at != MISSING
    codes[at[here]] = classes[here]
    return codes
