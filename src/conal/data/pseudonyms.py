"""Pseudonyms for annotators."""

from __future__ import annotations

import hashlib

import numpy as np

from conal.data.annotations import Annotations
from conal.data.encoding import Names, as_names

__all__ = ["anonymised", "pseudonyms"]


def pseudonyms(names: Names) -> Names:
    """A pseudonym for every name; the same names get the same pseudonyms, in any order.

    Numbers follow the digests of the names, so that they do not tell the alphabetical order. Whoever has a list of the
    names can compute the same digests: pseudonyms protect only names that readers cannot guess.

    >>> pseudonyms(as_names(["zoe", "ann"])).tolist()
    ['annotator-1', 'annotator-2']
    """
    texts = [f"{type(name).__name__} {name}" for name in names.tolist()]
    order = sorted(range(len(texts)), key=lambda k: hashlib.sha256(texts[k].encode()).digest())
    width = len(str(len(texts)))
    taken, stem = {str(name) for name in names.tolist()}, "annotator"
    while any(name.startswith(f"{stem}-") for name in taken):  # no pseudonym equals an existing name
        stem += "-"
    found = [""] * len(texts)
    for number, k in enumerate(order, start=1):
        found[k] = f"{stem}-{number:0{width}}"
    return as_names(found)


def anonymised(annotations: Annotations) -> Annotations:
    """The annotations with pseudonyms, which also determine the order of the annotators.

    >>> crowd = Annotations.from_triples([0, 0], ["ann", "zoe"], ["x", "y"])
    >>> anonymised(crowd).to_table().to_pydict()["label"]
    ['y', 'x']
    """
    names = pseudonyms(annotations.annotator_ids)
    order = np.argsort(names)
    position = np.empty(len(order), dtype=np.int32)
    position[order] = np.arange(len(order))
    return Annotations(
        annotations.tasks,
        position[annotations.annotators],
        annotations.labels,
        task_ids=annotations.task_ids,
        annotator_ids=names[order],
        classes=annotations.classes,
        by_position=annotations.by_position,
    )
