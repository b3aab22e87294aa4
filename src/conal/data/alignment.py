"""Match feature rows to tasks.

Features that carry ids are joined by id. A bare array has row numbers for ids: task ids must then be integers in
``range(len(X))``. Either way, rows without labels are unlabelled tasks. Annotations taken by row (``ann[rows]``, a
matrix) go with features taken by the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, as_text, decode_position, encode
from conal.errors import DataWarning, InputError, examples, warn

__all__ = ["Aligned", "align", "check_unique_ids"]


@dataclass(frozen=True)
class Aligned:
    """Annotations and the feature row of each of their tasks.

    Attributes
    ----------
    annotations : Annotations
        Its tasks are those that have features; unlabelled ones come last, unless row numbers are the ids.
    rows : (n_tasks,) int64 or None
        ``rows[i]`` is the feature row of task ``i``; None where row ``i`` is task ``i`` throughout, so that a memory
        map need not be copied or even indexed.
    """

    annotations: Annotations
    rows: npt.NDArray[np.int64] | None = None


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
    >>> align(ann, 2, ["b", "a"]).rows.tolist(), ann.task_ids.tolist()
    ([1, 0], ['a', 'b'])
    >>> align(ann, 3, ["b", "new", "a"]).annotations.labels_per_task().tolist()
    [1, 1, 0]
    """
    if feature_ids is not None:
        return _by_id(annotations, as_names(feature_ids), n_rows, allow_missing, unlabelled)
    if annotations.by_position and annotations.n_tasks == n_rows:
        return Aligned(annotations)
    return _by_row_number(annotations, n_rows, allow_missing)


def check_unique_ids(ids: Names, where: str) -> None:
    """Reject two feature rows for one task."""
    seen: set[Any] = set()
    twice = [name for name in ids.tolist() if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if twice:
        raise InputError(f"{where}: {len(twice):,} ids occur more than once ({examples(twice)}); keep one row per task")


def _by_id(annotations: Annotations, ids: Names, n_rows: int, allow_missing: bool, unlabelled: bool) -> Aligned:
    if len(ids) != n_rows:
        raise InputError(f"{len(ids):,} task ids were given for {n_rows:,} feature rows; pass one per row")
    check_unique_ids(ids, "features")
    tasks = annotations.task_ids
    rows = decode_position(ids, tasks)
    if (rows == MISSING).all():  # 7 in one file may be "7" in the other
        ids, tasks = as_text(ids), as_text(tasks)
        rows = decode_position(ids, tasks)
    orphans = annotations.task_ids[rows == MISSING].tolist()
    spare = np.flatnonzero(decode_position(tasks, ids) == MISSING)
    if len(orphans) == annotations.n_tasks:
        raise InputError(
            f"no task id is among the feature ids: the tasks are {examples(annotations.task_ids)}, "
            f"the feature rows {examples(ids)}; check that both files use the same ids and types"
        )
    _report(orphans, "tasks have no features", allow_missing)
    kept = rows != MISSING
    joined = Aligned(annotations if kept.all() else annotations[kept], rows[kept])
    if not unlabelled:
        _report(ids[spare].tolist(), "feature rows match no task", allow_missing=True)
    return _with_unlabelled(joined, tasks[kept], ids, spare) if len(spare) and unlabelled else joined


def _with_unlabelled(joined: Aligned, names: Names, ids: Names, spare: npt.NDArray[np.int64]) -> Aligned:
    """The ``spare`` feature rows as tasks without labels, sorted by name, after the tasks called ``names``."""
    new = encode(ids[spare].tolist())
    rows = spare[np.argsort(new.codes)]
    crowd = joined.annotations
    every = as_names([*names.tolist(), *new.names.tolist()])
    refused = None if crowd.abstentions is None else crowd.abstentions.replace(task_ids=every)
    longer = crowd.replace(task_ids=every, abstentions=refused)
    assert joined.rows is not None  # noqa: S101 - joined by id
    return Aligned(longer, np.concatenate([joined.rows, rows]))


def _by_row_number(annotations: Annotations, n_rows: int, allow_missing: bool) -> Aligned:
    ids = annotations.task_ids
    if ids.dtype.kind not in "iu":
        raise InputError(
            f"task ids such as {examples(ids[:1])} cannot be matched to a feature array without ids; "
            "add a column 'task' with these ids to the features or texts, or pass task_ids= (one per row)"
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
    return Aligned(annotations.reindex(np.arange(n_rows)))


def _report(names: list[Any], what: str, allow_missing: bool) -> None:
    if not names:
        return
    message = f"{len(names):,} {what}: {examples(names)}"
    if not allow_missing:
        raise InputError(f"{message}; complete the files, or drop these with allow_missing=True (--allow-missing)")
    warn(f"dropped: {message}", DataWarning)
