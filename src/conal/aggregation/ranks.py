"""An order of tasks, annotators, classes and labels that does not depend on their names, for random draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations

Hashes = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int64]

ROUNDS = 4
"""After so many, who labelled what with whom, and how, has gone through the whole crowd."""


class Ranks(NamedTuple):
    """Places of all tasks (N,), annotators (R,) and classes (C,).

    Of those that cannot be told apart by the labels, the first comes first; they are interchangeable.
    """

    tasks: Codes
    annotators: Codes
    classes: Codes


def ranks_of(crowd: Annotations) -> Ranks:
    """Places by who gave which labels to the same tasks: other names, or another order of the rows, change nothing.

    Every task, annotator and class has a number that is mixed from those of its labels, again and again
    (Weisfeiler-Lehman).

    >>> crowd = Annotations.from_triples([1, 1, 2], ["a", "b", "a"], ["x", "y", "x"])
    >>> renamed = Annotations.from_triples([7, 7, 2], ["a", "b", "a"], ["x", "y", "x"])
    >>> ranks_of(crowd).tasks.tolist(), ranks_of(renamed).tasks.tolist()
    ([0, 1], [1, 0])
    """
    sides = [(crowd.tasks, crowd.n_tasks), (crowd.annotators, crowd.n_annotators), (crowd.labels, crowd.n_classes)]
    hashes: list[Hashes] = [np.full(n, k, dtype=np.uint64) for k, (_, n) in enumerate(sides)]
    for _ in range(ROUNDS):
        each: Hashes = np.zeros(crowd.n_annotations, dtype=np.uint64)
        for (codes, _), own in zip(sides, hashes, strict=True):
            each = _mixed(each + own[codes])
        hashes = [_mixed(own + _sums(codes, each, n)) for (codes, n), own in zip(sides, hashes, strict=True)]
    tasks, annotators, classes = (_places(np.argsort(own, kind="stable")) for own in hashes)
    return Ranks(tasks, annotators, classes)


def label_ranks(crowd: Annotations) -> Codes:
    """(A,) places of the labels: by the rank of the task, then of the annotator."""
    ranks = ranks_of(crowd)
    return _places(np.lexsort((ranks.annotators[crowd.annotators], ranks.tasks[crowd.tasks])))


def _sums(codes: npt.NDArray[Any], values: Hashes, n: int) -> Hashes:
    """(n,) sums by code, modulo 2^64; in parts of 22 bits, whose sums are exact in double precision."""
    total = np.zeros(n, dtype=np.uint64)
    for shift in map(np.uint64, (0, 22, 44)):
        part = (values >> shift) & np.uint64(2**22 - 1)
        total += np.bincount(codes, weights=part, minlength=n).astype(np.uint64) << shift
    return total


def _mixed(x: Hashes) -> Hashes:
    """The finaliser of SplitMix64: one to one, and every bit depends on all."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def _places(order: npt.NDArray[Any]) -> Codes:
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places
