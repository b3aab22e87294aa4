"""Several sets of annotations as one, and annotations that grow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import IntArray
from conal.data.annotations import Annotations
from conal.data.cleaning import OnDuplicate, match_classes, resolve_duplicates
from conal.data.container import LabelArrays, frozen, gather_ranges
from conal.data.encoding import MISSING, Encoded, Names, as_names, as_text, decode_position, encode
from conal.data.matching import Kind, differ_in_type, refuse_lookalikes, unmatched
from conal.errors import DataWarning, InputError, examples, warn

__all__ = ["Growth", "Learnt", "digest_of_labels", "grown", "join_annotations", "learnt", "refuse_different_spellings"]


# Several sets of annotations as one: names that are spelled alike mean the same task, annotator or class.


def join_annotations(
    parts: Sequence[Annotations],
    *,
    classes: Sequence[Any] | Names | None = None,
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
    refuse_different_spellings([part.annotator_ids for part in parts], "annotators", where)
    refuse_different_spellings([part.classes for part in parts], "classes", where)
    tasks, task_ids = _united([(part.task_ids, part.tasks) for part in parts])
    annotators, annotator_ids = _united([(part.annotator_ids, part.annotators) for part in parts])
    labels, found = _united([(part.classes, part.labels) for part in parts])
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
    return made.replace(abstentions=_joined_refusals(parts, made))


def _joined_times(parts: Sequence[Annotations]) -> npt.NDArray[np.datetime64] | None:
    """Times of all labels, one part after the other, NaT where a part has none; None if no part has any."""
    if all(part.times is None for part in parts):
        return None
    none = np.datetime64("NaT", "us")
    each = [np.full(part.n_annotations, none) if part.times is None else part.times for part in parts]
    return np.concatenate(each)


def _joined_refusals(parts: Sequence[Annotations], made: Annotations) -> LabelArrays | None:
    """The refused answers of all parts, once each, without those that another part has an answer to."""
    refused = [(part, part.abstentions) for part in parts if part.abstentions is not None]
    if not refused:
        return None
    tasks, annotators = (
        np.concatenate([decode_position(wanted, _like(wanted, own))[codes] for own, codes in columns])
        for wanted, columns in (
            (made.task_ids, [(part.task_ids, each.tasks) for part, each in refused]),
            (made.annotator_ids, [(part.annotator_ids, each.annotators) for part, each in refused]),
        )
    )
    words, names = _united([(each.classes, each.labels) for _, each in refused])
    pairs = tasks * made.n_annotators + annotators
    _, first = np.unique(pairs, return_index=True)
    answered = made.tasks.astype(np.int64) * made.n_annotators + made.annotators
    rows = first[~np.isin(pairs[first], answered)]
    found = tasks[rows], annotators[rows], words[rows]
    return LabelArrays(*found, task_ids=made.task_ids, annotator_ids=made.annotator_ids, classes=names)


def _like(wanted: Names, own: Names) -> Names:
    """Names as they are spelled among those of all parts: as text, if some part has text."""
    return as_text(own) if differ_in_type([wanted, own]) else own


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
        refuse_lookalikes(here, there, kind, where, "in these files")
        known |= own


def _united(parts: Sequence[tuple[Names, npt.NDArray[np.int32]]]) -> Encoded:
    """The codes of all parts, one after the other, as positions among the distinct names of all."""
    names = [part[0] for part in parts]
    every = encode(np.concatenate([as_text(own) for own in names] if differ_in_type(names) else names))
    ends = np.cumsum([len(own) for own in names])[:-1]
    pieces = zip(np.split(every.codes, ends), parts, strict=True)
    return Encoded(np.concatenate([positions[codes] for positions, (_, codes) in pieces]), every.names)


# Annotations that grow: new labels of known and new tasks, by known and new annotators, in known classes.

BASE = np.uint64(0x9E3779B97F4A7C15)
"""Of the polynomials that digests of names are."""


class Growth(NamedTuple):
    """Annotations with new labels added.

    Attributes
    ----------
    annotations : Annotations
        Old and new labels. Old tasks and annotators keep their codes; new ones come after them.
    touched : (T,)
        Codes of the tasks that have new labels, in order.
    n_replaced : int
        New labels that take the place of an old one, by the same annotator for the same task.
    n_labels : int
        All new labels, those included.
    """

    annotations: Annotations
    touched: IntArray
    n_replaced: int
    n_labels: int


def grown(old: Annotations, new: Annotations, *, where: str = "new labels") -> Growth:
    """Add new labels to annotations; the cost beyond copying goes with what is new.

    Names are compared as :func:`conal.data.joining.join_annotations` does. A label outside the known classes is an
    error, and so are new names that look like old ones, and labels of which every one is known already.

    Examples
    --------
    >>> old = Annotations.from_triples([7, 8], ["ann", "bob"], ["cat", "dog"])
    >>> new = Annotations.from_triples([7, 3], ["bob", "eve"], ["cat", "dog"])
    >>> growth = grown(old, new)
    >>> growth.annotations.task_ids.tolist(), growth.touched.tolist()
    ([7, 8, 3], [0, 2])
    """
    _refuse_refusals(old, new, where)
    task_ids, task_codes = _extended(old.task_ids, new.task_ids, "tasks", where, known := _Directory.of(old))
    annotator_ids, annotator_codes = _extended(old.annotator_ids, new.annotator_ids, "annotators", where)
    labels = _known_classes(old.classes, new.classes, where)[new.labels]
    added = _Added(task_codes[new.tasks], annotator_codes[new.annotators], labels, new.times)
    added = added.sorted(len(annotator_ids))
    at, same = _known_pairs(old, added, len(annotator_ids))
    if len(labels) and (at != MISSING).all() and same.all():
        raise InputError(
            f"{where}: all {len(labels):,} labels are known already; nothing is updated. To learn from them once more "
            "would count them twice; pass new labels only"
        )
    replaced = int(((at != MISSING) & ~same).sum())
    if replaced:
        warn(f"{where}: {replaced:,} labels take the place of older ones by the same annotators", DataWarning)
    crowd = _merged(old, added, at, task_ids, annotator_ids)
    crowd.directory = known
    touched = np.union1d(added.tasks, np.arange(old.n_tasks, len(task_ids)))
    return Growth(crowd, touched.astype(np.int64), replaced, len(labels))


def digest_of_labels(crowd: Annotations) -> str:
    """A digest of a set of labels, the same for every order of rows, tasks, annotators and classes.

    >>> one = Annotations.from_triples([1, 2], ["a", "b"], ["x", "y"])
    >>> two = Annotations.from_triples(["2", "1"], ["b", "a"], ["y", "x"])
    >>> digest_of_labels(one) == digest_of_labels(two)
    True
    """
    keys = [_name_digests(names) for names in (crowd.task_ids, crowd.annotator_ids, crowd.classes)]
    parts = [own[codes] for own, codes in zip(keys, (crowd.tasks, crowd.annotators, crowd.labels), strict=True)]
    rows = np.zeros(crowd.n_annotations, dtype=np.uint64)
    for part in parts:  # different for (a, b) and (b, a)
        rows = _mixed(rows * BASE + part)
    rows.sort()
    return hashlib.sha256(rows.tobytes()).hexdigest()


class Learnt(TypedDict):
    """One set of labels that something has learned from.

    ``kind`` is "fit" or "update", ``sha256`` the digest of the labels, which is None until somebody needs it.
    """

    kind: str
    when: str
    labels: int
    tasks: int
    annotators: int
    sha256: str | None


def learnt(kind: Literal["fit", "update"], crowd: Annotations, digest: str | None = None) -> Learnt:
    """An entry of a history, now."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return Learnt(
        kind=kind,
        when=when,
        labels=crowd.n_annotations,
        tasks=crowd.n_tasks,
        annotators=crowd.n_annotators,
        sha256=digest,
    )


