"""Match feature rows to tasks.

Features that carry ids are joined by id. A bare array has row numbers for ids: task ids must then be integers in
``range(len(X))``. Either way, rows without labels are unlabelled tasks. Annotations taken by row (``ann[rows]``, a
matrix) go with features taken by the same rows. An index without a name is the ids if it has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, as_text, decode_position, encode
from conal.data.matching import refuse_lookalikes, warn_of_lookalikes
from conal.errors import DataWarning, InputError, examples, warn


class RowIndex(np.ndarray[Any, np.dtype[Any]]):
    """The values of a frame's index, which may be task ids though nothing says so; none occurs twice."""

    @classmethod
    def of(cls, values: Names) -> RowIndex:
        """These values, of which nobody knows yet what they are."""
        return values.view(cls)

    @property
    def values(self) -> Names:
        """The same as a plain array."""
        return self.view(np.ndarray)


Aligned = tuple[Annotations, npt.NDArray[np.int64] | None]
"""Annotations, whose tasks are those that have features, unlabelled ones last unless row numbers are the ids; and
(n_tasks,) the feature row of each task, None where row ``i`` is task ``i`` throughout: a memory map is not indexed."""


def align(
    annotations: Annotations,
    n_rows: int,
    feature_ids: Sequence[Any] | Names | None = None,
    *,
    allow_missing: bool = False,
    unlabelled: bool = True,
) -> Aligned:
    """Join annotations to ``n_rows`` feature rows, by ``feature_ids`` where there are any.

    Parameters
    ----------
    allow_missing : bool
        Drop tasks without features, and say how many; otherwise they are an error.
    unlabelled : bool
        Rows with an id that no annotation has become tasks without labels; otherwise they are dropped with a warning.

    >>> ann = Annotations.from_triples(["b", "a"], ["w", "w"], [0, 1])
    >>> align(ann, 2, ["b", "a"])[1].tolist(), ann.task_ids.tolist()
    ([1, 0], ['a', 'b'])
    >>> align(ann, 3, ["b", "new", "a"])[0].labels_per_task().tolist()
    [1, 1, 0]
    """
    if feature_ids is not None:
        if isinstance(feature_ids, RowIndex):
            return _by_index(annotations, feature_ids.values, n_rows, allow_missing, unlabelled)
        return _by_id(annotations, as_names(feature_ids), n_rows, allow_missing, unlabelled)
    if annotations.by_position and annotations.n_tasks == n_rows:
        return annotations, None
    return _by_row_number(annotations, n_rows, allow_missing)


