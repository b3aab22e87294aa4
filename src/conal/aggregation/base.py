"""What aggregators share: their names, what they take, and what they give."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from conal.aggregation.votes import FloatArray
from conal.annotations import Annotations
from conal.encoding import MISSING, Names, as_names, decode_position
from conal.errors import InputError, examples
from conal.registry import Registry

__all__ = ["Aggregator", "aggregators", "make", "register"]

A = TypeVar("A", bound="Aggregator")

aggregators: Registry[type[Aggregator]] = Registry("aggregator", "conal.aggregation")


def register(name: str) -> Callable[[type[A]], type[A]]:
    """Enter an aggregator under a name for the command line; it is kept as ``cls.name``."""

    def enter(cls: type[A]) -> type[A]:
        cls.name = name
        aggregators.register(name)(cls)
        return cls

    return enter


def make(name: str, **parameters: Any) -> Aggregator:
    """An aggregator by its registered name; an unknown parameter is an error that lists the known ones.

    >>> make("dawid-skene", prior=0.1).prior
    0.1
    """
    cls = aggregators.get(name)
    known = cls.parameter_names()
    strange = sorted(set(parameters) - set(known))
    if strange:
        raise InputError(f"{name} has no parameter {examples(strange)}; it has {', '.join(known)}")
    return cls(**parameters)


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
    confusion_ : (n_annotators, n_classes, n_classes)
        ``confusion_[r, c, l]`` = P(annotator r says l | true c): true before observed.
    skills_ : (n_annotators,)
        Probability that a label of the annotator is right.
    """

    name: ClassVar[str]

    classes_: Names
    task_ids_: Names
    annotator_ids_: Names
    probas_: FloatArray
    codes_: npt.NDArray[np.int64]
    labels_: Names
    confusion_: FloatArray
    skills_: FloatArray

    @classmethod
    def parameter_names(cls) -> list[str]:
        """What the constructor takes."""
        return [name for name in inspect.signature(cls).parameters if name != "self"]

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
        return self._like(data, {"label": self.labels_}, self.labels_)

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

            index = pd.Index(self.task_ids_, name="task", tupleize_cols=False)
            frame = pd.DataFrame(columns, index=index)
            return frame["label"] if list(columns) == ["label"] else frame
        if module == "polars":
            import polars as pl

            named = {"task": self.task_ids_, **{str(k): v for k, v in columns.items()}}
            return pl.DataFrame({name: values.tolist() for name, values in named.items()})
        return otherwise


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