class _Added(NamedTuple):
    """New labels in the codes of all: task, annotator, label and time of each."""

    tasks: IntArray
    annotators: IntArray
    labels: IntArray
    times: npt.NDArray[np.datetime64] | None

    def sorted(self, n_annotators: int) -> _Added:
        return self.at(np.argsort(self.tasks * n_annotators + self.annotators, kind="stable"))

    def at(self, rows: npt.NDArray[np.generic]) -> _Added:
        times = None if self.times is None else self.times[rows]
        return _Added(self.tasks[rows], self.annotators[rows], self.labels[rows], times)


class _Directory:
    """The codes of many names that are text. It grows with the names, so that no update has to make it again."""

    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}

    @classmethod
    def of(cls, crowd: Annotations) -> _Directory:
        found = crowd.directory
        return found if isinstance(found, _Directory) else cls()

    def positions(self, names: Names, wanted: Names) -> IntArray:
        """As :func:`decode_position`."""
        if names.dtype != object or wanted.dtype != object:
            return decode_position(names, wanted)
        if len(self.codes) < len(names):
            first = len(self.codes)
            self.codes.update(zip(names[first:].tolist(), range(first, len(names)), strict=True))
        found = np.array([self.codes.get(name, MISSING) for name in wanted.tolist()], dtype=np.int64)
        found[found >= len(names)] = MISSING  # of annotations that have grown from these
        return found


