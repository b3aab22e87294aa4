"""The release: noisy counts, and the matrices, shares and intervals that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._system import versions
from conal.data.annotations import Annotations
from conal.data.encoding import Names, as_names, name_column
from conal.errors import InputError, examples
from conal.parameters.showing import ReleaseOptions
from conal.privacy.contributions import UNIT, bounded_counts, plain_spelling, positions
from conal.privacy.noise import noisy_counts
from conal.privacy.ratios import share_intervals

__all__ = ["PrivateRelease", "private_release"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PrivateRelease:
    """What a crowd confuses, released so that each person's whole contribution stays hidden.

    Everything here is computed from the noisy counts, and from what is public anyway. The noisy counts satisfy
    epsilon-differential privacy (delta = 0) for adding or removing one person with all labels.

    Parameters
    ----------
    classes : (C,) array
        The classes. Public.
    groups : tuple of str
        The groups of annotators. Public.
    counts : (B, C, C) float64
        Noisy numbers of labels by group, true class and observed class; of a person with more than ``max_labels``, all
        labels together weigh that many. B = G + 1: the last are annotators in none of the groups.
    reference : (C,) int64
        Tasks with a public true label, by class. Public.
    epsilon : float
        The privacy parameter of this release.
    max_labels : int
        The largest weight of a person.
    """

    classes: Names
    groups: tuple[str, ...]
    counts: FloatArray
    reference: npt.NDArray[np.int64]
    epsilon: float
    max_labels: int

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise in each cell of ``counts``, in labels."""
        return self.max_labels / self.epsilon

    @property
    def common_counts(self) -> FloatArray:
        """(C, C) noisy numbers of everybody's labels: the sum over the groups, with the noise of each."""
        return np.asarray(self.counts.sum(0))

    @property
    def common_confusion(self) -> FloatArray:
        """(C, C) P(observed class | true class) over everybody's labels; NaN in a row in which noise left nothing."""
        return _normalised(self.common_counts)

    def group_confusion(self, group: str) -> FloatArray:
        """(C, C) the same for the labels of one group."""
        return _normalised(self.counts[self._place(group)])

    def table(self, group: str | None = None) -> pa.Table:
        """A row per true and observed class: probability, its interval due to the noise, and the noisy count."""
        counts = self.common_counts if group is None else self.counts[self._place(group)]
        summed = len(self.counts) if group is None else 1
        rows = [_shares(row, self.scale, summed) for row in counts]
        true, observed = np.divmod(np.arange(counts.size), len(self.classes))
        names = name_column(self.classes)
        columns = {"true": names.take(pa.array(true)), "observed": names.take(pa.array(observed))}
        for name in rows[0]:
            columns[name] = pa.array(np.concatenate([row[name] for row in rows]), from_pandas=True)
        columns["count"] = pa.array(counts.ravel())
        columns["count_sd"] = pa.array(np.full(counts.size, self._deviation(summed)))
        return pa.table(columns)

    def shares(self) -> pa.Table:
        """A row per class: its share of the crowd's labels, with an interval due to the noise, and of the true labels.

        Only labels of tasks with a true label count.
        """
        given, n_cells = self.common_counts.sum(0), len(self.counts) * len(self.classes)
        found = _shares(given, self.scale, n_cells)
        columns = {f"label_{'share' if name == 'probability' else name}": found[name] for name in found}
        return pa.table(
            {"class": name_column(self.classes)}
            | {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
            | {"labels": given, "labels_sd": np.full(len(given), self._deviation(n_cells))}
            | {"true_share": self.reference / max(self.reference.sum(), 1), "tasks": self.reference}
        )

    def tables(self) -> dict[str, pa.Table]:
        """File name to table."""
        found = {"private_common_confusion.csv": self.table(), "private_class_shares.csv": self.shares()}
        if self.groups:
            parts = [self.table(group) for group in self.groups]
            size = parts[0].num_rows
            names = pa.array([group for group in self.groups for _ in range(size)])
            found["private_group_confusion.csv"] = pa.concat_tables(parts).add_column(0, "group", names)
        return found

    def document(self) -> dict[str, Any]:
        """What was released and under which guarantee, as plain data."""
        total = self.counts.size
        return {
            "format": FORMAT,
            "epsilon": self.epsilon,
            "delta": 0.0,
            "protects": "one annotator with all labels: whether they took part, which tasks they labelled, and how",
            "neighbours": "crowds that differ by one annotator with all labels, added or removed; for one exchanged "
            "for another, epsilon is twice as high",
            "mechanism": {
                "name": "discrete Laplace noise in every count, once; all else is computed from the noisy counts",
                "scale": self.scale,
                "standard_deviation": self._deviation(1),
                "unit": 1 / UNIT,
                "cells": total,
                "l1_sensitivity": self.max_labels,
                "releases": 1,
            },
            "bounds": {"max_labels": self.max_labels},
            "public": ["classes", "groups", "tasks with a true label, and their true labels", "max_labels", "epsilon"],
            "withheld": ["annotators", "labels of tasks", "numbers of annotators and tasks", "models", "reports"],
            "classes": [str(name) for name in self.classes.tolist()],
            "groups": list(self.groups),
            "labels": float(self.counts.sum()),
            "labels_sd": self._deviation(total),
            "counts": self.counts.tolist(),
            "versions": versions("numpy"),
        }

    def _deviation(self, n_cells: int) -> float:
        """Standard deviation of the noise in a sum of this many cells."""
        return float(np.sqrt(2 * n_cells) * self.scale)

    def _place(self, group: str) -> int:
        if group not in self.groups:
            raise InputError(f"there is no group {group!r}; there are {', '.join(self.groups) or 'none'}")
        return self.groups.index(group)


FORMAT = "conal private release 1"
"""The first line of ``private.json``, by which a folder is recognised."""


def private_release(
    annotations: Any,
    true_labels: Mapping[Any, Any],
    *,
    epsilon: float,
    max_labels: int = ReleaseOptions.max_labels,
    classes: Iterable[Any] | None = None,
    groups: Mapping[Any, str] | None = None,
    source: Random | None = None,
) -> PrivateRelease:
    r"""Count labels beside public true labels, add noise, and release what follows from the noisy counts.

    The counts have L1 sensitivity m = ``max_labels`` (:func:`~conal.privacy.contributions.bounded_counts`), and every
    cell gets independent discrete Laplace noise of scale m / epsilon. So for crowds D and D' that differ by one person,
    and every set S of outcomes,

    .. math:: P(M(D) \in S) \le e^{\varepsilon} P(M(D') \in S).

    Parameters
    ----------
    annotations : Annotations, frame or matrix
        The crowd's labels.
    true_labels : mapping
        Task to true label. They must not come from these annotators, nor from a model of their labels: they are
        taken as public.
    epsilon : float
        The smaller, the more noise. Several releases of the same crowd add up their epsilons.
    max_labels : int
        The largest weight of a person. It must not be chosen by looking at the labels.
    classes : sequence, optional
        The classes, in order; those of the true labels by default. Labels outside of them do not count.
    groups : mapping, optional
        Annotator to group; the names of the groups are public.
    source : random.Random, optional
        The source of randomness, for tests; the operating system's by default, which a release needs.

    References
    ----------
    Dwork, McSherry, Nissim, Smith. Calibrating Noise to Sensitivity in Private Data Analysis. TCC 2006.

    Examples
    --------
    >>> votes = [[0, 0, 0], [1, 1, 0]] * 50  # two tasks by turns, each with labels by three people
    >>> truth = {task: task % 2 for task in range(100)}
    >>> made = private_release(votes, truth, epsilon=50, max_labels=100, source=Random(1))
    >>> made.common_confusion.round(1).tolist()
    [[1.0, 0.0], [0.3, 0.7]]
    """
    for name, value in (("private", epsilon), ("max_labels", max_labels)):
        ReleaseOptions.declared[name].must_be.check("epsilon" if name == "private" else name, value)
    crowd = Annotations.of(annotations)
    names = as_names(sorted(set(true_labels.values()), key=_order) if classes is None else classes)
    at = positions(names.tolist(), "class")
    true_codes = _true_codes(true_labels, at)
    listed = tuple(sorted(set((groups or {}).values())))
    members = None if groups is None else {plain_spelling(who): listed.index(group) for who, group in groups.items()}
    grouped = None if members is None else (members, len(listed))
    counts = bounded_counts(crowd, true_codes, at, max_labels, grouped)
    noisy = noisy_counts(counts.ravel().tolist(), UNIT * max_labels, epsilon, source or SystemRandom())
    reference = np.bincount(list(true_codes.values()), minlength=len(names)).astype(np.int64)
    released = np.array(noisy, dtype=np.float64).reshape(counts.shape) / UNIT
    return PrivateRelease(names, listed, released, reference, float(epsilon), int(max_labels))


def _order(name: Any) -> tuple[bool, Any]:
    """Numbers in their order, before all others by their text."""
    return (False, name) if isinstance(name, int | float) else (True, str(name))


def _true_codes(true_labels: Mapping[Any, Any], classes: Mapping[str, int]) -> dict[str, int]:
    """Spelling of each task to the position of its true class; true labels outside of the classes are an error."""
    if not true_labels or len(classes) < 2:
        raise InputError("a private release needs true labels of at least 2 classes to count labels beside; add some")
    unknown = [label for label in true_labels.values() if plain_spelling(label) not in classes]
    if unknown:
        raise InputError(f"true labels {examples(unknown)} are not among the classes; correct them, or list them")
    tasks = positions(true_labels, "the task")
    return {task: classes[plain_spelling(label)] for task, label in zip(tasks, true_labels.values(), strict=True)}


def _normalised(counts: FloatArray) -> FloatArray:
    """Rows of what is left of the counts above zero, as shares; NaN where nothing is left."""
    kept = np.maximum(counts, 0)
    total = kept.sum(-1, keepdims=True)
    return np.asarray(np.divide(kept, total, out=np.full(counts.shape, np.nan), where=total > 0))


def _shares(counts: FloatArray, scale: float, summed: int) -> dict[str, FloatArray]:
    """Shares of noisy counts, and their intervals, widened to contain the shares after negative counts were cut."""
    shares = _normalised(counts)
    low, high = share_intervals(counts, float(counts.sum()), scale, summed=summed)
    return {"probability": shares, "low": np.fmin(low, shares), "high": np.fmax(high, shares)}
