"""Annotations: the container for crowd labels that every part of conal takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray, grouped_sums
from conal.data.cleaning import (
    Labels,
    OnDuplicate,
    drop_blank_names,
    match_classes,
    pair_order,
    read_labels,
    refuse_missing_ids,
    remedy_for,
    resolve_duplicates,
    warn_of_dropped,
)
from conal.data.encoding import MISSING, Encoded, Names, as_names, decode_position, encode, name_column, spelling
from conal.data.frames import (
    column_names,
    find_column,
    find_columns,
    find_first,
    frame_column,
    is_name_column,
    is_truth_column,
    matrix_cells,
    open_frame,
    warn_of_truth,
)
from conal.data.matching import merge_lookalikes, warn_of_lookalikes
from conal.data.scales import levels_of, read_times
from conal.errors import DataWarning, InputError, examples, people, warn

LONG = ("task", "worker", "label")
"""Columns of a table with a row per annotation."""
MANY_CLASSES = 20
"""More classes than these, and than half the tasks, are a sign that cells are no labels."""


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
    ordinal : bool
        Whether the classes are a scale, from the lowest to the highest (:meth:`as_ordinal`).
    abstentions : Annotations or None
        Refused answers: which annotator declined which task. Its classes are the words for that; None if no words were
        listed.
    times : (n_annotations,) datetime64[us] or None
        When each label was given, NaT where that is not known; None if the source has no times.
    hide_below : int
        Above 0 if annotators have pseudonyms: figures about them are rounded to multiples (:meth:`anonymised`).

    Examples
    --------
    >>> ann = Annotations.from_triples([0, 0, 1], ["ann", "bob", "ann"], ["cat", "dog", "dog"])
    >>> ann
    Annotations(2 tasks, 2 annotators, 2 classes, 3 annotations)
    >>> ann.to_matrix().tolist()
    [[0, 1], [1, -1]]
    """

    tasks: npt.NDArray[np.int32]
    annotators: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    task_ids: Names
    annotator_ids: Names
    classes: Names
    by_position: bool
    ordinal: bool
    abstentions: Annotations | None
    times: npt.NDArray[np.datetime64] | None
    hide_below: int

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
        abstentions: Annotations | None = None,
        times: npt.ArrayLike | None = None,
        hide_below: int = 0,
    ) -> None:
        names = [_frozen_names(ids) for ids in (task_ids, annotator_ids, classes)]
        columns = [np.asarray(codes, dtype=np.int32) for codes in (tasks, annotators, labels)]
        _check_codes(columns, [len(ids) for ids in names])
        order = pair_order(columns[0], columns[1])
        # Codes that somebody could still write to are copied, others may be kept as they are.
        own = [
            frozen(codes.copy() if codes.flags.writeable and isinstance(order, slice) else codes[order])
            for codes in columns
        ]
        vars(self).update(
            zip(("tasks", "annotators", "labels", "task_ids", "annotator_ids", "classes"), [*own, *names], strict=True),
            indptr=frozen(np.searchsorted(own[0], np.arange(len(names[0]) + 1)).astype(np.int64)),
            by_position=by_position,
            ordinal=ordinal,
            abstentions=abstentions,
            times=None if times is None else frozen(_as_times(times, len(columns[0]))[order]),
            hide_below=hide_below,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"annotations do not change; replace({name}=...) makes new ones")

    # ---------------------------------------------------------------- ways in

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
        merge_spelling: bool = False,
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
        merge_spelling : bool
            Count workers, and classes, that differ in case, blanks or the like as one, in their most frequent spelling.
        on_duplicate : {"last", "first", "error"}
            What to do when a worker labelled a task twice.
        times : sequence, optional
            When each label was given: dates, text as in 2026-11-17T10:00:00Z, or seconds since 1970. A column of which
            most values are no times is ignored.
        where : str
            How messages name the source, such as the file.
        """
        task_codes, task_names = _encoded(tasks, "task", where)
        worker_codes, worker_names = _encoded(workers, "worker", where)
        if not isinstance(labels, Labels):
            labels = read_labels(labels, missing=missing, abstain=abstain, classes=classes, where=where)
        when = None if times is None else read_times(times)
        if when is not None and len(when) != len(labels.codes):
            raise InputError(f"{where}: {len(when):,} times for {len(labels.codes):,} labels; pass one for each")
        lengths = len(task_codes), len(worker_codes), len(labels.codes)
        if len(set(lengths)) > 1:
            raise InputError(
                f"{where}: tasks, workers and labels have {lengths[0]}, {lengths[1]} and {lengths[2]} entries; pass "
                "one of each per annotation"
            )
        refuse_missing_ids(task_codes, "task", where)
        kept = labels.codes != MISSING
        answered = kept if labels.abstained is None else labels.answered
        refuse_missing_ids(np.where(answered, worker_codes, 0), "worker", where)  # a task without a label needs none
        if not kept.any():
            raise InputError(
                f"{where}: every label is missing; {remedy_for(labels, 'is this the right label column?')}"
            )
        warn_of_dropped(labels, where, () if kept.all() else _unlabelled(task_codes, task_names, kept))
        warn_of_lookalikes(task_names, "tasks", where)
        if merge_spelling:
            worker_codes, worker_names = merge_lookalikes((worker_codes, worker_names), "annotators", where)
            listed = () if classes is None else classes
            merged = merge_lookalikes((labels.codes, labels.names), "classes", where, listed)
            labels = labels._replace(codes=merged[0], names=merged[1])
        else:
            warn_of_lookalikes(worker_names, "annotators", where, mergeable=True)
        class_names, label_codes = match_classes(labels.names, labels.codes, classes, where, mergeable=True)
        present = slice(None) if kept.all() else kept
        columns = task_codes[present], worker_codes[present], label_codes[present]
        single = resolve_duplicates(columns[0], columns[1], on_duplicate, where, (task_names, worker_names))
        return cls(
            *(frozen(column[single]) for column in columns),
            task_ids=task_names,
            annotator_ids=worker_names,
            classes=class_names,
            abstentions=_abstentions(labels, (task_codes, task_names), (worker_codes, worker_names), where),
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
        merge_spelling: bool = False,
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
        time = find_first([name for name in table.columns if name not in found.values()], "time")
        times = None if time is None else frame_column(table[time])
        options: dict[str, Any] = {"missing": missing, "abstain": abstain, "on_duplicate": on_duplicate, "times": times}
        options["merge_spelling"] = merge_spelling
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
                id_codes, names = _encoded(ids, kind, where)
                refuse_missing_ids(id_codes, f"{kind} id", where)
                warn_of_lookalikes(names, "tasks" if kind == "task" else "annotators", where)
        return cls(
            tasks,
            annotators,
            codes,
            task_ids=np.arange(values.shape[0]) if task_ids is None else task_ids,
            annotator_ids=np.arange(values.shape[1]) if annotator_ids is None else annotator_ids,
            classes=class_names,
            by_position=True,
            abstentions=None
            if label.abstained is None
            else _abstentions(label, *_cells(values.shape, task_ids, annotator_ids), where),
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
        roles = [find_column(names, role, None, where) for role in LONG] if names else []
        if isinstance(data, pa.Table) or len([role for role in roles if role is not None]) > 1:
            return cls.from_frame(data, where=where)  # which tells of a missing column, where a matrix would be wrong
        if names and all(any(is_name_column(name, [role], more=True) for name in names) for role in LONG):
            return cls.from_frame(data, where=where)
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

    # ---------------------------------------------------------------- sizes and counts

    @property
    def n_tasks(self) -> int:
        return len(self.task_ids)

    @property
    def n_annotators(self) -> int:
        return len(self.annotator_ids)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def n_annotations(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_tasks, n_annotators), the shape of the label matrix, which is never created."""
        return self.n_tasks, self.n_annotators

    def labels_per_task(self) -> npt.NDArray[np.int64]:
        """(n_tasks,) how many labels each task has."""
        return np.diff(self.indptr)

    def labels_per_annotator(self) -> npt.NDArray[np.int64]:
        """(n_annotators,) how many labels each annotator gave."""
        return np.bincount(self.annotators, minlength=self.n_annotators).astype(np.int64)

    def votes(self) -> npt.NDArray[np.int64]:
        """(n_tasks, n_classes) ``votes[i, l]`` = how many annotators gave label ``l`` to task ``i``."""
        cells = self.tasks.astype(np.int64) * self.n_classes + self.labels
        counts = np.bincount(cells, minlength=self.n_tasks * self.n_classes)
        return counts.astype(np.int64).reshape(self.n_tasks, self.n_classes)

    def expected_counts(self, posterior: FloatArray) -> FloatArray:
        """(R, C, C) ``[r, c, l]``: how many labels l annotator r gave to tasks of class c, as expected.

        ``posterior`` (n_annotations, C) is that of every label's task.
        """
        R, C = self.n_annotators, self.n_classes
        cells = self.annotators.astype(np.int64) * C + self.labels
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
        at = gather_ranges(self.indptr[picked], counts)
        return self.replace(
            tasks=frozen(np.repeat(np.arange(len(picked), dtype=np.int32), counts)),
            annotators=frozen(self.annotators[at]),
            labels=frozen(self.labels[at]),
            task_ids=frozen(self.task_ids[picked]),
            by_position=True,
            abstentions=None if self.abstentions is None else self.abstentions[rows],
            times=self._times_at(at),
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
        position = decode_position(wanted, self.task_ids)[self.tasks]
        kept = position != MISSING
        return self.replace(
            tasks=position[kept],
            annotators=self.annotators[kept],
            labels=self.labels[kept],
            task_ids=wanted,
            abstentions=None if self.abstentions is None else self.abstentions.reindex(wanted),
            times=self._times_at(kept),
        )

    def select(self, kept: npt.ArrayLike) -> Self:
        """Only the annotations where ``kept`` is true; tasks, annotators and classes stay."""
        mask = np.asarray(kept, dtype=bool)
        return self.replace(
            tasks=self.tasks[mask],
            annotators=self.annotators[mask],
            labels=self.labels[mask],
            times=self._times_at(mask),
        )

    def without(self, annotators: Iterable[Any], *, where: str = "annotations") -> Self:
        """The same tasks, without these annotators, their labels, and classes that nobody else gave.

        >>> from conal import Annotations
        >>> ann = Annotations.from_triples([1, 1, 2], ["ann", "bob", "bob"], ["x", "y", "x"])
        >>> ann.without(["ann"]).to_table().to_pydict()
        {'task': [1, 2], 'worker': ['bob', 'bob'], 'label': ['y', 'x']}
        """
        names, out = [spelling(name) for name in self.annotator_ids.tolist()], {spelling(name) for name in annotators}
        unknown = sorted(out.difference(names))
        if unknown:
            close = difflib.get_close_matches(unknown[0], names, n=1)
            hint = f"did you mean {people(close)}?" if close else f"there are {people(names)}"
            raise InputError(f"{where}: without: there is no annotator {people(unknown)}; {hint}")
        kept = np.array([name not in out for name in names])
        rows = kept[self.annotators]
        if not rows.any():
            raise InputError(f"{where}: without: no label is left; leave out fewer annotators")
        left, gone = (np.bincount(self.labels[mask], minlength=self.n_classes) for mask in (rows, ~rows))
        classes = (left > 0) | (gone == 0)
        who, what = (np.where(mask, np.cumsum(mask) - 1, MISSING) for mask in (kept, classes))
        made, declined = self.select(rows), self.abstentions
        if declined is not None:
            declined = declined.select(kept[declined.annotators])
            declined = declined.replace(annotators=who[declined.annotators], annotator_ids=self.annotator_ids[kept])
        return made.replace(
            annotators=who[made.annotators],
            labels=what[made.labels],
            annotator_ids=self.annotator_ids[kept],
            classes=self.classes[classes],
            abstentions=declined,
        )

    def _times_at(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.datetime64] | None:
        return None if self.times is None else self.times[rows]

    def replace(self, **changes: Any) -> Self:
        """A copy with other codes, names or statements: keywords as of the constructor.

        >>> from conal import Annotations
        >>> ann = Annotations.from_matrix([[0, 1]])
        >>> ann.replace(classes=["no", "yes"]).classes.tolist(), ann.replace(ordinal=True).ordinal
        (['no', 'yes'], True)
        """
        arguments = {name: value for name, value in vars(self).items() if name != "indptr"}
        return type(self)(**(arguments | changes))

    def anonymised(self, key: bytes | None = None, *, hide_below: int = 10) -> Annotations:
        """The same labels under pseudonyms for the annotators; what is fitted to them can be shared.

        Results show rounded figures about annotators and no lists of their tasks. Those with few labels count as a few
        common ones. Names in task ids or texts stay as they are; a warning says of task ids and classes with such.

        Parameters
        ----------
        key : bytes, optional
            The same key gives an annotator the same pseudonym. By default a random key is used and thrown away.
        hide_below : int
            Annotators with fewer labels have no pseudonym of their own.
        """
        from conal.data.pseudonyms import anonymised, warn_of_mentions
        from conal.parameters import whole

        whole(1).check("hide_below", hide_below)
        warn_of_mentions(self.annotator_ids, {"task ids": self.task_ids.tolist(), "classes": self.classes.tolist()})
        return anonymised(self, key=key, hide_below=hide_below)[0]

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

    # ---------------------------------------------------------------- ways out

    def to_matrix(self) -> npt.NDArray[np.int32]:
        """(n_tasks, n_annotators) class codes, ``MISSING`` (-1) where there is none."""
        matrix = np.full(self.shape, MISSING, dtype=np.int32)
        matrix[self.tasks, self.annotators] = self.labels
        return matrix

    def to_table(self) -> pa.Table:
        """An Arrow table with columns task, worker, label in the user's names, one row per annotation.

        Where times are known, a fourth column has them.
        """
        columns = (
            (self.task_ids, self.tasks),
            (self.annotator_ids, self.annotators),
            (self.classes, self.labels),
        )
        given = {
            name: name_column(names).take(pa.array(codes))
            for name, (names, codes) in zip(("task", "worker", "label"), columns, strict=True)
        }
        return pa.table(given if self.times is None else given | {"time": pa.array(self.times)})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """(n_tasks,) objects, one per task: the set of its (annotator, label) codes.

        scikit-learn asks for an array to find out what kind of target this is. It gets one that it can split and
        count, but not mistake for labels; for the matrix call :meth:`to_matrix`.
        """
        if not self.by_position:
            _warn_of_splits(self.task_ids)
        pairs = list(zip(self.annotators.tolist(), self.labels.tolist(), strict=True))
        array = np.empty(self.n_tasks, dtype=object)
        for i in range(self.n_tasks):
            array[i] = frozenset(pairs[self.indptr[i] : self.indptr[i + 1]])
        return array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        times = (None if each.times is None else each.times.view(np.int64) for each in (self, other))
        compared = ("tasks", "annotators", "labels", "task_ids", "annotator_ids", "classes", "ordinal")
        return (
            self.abstentions == other.abstentions
            and np.array_equal(*times)  # type: ignore[arg-type]
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in compared)
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

    def _repr_html_(self) -> str:
        from conal.report.notebook import annotations_summary

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
    return (rows, names[0]), (columns, names[1])


def _without_truth(frame: Any, where: str) -> Any:
    """A frame with a column per annotator, without columns of true labels."""
    truth = [name for name in frame.columns if is_truth_column(name)]
    if not truth:
        return frame
    ids = "frame.index" if hasattr(frame, "index") else "range(len(frame))"
    warn_of_truth(truth, where, f"pass true_labels=dict(zip({ids}, frame[{truth[0]!r}]))")
    return frame[[name for name in frame.columns if name not in truth]]


def _unlabelled(codes: npt.NDArray[np.int32], names: Names, kept: npt.NDArray[np.bool_]) -> list[Any]:
    """The tasks of which no row is kept."""
    left = np.bincount(codes[kept], minlength=len(names))
    return list(names[left == 0].tolist())


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

    Ids in another order than sorted were put into it by somebody (:meth:`Annotations.reindex`).
    """
    numbers = np.arange(len(task_ids))
    if np.array_equal(task_ids, numbers) or not np.array_equal(encode(task_ids)[0], numbers):
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


def _as_times(values: npt.ArrayLike, n: int) -> npt.NDArray[np.datetime64]:
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


def _abstentions(labels: Labels, tasks: Encoded, workers: Encoded, where: str) -> Annotations | None:
    """The abstentions in a column of labels, of which ``tasks`` and ``workers`` say whose they are; None if no words
    for them were listed.

    Who declined and then answered has answered. Of two abstentions of one annotator from one task, the first is kept.
    """
    if labels.abstained is None:
        return None
    (task_codes, task_names), (worker_codes, worker_names) = tasks, workers
    pairs = task_codes.astype(np.int64) * max(len(worker_names), 1) + worker_codes
    declined = np.flatnonzero(labels.abstained != MISSING)
    _, first = np.unique(pairs[declined], return_index=True)
    rows = declined[first]
    rows = rows[~np.isin(pairs[rows], pairs[labels.codes != MISSING])]
    unused = [word for k, word in enumerate(labels.abstention_words) if not (labels.abstained == k).any()]
    if unused:
        warn(f"{where}: no label is {examples(unused)}; check abstain (--set abstain)", DataWarning)
    codes = task_codes[rows], worker_codes[rows], labels.abstained[rows]
    return Annotations(*codes, task_ids=task_names, annotator_ids=worker_names, classes=labels.abstention_words)