def _extended(
    old: Names, new: Names, kind: Kind, where: str, directory: _Directory | None = None
) -> tuple[Names, IntArray]:
    """All names, the old ones first, and the code of every new one."""
    if len(old) and differ_in_type([old, new]):
        position = decode_position(as_text(old), as_text(new))
        if (position == MISSING).any():
            old, new = as_text(old), as_text(new)
    else:
        position = decode_position(old, new) if directory is None else directory.positions(old, new)
    unknown = np.flatnonzero(position == MISSING)
    if not len(unknown):
        return old, position
    refuse_lookalikes(*unmatched(old, new, position), kind, where, "here and in the labels so far")
    position[unknown] = len(old) + np.arange(len(unknown))
    both = np.concatenate([old, new[unknown]]) if old.dtype == new.dtype else as_names([*old, *new[unknown]])
    both.setflags(write=False)
    return both, position


def _known_classes(old: Names, new: Names, where: str) -> IntArray:
    position = decode_position(*((as_text(old), as_text(new)) if differ_in_type([old, new]) else (old, new)))
    unknown = new[position == MISSING].tolist()
    if unknown:
        raise InputError(
            f"{where}: {examples(unknown)} not among the {len(old):,} classes ({examples(old)}). An update cannot add "
            "classes: correct these labels, or fit old and new labels together"
        )
    return position


