"""Refused answers: who was asked about which task and declined, kept beside the labels."""

from __future__ import annotations

import numpy as np

from conal.data.container import LabelArrays
from conal.data.encoding import MISSING, Encoded
from conal.data.missing import Labels
from conal.errors import DataWarning, examples, warn

__all__ = ["refused_answers"]


def refused_answers(labels: Labels, task: Encoded, worker: Encoded, where: str) -> LabelArrays | None:
    """The refused answers in a column of labels; None if nothing was listed as one.

    Who declined and then answered has answered. Of two refusals of one task by one annotator, the first is kept.

    Parameters
    ----------
    labels : Labels
    task, worker : Encoded
        The task and the annotator of every label.
    where : str
        How messages name the source.
    """
    if labels.refused is None:
        return None
    pairs = task.codes.astype(np.int64) * max(len(worker.names), 1) + worker.codes
    declined = np.flatnonzero(labels.refused != MISSING)
    _, first = np.unique(pairs[declined], return_index=True)
    rows = declined[first]
    rows = rows[~np.isin(pairs[rows], pairs[labels.codes != MISSING])]
    unused = [word for k, word in enumerate(labels.refusals) if not (labels.refused == k).any()]
    if unused:
        warn(f"{where}: no label is {examples(unused)}; check abstain (--abstain)", DataWarning)
    return LabelArrays(
        task.codes[rows],
        worker.codes[rows],
        labels.refused[rows],
        task_ids=task.names,
        annotator_ids=worker.names,
        classes=labels.refusals,
    )
