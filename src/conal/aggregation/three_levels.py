"""Three levels of confusion for labels that any model inferred: everybody's, a group's and an annotator's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.aggregation.arrays import FloatArray, normalised
from conal.aggregation.backoff import fixed_point
from conal.aggregation.group_confusion import FIRST_POOLING, GroupConfusion

__all__ = ["Levels", "drawn_to_groups", "levels_of"]

FIT_STEPS = 15
FIRST_SIZE = 50.0
"""Pseudo-labels in a row of a group's :math:`\\alpha` before the first step, as its prior expects."""
FIRST_SLOPE, FLATTEST = -0.3, -0.005
LONGEST = 1.0
"""Logarithm of the largest factor of one step."""
STILL = 1e-9


class Levels(NamedTuple):
    r"""The matrices of :class:`conal.aggregation.GroupConfusion`, for expected labels that stay as they are.

    Parameters
    ----------
    common : (C, C)
        :math:`\mu^0`, what everybody confuses.
    alpha : (K, C, C)
        :math:`\alpha^k`: its proportions are what a group confuses, and there is as much of it as the labels say that
        members are alike.
    independent : (K, C)
        How many labels of tasks of every class tell about a group: as many as its members gave if they are alike, and
        far fewer if they are not.
    """

    common: FloatArray
    alpha: FloatArray
    independent: FloatArray

    @property
    def groups(self) -> FloatArray:
        """(K, C, C) what each group confuses."""
        return normalised(self.alpha)


def levels_of(counts: FloatArray, codes: npt.NDArray[np.int64]) -> Levels:
    """Fit the matrices of the crowd and of its groups to expected labels.

    Parameters
    ----------
    counts : (R, C, C)
        Expected labels ``[annotator, true, observed]``.
    codes : (R,)
        The group of every annotator, from 0. Every group has a member.

    Examples
    --------
    >>> counts = np.array([[[80.0, 20.0], [10.0, 90.0]]] * 3 + [[[40.0, 60.0], [50.0, 50.0]]] * 3)
    >>> found = levels_of(counts, np.array([0, 0, 0, 1, 1, 1]))
    >>> found.groups[:, 0].round(1).tolist(), found.common[0].round(1).tolist()
    ([[0.8, 0.2], [0.4, 0.6]], [0.7, 0.3])
    """
    model = GroupConfusion()
    n_groups = model.n_groups_ = int(codes.max()) + 1
    model.pooling_ = FIRST_POOLING
    members = [counts[codes == k] for k in range(n_groups)]
    prior = normalised(model._modes(counts.shape[-1]))
    alpha = FIRST_SIZE * normalised(np.stack([own.sum(0) + prior for own in members]))
    sizes = SecantSteps(n_groups)
    for _ in range(FIT_STEPS):
        found = model._alpha_of(alpha, *_sums(alpha, members))
        alpha = normalised(found) * sizes.after(alpha[:, 0].sum(-1), found[:, 0].sum(-1))[:, None, None]
    return Levels(model._common(alpha), alpha, _sums(alpha, members)[0].sum(-1))


class SecantSteps:
    r"""Longer steps on positive numbers :math:`b_k` whose fixed-point iteration creeps.

    With :math:`\phi = \log b' - \log b`, the change by the iteration, the next is :math:`\log b - \phi / s`, where s is
    the slope of :math:`\phi` over the last two steps. The fixed points stay the same.

    >>> sizes, b = SecantSteps(1), np.array([1.0])
    >>> for _ in range(6):
    ...     b = sizes.after(b, b * (100 / b) ** 0.01)  # alone, this needs 500 steps to come near 100
    >>> b.round(2).tolist()
    [100.0]
    """

    def __init__(self, n: int) -> None:
        self.slopes = np.full(n, FIRST_SLOPE)
        self.before: tuple[FloatArray, FloatArray] | None = None

    def after(self, sizes: FloatArray, found: FloatArray) -> FloatArray:
        """The next numbers (K,), where the iteration finds these."""
        place = np.log(sizes)
        change = np.log(found) - place
        if self.before is not None:
            moved = place - self.before[0]
            there = np.abs(moved) > STILL
            slopes = (change - self.before[1]) / np.where(there, moved, 1.0)
            self.slopes = np.where(there, np.clip(slopes, -1.0, FLATTEST), self.slopes)
        self.before = (place, change)
        return np.asarray(np.exp(place + np.clip(-change / self.slopes, -LONGEST, LONGEST)))


def _sums(alpha: FloatArray, members: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The sums of the fixed-point iteration: every annotator counts for the own group alone."""
    each = [fixed_point(own[None], np.ones((len(some), 1)), some) for own, some in zip(alpha, members, strict=True)]
    gained, spent = zip(*each, strict=True)
    return np.concatenate(gained), np.concatenate(spent)


def drawn_to_groups(counts: FloatArray, codes: npt.NDArray[np.int64]) -> FloatArray:
    """(R, C, C) pseudo-labels that draw annotators' matrices to their groups', and these to the crowd's.

    They are the :attr:`Levels.alpha` of the annotators' groups. Parameters are those of :func:`levels_of`.

    >>> alike = np.array([[[8.0, 2.0], [1.0, 9.0]]] * 3 + [[[4.0, 6.0], [5.0, 5.0]]] * 3)
    >>> pseudo = drawn_to_groups(alike, np.array([0, 0, 0, 1, 1, 1]))
    >>> normalised(pseudo[[0, 3], 0]).round(1).tolist()
    [[0.8, 0.2], [0.4, 0.6]]
    """
    return np.asarray(levels_of(counts, codes).alpha[codes])
