"""Several sets of annotations as one: names that are spelled alike mean the same task, annotator or class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.cleaning import OnDuplicate, match_classes, resolve_duplicates
from conal.data.container import LabelArrays, frozen
from conal.data.encoding import Encoded, Names, as_names, as_text, decode_position, encode
from conal.data.matching import Kind, differ_in_type, refuse_lookalikes

__all__ = ["join_annotations", "refuse_different_spellings"]


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
