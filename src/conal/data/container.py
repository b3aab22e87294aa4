"""Codes of tasks, annotators and labels, sorted by task, with their names, times and abstentions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray, grouped_sums
from conal.data.cleaning import pair_order
from conal.data.encoding import MISSING, Encoded, Names, as_names, decode_position, encode
from conal.data.missing import Labels
from conal.errors import DataWarning, InputError, examples, warn

# Codes of tasks, annotators and labels, sorted by task, and their names.


class LabelArrays:
    """The container behind :class:`conal.Annotations`: three integer arrays with row pointers (CSR), and names.

    Objects are immutable; methods return new ones.
    """

    _ordinal = False  # of objects that were pickled before there were scales and refused answers
    _abstentions: LabelArrays | None = None
    _times: npt.NDArray[np.datetime64] | None = None

    def __init__(
        self,
        tasks: npt.ArrayLike,
        annotators: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        task_ids: Sequence[Any] | Names,
        annotator_ids: Sequence[Any] | Names,
        classes: Sequence[Any] | Names,
        by_position: bool = False,
        ordinal: bool = False,
        abstentions: LabelArrays | None = None,
        times: npt.ArrayLike | None = None,
    ) -> None:
        names = [_frozen_names(ids) for ids in (task_ids, annotator_ids, classes)]
        self._task_ids, self._annotator_ids, self._classes = names
        columns = [np.asarray(codes, dtype=np.int32) for codes in (tasks, annotators, labels)]
        _check_codes(columns, [len(ids) for ids in names])
        order = pair_order(columns[0], columns[1])
        # Codes that somebody could still write to are copied, others may be kept as they are.
        own = [
            codes.copy() if codes.flags.writeable and isinstance(order, slice) else codes[order] for codes in columns
        ]
        self._tasks, self._annotators, self._labels = map(frozen, own)
        self._indptr = frozen(np.searchsorted(self._tasks, np.arange(self.n_tasks + 1)).astype(np.int64))
        self._by_position = by_position
        self._ordinal = ordinal
        self._abstentions = abstentions
        self._times = None if times is None else frozen(as_times(times, len(columns[0]))[order])

    @classmethod
    def assembled(
        cls,
        columns: Sequence[npt.NDArray[np.int32]],
        indptr: npt.NDArray[np.int64],
        names: Sequence[Names],
        *,
        by_position: bool = False,
        ordinal: bool = False,
        abstentions: LabelArrays | None = None,
        times: npt.NDArray[np.datetime64] | None = None,
    ) -> Self:
        """From arrays that are as the constructor would make them: sorted, checked and read-only. Nothing is copied."""
        made = cls.__new__(cls)
        made._tasks, made._annotators, made._labels = columns
        made._indptr, made._times = indptr, times
        made._task_ids, made._annotator_ids, made._classes = names
        made._by_position, made._ordinal, made._abstentions = by_position, ordinal, abstentions
        return made

    # ---------------------------------------------------------------- what is inside

    @property
    def tasks(self) -> npt.NDArray[np.int32]:
        return self._tasks

    @property
    def annotators(self) -> npt.NDArray[np.int32]:
        return self._annotators

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        return self._labels

    @property
    def indptr(self) -> npt.NDArray[np.int64]:
        return self._indptr

    @property
    def task_ids(self) -> Names:
        return self._task_ids

    @property
    def annotator_ids(self) -> Names:
        return self._annotator_ids

    @property
    def classes(self) -> Names:
        return self._classes

    @property
    def by_position(self) -> bool:
        return self._by_position

    @property
    def ordinal(self) -> bool:
        return self._ordinal

    @property
    def abstentions(self) -> LabelArrays | None:
        return self._abstentions

    @property
    def times(self) -> npt.NDArray[np.datetime64] | None:
        return self._times

    @property
    def n_tasks(self) -> int:
        return len(self._task_ids)

    @property
    def n_annotators(self) -> int:
        return len(self._annotator_ids)

    @property
    def n_classes(self) -> int:
        return len(self._classes)

    @property
    def n_annotations(self) -> int:
        return len(self._labels)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_tasks, n_annotators), the shape of the label matrix, which is never created."""
        return self.n_tasks, self.n_annotators

    def labels_per_task(self) -> npt.NDArray[np.int64]:
        """(n_tasks,) how many labels each task has."""
        return np.diff(self._indptr)

    def labels_per_annotator(self) -> npt.NDArray[np.int64]:
        """(n_annotators,) how many labels each annotator gave."""
        return np.bincount(self._annotators, minlength=self.n_annotators).astype(np.int64)

    def votes(self) -> npt.NDArray[np.int64]:
        """(n_tasks, n_classes) ``votes[i, l]`` = how many annotators gave label ``l`` to task ``i``."""
        cells = self._tasks.astype(np.int64) * self.n_classes + self._labels
        counts = np.bincount(cells, minlength=self.n_tasks * self.n_classes)
        return counts.astype(np.int64).reshape(self.n_tasks, self.n_classes)

    def expected_counts(self, posterior: FloatArray) -> FloatArray:
        """(R, C, C) ``[r, c, l]``: how many labels l annotator r gave to tasks of class c, as expected.

        ``posterior`` (n_annotations, C) is that of every label's task.
        """
        R, C = self.n_annotators, self.n_classes
        cells = self._annotators.astype(np.int64) * C + self._labels
        return grouped_sums(cells, posterior, R * C).reshape(R, C, C).transpose(0, 2, 1)

    # ---------------------------------------------------------------- derived ones

    def __len__(self) -> int:
        return self.n_tasks

    def __getitem__(self, rows: Any) -> Self:
        """The annotations of some tasks, in that order; annotators and classes stay as they are.

        Takes what NumPy takes along one axis. Repeated rows are kept, as a bootstrap wants.
        """
        if isinstance(rows, tuple):  # scikit-learn indexes arrays by (rows, ...)
            rows = rows[0]
        picked = np.atleast_1d(np.arange(self.n_tasks)[rows])
        counts = self.labels_per_task()[picked]
        at = gather_ranges(self._indptr[picked], counts)
        columns = np.repeat(np.arange(len(picked), dtype=np.int32), counts), self._annotators[at], self._labels[at]
        return self.assembled(
            tuple(map(frozen, columns)),
            frozen(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])),
            (frozen(self._task_ids[picked]), self._annotator_ids, self._classes),
            by_position=True,
            ordinal=self._ordinal,
            abstentions=None if self._abstentions is None else self._abstentions[rows],
            times=None if self._times is None else frozen(self._times[at]),
        )

    def reindex(self, task_ids: Sequence[Any] | Names) -> Self:
        """The same annotations for exactly these tasks in this order.

        A task that had no annotations becomes a task without labels; annotations of other tasks are left out.

        >>> from conal import Annotations
        >>> ann = Annotations.from_triples([0, 2], ["a", "a"], ["x", "y"])
        >>> ann.reindex(range(3)).labels_per_task().tolist()
        [1, 0, 1]
        """
        wanted = _frozen_names(task_ids)
        if len(set(wanted.tolist())) < len(wanted):
            raise InputError("reindex: task ids are listed twice; pass each once, or repeat rows with ann[rows]")
        position = decode_position(wanted, self._task_ids)[self._tasks]
        kept = position != MISSING
        return self.replace(
            tasks=position[kept],
            annotators=self._annotators[kept],
            labels=self._labels[kept],
            task_ids=wanted,
            abstentions=None if self._abstentions is None else self._abstentions.reindex(wanted),
            times=self._times_at(kept),
        )

    def select(self, kept: npt.ArrayLike) -> Self:
        """Only the annotations where ``kept`` is true; tasks, annotators and classes stay."""
        mask = np.asarray(kept, dtype=bool)
        return self.replace(
            tasks=self._tasks[mask],
            annotators=self._annotators[mask],
            labels=self._labels[mask],
            times=self._times_at(mask),
        )

    def _times_at(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.datetime64] | None:
        return None if self._times is None else self._times[rows]

    def replace(self, **changes: Any) -> Self:
        """A copy with other codes, names or statements: keywords as of the constructor.

        >>> from conal import Annotations
        >>> ann = Annotations.from_matrix([[0, 1]])
        >>> ann.replace(classes=["no", "yes"]).classes.tolist(), ann.replace(ordinal=True).ordinal
        (['no', 'yes'], True)
        """
        arguments: dict[str, Any] = {
            "tasks": self._tasks,
            "annotators": self._annotators,
            "labels": self._labels,
            "task_ids": self._task_ids,
            "annotator_ids": self._annotator_ids,
            "classes": self._classes,
            "by_position": self._by_position,
            "ordinal": self._ordinal,
            "abstentions": self._abstentions,
            "times": self._times,
        }
        return type(self)(**(arguments | changes))

    # ---------------------------------------------------------------- ways out

    def to_matrix(self) -> npt.NDArray[np.int32]:
        """(n_tasks, n_annotators) class codes, ``MISSING`` (-1) where there is none."""
        matrix = np.full(self.shape, MISSING, dtype=np.int32)
        matrix[self._tasks, self._annotators] = self._labels
        return matrix

    def to_table(self) -> pa.Table:
        """An Arrow table with columns task, worker, label in the user's names, one row per annotation.

        Where times are known, a fourth column has them.
        """
        columns = (
            (self._task_ids, self._tasks),
            (self._annotator_ids, self._annotators),
            (self._classes, self._labels),
        )
        given = {
            name: _arrow_names(names, name).take(pa.array(codes))
            for name, (names, codes) in zip(("task", "worker", "label"), columns, strict=True)
        }
        return pa.table(given if self._times is None else given | {"time": pa.array(self._times)})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """(n_tasks,) objects, one per task: the set of its (annotator, label) codes.

        scikit-learn asks for an array to find out what kind of target this is. It gets one that it can split and
        count, but not mistake for labels; for the matrix call :meth:`to_matrix`.
        """
        if not self._by_position:
            _warn_of_splits(self._task_ids)
        pairs = list(zip(self._annotators.tolist(), self._labels.tolist(), strict=True))
        array = np.empty(self.n_tasks, dtype=object)
        for i in range(self.n_tasks):
            array[i] = frozenset(pairs[self._indptr[i] : self._indptr[i + 1]])
        return array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelArrays):
            return NotImplemented
        same_times = (self._times is None) == (other._times is None) and (
            self._times is None or np.array_equal(self._times, other._times, equal_nan=True)  # type: ignore[arg-type]
        )
        return (
            self._abstentions == other._abstentions
            and same_times
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("tasks", "annotators", "labels", "task_ids", "annotator_ids", "classes", "ordinal")
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_tasks:,} tasks, {self.n_annotators:,} annotators, "
            f"{self.n_classes:,} classes, {self.n_annotations:,} annotations)"
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state)