def _known_pairs(old: Annotations, added: _Added, n_annotators: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Where each new label's pair of task and annotator is among the old labels, or -1; whether labels are equal."""
    tasks = np.unique(added.tasks[added.tasks < old.n_tasks])
    rows = gather_ranges(old.indptr[tasks], old.indptr[tasks + 1] - old.indptr[tasks])
    keys = old.tasks[rows].astype(np.int64) * n_annotators + old.annotators[rows]
    wanted = added.tasks * n_annotators + added.annotators
    found = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    hit = keys[found] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
    at = np.full(len(wanted), MISSING, dtype=np.int64)
    at[hit] = rows[found[hit]]
    return at, hit & (old.labels[at] == added.labels) if old.n_annotations else hit


def _merged(old: Annotations, added: _Added, at: IntArray, task_ids: Names, annotator_ids: Names) -> Annotations:
    """Old and new labels by task and annotator, in as many copies as there are gaps between new labels."""
    R = len(annotator_ids)
    labels = old.labels
    if (at != MISSING).any():
        labels = labels.copy()
        labels[at[at != MISSING]] = added.labels[at != MISSING]
    fresh = np.flatnonzero(at == MISSING)
    times = _times_of(old, added, at)
    put = added.at(fresh)
    runs = _runs(_places(old, put, R))
    columns = [
        _inserted(own, values, runs)
        for own, values in ((old.tasks, put.tasks), (old.annotators, put.annotators), (labels, put.labels))
    ]
    more = np.bincount(put.tasks, minlength=len(task_ids))
    indptr = np.append(old.indptr, np.full(len(task_ids) - old.n_tasks, old.n_annotations))
    indptr[1:] += np.cumsum(more)
    indptr.setflags(write=False)
    return Annotations.assembled(
        columns,
        indptr,
        (task_ids, annotator_ids, old.classes),
        ordinal=old.ordinal,
        times=None if times is None else _inserted(times[0], times[1][fresh], runs),
    )


def _places(old: Annotations, put: _Added, n_annotators: int) -> IntArray:
    """Before which old label each new one comes."""
    known = put.tasks < old.n_tasks
    places = np.full(len(put.tasks), old.n_annotations, dtype=np.int64)
    tasks = np.unique(put.tasks[known])
    rows = gather_ranges(old.indptr[tasks], old.indptr[tasks + 1] - old.indptr[tasks])
    keys = old.tasks[rows].astype(np.int64) * n_annotators + old.annotators[rows]
    before = np.searchsorted(keys, put.tasks[known] * n_annotators + put.annotators[known])
    ends = np.append(rows, old.n_annotations)
    found = ends[before]
    places[known] = np.minimum(found, old.indptr[put.tasks[known] + 1])  # the next old label may be of a later task
    return places


def _runs(places: IntArray) -> list[tuple[int, int, int]]:
    """For every run of new labels that go to one place: the place, and where the run begins and ends."""
    starts = np.flatnonzero(np.diff(places, prepend=-1)).tolist()
    ends = [*starts[1:], len(places)] if starts else []
    return list(zip(places[starts].tolist(), starts, ends, strict=True))


def _inserted(old: npt.NDArray[Any], values: npt.NDArray[Any], runs: list[tuple[int, int, int]]) -> npt.NDArray[Any]:
    """``np.insert`` that copies whole runs, and not one cell after the other."""
    values = values.astype(old.dtype)
    pieces, begin = [], 0
    for place, start, end in runs:
        pieces += [old[begin:place], values[start:end]]
        begin = place
    made: npt.NDArray[Any] = np.concatenate([*pieces, old[begin:]])
    made.setflags(write=False)
    return made


def _times_of(
    old: Annotations, added: _Added, at: IntArray
) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.datetime64]] | None:
    """Times of the old and of the new labels, NaT where they are not known; None if neither has any."""
    if old.times is None and added.times is None:
        return None
    nowhen = np.datetime64("NaT", "us")
    before = np.full(old.n_annotations, nowhen) if old.times is None else old.times.copy()
    after = np.full(len(added.labels), nowhen) if added.times is None else added.times
    before[at[at != MISSING]] = after[at != MISSING]
    return before, after


def _refuse_refusals(old: Annotations, new: Annotations, where: str) -> None:
    if old.abstentions is not None or new.abstentions is not None:
        raise InputError(
            f"{where}: refused answers cannot be updated, because they say something about all tasks of an annotator; "
            "fit old and new labels together"
        )


def _name_digests(names: Names) -> npt.NDArray[np.uint64]:
    """A number for every name as text spells it: a polynomial in its bytes, without a Python loop over names."""
    texts = _spelled(names)
    data = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    ends = np.frombuffer(texts.buffers()[1], dtype=np.int64)[: len(names) + 1]
    lengths = np.diff(ends)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, BASE, dtype=np.uint64), dtype=np.uint64)
    place = np.arange(len(data)) - np.repeat(ends[:-1], lengths)
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[place]
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return _mixed(sums[ends[1:]] - sums[ends[:-1]])


def _spelled(names: Names) -> pa.Array:
    """Names as text, in one piece with 64-bit ends."""
    if names.dtype.kind in "iu":
        return pa.array(names).cast(pa.large_string())
    plain = names.tolist()
    return pa.array(plain if all(type(name) is str for name in plain) else as_text(names).tolist(), pa.large_string())


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Every bit of the result depends on every bit of the value (splitmix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
