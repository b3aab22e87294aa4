"""True labels of some training tasks: read, joined to the tasks, and compared with the votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conal._arrays import IntArray
from conal.data.annotations import Annotations
from conal.data.cleaning import read_labels
from conal.data.encoding import MISSING, as_names
from conal.data.frames import column_names
from conal.data.true_labels import known_codes, labels_by_task
from conal.errors import DataWarning, InputError, examples, warn
from conal.estimator.inputs import Joined, digest


def truth_for_training(joined: Joined, true_labels: Any, takes: str) -> IntArray | None:
    """(N,) true classes of the training tasks, as positions in their classes, and -1 elsewhere; None without any.

    Labels that contradict every vote, and classes that no annotator used, are told.
    """
    if true_labels is None:
        return None
    if takes == "gold":
        raise InputError("true_labels: the method 'gold' takes the true labels of all rows as y; leave them out")
    crowd = joined.annotations
    known = known_codes(crowd, _by_task(joined, true_labels))
    given = np.flatnonzero(known != MISSING)
    if not len(given):
        return None
    _tell_unused(crowd, known[given])
    _tell_contradicted(crowd, known)
    return known


def truth_metrics(crowd: Annotations, known: IntArray) -> dict[str, Any]:
    """What a model folder records about true labels that were trained on."""
    return {"n_true_labels": int((known != MISSING).sum()), "true_labels_sha256": digest_of_truth(crowd, known)}


def digest_of_truth(crowd: Annotations, known: IntArray) -> str:
    """A digest of tasks and their true labels, whatever their order."""
    pairs = labels_by_task(crowd, known).items()
    return digest(np.frombuffer(repr(sorted(map(repr, pairs))).encode(), dtype=np.uint8))


def _by_task(joined: Joined, true_labels: Any) -> Any:
    """True labels by task; a bare sequence has one for every row of the features, some of them missing."""
    if isinstance(true_labels, Mapping) or hasattr(true_labels, "items") or column_names(true_labels) is not None:
        return true_labels
    if isinstance(true_labels, str) or np.ndim(true_labels) != 1:
        return true_labels  # which is refused
    n_rows = len(joined.instances.source)
    if len(true_labels) != n_rows:
        raise InputError(
            f"true_labels: {len(true_labels):,} for {n_rows:,} rows of features; pass one for each (None where it is "
            "unknown), or a mapping of task ids to labels"
        )
    read = read_labels(true_labels, missing="", where="true_labels")
    values = [read.names[code] if code != MISSING else None for code in read.codes.tolist()]
    rows = np.arange(len(joined.instances)) if joined.instances.rows is None else joined.instances.rows
    return dict(zip(joined.annotations.task_ids.tolist(), as_names([values[k] for k in rows]).tolist(), strict=True))


def _tell_unused(crowd: Annotations, given: IntArray) -> None:
    used = np.bincount(crowd.labels, minlength=crowd.n_classes) > 0
    unused = np.unique(given[~used[given]])
    if len(unused):
        warn(
            f"true_labels: no annotator gave the label {examples(crowd.classes[unused])}; the model learns it from "
            f"{int(np.isin(given, unused).sum()):,} true labels alone",
            DataWarning,
        )


def _tell_contradicted(crowd: Annotations, known: IntArray) -> None:
    votes = crowd.votes()
    judged = np.flatnonzero((known != MISSING) & (votes.sum(1) > 0))
    against = judged[votes[judged, known[judged]] == 0]
    if not len(against):
        return
    shown = [
        f"{task!r} ({examples(crowd.classes[known[[i]]])}, votes for {examples(crowd.classes[votes[i] > 0])})"
        for i, task in zip(against[:3], crowd.task_ids[against[:3]].tolist(), strict=True)
    ]
    rest = "" if len(against) <= 3 else f" and {len(against) - 3:,} more"
    warn(
        f"true_labels: {len(against):,} of {len(judged):,} contradict every vote of their task: "
        f"{', '.join(shown)}{rest}. They are taken as true; check that ids and classes are right",
        DataWarning,
    )
