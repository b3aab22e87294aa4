"""Differentially private releases: what a crowd confuses, with noise that hides each person's contribution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray, IntArray
from conal._system import versions
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, name_column, spelling
from conal.errors import InputError, examples, missing_package
from conal.parameters import number, whole

__all__ = ["PrivateRelease", "private_release"]


# Noise: OpenDP's discrete Laplace mechanism, which draws whole numbers exactly (Canonne, Kamath and Steinke 2020).
# Noise in floating-point numbers can be taken apart by its low bits (Mironov 2012).


def noisy_counts(counts: IntArray, sensitivity: int, epsilon: float) -> IntArray:
    """The counts with independent discrete Laplace noise of scale sensitivity / epsilon: the whole mechanism.

    OpenDP states the loss of its measurement, and the least scale is taken whose loss is at most epsilon.

    Parameters
    ----------
    counts : array of int
        Of which one person changes at most ``sensitivity`` in total.
    """
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise InputError(missing_package("opendp", "a private release")) from error
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    about = sensitivity / epsilon
    release = dp.binary_search_chain(
        lambda scale: dp.m.make_laplace(*space, scale=scale), sensitivity, epsilon, bounds=(about / 2, about * 2)
    )
    return np.array(release(counts.ravel().tolist()), dtype=np.int64).reshape(counts.shape)


# Bounded contributions: labels counted beside public true labels, with a limit on what one person can add.


UNIT = 1000
"""Counts are kept in thousandths of a label, so that they, and the noise, are whole numbers."""

_WHOLE_AS_DECIMAL = re.compile(r"(-?\d+)\.0")


def plain_spelling(name: Any) -> str:
    """How a name is compared: by its text, in which 7, 7.0, "7" and "7.0 " are the same, and True, "TRUE" and "true".

    Whether a column of a file is read as numbers, truth values or text depends on all rows of it, and so on everybody.
    Compared like this, it makes no difference to what the other people's rows count for.

    >>> plain_spelling(7), plain_spelling(7.0), plain_spelling("7.0 "), plain_spelling("007"), plain_spelling("7.10")
    ('7', '7', '7', '007', '7.10')
    >>> plain_spelling(True), plain_spelling("TRUE"), plain_spelling("Truely")
    ('true', 'true', 'Truely')
    """
    text = spelling(name).strip()
    if text.casefold() in ("true", "false"):
        return text.casefold()
    found = _WHOLE_AS_DECIMAL.fullmatch(text)
    return found[1] if found else text


def positions(names: Iterable[Any], what: str) -> dict[str, int]:
    """Spelling to position of public names; two that are spelled the same are an error."""
    found: dict[str, int] = {}
    for k, name in enumerate(names):
        if found.setdefault(plain_spelling(name), k) != k:
            raise InputError(f"{what} {examples([name])} is listed twice; list it once")
    return found


def bounded_counts(
    crowd: Annotations,
    true_codes: Mapping[str, int],
    classes: Mapping[str, int],
    max_labels: int,
    groups: tuple[Mapping[str, int], int] = ({}, 0),
) -> IntArray:
    r"""(B, C, C) thousandths of labels by group of the annotator, true class and label.

    A person r with :math:`n_r` labels that count adds, to the cell of true class c and label l,

    .. math:: h_r[c, l] = \lfloor 1000 \min(1, m / n_r)\, n_r[c, l] \rfloor, \qquad \sum_{c, l} h_r[c, l] \le 1000\, m

    which depends on nobody else's labels. So adding or removing a person changes the result by at most 1000 m in
    total, and only in one direction. Labels of other tasks or classes do not count at all.

    Parameters
    ----------
    true_codes : mapping
        Spelling of a task to the position of its true class. Public.
    classes : mapping
        Spelling of a class to its position. Public.
    max_labels : int
        m: more labels of a person weigh as much as this many.
    groups : mapping of annotators' spellings to groups, and the number of groups
        Annotators who are in none of the G groups are counted in a further one, so that B = G + 1.
    """
    n_classes = len(classes)
    true = _codes(crowd.task_ids, true_codes)[crowd.tasks]
    seen = _codes(crowd.classes, classes)[crowd.labels]
    counted = (true != MISSING) & (seen != MISSING)
    people = crowd.annotators[counted].astype(np.int64)
    cells = true[counted] * n_classes + seen[counted]
    given = np.bincount(people, minlength=crowd.n_annotators)
    pairs, number = np.unique(people * n_classes**2 + cells, return_counts=True)
    people, cells = np.divmod(pairs, n_classes**2)
    weights = UNIT * np.minimum(given[people], max_labels) * number // given[people]
    members, n_groups = groups
    group = np.where((found := _codes(crowd.annotator_ids, members)) == MISSING, n_groups, found)
    counts = np.zeros((n_groups + 1, n_classes**2), dtype=np.int64)
    np.add.at(counts, (group[people], cells), weights)
    return counts.reshape(n_groups + 1, n_classes, n_classes)


def _codes(names: npt.NDArray[Any], codes: Mapping[str, int]) -> IntArray:
    found = [codes.get(plain_spelling(name), MISSING) for name in names.tolist()]
    return np.array(found, dtype=np.int64)


# Intervals of shares of noisy counts: which shares the noise leaves open.

QUANTILE = float(np.log(20))
"""Scales that Laplace noise exceeds with probability 0.05. Of sums of such noise, the part beyond as many standard
deviations is smaller."""


def share_intervals(parts: FloatArray, scale: float, *, summed: int) -> tuple[FloatArray, FloatArray]:
    r"""Lower and upper ends of the shares that parts have in their total, of which noise is known.

    A share p is kept if the noise can explain what was seen. For the part :math:`\tilde n` of the total
    :math:`\tilde T`, both the sums of exact counts and Laplace noise, :math:`\tilde n - p \tilde T` is
    :math:`(1 - p) Z - p Z'` if p is the exact share, where Z is the noise in the part and Z' that in all others. So p
    is kept if

    .. math:: (\tilde n - p \tilde T)^2 \le q^2 \bigl((1 - p)^2 a + p^2 b\bigr)

    with a and b cells in the part and in all others (Fieller's method), and q the quantile of the noise in one cell.
    The exact share is kept with probability 0.95 or a little more, however small the counts are; where they drown in
    the noise, the interval reaches from 0 to 1. What chance had in the labels themselves is not in it.

    Parameters
    ----------
    parts : (K,) array
        Noisy counts that make up the total.
    scale : float
        The scale of the Laplace noise in one cell.
    summed : int
        How many cells were summed up to each part.

    Examples
    --------
    >>> low, high = share_intervals(np.array([900.0, 100.0]), 10.0, summed=1)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.87, 0.07], [0.93, 0.13])
    """
    total, noise = parts.sum(), (QUANTILE * scale) ** 2 * summed
    square = total**2 - noise * len(parts)
    if total <= 0 or square <= 0:
        return np.zeros(len(parts)), np.ones(len(parts))
    middle = parts * total - noise
    half = np.sqrt(np.maximum(middle**2 - square * (parts**2 - noise), 0))
    return np.clip((middle - half) / square, 0, 1), np.clip((middle + half) / square, 0, 1)


# The release: noisy counts, and the matrices, shares and intervals that follow from them.

FORMAT = "conal private release 1"
"""The first line of ``private.json``, by which a folder is recognised."""
COMMON, SHARES, GROUPS = "private_common_confusion.csv", "private_class_shares.csv", "private_group_confusion.csv"


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
        shares = {f"label_{name}": pa.array(values, from_pandas=True) for name, values in found.items()}
        return pa.table(
            {"class": name_column(self.classes), **shares}
            | {"labels": given, "labels_sd": np.full(len(given), self._deviation(n_cells))}
            | {"true_share": self.reference / max(self.reference.sum(), 1), "tasks": self.reference}
        ).rename_columns({"label_probability": "label_share"})

    def tables(self) -> dict[str, pa.Table]:
        """File name to table."""
        found = {COMMON: self.table(), SHARES: self.shares()}
        if self.groups:
            names = pa.array(np.repeat(self.groups, self.counts[0].size))
            found[GROUPS] = pa.concat_tables(map(self.table, self.groups)).add_column(0, "group", names)
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
            "versions": versions("numpy", "opendp"),
        }

    def _deviation(self, n_cells: int) -> float:
        """Standard deviation of the noise in a sum of this many cells."""
        return float(np.sqrt(2 * n_cells) * self.scale)

    def _place(self, group: str) -> int:
        if group not in self.groups:
            raise InputError(f"there is no group {group!r}; there are {', '.join(self.groups) or 'none'}")
        return self.groups.index(group)


def private_release(
    annotations: Any,
    true_labels: Mapping[Any, Any],
    *,
    epsilon: float,
    max_labels: int = 10,
    classes: Iterable[Any] | None = None,
    groups: Mapping[Any, str] | None = None,
) -> PrivateRelease:
    r"""Count labels beside public true labels, add noise, and release what follows from the noisy counts.

    The counts have L1 sensitivity m = ``max_labels`` (:func:`~conal.privacy.bounded_counts`), and every
    cell gets independent discrete Laplace noise of scale m / epsilon, by OpenDP. So for crowds D and D' that differ by
    one person, and every set S of outcomes,

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

    References
    ----------
    Dwork, McSherry, Nissim, Smith. Calibrating Noise to Sensitivity in Private Data Analysis. TCC 2006.

    Examples
    --------
    >>> votes = [[0, 0, 0] * 40, [1, 1, 0] * 40]  # two tasks, each with labels by 120 people
    >>> made = private_release(votes, {0: 0, 1: 1}, epsilon=50, max_labels=2)
    >>> made.common_confusion.round(1).tolist()
    [[1.0, 0.0], [0.3, 0.7]]
    """
    number(at_least=1e-9, at_most=100).check("epsilon", epsilon)
    whole(1, below=10**6).check("max_labels", max_labels)
    crowd = Annotations.of(annotations)
    names = as_names(sorted(set(true_labels.values()), key=_order) if classes is None else classes)
    at = positions(names.tolist(), "class")
    true_codes = _true_codes(true_labels, at)
    listed = tuple(sorted(set((groups or {}).values())))
    members = {plain_spelling(who): listed.index(group) for who, group in (groups or {}).items()}
    counts = bounded_counts(crowd, true_codes, at, max_labels, (members, len(listed)))
    noisy = noisy_counts(counts, UNIT * max_labels, epsilon)
    reference = np.bincount(list(true_codes.values()), minlength=len(names)).astype(np.int64)
    return PrivateRelease(names, listed, noisy / UNIT, reference, float(epsilon), int(max_labels))


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
    low, high = share_intervals(counts, scale, summed=summed)
    return {"probability": shares, "low": np.fmin(low, shares), "high": np.fmax(high, shares)}
