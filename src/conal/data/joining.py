"""Annotations joined with others, with new labels, and with the features of their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from conal._arrays import IntArray
from conal.data.annotations import Annotations, frozen
from conal.data.cleaning import OnDuplicate, match_classes, resolve_duplicates
from conal.data.encoding import MISSING, Encoded, Names, as_names, as_text, decode_position, encode
from conal.data.matching import Kind, differ_in_type, merge_lookalikes, refuse_lookalikes, unmatched, warn_of_lookalikes
from conal.errors import DataWarning, InputError, examples, warn

# Several sets of annotations as one: names that are spelled alike mean the same task, annotator or class.


def join_annotations(
    parts: Sequence[Annotations],
    *,
    classes: Sequence[Any] | Names | None = None,
    merge_spelling: bool = False,
    on_duplicate: OnDuplicate = "last",
    where: str = "annotations",
) -> Annotations:
    """The annotations of all parts.

    Where one part has numbers and another text, as a CSV file and an export often do, names are compared as a text file
    spells them: the task 7 of one part is the task "7" of the other. Names that look alike are an error
    (:mod:`conal.data.matching`).

    Parameters
    ----------
    classes : sequence, optional
        The classes in order; all labels of all parts, sorted, by default.
    merge_spelling : bool
        Count annotators, and classes, that look alike as one.
    on_duplicate : {"last", "first", "error"}
        Which label counts if an annotator labelled a task in several parts: that of the last part, or of the first.

    Examples
    --------
    >>> one = Annotations.from_triples([7], ["ann"], ["cat"])
    >>> two = Annotations.from_triples(["7", "x"], ["bob", "bob"], ["cat", "dog"])
    >>> join_annotations([one, two]).to_table().to_pydict()
    {'task': ['7', '7', 'x'], 'worker': ['ann', 'bob', 'bob'], 'label': ['cat', 'cat', 'dog']}
    """
    refuse_different_spellings([part.task_ids for part in parts], "tasks", where)
    if not merge_spelling:
        refuse_different_spellings([part.annotator_ids for part in parts], "annotators", where)
        refuse_different_spellings([part.classes for part in parts], "classes", where)
    tasks, task_ids = _united([(part.task_ids, part.tasks) for part in parts])
    annotators, annotator_ids = _united([(part.annotator_ids, part.annotators) for part in parts])
    labels, found = _united([(part.classes, part.labels) for part in parts])
    if merge_spelling:
        if any(part.abstentions is not None for part in parts):
            raise InputError(f"{where}: merge_spelling (--merge-spelling) of several files does not go with abstain")
        annotators, annotator_ids = merge_lookalikes((annotators, annotator_ids), "annotators", where)
        labels, found = merge_lookalikes((labels, found), "classes", where, () if classes is None else classes)
    names, labels = match_classes(found, labels, classes, where)
    kept = resolve_duplicates(tasks, annotators, on_duplicate, where, (task_ids, annotator_ids))
    codes = [frozen(column[kept]) for column in (tasks, annotators, labels)]
    times = _joined_times(parts)
    made = Annotations(
        *codes,
        task_ids=task_ids,
        annotator_ids=annotator_ids,
        classes=names,
        times=None if times is None else times[kept],
    )
    return made.replace(abstentions=_joined_abstentions(parts, made))


def _joined_times(parts: Sequence[Annotations]) -> npt.NDArray[np.datetime64] | None:
    """Times of all labels, one part after the other, NaT where a part has none; None if no part has any."""
    if all(part.times is None for part in parts):
        return None
    none = np.datetime64("NaT", "us")
    each = [np.full(part.n_annotations, none) if part.times is None else part.times for part in parts]
    return np.concatenate(each)


def _joined_abstentions(parts: Sequence[Annotations], made: Annotations) -> Annotations | None:
    """The abstentions of all parts, once each, without those that another part has an answer to."""
    abstained = [(part, part.abstentions) for part in parts if part.abstentions is not None]
    if not abstained:
        return None
    tasks, annotators = (
        np.concatenate([decode_position(*_alike(wanted, own))[codes] for own, codes in columns])
        for wanted, columns in (
            (made.task_ids, [(part.task_ids, each.tasks) for part, each in abstained]),
            (made.annotator_ids, [(part.annotator_ids, each.annotators) for part, each in abstained]),
        )
    )
    words, names = _united([(each.classes, each.labels) for _, each in abstained])
    pairs = tasks * made.n_annotators + annotators
    _, first = np.unique(pairs, return_index=True)
    answered = made.tasks.astype(np.int64) * made.n_annotators + made.annotators
    rows = first[~np.isin(pairs[first], answered)]
    found = tasks[rows], annotators[rows], words[rows]
    return Annotations(*found, task_ids=made.task_ids, annotator_ids=made.annotator_ids, classes=names)


def refuse_different_spellings(parts: Sequence[Names], kind: Kind, where: str) -> None:
    """An error if a name that one part lacks looks like a name in it that the parts before it lack."""
    if all(names.dtype.kind in "iu" for names in parts):
        return
    in_text = differ_in_type(parts)
    known: dict[Any, None] = {}
    for names in parts:
        own = dict.fromkeys((as_text(names) if in_text else names).tolist())
        here = as_names([name for name in own if name not in known])
        there = as_names([name for name in known if name not in own])
        refuse_lookalikes(here, there, kind, where, "in these files", mergeable=kind != "tasks")
        known |= own


def _united(parts: Sequence[tuple[Names, npt.NDArray[np.int32]]]) -> Encoded:
    """The codes of all parts, one after the other, as positions among the distinct names of all."""
    names = [part[0] for part in parts]
    codes, every = encode(np.concatenate([as_text(own) for own in names] if differ_in_type(names) else names))
    ends = np.cumsum([len(own) for own in names])[:-1]
    pieces = zip(np.split(codes, ends), parts, strict=True)
    return np.concatenate([positions[own] for positions, (_, own) in pieces]), every


# Annotations that grow: new labels of known and new tasks, by known and new annotators, in known classes.


def append_labels(old: Annotations, new: Annotations, *, where: str = "new labels") -> tuple[Annotations, IntArray]:
    """Add new labels to annotations; a label takes the place of an older one by the same annotator for the same task.

    Old tasks and annotators keep their codes; new ones come after them. Also gives the codes of the tasks that are new
    or have new labels, in order.

    Names are compared as :func:`join_annotations` does. A label outside the known classes is an error, and so are new
    names that look like old ones, and labels of which every one is known already.

    Examples
    --------
    >>> old = Annotations.from_triples([7, 8], ["ann", "bob"], ["cat", "dog"])
    >>> new = Annotations.from_triples([7, 3], ["bob", "eve"], ["cat", "dog"])
    >>> crowd, changed = append_labels(old, new)
    >>> crowd.task_ids.tolist(), changed.tolist()
    ([7, 8, 3], [0, 2])
    """
    if old.abstentions is not None or new.abstentions is not None:
        raise InputError(
            f"{where}: abstentions cannot be updated, because they say something about all tasks of an annotator; "
            "fit old and new labels together"
        )
    task_ids, task_codes = _extended(old.task_ids, new.task_ids, "tasks", where)
    annotator_ids, annotator_codes = _extended(old.annotator_ids, new.annotator_ids, "annotators", where)
    class_codes = _known_classes(old.classes, new.classes, where)
    tasks = np.concatenate([old.tasks, task_codes[new.tasks]])
    annotators = np.concatenate([old.annotators, annotator_codes[new.annotators]])
    labels = np.concatenate([old.labels, class_codes[new.labels]])
    pairs = tasks * len(annotator_ids) + annotators
    order = np.argsort(pairs, kind="stable")  # of equal pairs, the old one comes first
    is_replaced = np.append(pairs[order[1:]] == pairs[order[:-1]], False)
    at = np.flatnonzero(is_replaced)
    n_known, n_corrected = len(at), int((labels[order[at]] != labels[order[at + 1]]).sum())
    if new.n_annotations and n_known == new.n_annotations and not n_corrected:
        raise InputError(
            f"{where}: all {n_known:,} labels are known already; nothing is updated. To learn from them once more "
            "would count them twice; pass new labels only"
        )
    if n_corrected:
        warn(f"{where}: {n_corrected:,} labels take the place of older ones by the same annotators", DataWarning)
    kept = order[~is_replaced]
    times = _joined_times([old, new])
    crowd = Annotations(
        *(codes[kept] for codes in (tasks, annotators, labels)),
        task_ids=task_ids,
        annotator_ids=annotator_ids,
        classes=old.classes,
        ordinal=old.ordinal,
        times=None if times is None else times[kept],
    )
    fresh = np.arange(old.n_tasks, len(task_ids))
    return crowd, np.union1d(task_codes[new.tasks], fresh).astype(np.int64)


def _extended(old: Names, new: Names, kind: Kind, where: str) -> tuple[Names, IntArray]:
    """All names, the old ones first, and the code of every new one."""
    spelled, new = _alike(old, new)
    position = decode_position(spelled, new)
    unknown = np.flatnonzero(position == MISSING)
    if not len(unknown):
        return old, position
    old = spelled
    refuse_lookalikes(*unmatched(old, new, position), kind, where, "here and in the labels so far")
    position[unknown] = len(old) + np.arange(len(unknown))
    return as_names([*old.tolist(), *new[unknown].tolist()]), position


def _alike(old: Names, new: Names) -> tuple[Names, Names]:
    """Both as text, if some are numbers and some are text."""
    return (as_text(old), as_text(new)) if differ_in_type([old, new]) else (old, new)


def _known_classes(old: Names, new: Names, where: str) -> IntArray:
    position = decode_position(*_alike(old, new))
    unknown = new[position == MISSING].tolist()
    if unknown:
        raise InputError(
            f"{where}: {examples(unknown)} not among the {len(old):,} classes ({examples(old)}). An update cannot add "
            "classes: correct these labels, or fit old and new labels together"
        )
    return position


class TrainingRecord(TypedDict):
    """One set of labels that something has learned from; ``kind`` is "fit" or "update"."""

    kind: str
    when: str
    labels: int
    tasks: int
    annotators: int


def training_record(kind: Literal["fit", "update"], crowd: Annotations) -> TrainingRecord:
    """An entry of a history, now."""
    return TrainingRecord(
        kind=kind,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        labels=crowd.n_annotations,
        tasks=crowd.n_tasks,
        annotators=crowd.n_annotators,
    )


# Features of tasks.
#
# Features that carry ids are joined by id. A bare array has row numbers for ids: task ids must then be integers in
# ``range(len(X))``. Either way, rows without labels are unlabelled tasks. Annotations taken by row (``ann[rows]``, a
# matrix) go with features taken by the same rows. An index without a name is the ids if it has all of them.


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
    known = decode_position(index, tasks) != MISSING
    if not known.any():  # 7 in one may be "7" in the other
        known = decode_position(as_text(index), as_text(tasks)) != MISSING
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
