r"""How sure the figures are: draws of the true labels, and a Bayesian bootstrap over tasks.

A figure about a crowd is uncertain twice. Which label is true is known with a probability only, so the true labels are
drawn again and again (:mod:`conal.findings.draws`; multiple imputation, Rubin 1987). And other tasks would have given
other counts, so tasks get random weights (the Bayesian bootstrap; Rubin 1981). Half a label of either kind is added,
Jeffreys' prior, without which five right labels of five would be taken for perfection. For one annotator, who labels a
task once, weights and prior together are a Beta distribution given the drawn number of right labels.

``conal reproduce coverage`` measures how often these intervals hold the truth of simulated crowds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal.findings.draws import label_draws
from conal.findings.evidence import Evidence

__all__ = ["CONFIDENCE", "Interval", "Intervals", "intervals_from", "intervals_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CONFIDENCE = 0.95
JEFFREYS = 0.5


class Interval(NamedTuple):
    """Lower and upper ends, alike in shape."""

    low: FloatArray
    high: FloatArray


class Intervals(NamedTuple):
    """Of every annotator's quality (R,), and of the shares of labels (C, C) among those that a true class gets."""

    quality: Interval
    confusion: Interval


def intervals_of(evidence: Evidence, seed: int, confidence: float = CONFIDENCE) -> Intervals:
    """Intervals of all figures; same seed, same intervals."""
    rng = np.random.default_rng(seed)
    return intervals_from(evidence, label_draws(evidence, rng), rng, confidence)


def intervals_from(
    evidence: Evidence, draws: Iterable[IntArray], rng: np.random.Generator, confidence: float = CONFIDENCE
) -> Intervals:
    r"""Intervals given draws z of the true classes.

    .. math::
        a_r \sim \text{Beta}(k_r + \tfrac12, n_r - k_r + \tfrac12), \quad k_r = |\{i : y_i^r = z_i\}|; \qquad
        \kappa_{cl} \propto \sum_{i : z_i = c} g_i \, |\{r : y_i^r = l\}| + \text{Gamma}(\tfrac12), \quad
        g_i \sim \text{Exp}(1)

    An end reaches 0 or 1 where a draw has none or all.
    """
    quality, confusion = [], []
    for z in draws:
        quality.append(_quality(evidence, z, rng))
        confusion.append(_confusion(evidence, z, rng))
    return Intervals(_ends(quality, confidence), _ends(confusion, confidence))


def _quality(evidence: Evidence, z: IntArray, rng: np.random.Generator) -> Interval:
    """(R,) a draw of every annotator's accuracy, as a lower and as an upper end."""
    crowd = evidence.annotations
    given = crowd.labels_per_annotator()
    right = np.bincount(crowd.annotators[z[crowd.tasks] == crowd.labels], minlength=crowd.n_annotators)
    drawn = np.asarray(rng.beta(right + JEFFREYS, given - right + JEFFREYS))
    return Interval(np.where(right == 0, 0.0, drawn), np.where(right == given, 1.0, drawn))


def _confusion(evidence: Evidence, z: IntArray, rng: np.random.Generator) -> Interval:
    """(C, C) a draw of the shares of labels, as a lower and as an upper end."""
    crowd, C = evidence.annotations, evidence.annotations.n_classes
    weights = rng.exponential(size=(crowd.n_tasks,))[crowd.tasks]
    counts = np.bincount(z[crowd.tasks] * C + crowd.labels, weights=weights, minlength=C * C).reshape(C, C)
    drawn = counts + rng.gamma(JEFFREYS, size=(C, C))
    drawn = drawn / drawn.sum(1, keepdims=True)
    alone = counts == counts.sum(1, keepdims=True)
    return Interval(np.where(counts == 0, 0.0, drawn), np.where(alone, 1.0, drawn))


def _ends(draws: list[Interval], confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = (np.stack(end) for end in zip(*draws, strict=True))
    return Interval(np.quantile(low, tail, axis=0), np.quantile(high, 1 - tail, axis=0))
