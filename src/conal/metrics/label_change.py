"""What another way to make the labels changes: how many labels, and how many more or fewer of them are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.encoding import MISSING

__all__ = ["LabelChange", "Relabelling", "joined", "label_changes", "relabelling"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DRAWS = 4000
MODEL_WEIGHT = 16.0
"""True labels that the posteriors' expectation about changed labels is worth."""
# This and ALIKE: what reports say about eight juries of language models, studies/results/0.2.0/jury-claims.csv.
ALIKE = 50.0
"""How alike relabellings are: the true labels that what is known about all of them is worth for one."""
WORTH = np.array([1.0, -1.0, 0.0])
"""What a changed label counts: now right, right before, and wrong before and after."""


class Relabelling(NamedTuple):
    """How labels of the same tasks that were made in another way differ.

    Attributes
    ----------
    n_changed : int
        Labels that differ.
    expected : (3,)
        How many of these are probably right now, were right before, and are wrong both times.
    seen : (n, 3)
        Which of the three it is, for each task whose true label is known; zeros where the label stays.
    """

    n_changed: int
    expected: FloatArray
    seen: FloatArray


class LabelChange(NamedTuple):
    """By how much the share of right labels changes.

    Attributes
    ----------
    n_changed : int
        Labels that differ.
    value, low, high : float
        Change of the share of right labels: its expectation and its interval.
    draws : (n,)
        Draws of the change, for the probability of any statement about it.
    """

    n_changed: int
    value: float
    low: float
    high: float
    draws: FloatArray

    @classmethod
    def of(cls, n_changed: int, draws: FloatArray, confidence: float) -> LabelChange:
        """Expectation and interval from draws."""
        tail = (1 - confidence) / 2
        low, high = np.quantile(draws, [tail, 1 - tail])
        return cls(n_changed, float(draws.mean()), float(low), float(high), draws)

    def within(self, margin: float) -> float:
        """Probability that the share of right labels changes by less than the margin."""
        return float((np.abs(self.draws) < margin).mean())

    def loses_less_than(self, margin: float) -> float:
        """Probability that the share of right labels does not fall by the margin or more."""
        return float((self.draws > -margin).mean())


def relabelling(
    before: FloatArray,
    after: FloatArray,
    *,
    known: IntArray | None = None,
    counted: npt.NDArray[np.bool_] | None = None,
) -> Relabelling:
    """How labels by the posterior ``after`` (N, C) differ from those by ``before``, and what to expect of that.

    Neither posterior can judge the other: each finds its own labels the most probable ones. Their mean is fair to both.
    Posteriors of annotators who err together are too sure, so that half of the mean is uniform.

    Parameters
    ----------
    before, after : (N, C)
    known : (N,), optional
        True classes of random tasks, -1 elsewhere. Neither posterior may have been made with them.
    counted : (N,) bool, optional
        The tasks that count; all by default.

    Examples
    --------
    >>> before, after = np.array([[0.6, 0.4], [0.9, 0.1]]), np.array([[0.2, 0.8], [0.9, 0.1]])
    >>> found = relabelling(before, after, known=np.array([0, -1]))
    >>> found.n_changed, found.expected.round(6).tolist(), found.seen.tolist()
    (1, [0.55, 0.45, 0.0], [[0.0, 1.0, 0.0]])
    """
    old, new = before.argmax(1), after.argmax(1)
    here = np.full(len(old), True) if counted is None else counted
    changed = np.flatnonzero((old != new) & here)
    mean = (before[changed] + after[changed]) / 4 + 0.5 / before.shape[1]
    gained, lost = (mean[np.arange(len(changed)), codes[changed]].sum() for codes in (new, old))
    expected = np.array([gained, lost, max(len(changed) - gained - lost, 0.0)])
    judged = np.flatnonzero(here & (known != MISSING)) if known is not None else changed[:0]
    truth = judged if known is None else known[judged]
    return Relabelling(len(changed), expected, _outcomes(old[judged], new[judged], truth))