def gather_ranges(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The ranges ``starts[k] : starts[k] + counts[k]`` one after the other, without a Python loop.

    >>> gather_ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    offsets = np.repeat(starts - (ends - counts), counts)
    return offsets + np.arange(len(offsets))


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def _warn_of_splits(task_ids: Names) -> None:
    """Splits go by row, also where a fit would refuse to match tasks with such ids to the rows of an array.

    Ids in another order than sorted were put into it by somebody (:meth:`LabelArrays.reindex`).
    """
    numbers = np.arange(len(task_ids))
    if np.array_equal(task_ids, numbers) or not np.array_equal(encode(task_ids).codes, numbers):
        return
    warn(
        f"annotations: task i is taken for row i of the features, tasks being sorted by id ({examples(task_ids)}); if "
        "the rows have another order, pass annotations.reindex(ids)[:], with their ids, and if not, annotations[:]",
        DataWarning,
    )


def _frozen_names(values: Sequence[Any] | Names) -> Names:
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        return values
    return as_names(values)


def as_times(values: npt.ArrayLike, n: int) -> npt.NDArray[np.datetime64]:
    """Times of n labels, in microseconds; NaT where a time is not known."""
    times = np.array(values, dtype="datetime64[us]")  # a copy, which is then frozen
    if times.shape != (n,):
        raise InputError(f"{times.size:,} times for {n:,} labels; pass one for each, NaT where it is not known")
    return times


def _check_codes(columns: list[npt.NDArray[np.int32]], sizes: list[int]) -> None:
    for codes, size, kind in zip(columns, sizes, ("task", "annotator", "class"), strict=True):
        if codes.ndim != 1 or len(codes) != len(columns[0]):
            raise InputError("tasks, annotators and labels must be one-dimensional and equally long")
        if len(codes) and (codes.min() < 0 or codes.max() >= size):
            raise InputError(f"{kind} codes must be in range({size}), found {codes.min()} to {codes.max()}")


def _arrow_names(names: Names, role: str) -> pa.Array:
    try:
        column = pa.array(names.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InputError(
            f"{role} names of several types cannot be in one column ({error}); use text or numbers"
        ) from error
    return pa.array(map(str, names.tolist())) if isinstance(column.type, pa.BaseExtensionType) else column  # UUIDs


# Refused answers: who was asked about which task and declined, kept beside the labels.


def refused_answers(labels: Labels, task: Encoded, worker: Encoded, where: str) -> LabelArrays | None:
    """The refused answers in a column of labels; None if nothing was listed as one.

    Who declined and then answered has answered. Of two refusals of one task by one annotator, the first is kept.

    Parameters
    ----------
    labels : Labels
    task, worker : Encoded
        The task and the annotator of every label.
    where : str
        How messages name the source.
    """
    if labels.refused is None:
        return None
    pairs = task.codes.astype(np.int64) * max(len(worker.names), 1) + worker.codes
    declined = np.flatnonzero(labels.refused != MISSING)
    _, first = np.unique(pairs[declined], return_index=True)
    rows = declined[first]
    rows = rows[~np.isin(pairs[rows], pairs[labels.codes != MISSING])]
    unused = [word for k, word in enumerate(labels.refusals) if not (labels.refused == k).any()]
    if unused:
        warn(f"{where}: no label is {examples(unused)}; check abstain (--abstain)", DataWarning)
    return LabelArrays(
        task.codes[rows],
        worker.codes[rows],
        labels.refused[rows],
        task_ids=task.names,
        annotator_ids=worker.names,
        classes=labels.refusals,
    )
