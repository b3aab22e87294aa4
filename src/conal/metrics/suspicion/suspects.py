"""Everybody whose labels do not speak for themselves, by all tests together, and what is left without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.metrics.classification import task_posterior
from conal.metrics.suspicion.attention import Attention, attention, dependence
from conal.metrics.suspicion.copies import Copies, find_copies
from conal.metrics.suspicion.false_discovery import discoveries, likely
from conal.metrics.suspicion.left_out import LeftOut, left_out
from conal.metrics.suspicion.population import FEWEST_AFTER, in_time, population
from conal.metrics.suspicion.rings import Ring, find_rings, follows

__all__ = ["FEWEST", "Suspects", "Turning", "find_suspects", "suspects_among"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FEWEST = 10
"""Annotators with fewer labels are not judged."""
CARELESS = 0.05
"""P-value of careful answers, below which somebody may be called careless, whatever the others of the crowd do."""
FROM_THE_START = 0.1
"""Probability of having been careless from the start, above which nobody is said to have turned."""
DEPENDS = 0.005
"""P-value of independence, below which answers depend on the task."""
MAJORITY = 0.5
"""Share of the labels from which on those who seem to exchange classes are rather right."""
MOSTLY = 0.5
"""Share of the answers that seem to be copied by a pair that is named. Families of language models stay below."""
JOINS = 3.0
"""Standard deviations by which somebody follows the exchange of a ring to belong to it."""


class Turning(NamedTuple):
    """When annotators turned, if they did.

    Attributes
    ----------
    p_value : (R,)
        Of the hypothesis that the answers after the most probable turn are careful; NaN where there are too few.
    before : (R,)
        Number of labels before it.
    after : (n_annotations,) bool
        The labels after it.
    """

    p_value: FloatArray
    before: IntArray
    after: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Suspects:
    """Who answers without regard to the task, exchanges classes, copies, or turned careless.

    At most 5 % of those who are named are expected to be false alarms, for each kind; people who are careless and
    people who turned are controlled together.

    Attributes
    ----------
    found : LeftOut
        The labels, judged by those of the others.
    attention : Attention
        How careful everybody is.
    careless : (n,) annotators whose answers do not depend on the task
    rings : groups who exchange classes in the same way
    copies : Copies
        Flagged pairs.
    turned : (n,) annotators whose answers no longer depend on the task
    turning : Turning or None
        When they did; None where no times are known.
    upside_down : float
        Share of the labels of a group who exchange classes, if that is more than half: the posterior then rather has
        the names of a smaller group. Such a group is not among ``rings``; 0 where there is none.
    """

    found: LeftOut
    attention: Attention
    careless: IntArray
    rings: list[Ring]
    copies: Copies
    turned: IntArray
    turning: Turning | None
    upside_down: float = 0.0

    @property
    def anybody(self) -> bool:
        """Whether anybody is named."""
        return bool(len(self.careless) or self.rings or len(self.copies.first) or len(self.turned))

    def trusted(self, *, rings: bool = True) -> npt.NDArray[np.bool_]:
        """(n_annotations,) the labels that are left without careless ones and copies.

        Those who turned keep what they said before. Of people who copy from each other, one label of a task counts:
        that of the annotator with the most labels. The labels of rings are kept unless ``rings`` is false: a model
        with a matrix for each annotator reads an exchange backwards, and a vote does not.
        """
        crowd = self.found.crowd
        out = np.zeros(crowd.n_annotators, dtype=bool)
        for people in (self.careless, *(ring.members for ring in self.rings if not rings)):
            out[people] = True
        kept = ~out[crowd.annotators]
        if self.turning is not None:
            kept &= ~(self.turning.after & np.isin(crowd.annotators, self.turned))
        return kept & ~_repeated(crowd, self.copies)


def find_suspects(
    data: Any,
    posterior: npt.ArrayLike,
    *,
    classifier: FloatArray | None = None,
    times: npt.ArrayLike | None = None,
    level: float = 0.05,
    seed: int = 0,
) -> Suspects:
    """Annotators whose labels do not speak for themselves.

    Parameters
    ----------
    data : Annotations, long DataFrame or (n_tasks, n_annotators) matrix
    posterior : (N, C)
        Probability of every class for every task, such as that of Dawid-Skene.
    classifier : (N, C), optional
        Probability of every class by the features of the task.
    times : (n_annotations,), optional
        When each label was given, in the order of ``annotations.labels``; anything that sorts. Without it, nobody is
        said to have turned.
    level : float
        Expected share of false alarms among those who are named, for each kind.
    seed : int
        Of the shuffles.

    Examples
    --------
    >>> from conal.aggregation import DawidSkene
    >>> from conal.datasets import CrowdSettings, simulate_crowd
    >>> z = np.arange(400) % 4
    >>> settings = CrowdSettings(n_annotators=10, adversaries="clickers", adversary_share=0.2, seed=1)
    >>> crowd, truth = simulate_crowd(z, np.ones((400, 1)), range(4), settings)
    >>> found = find_suspects(crowd, DawidSkene().fit(crowd).probas_)
    >>> found.careless.tolist() == np.flatnonzero(truth.adversaries.kind == "clickers").tolist()
    True
    """
    crowd = Annotations.of(data)
    return suspects_among(left_out(crowd, task_posterior(posterior, crowd), classifier), times, level=level, seed=seed)


def suspects_among(
    found: LeftOut, times: npt.ArrayLike | None = None, *, level: float = 0.05, seed: int = 0
) -> Suspects:
    """As :func:`find_suspects`, for labels that have been judged by those of the others."""
    crowd = found.crowd
    care = attention(found, FEWEST)
    when = None if times is None else np.asarray(times)
    people = population(found, FEWEST, when)
    flagged = likely(1 - people.careless - people.turned, level)
    little_care = care.p_value < CARELESS
    from_the_start = little_care & (people.careless > FROM_THE_START)
    turned = np.flatnonzero(flagged & (people.turned > people.careless) & ~from_the_start)
    turn = None if when is None else _turning(found, when, people.before)
    low = np.setdiff1d(np.flatnonzero(flagged & little_care), turned)
    rings = [_joined(found, ring, low) for ring in find_rings(found, FEWEST)]
    shares = [float(np.isin(crowd.annotators, ring.members).mean()) for ring in rings]
    upside_down = max((share for share in shares if share > MAJORITY), default=0.0)
    members = np.concatenate([low[:0], *(ring.members for ring in rings)])
    rest = np.setdiff1d(low, members)
    careless = np.array([r for r in rest.tolist() if dependence(found, r, seed) >= DEPENDS], dtype=np.int64)
    excluded = np.zeros(crowd.n_annotators, dtype=bool)
    excluded[np.concatenate([careless, members])] = True
    copies = _flagged(find_copies(found, excluded, seed), crowd, level)
    rings = [ring for ring, share in zip(rings, shares, strict=True) if share <= MAJORITY]
    return Suspects(found, care, careless, rings, copies, turned, turn, upside_down)


def _turning(found: LeftOut, times: npt.NDArray[np.generic], before: IntArray) -> Turning:
    annotators = found.crowd.annotators
    order, starts = in_time(found, times)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - starts[annotators[order]]
    after = np.asarray(place >= before[annotators])
    return Turning(attention(found, FEWEST_AFTER, after).p_value, before, after)


def _joined(found: LeftOut, ring: Ring, low: IntArray) -> Ring:
    """The ring, with others who are not careful and follow its exchange, if they alone gave too few labels to tell."""
    more = [r for r in np.setdiff1d(low, ring.members).tolist() if follows(found, r, ring.exchange) > JOINS]
    return ring._replace(members=np.union1d(ring.members, np.array(more, dtype=np.int64)))


def _flagged(pairs: Copies, crowd: Annotations, level: float) -> Copies:
    """Pairs that are named: annotators by their best pair, corrected for the number of their pairs (Bonferroni)."""
    R = crowd.n_annotators
    both = np.concatenate([pairs.first, pairs.second])
    n_pairs = np.bincount(both, minlength=R)
    best = np.full(R, np.nan)
    np.fmin.at(best, both, np.tile(pairs.p_value, 2))
    flagged = discoveries(np.minimum(best * n_pairs, 1.0), level)
    limit = best[flagged] * n_pairs[flagged]
    cut = limit.max() if len(limit) else -1.0
    fewer = np.minimum(n_pairs[pairs.first], n_pairs[pairs.second])
    kept = flagged[pairs.first] & flagged[pairs.second] & (pairs.p_value * fewer <= cut)
    kept &= pairs.agreed - pairs.expected >= MOSTLY * (pairs.shared - pairs.expected)
    return pairs._replace(**{name: column[kept] for name, column in pairs._asdict().items()})


def _repeated(crowd: Annotations, copies: Copies) -> npt.NDArray[np.bool_]:
    """(n_annotations,) labels on tasks that the annotator with more labels of a pair labelled too."""
    given, R = crowd.labels_per_annotator(), crowd.n_annotators
    keys = crowd.tasks.astype(np.int64) * R + crowd.annotators
    repeated = np.zeros(crowd.n_annotations, dtype=bool)
    rank = np.empty(R, dtype=np.int64)
    rank[np.lexsort((np.arange(R), -given))] = np.arange(R)
    for r, s in zip(copies.first.tolist(), copies.second.tolist(), strict=True):
        source, copyist = (r, s) if rank[r] < rank[s] else (s, r)
        mine = np.flatnonzero(crowd.annotators == copyist)
        repeated[mine] |= np.isin(crowd.tasks[mine].astype(np.int64) * R + source, keys)
    return repeated