def _outcomes(old: IntArray, new: IntArray, truth: IntArray) -> FloatArray:
    changed = old != new
    gained, lost = changed & (new == truth), changed & (old == truth)
    return np.column_stack([gained, lost, changed & ~gained & ~lost]).astype(float)


def label_changes(
    relabellings: Sequence[Relabelling],
    n_tasks: int,
    *,
    evidence: Sequence[FloatArray] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[LabelChange]:
    r"""For each relabelling, by how much the share of right labels changes.

    Only labels that differ can matter. Each of them is now right, was right before, or is wrong both times. For
    relabelling k these have probabilities :math:`\theta_k`, similar for all relabellings:

    .. math::
        \varphi \sim \text{Dirichlet}(a e + \bar n), \qquad
        \theta_k \sim \text{Dirichlet}(\kappa \varphi + n_k), \qquad
        \Delta_k = \frac{n_k^+ - n_k^- + m_k^+ - m_k^-}{N}, \quad m_k \sim \text{Multinomial}(M_k, \theta_k)

    e is what the posteriors expect, :math:`n_k` counts the changed labels of tasks with a true label,
    :math:`\bar n` the same over all relabellings, in which every such task counts once, and :math:`M_k` is the number
    of changed labels whose truth is unknown. The interval is of the N tasks at hand, not of tasks to come.

    Parameters
    ----------
    relabellings : sequence of Relabelling
    n_tasks : int
        N.
    evidence : sequence of (n, 3), optional
        What true labels say about similar relabellings, one for each, if the labels themselves were made with the true
        labels, so that these cannot judge them. By default it is what they say about the relabellings.

    Examples
    --------
    Ten of a hundred labels change. They cannot change the share of right labels by more than ten points.

    >>> before = np.tile([0.7, 0.3], (100, 1))
    >>> after = np.where(np.arange(100)[:, None] < 10, [0.4, 0.6], before)
    >>> (found,) = label_changes([relabelling(before, after)], 100)
    >>> found.n_changed, abs(found.value) < 0.02, found.within(0.2), found.within(0.001) < 0.3
    (10, True, 1.0, True)
    """
    rng = np.random.default_rng(seed)
    told = [each.seen for each in relabellings] if evidence is None else list(evidence)
    phi = _common(relabellings, told, rng)
    return [
        LabelChange.of(each.n_changed, _draws(each, seen.sum(0), phi, rng) / max(n_tasks, 1), confidence)
        for each, seen in zip(relabellings, told, strict=True)
    ]


def joined(one: LabelChange, other: LabelChange, share: float = 0.5, confidence: float = 0.95) -> LabelChange:
    """The change where it is open which of two ways to make the labels is taken; a share of at least half for one."""
    fewer = other.draws[: round(len(one.draws) * (1 - share) / share)]
    return LabelChange.of(other.n_changed, np.concatenate([one.draws, fewer]), confidence)


def _common(relabellings: Sequence[Relabelling], told: Sequence[FloatArray], rng: np.random.Generator) -> FloatArray:
    """(DRAWS, 3) draws of the probabilities in all relabellings."""
    expected = sum((each.expected for each in relabellings), start=np.zeros(3))
    expected = (expected + 1 / 3) / (expected.sum() + 1)
    total = sum(told, start=np.zeros((len(told[0]) if told else 0, 3)))
    per_task = total / np.maximum(total.sum(1, keepdims=True), 1)  # many relabellings change the same task
    return rng.dirichlet(MODEL_WEIGHT * expected + per_task.sum(0), size=DRAWS)


def _draws(made: Relabelling, seen: FloatArray, phi: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(DRAWS,) by how many the number of right labels changes."""
    gamma = rng.standard_gamma(ALIKE * phi + seen)
    facts = made.seen.sum(0)
    drawn = rng.multinomial(made.n_changed - int(facts.sum()), gamma / gamma.sum(1, keepdims=True))
    return np.asarray((drawn + facts) @ WORTH)