def check_unique_ids(ids: Names, where: str) -> None:
    """Reject two feature rows for one task."""
    seen: set[Any] = set()
    twice = [name for name in ids.tolist() if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if twice:
        raise InputError(f"{where}: {len(twice):,} ids occur more than once ({examples(twice)}); keep one row per task")


def _by_index(annotations: Annotations, index: Names, n_rows: int, allow_missing: bool, unlabelled: bool) -> Aligned:
    """By a frame's index if it has the ids of all tasks, else by position where that is possible."""
    tasks = annotations.task_ids
    known = _is_among(index, tasks)
    numbers = tasks.dtype.kind in "iu"
    may_be_rows = annotations.by_position and numbers  # a matrix without ids, or some rows of it
    by_index = known.all() and (not may_be_rows or (n_rows == len(tasks) and not _counts_from_zero(tasks)))
    has_position = numbers or (annotations.by_position and n_rows == len(tasks))
    if by_index or (known.any() and not has_position):
        if numbers and not annotations.by_position and tasks.min() >= 0 and tasks.max() < n_rows:
            _warn_of_index(index)
        return _by_id(annotations, index, n_rows, allow_missing, unlabelled)
    if not annotations.by_position and not _counts_from_zero(index):
        refuse_lookalikes(index, tasks[~known], "tasks", "features: the index", "here and in the labels")
    if known.any() and not may_be_rows:
        warn(
            f"features: the index has {int(known.sum()):,} of {len(tasks):,} task ids, so rows are matched to tasks by "
            f"position; the index begins with {examples(index[:3])}, the tasks with {examples(tasks[:3])}. If the "
            "index has the ids, call it 'task' (X.index.name = 'task'); if not, pass X.reset_index(drop=True)",
            DataWarning,
        )
    return align(annotations, n_rows, allow_missing=allow_missing)


def _is_among(index: Names, tasks: Names) -> npt.NDArray[np.bool_]:
    """(n_tasks,) whether a task id is in the index; 7 in one may be "7" in the other."""
    known: npt.NDArray[np.bool_] = decode_position(index, tasks) != MISSING
    return known if known.any() else decode_position(as_text(index), as_text(tasks)) != MISSING


def _counts_from_zero(names: Names) -> bool:
    return np.array_equal(names, np.arange(len(names)))


def _warn_of_index(index: Names) -> None:
    """Row numbers would match as well, but other rows."""
    warn(
        f"features: rows are matched to tasks by the index, which begins with {examples(index[:3])}; if the task ids "
        "are row numbers instead, pass X.reset_index(drop=True), and otherwise call the index 'task'",
        DataWarning,
    )


def _by_id(annotations: Annotations, ids: Names, n_rows: int, allow_missing: bool, unlabelled: bool) -> Aligned:
    if len(ids) != n_rows:
        raise InputError(f"{len(ids):,} task ids were given for {n_rows:,} feature rows; pass one per row")
    check_unique_ids(ids, "features")
    warn_of_lookalikes(ids, "tasks", "features")
    tasks = annotations.task_ids
    rows = decode_position(ids, tasks)
    if (rows == MISSING).all():  # 7 in one file may be "7" in the other
        ids, tasks = as_text(ids), as_text(tasks)
        rows = decode_position(ids, tasks)
    orphans = annotations.task_ids[rows == MISSING].tolist()
    spare = np.flatnonzero(decode_position(tasks, ids) == MISSING)
    refuse_lookalikes(ids[spare], tasks[rows == MISSING], "tasks", "features", "here and in the labels")
    if len(orphans) == annotations.n_tasks:
        raise InputError(
            f"no task id is among the feature ids: the tasks are {examples(annotations.task_ids)}, "
            f"the feature rows {examples(ids)}; check that both files use the same ids and types"
        )
    _report(orphans, "tasks have no features", allow_missing)
    kept = rows != MISSING
    crowd, rows = annotations if kept.all() else annotations[kept], rows[kept]
    if not unlabelled:
        _report(ids[spare].tolist(), "feature rows match no task", allow_missing=True)
    if not len(spare) or not unlabelled:
        return crowd, rows
    codes, new = encode(ids[spare].tolist())
    every = as_names([*tasks[kept].tolist(), *new.tolist()])
    abstained = None if crowd.abstentions is None else crowd.abstentions.replace(task_ids=every)
    return crowd.replace(task_ids=every, abstentions=abstained), np.concatenate([rows, spare[np.argsort(codes)]])


def _by_row_number(annotations: Annotations, n_rows: int, allow_missing: bool) -> Aligned:
    ids = annotations.task_ids
    if ids.dtype.kind not in "iu":
        raise InputError(
            f"task ids such as {examples(ids[:1])} cannot be matched to a feature array without ids; "
            "add a column 'task' with these ids to the features or texts, or an array 'task' beside 'X' to an .npz "
            "file; in Python, you can pass task_ids= (one per row) instead"
        )
    if len(ids) and ids.min() == 1 and ids.max() == n_rows:
        raise InputError(
            f"task ids run from 1 to {n_rows:,}, but the rows of an array without ids count from 0; "
            "subtract 1 from the task ids, or add ids to the features"
        )
    inside = (ids >= 0) & (ids < n_rows)
    _report(ids[~inside].tolist(), f"tasks have no features (row numbers run from 0 to {n_rows - 1:,})", allow_missing)
    if not inside.any():
        raise InputError(f"no task id is a row number of the features (0 to {n_rows - 1:,})")
    return annotations.reindex(np.arange(n_rows)), None


def _report(names: list[Any], what: str, allow_missing: bool) -> None:
    if not names:
        return
    message = f"{len(names):,} {what}: {examples(names)}"
    if not allow_missing:
        raise InputError(
            f"{message}; complete the files, or drop these with allow_missing=True (--set allow_missing=true)"
        )
    warn(f"dropped: {message}", DataWarning)
