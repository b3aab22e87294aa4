"""A random part of a dataset: how well does a method do with few tasks?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conal.datasets.base import CrowdDataset, Split
from conal.errors import InputError

__all__ = ["sampled"]


def sampled(data: CrowdDataset, n_tasks: int, *, seed: int = 0, shares: Sequence[float] | None = None) -> CrowdDataset:
    """Some labelled training tasks of a dataset, with all their labels; the other labelled tasks are its test data.

    Validation and test data of the dataset are left out, so that choices can be made on what is measured here.

    Parameters
    ----------
    data : CrowdDataset
    n_tasks : int
        How many tasks to draw.
    seed : int
        Seed of the draw.
    shares : sequence of float, optional
        Shares of the classes among the drawn tasks and the test data, by their true labels; by default all tasks are
        equally likely to be drawn.

    Examples
    --------
    >>> from conal.datasets import synthetic
    >>> few = sampled(synthetic(n_train=200, n_classes=2, seed=1), 50, seed=3, shares=(0.9, 0.1))
    >>> len(few.x), np.bincount(few.y_true).tolist()
    (50, [45, 5])
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(data.annotations.labels_per_task()))
    if n_tasks > len(order):
        raise InputError(f"{data.name}: has {len(order):,} labelled tasks, of which {n_tasks:,} cannot be drawn")
    drawn = order[:n_tasks] if shares is None else _by_class(order, data.y_true, n_tasks, shares)
    rest = np.setdiff1d(order, drawn)
    if shares is not None:
        rest = _by_class(rest, data.y_true, _as_many_as_there_are(data.y_true[rest], shares), shares)
    test = Split(data.x[rest], data.y_true[rest])
    return CrowdDataset(data.name, data.x[drawn], data.annotations[drawn], data.y_true[drawn], test=test)


def _by_class(
    order: npt.NDArray[np.int64], y: npt.NDArray[np.int64], n_tasks: int, shares: Sequence[float]
) -> npt.NDArray[np.int64]:
    """The first tasks in this order of every class, as many as its share says."""
    counts = np.diff(np.round(n_tasks * np.cumsum(shares)).astype(int), prepend=0)
    found = [order[y[order] == c][:count] for c, count in enumerate(counts)]
    if any(len(each) < count for each, count in zip(found, counts, strict=True)):
        raise InputError(f"there are fewer tasks of a class than the shares say, {counts.tolist()}; draw fewer")
    return np.concatenate(found)


def _as_many_as_there_are(y: npt.NDArray[np.int64], shares: Sequence[float]) -> int:
    """How many tasks with these shares there are; one less per class, for rounding."""
    there = np.bincount(y, minlength=len(shares))
    return int(min((n - 1) / share for n, share in zip(there, shares, strict=True) if share > 0))
