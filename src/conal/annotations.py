"""Who said what about which task: the one container that every part of conal takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.cleaning import (
    OnDuplicate,
    drop_missing_labels,
    match_classes,
    pair_order,
    refuse_missing_ids,
    resolve_duplicates,
)
from conal.columns import find_column, find_columns
from conal.encoding import MISSING, Encoded, Names, as_names, decode_position, encode
from conal.errors import InputError
from conal.frames import column_names, frame_column, is_arrow, matrix_cells, open_frame

__all__ = ["MISSING", "Annotations", "OnDuplicate"]


class Annotations:
    """Crowd labels: which annotator gave which label to which task.

    Three integer arrays sorted by task, with row pointers (CSR), and the names that the user gave to tasks,
    annotators and classes. Nothing of size tasks x annotators is made unless :meth:`to_matrix` is called.
    Objects are immutable; methods return new ones.

    Make one with :meth:`from_frame`, :meth:`from_matrix`, :meth:`from_triples` or :meth:`read`.

    Attributes
    ----------
    tasks, annotators, labels : (n_annotations,) int32
        Codes of the annotations, sorted by task, then annotator.
    indptr : (n_tasks + 1,) int64
        Annotations of task ``i`` are ``indptr[i]:indptr[i + 1]``.
    task_ids, annotator_ids, classes : arrays
        What the user called them. Sorted, unless an order was given.
    by_position : bool
        True for a matrix and for ``ann[rows]``: task ``i`` goes with row ``i`` of a feature array of that length,
        whatever the task is called. This is what lets scikit-learn split features and annotations together.

    Example
    -------
    >>> ann = Annotations.from_triples([0, 0, 1], ["ann", "bob", "ann"], ["cat", "dog", "dog"])
    >>> ann
    Annotations(2 tasks, 2 annotators, 2 classes, 3 annotations)
    >>> ann.to_matrix().tolist()
    [[0, 1], [1, -1]]
    """

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
        self._tasks, self._annotators, self._labels = map(_frozen, own)
        self._indptr = _frozen(np.searchsorted(self._tasks, np.arange(self.n_tasks + 1)).astype(np.int64))
        self._by_position = by_position

    # ---------------------------------------------------------------- ways in

    @classmethod
    def from_triples(
        cls,
        tasks: object,
        workers: object,
        labels: object,
        *,
        classes: Sequence[Any] | Names | None = None,
        on_duplicate: OnDuplicate = "last",
        where: str = "annotations",
    ) -> Annotations:
        """From three equally long sequences, one entry per annotation.

        Parameters
        ----------
        tasks, workers, labels : sequences of any hashable values
            Missing labels (None, NaN) are dropped with a warning; missing tasks or workers are an error.
        classes : sequence, optional
            The classes in the order you want; sorted labels otherwise. A label outside it is an error.
        on_duplicate : {"last", "first", "error"}
            What to do when a worker labelled a task twice.
        where : str
            How messages name the source, such as the file.
        """
        task, worker, label = (
            _encoded(values, role, where) for values, role in ((tasks, "task"), (workers, "worker"), (labels, "label"))
        )
        lengths = {len(task.codes), len(worker.codes), len(label.codes)}
        if len(lengths) > 1:
            raise InputError(
                f"{where}: tasks, workers and labels have {len(task.codes)}, {len(worker.codes)} and "
                f"{len(label.codes)} entries; give one of each per annotation"
            )
        refuse_missing_ids(task.codes, "task", where)
        refuse_missing_ids(worker.codes, "worker", where)
        kept = drop_missing_labels(label.codes, where)
        class_names, label_codes = match_classes(label.names, label.codes, classes, where)
        present = slice(None) if kept.all() else kept
        columns = task.codes[present], worker.codes[present], label_codes[present]
        single = resolve_duplicates(columns[0], columns[1], on_duplicate, where, (task.names, worker.names))
        return cls(
            *(_frozen(column[single]) for column in columns),
            task_ids=task.names,
            annotator_ids=worker.names,
            classes=class_names,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        classes: Sequence[Any] | Names | None = None,
        on_duplicate: OnDuplicate = "last",
        where: str = "frame",
    ) -> Annotations:
        """From a long table (pandas, polars, Arrow) with one row per annotation.

        Columns are found by name: ``task``, ``worker``, ``label``, or one of their usual aliases
        (:data:`conal.columns.ALIASES`); name other columns by keyword.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"item": [7, 7], "annotator": ["a", "b"], "answer": ["yes", "no"]})
        >>> Annotations.from_frame(frame).classes.tolist()
        ['no', 'yes']
        """
        table = open_frame(frame, where)
        found = find_columns(table.columns, {"task": task, "worker": worker, "label": label}, where)
        columns = [frame_column(table[found[role]]) for role in ("task", "worker", "label")]
        return cls.from_triples(*columns, classes=classes, on_duplicate=on_duplicate, where=where)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        *,
        classes: Sequence[Any] | Names | None = None,
        task_ids: Sequence[Any] | Names | None = None,
        annotator_ids: Sequence[Any] | Names | None = None,
        where: str = "matrix",
    ) -> Annotations:
        """From an (n_tasks, n_annotators) matrix; -1, NaN, None and empty text mean "not annotated".

        A DataFrame's index and columns name the tasks and annotators. Rows are always tasks, also when the
        matrix is square.

        >>> Annotations.from_matrix([[0, -1], [1, 1]])
        Annotations(2 tasks, 2 annotators, 2 classes, 3 annotations)
        """
        if hasattr(matrix, "to_numpy") and hasattr(matrix, "columns"):
            task_ids = list(matrix.index) if task_ids is None and hasattr(matrix, "index") else task_ids
            annotator_ids = list(matrix.columns) if annotator_ids is None else annotator_ids
            matrix = matrix.to_numpy()
        values = matrix_cells(matrix, where)
        if values.ndim != 2:
            raise InputError(
                f"{where}: expected tasks x annotators, got an array of shape {values.shape}; "
                "one label per task is not a crowd: use conal.make('gold') for true labels"
            )
        label = encode(values.ravel())
        missing = label.codes == MISSING
        for empty in (MISSING, ""):
            missing |= label.codes == int(decode_position(label.names, as_names([empty]))[0])
        tasks, annotators = np.nonzero(~missing.reshape(values.shape))
        if not len(tasks):
            raise InputError(f"{where}: holds no label at all; -1 and NaN mean 'not annotated'")
        present = label.codes[~missing]
        used = np.unique(present)
        codes = np.searchsorted(used, present).astype(np.int32)
        class_names, codes = match_classes(label.names[used], codes, classes, where, tasks)
        for ids, size, kind in zip((task_ids, annotator_ids), values.shape, ("task", "annotator"), strict=True):
            if ids is not None and len(ids) != size:
                raise InputError(f"{where}: {len(ids):,} {kind} ids for {size:,} {kind}s; give one each")
        return cls(
            tasks,
            annotators,
            codes,
            task_ids=np.arange(values.shape[0]) if task_ids is None else task_ids,
            annotator_ids=np.arange(values.shape[1]) if annotator_ids is None else annotator_ids,
            classes=class_names,
            by_position=True,
        )

    @classmethod
    def of(cls, data: Any, *, where: str = "annotations") -> Annotations:
        """From whatever holds annotations: themselves, a long DataFrame, or an (n_tasks, n_annotators) matrix."""
        if isinstance(data, Annotations):
            return data
        if data is None or isinstance(data, str | PathLike | Mapping):
            raise InputError(
                f"{where}: expected Annotations, a long frame or a matrix, not {type(data).__name__}; "
                "a file is read by conal.Annotations.read(path), a dict of columns goes into a DataFrame"
            )
        names = column_names(data)
        if names is not None and all(find_column(names, role, None, where) for role in ("worker", "label")):
            return cls.from_frame(data, where=where)
        if is_arrow(data):
            return cls.from_frame(data, where=where)  # which says what is missing; it would make a strange matrix
        return cls.from_matrix(data, where=where)

    @classmethod
    def read(cls, path: str | PathLike[str], **options: Any) -> Annotations:
        """From a file: a table with one annotation per row, a matrix, or an export of an annotation platform.

        Options are those of :func:`conal.io.read_annotations`; ``format=`` overrides what is recognised.
        """
        from conal.io import read_annotations

        return read_annotations(path, **options)

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
        """(n_tasks, n_annotators), as of the matrix that is never made."""
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

    # ---------------------------------------------------------------- derived ones

    def __len__(self) -> int:
        return self.n_tasks

    def __getitem__(self, rows: Any) -> Annotations:
        """The annotations of some tasks, in that order; annotators and classes stay as they are.

        Takes what NumPy takes along one axis. Repeated rows are kept, as a bootstrap wants.
        """
        if isinstance(rows, tuple):  # scikit-learn indexes arrays by (rows, ...)
            rows = rows[0]
        picked = np.atleast_1d(np.arange(self.n_tasks)[rows])
        counts = self.labels_per_task()[picked]
        at = gather_ranges(self._indptr[picked], counts)
        return Annotations(
            np.repeat(np.arange(len(picked)), counts),
            self._annotators[at],
            self._labels[at],
            task_ids=self._task_ids[picked],
            annotator_ids=self._annotator_ids,
            classes=self._classes,
            by_position=True,
        )

    def reindex(self, task_ids: Sequence[Any] | Names) -> Annotations:
        """The same annotations for exactly these tasks in this order.

        A task that had no annotations becomes a task without labels; annotations of other tasks are left out.

        >>> ann = Annotations.from_triples([0, 2], ["a", "a"], ["x", "y"])
        >>> ann.reindex(range(3)).labels_per_task().tolist()
        [1, 0, 1]
        """
        wanted = _frozen_names(task_ids)
        if len(set(wanted.tolist())) < len(wanted):
            raise InputError("reindex: task ids are listed twice; give each once, or repeat rows with ann[rows]")
        position = decode_position(wanted, self._task_ids)[self._tasks]
        kept = position != MISSING
        return Annotations(
            position[kept],
            self._annotators[kept],
            self._labels[kept],
            task_ids=wanted,
            annotator_ids=self._annotator_ids,
            classes=self._classes,
            by_position=self._by_position,
        )

    def select(self, kept: npt.ArrayLike) -> Annotations:
        """Only the annotations where ``kept`` is true; tasks, annotators and classes stay."""
        mask = np.asarray(kept, dtype=bool)
        return Annotations(
            self._tasks[mask],
            self._annotators[mask],
            self._labels[mask],
            task_ids=self._task_ids,
            annotator_ids=self._annotator_ids,
            classes=self._classes,
            by_position=self._by_position,
        )

    # ---------------------------------------------------------------- ways out

    def to_matrix(self) -> npt.NDArray[np.int32]:
        """(n_tasks, n_annotators) class codes, ``MISSING`` (-1) where there is none."""
        matrix = np.full(self.shape, MISSING, dtype=np.int32)
        matrix[self._tasks, self._annotators] = self._labels
        return matrix

    def to_table(self) -> pa.Table:
        """An Arrow table with columns task, worker, label in the user's names, one row per annotation."""
        columns = (
            (self._task_ids, self._tasks),
            (self._annotator_ids, self._annotators),
            (self._classes, self._labels),
        )
        return pa.table(
            {
                name: _arrow_names(names, name).take(pa.array(codes))
                for name, (names, codes) in zip(("task", "worker", "label"), columns, strict=True)
            }
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """(n_tasks,) objects, one per task: the set of its (annotator, label) codes.

        scikit-learn asks for an array to find out what kind of target this is. It gets one that it can split and
        count, but not mistake for labels; for the matrix call :meth:`to_matrix`.
        """
        pairs = list(zip(self._annotators.tolist(), self._labels.tolist(), strict=True))
        array = np.empty(self.n_tasks, dtype=object)
        for i in range(self.n_tasks):
            array[i] = frozenset(pairs[self._indptr[i] : self._indptr[i + 1]])
        return array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("tasks", "annotators", "labels", "task_ids", "annotator_ids", "classes")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Annotations({self.n_tasks:,} tasks, {self.n_annotators:,} annotators, "
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


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def _frozen_names(values: Sequence[Any] | Names) -> Names:
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        return values
    return as_names(values)


def _check_codes(columns: list[npt.NDArray[np.int32]], sizes: list[int]) -> None:
    for codes, size, kind in zip(columns, sizes, ("task", "annotator", "class"), strict=True):
        if codes.ndim != 1 or len(codes) != len(columns[0]):
            raise InputError("tasks, annotators and labels must be one-dimensional and equally long")
        if len(codes) and (codes.min() < 0 or codes.max() >= size):
            raise InputError(f"{kind} codes must be in range({size}), found {codes.min()} to {codes.max()}")


def _encoded(values: object, role: str, where: str) -> Encoded:
    try:
        return encode(values)
    except InputError as error:
        raise InputError(f"{where}: {role}: {error}") from error


def _arrow_names(names: Names, role: str) -> pa.Array:
    try:
        return pa.array(names.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InputError(f"{role} names of several types do not fit into one column ({error})") from error
