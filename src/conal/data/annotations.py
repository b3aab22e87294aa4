"""Annotations: the container for crowd labels that every part of conal takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.cleaning import (
    OnDuplicate,
    match_classes,
    refuse_missing_ids,
    resolve_duplicates,
)
from conal.data.container import LabelArrays, frozen, refused_answers
from conal.data.encoding import MISSING, Encoded, Names, as_names, encode
from conal.data.frames import (
    column_names,
    find_column,
    find_columns,
    find_time,
    frame_column,
    is_arrow,
    is_truth_column,
    matrix_cells,
    open_frame,
    warn_of_truth,
)
from conal.data.matching import warn_of_lookalikes
from conal.data.missing import Labels, drop_blank_names, read_labels, remedy_for, warn_of_dropped
from conal.data.scales import levels_of, read_times
from conal.errors import InputError

MANY_CLASSES = 20
"""More classes than these, and than half the tasks, are a sign that cells are no labels."""


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
    ordinal : bool
        Whether the classes are a scale, from the lowest to the highest (:meth:`as_ordinal`).
    abstentions : LabelArrays or None
        Refused answers: which annotator declined which task. Its classes are the words for that; None if no words were
        listed.
    times : (n_annotations,) datetime64[us] or None
        When each label was given, NaT where that is not known; None if the source has no times.

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
        missing: Any = None,
        abstain: Any = None,
        on_duplicate: OnDuplicate = "last",
        times: object = None,
        where: str = "annotations",
    ) -> Annotations:
        """From three equally long sequences, one entry per annotation.

        Parameters
        ----------
        tasks, workers, labels : sequences of any hashable values
            Missing labels are dropped with a warning, and their tasks stay, without a label. A missing task, or a label
            without a worker, is an error. None, NaN, masked values and blank text are missing; of labels, also the
            words NA, N/A, null and nan.
        classes : sequence, optional
            The classes in the order you want; sorted labels otherwise. A label outside it is an error.
        missing : value or sequence of values, optional
            Labels that mean "no label", in place of these words; "" if all words are classes.
        abstain : value or sequence of values, optional
            Labels that mean "declined to answer", such as "refused". They are no classes; ``abstentions`` has them.
        on_duplicate : {"last", "first", "error"}
            What to do when a worker labelled a task twice.
        times : sequence, optional
            When each label was given: dates, text as in 2026-11-17T10:00:00Z, or seconds since 1970. A column of which
            most values are no times is ignored.
        where : str
            How messages name the source, such as the file.
        """
        task, worker = (_encoded(values, role, where) for values, role in ((tasks, "task"), (workers, "worker")))
        if not isinstance(labels, Labels):
            labels = read_labels(labels, missing=missing, abstain=abstain, classes=classes, where=where)
        when = None if times is None else read_times(times)
        if when is not None and len(when) != len(labels.codes):
            raise InputError(f"{where}: {len(when):,} times for {len(labels.codes):,} labels; pass one for each")
        lengths = {len(task.codes), len(worker.codes), len(labels.codes)}
        if len(lengths) > 1:
            raise InputError(
                f"{where}: tasks, workers and labels have {len(task.codes)}, {len(worker.codes)} and "
                f"{len(labels.codes)} entries; pass one of each per annotation"
            )
        refuse_missing_ids(task.codes, "task", where)
        kept = labels.codes != MISSING
        answered = kept if labels.refused is None else labels.answered
        refuse_missing_ids(np.where(answered, worker.codes, 0), "worker", where)  # a task without a label needs none
        if not kept.any():
            raise InputError(
                f"{where}: every label is missing; {remedy_for(labels, 'is this the right label column?')}"
            )
        warn_of_dropped(labels, where, () if kept.all() else _unlabelled(task, kept))
        warn_of_lookalikes(task.names, "tasks", where)
        warn_of_lookalikes(worker.names, "annotators", where)
        class_names, label_codes = match_classes(labels.names, labels.codes, classes, where)
        present = slice(None) if kept.all() else kept
        columns = task.codes[present], worker.codes[present], label_codes[present]
        single = resolve_duplicates(columns[0], columns[1], on_duplicate, where, (task.names, worker.names))
        return cls(
            *(frozen(column[single]) for column in columns),
            task_ids=task.names,
            annotator_ids=worker.names,
            classes=class_names,
            abstentions=refused_answers(labels, task, worker, where),
            times=None if when is None else when[present][single],
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
        missing: Any = None,
        abstain: Any = None,
        on_duplicate: OnDuplicate = "last",
        where: str = "frame",
    ) -> Annotations:
        """From a long table (pandas, polars, Arrow) with one row per annotation.

        Columns are found by name: ``task``, ``worker``, ``label``, or one of their usual aliases
        (:data:`conal.data.frames.ALIASES`); name other columns by keyword. A column of times (``time``,
        ``created_at``, ...) is kept where there is one.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"item": [7, 7], "annotator": ["a", "b"], "answer": ["yes", "no"]})
        >>> Annotations.from_frame(frame).classes.tolist()
        ['no', 'yes']
        """
        table = open_frame(frame, where)
        found = find_columns(table.columns, {"task": task, "worker": worker, "label": label}, where)
        columns = [frame_column(table[found[role]]) for role in ("task", "worker", "label")]
        time = find_time([name for name in table.columns if name not in found.values()])
        times = None if time is None else frame_column(table[time])
        options: dict[str, Any] = {"missing": missing, "abstain": abstain, "on_duplicate": on_duplicate, "times": times}
        return cls.from_triples(*columns, classes=classes, **options, where=where)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        *,
        classes: Sequence[Any] | Names | None = None,
        task_ids: Sequence[Any] | Names | None = None,
        annotator_ids: Sequence[Any] | Names | None = None,
        missing: Any = None,
        abstain: Any = None,
        where: str = "matrix",
    ) -> Annotations:
        """From an (n_tasks, n_annotators) matrix; -1, NaN, None, masked cells and blank text mean "not annotated".

        So do the words NA, N/A, null and nan, with a warning, and -1 beside empty cells or other negative labels;
        ``missing`` lists other values than -1 and these words, and ``missing=""`` makes classes of all of them.
        ``abstain`` lists values that mean "declined to answer".

        A DataFrame's index and columns name the tasks and annotators. Rows are always tasks, also when the
        matrix is square.

        >>> Annotations.from_matrix([[0, -1], [1, 1]])
        Annotations(2 tasks, 2 annotators, 2 classes, 3 annotations)
        """
        if hasattr(matrix, "to_numpy") and hasattr(matrix, "columns"):
            matrix = _without_truth(matrix, where) if annotator_ids is None else matrix
            task_ids = list(matrix.index) if task_ids is None and hasattr(matrix, "index") else task_ids
            annotator_ids = list(matrix.columns) if annotator_ids is None else annotator_ids
            matrix = matrix.to_numpy()
        values = matrix_cells(matrix, where)
        if values.ndim != 2:
            raise InputError(
                f"{where}: expected tasks x annotators, got an array of shape {values.shape}; "
                "one label per task is not a crowd: use conal.make('gold') for true labels"
            )
        options: dict[str, Any] = {"missing": missing, "abstain": abstain, "classes": classes}
        label = read_labels(values.ravel(), **options, in_matrix=True, where=where)
        present = label.codes != MISSING
        tasks, annotators = np.nonzero(present.reshape(values.shape))
        if not len(tasks):
            raise InputError(f"{where}: contains no labels; -1 and NaN mean 'not annotated'")
        warn_of_dropped(label, where)
        class_names, codes = match_classes(label.names, label.codes[present], classes, where, tasks)
        for ids, size, kind in zip((task_ids, annotator_ids), values.shape, ("task", "annotator"), strict=True):
            if ids is not None and len(ids) != size:
                raise InputError(f"{where}: {len(ids):,} {kind} ids for {size:,} {kind}s; pass one for each")
            if ids is not None:
                found = _encoded(ids, kind, where)
                refuse_missing_ids(found.codes, f"{kind} id", where)
                warn_of_lookalikes(found.names, "tasks" if kind == "task" else "annotators", where)
        return cls(
            tasks,
            annotators,
            codes,
            task_ids=np.arange(values.shape[0]) if task_ids is None else task_ids,
            annotator_ids=np.arange(values.shape[1]) if annotator_ids is None else annotator_ids,
            classes=class_names,
            by_position=True,
            abstentions=None
            if label.refused is None
            else refused_answers(label, *_cells(values.shape, task_ids, annotator_ids), where),
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
        roles = [find_column(names, role, None, where) for role in ("task", "worker", "label")] if names else []
        if is_arrow(data) or len([role for role in roles if role is not None]) > 1:
            return cls.from_frame(data, where=where)  # which tells of a missing column, where a matrix would be wrong
        if roles and roles[0] is not None:
            return cls._of_wide(data, roles[0], where)
        crowd = cls.from_matrix(data, where=where)
        if crowd.n_classes > max(MANY_CLASSES, crowd.n_tasks // 2):
            raise InputError(
                f"{where}: as a matrix of tasks x annotators it has {crowd.n_classes:,} classes in {crowd.n_tasks:,} "
                "rows; if a row is one label, pass a frame with the columns 'task', 'worker' and 'label', and "
                "otherwise Annotations.from_matrix"
            )
        return crowd

    @classmethod
    def _of_wide(cls, frame: Any, task: str, where: str) -> Annotations:
        """A frame with a row per task, whose ids are a column, and a column per annotator."""
        table = open_frame(frame, where)
        truth = [name for name in table.columns if name != task and is_truth_column(name)]
        if truth:
            warn_of_truth(truth, where, f"pass true_labels=dict(zip(frame[{task!r}], frame[{truth[0]!r}]))")
        annotators = [name for name in table.columns if name not in (task, *truth)]
        cells = table.select(annotators).to_native()
        cells = cells.to_numpy() if hasattr(cells, "to_numpy") else cells
        ids = table[task].to_list()
        return cls.from_matrix(cells, task_ids=ids, annotator_ids=annotators, where=where)

    @classmethod
    def read(cls, path: str | PathLike[str] | Sequence[str | PathLike[str]], **options: Any) -> Annotations:
        """From a file: a table with one annotation per row, a matrix, or an export of an annotation platform.

        Several files are joined. Options are those of :func:`conal.io.read_annotations`; ``format=`` overrides what is
        recognised.
        """
        from conal.io import read_annotations

        return read_annotations(path, **options)

    def as_ordinal(self, classes: Sequence[Any] | Names | None = None, *, where: str = "annotations") -> Annotations:
        """The same labels, with the statement that their classes are a scale, such as grades from 1 to 5.

        Parameters
        ----------
        classes : sequence, optional
            The classes from the lowest to the highest, also those that nobody used. Numbers have their own order;
            others must be listed, unless there are only two.
        where : str
            How messages name the source, such as the file.

        Examples
        --------
        >>> Annotations.from_matrix([[1, 2], [5, 4]]).as_ordinal().ordinal
        True
        >>> Annotations.from_matrix([["bad", "good"]]).as_ordinal(["bad", "fair", "good"]).labels.tolist()
        [0, 2]
        """
        names, labels = self.classes, self.labels
        if classes is not None:
            names, labels = match_classes(names, labels, classes, where)
        try:
            levels = levels_of(names, stated=classes is not None)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        return self.replace(classes=names[np.argsort(levels)], labels=levels[labels], ordinal=True)

    def levels(self) -> npt.NDArray[np.int64]:
        """(n_classes,) the place of each class on the scale, from 0; an error if the order of the classes is unknown.

        >>> Annotations.from_matrix([[3, 1], [2, 2]]).levels().tolist()
        [0, 1, 2]
        """
        return levels_of(self.classes, stated=self.ordinal)

    def _repr_html_(self) -> str:
        from conal.report.summaries import annotations_summary

        return annotations_summary(self)


def _encoded(values: object, role: str, where: str) -> Encoded:
    try:
        return drop_blank_names(encode(values))
    except InputError as error:
        raise InputError(f"{where}: {role}: {error}") from error


def _cells(
    shape: tuple[int, ...], task_ids: Sequence[Any] | Names | None, annotator_ids: Sequence[Any] | Names | None
) -> tuple[Encoded, Encoded]:
    """Task and annotator of every cell of a matrix, row by row."""
    rows, columns = (codes.ravel().astype(np.int32) for codes in np.indices(shape))
    named = zip(shape, (task_ids, annotator_ids), strict=True)
    names = [as_names(range(n) if ids is None else ids) for n, ids in named]
    return Encoded(rows, names[0]), Encoded(columns, names[1])


def _without_truth(frame: Any, where: str) -> Any:
    """A frame with a column per annotator, without columns of true labels."""
    truth = [name for name in frame.columns if is_truth_column(name)]
    if not truth:
        return frame
    ids = "frame.index" if hasattr(frame, "index") else "range(len(frame))"
    warn_of_truth(truth, where, f"pass true_labels=dict(zip({ids}, frame[{truth[0]!r}]))")
    return frame[[name for name in frame.columns if name not in truth]]


def _unlabelled(task: Encoded, kept: npt.NDArray[np.bool_]) -> list[Any]:
    """The tasks of which no row is kept."""
    left = np.bincount(task.codes[kept], minlength=len(task.names))
    return list(task.names[left == 0].tolist())
