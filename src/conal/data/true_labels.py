"""True labels of some tasks, from any accepted type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.cleaning import read_labels
from conal.data.encoding import MISSING, Names, as_names
from conal.data.frames import column_names, find_columns, open_frame
from conal.data.matching import match_names, warn_of_lookalikes
from conal.errors import DataWarning, InputError, examples, warn

INCLUSION = "inclusion_probability"
"""Column of a table of true labels that says how likely each task was to be drawn."""


def known_codes(crowd: Annotations, true_labels: Any) -> npt.NDArray[np.int64]:
    """(N,) true classes of a crowd's tasks, as positions in its classes; -1 where they are not given."""
    if true_labels is None:
        return np.full(crowd.n_tasks, MISSING, dtype=np.int64)
    return matched_codes(crowd, *_pairs(true_labels), "true_labels")


def matched_codes(crowd: Annotations, tasks: Names, labels: Names, where: str) -> npt.NDArray[np.int64]:
    """As :func:`known_codes`, from tasks and their labels; those of other tasks are left out and counted.

    A file that contains few tasks or classes may have numbers where the annotations have text: 7 matches "7".
    """
    at = match_names(crowd.task_ids, tasks, "tasks", where, "the labels")
    classes = match_names(crowd.classes, labels, "classes", where, "the labels")
    here = at != MISSING
    others = tasks[~here].tolist()
    if others and len(others) == len(tasks):
        raise InputError(
            f"{where}: no task of the {len(others):,} true labels has annotations; the tasks are {examples(others)}, "
            f"those with annotations {examples(crowd.task_ids)}"
        )
    if others:
        warn(
            f"{where}: ignored {len(others):,} of {len(tasks):,} true labels, of tasks without annotations: "
            f"{examples(others)} (tasks with annotations: {examples(crowd.task_ids)})",
            DataWarning,
        )
    unknown = list(dict.fromkeys(labels[here & (classes == MISSING)].tolist()))
    if unknown:
        raise InputError(
            f"{where}: true labels {examples(unknown)} are not among the classes {examples(crowd.classes)}; correct "
            "them, or list all classes with classes= (--classes)"
        )
    codes = np.full(crowd.n_tasks, MISSING, dtype=np.int64)
    codes[at[here]] = classes[here]
    return codes


def inclusion_of(crowd: Annotations, true_labels: Any) -> npt.NDArray[np.float64] | None:
    """(N,) probabilities with which tasks were drawn for a true label, NaN for others; None for a random sample."""
    names = column_names(true_labels)
    if names is None or INCLUSION not in names:
        return None
    frame = open_frame(true_labels, "true_labels")
    found = find_columns(names, {"task": None}, "true_labels")
    at = match_names(
        crowd.task_ids, as_names(frame[found["task"]].to_list()), "tasks", "true_labels", "the annotations"
    )
    drawn = np.full(crowd.n_tasks, np.nan)
    values = inclusion_values(frame[INCLUSION].to_list(), "true_labels")
    drawn[at[at != MISSING]] = values[at != MISSING]
    return drawn


def inclusion_values(values: list[Any], where: str) -> npt.NDArray[np.float64]:
    """The column of probabilities by which tasks were drawn."""
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.full(len(values), np.nan)
    if found.ndim > 1:  # lists of numbers
        found = np.full(len(values), np.nan)
    wrong = np.flatnonzero(~((found > 0) & (found <= 1)))
    if len(wrong):
        raise InputError(
            f"{where}: {INCLUSION} must be above 0 and at most 1, not {values[int(wrong[0])]!r} as in row "
            f"{wrong[0] + 1}; if the tasks are a random sample, remove the column"
        )
    return found


def parts_of_labels(truth: npt.NDArray[np.int64], parts: int) -> npt.NDArray[np.int64]:
    """(n,) the part of each of n true labels: all of about one size, and every class spread evenly over them.

    Where a part had more labels of a class by chance, the others would have fewer, and say less of the class than there
    is: what is left out would look worse than it is. The same labels always have the same parts.

    >>> found = parts_of_labels(np.array([0, 0, 0, 1, 1, 1, 1, 1, 1, 2]), 3)
    >>> np.bincount(found).tolist(), sorted(found[:3].tolist()), np.bincount(found[3:9]).tolist()
    ([4, 3, 3], [0, 1, 2], [2, 2, 2])
    """
    order = np.random.default_rng(0).permutation(len(truth))
    found = np.empty(len(truth), dtype=np.int64)
    found[order[np.argsort(truth[order], kind="stable")]] = np.arange(len(truth)) % parts
    return found


def labels_by_task(crowd: Annotations, known: npt.NDArray[np.int64]) -> dict[Any, Any]:
    """Task to true label, in the user's names, by (N,) true classes: what :func:`known_codes` reads."""
    at = np.flatnonzero(known != MISSING)
    return dict(zip(crowd.task_ids[at].tolist(), crowd.classes[known[at]].tolist(), strict=True))


def without_each_part(
    known: npt.NDArray[np.int64], tasks: npt.NDArray[np.int64], parts: int
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """The (N,) true classes without those of each part of these tasks, and which tasks that part has.

    A fit to the others judges the part as if its true labels were unknown.
    """
    part = parts_of_labels(known[tasks], parts)
    for k in range(parts):
        fewer = known.copy()
        fewer[tasks[part == k]] = MISSING
        yield fewer, tasks[part == k]


def _pairs(true_labels: Any) -> tuple[Names, Names]:
    """Task ids and labels, without missing ones; a task may occur once."""
    names = column_names(true_labels)
    if names is not None:
        found = find_columns(names, {"task": None, "truth": None}, "true_labels")
        frame = open_frame(true_labels, "true_labels")
        tasks, labels = (frame[found[role]].to_list() for role in ("task", "truth"))
    elif isinstance(true_labels, Mapping) or hasattr(true_labels, "items"):
        pairs = list(true_labels.items())
        tasks, labels = [task for task, _ in pairs], [label for _, label in pairs]
    else:
        raise InputError("true_labels must map task ids to labels: a dict, a pandas Series indexed by task, or a frame")
    given = np.flatnonzero(read_labels(labels, missing="", where="true_labels").codes != MISSING)
    kept = as_names([tasks[k] for k in given])
    named = as_names([labels[k] for k in given])
    _refuse_repeated(kept, named)
    warn_of_lookalikes(kept, "tasks", "true_labels")
    return kept, named


def _refuse_repeated(tasks: Names, labels: Names) -> None:
    repeated = [task for task, count in Counter(tasks.tolist()).items() if count > 1]
    if repeated:
        given = [label for task, label in zip(tasks.tolist(), labels.tolist(), strict=True) if task == repeated[0]]
        raise InputError(
            f"true_labels: a task occurs more than once: {examples(repeated)}; the labels of {repeated[0]!r} are "
            f"{examples(given)}. Pass one label per task"
        )
