"""Annotations: the container for crowd labels that every part of conal takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from conal.data.cleaning import (
    OnDuplicate,
    drop_missing_labels,
    match_classes,
    refuse_missing_ids,
    resolve_duplicates,
)
from conal.data.columns import find_column, find_columns
from conal.data.container import LabelArrays, frozen
from conal.data.encoding import MISSING, Encoded, Names, as_names, decode_position, encode
from conal.data.frames import column_names, frame_column, is_arrow, matrix_cells, open_frame
from conal.errors import InputError

__all__ = ["MISSING", "Annotations", "OnDuplicate"]


class Annotations(LabelArrays):
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

    Examples
    --------
    >>> ann = Annotations.from_triples([0, 0, 1], ["ann", "bob", "ann"], ["cat", "dog", "dog"])
    >>> ann
    Annotations(2 tasks, 2 annotators, 2 classes, 3 annotations)
    >>> ann.to_matrix().tolist()
    [[0, 1], [1, -1]]
    """

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
            Missing labels (None, NaN) are dropped with a warning, and their tasks stay, without a label. A missing
            task, or a label without a worker, is an error.
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
                f"{len(label.codes)} entries; pass one of each per annotation"
            )
        refuse_missing_ids(task.codes, "task", where)
        kept = drop_missing_labels(label.codes, where)
        refuse_missing_ids(np.where(kept, worker.codes, 0), "worker", where)  # a task without a label needs none
        class_names, label_codes = match_classes(label.names, label.codes, classes, where)
        present = slice(None) if kept.all() else kept
        columns = task.codes[present], worker.codes[present], label_codes[present]
        single = resolve_duplicates(columns[0], columns[1], on_duplicate, where, (task.names, worker.names))
        return cls(
            *(frozen(column[single]) for column in columns),
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
        (:data:`conal.data.columns.ALIASES`); name other columns by keyword.

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
            raise InputError(f"{where}: contains no labels; -1 and NaN mean 'not annotated'")
        present = label.codes[~missing]
        used = np.unique(present)
        codes = np.searchsorted(used, present).astype(np.int32)
        class_names, codes = match_classes(label.names[used], codes, classes, where, tasks)
        for ids, size, kind in zip((task_ids, annotator_ids), values.shape, ("task", "annotator"), strict=True):
            if ids is not None and len(ids) != size:
                raise InputError(f"{where}: {len(ids):,} {kind} ids for {size:,} {kind}s; pass one for each")
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
        """From any accepted type: annotations, a long DataFrame, or an (n_tasks, n_annotators) matrix."""
        if isinstance(data, Annotations):
            return data
        if data is None or isinstance(data, str | PathLike | Mapping):
            raise InputError(
                f"{where}: expected Annotations, a long frame or a matrix, not {type(data).__name__}; "
                "use conal.Annotations.read(path) for a file, and a DataFrame for a dict of columns"
            )
        names = column_names(data)
        if names is not None and all(find_column(names, role, None, where) for role in ("worker", "label")):
            return cls.from_frame(data, where=where)
        if is_arrow(data):
            return cls.from_frame(
                data, where=where
            )  # raises an error about missing columns, instead of reading a wrong matrix
        return cls.from_matrix(data, where=where)

    @classmethod
    def read(cls, path: str | PathLike[str], **options: Any) -> Annotations:
        """From a file: a table with one annotation per row, a matrix, or an export of an annotation platform.

        Options are those of :func:`conal.io.read_annotations`; ``format=`` overrides what is recognised.
        """
        from conal.io import read_annotations

        return read_annotations(path, **options)


def _encoded(values: object, role: str, where: str) -> Encoded:
    try:
        return encode(values)
    except InputError as error:
        raise InputError(f"{where}: {role}: {error}") from error
