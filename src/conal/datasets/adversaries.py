"""Careless and colluding annotators in a simulated crowd, and streams of random numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from conal._arrays import BoolArray, FloatArray, IntArray
from conal.errors import InputError
from conal.parameters.simulation import CrowdSettings

# One seed, several independent streams of random numbers.
#
# The draws of one step never shift those of another: with the same seed, another noise strength gets the same
# instances, the same assignment of annotators and the same random numbers for the labels.

Purpose = Literal[
    "features",
    "split",
    "assignment",
    "annotators",
    "gate",
    "common",
    "individual",
    "labels",
    "gate biases",
    "prolific",
    "levels",
    "families",
    "adversaries",
    "copyists",
    "order",
]


def stream(seed: int, purpose: Purpose) -> np.random.Generator:
    """The random generator for one purpose, from this seed.

    >>> stream(0, "gate").random() == stream(0, "gate").random() != stream(0, "labels").random()
    True
    """
    key = get_args(Purpose).index(purpose)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))


# People who mean harm in a simulated crowd: who they are, what they label, and the truth about them.

Pairs = tuple[IntArray, IntArray]

HONEST = "honest"
NO_SOURCE = -1
CARELESS_KINDS = ("spammers", "clickers", "ring", "followers")
"""Kinds whose labels follow a matrix of their own from the first to the last."""


@dataclass(frozen=True, eq=False)
class Adversaries:
    """Who means harm in a simulated crowd, and how.

    Parameters
    ----------
    kind : (R,) text
        "honest", or one of the kinds in ``settings.adversaries``.
    matrices : (R, C, C) float64
        ``matrices[r, c, l]`` = P(label l | true class c) of an annotator who means harm; zeros for the honest.
        Copyists have none of their own; sleepers have it after they turned.
    source : (R,) int64
        Whom a copyist copies; -1 for all others.
    turns_after : (R,) int64
        How many labels a sleeper gives honestly; -1 for all others.
    copied : (n_annotations,) bool
        Whether the label is a copy.
    time : (n_annotations,) int64
        The place of each label in the order in which all of them were given. A copy comes after its source.
    """

    kind: npt.NDArray[np.str_]
    matrices: FloatArray
    source: IntArray
    turns_after: IntArray
    copied: BoolArray
    time: IntArray

    def move_copyists(self, pairs: Pairs, seed: int) -> Pairs:
        """The assignment (task, annotator), in which copyists label tasks of their source.

        A copyist keeps the number of labels, as far as the source has as many tasks, and keeps tasks that nobody else
        labels. So no task loses its last label.
        """
        tasks, annotators = pairs
        rng = stream(seed, "copyists")
        for r in np.flatnonzero(self.source != NO_SOURCE).tolist():
            mine = np.flatnonzero(annotators == r)
            theirs = tasks[annotators == self.source[r]]
            alone = np.bincount(tasks, minlength=tasks.max(initial=0) + 1)[tasks[mine]] == 1
            new = rng.permutation(np.setdiff1d(theirs, tasks[mine]))
            moved = mine[~alone & ~np.isin(tasks[mine], theirs)][: len(new)]
            tasks = tasks.copy()
            tasks[moved] = new[: len(moved)]
        order = np.lexsort((annotators, tasks))
        return tasks[order], annotators[order]

    def act(self, pairs: Pairs, settings: CrowdSettings) -> Adversaries:
        """The same people, with the order of all labels and which of them are copies."""
        rng, n = stream(settings.seed, "order"), len(pairs[0])
        when, coin, later = rng.random((3, n))
        at = self._at_source(pairs)
        copied = (at != NO_SOURCE) & (coin < settings.copied_share)
        when[copied] = when[at[copied]] + (1 - when[at[copied]]) * later[copied]
        time = np.empty(n, dtype=np.int64)
        time[np.argsort(when, kind="stable")] = np.arange(n)
        return replace(self, copied=copied, time=time)

    def _at_source(self, pairs: Pairs) -> IntArray:
        """(n_annotations,) where the source's label of the same task is; -1 if there is none."""
        tasks, annotators = (codes.astype(np.int64) for codes in pairs)
        R = len(self.kind)
        key, wanted = tasks * R + annotators, tasks * R + self.source[annotators]
        place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        return np.where((self.source[annotators] != NO_SOURCE) & (key[place] == wanted), place, NO_SOURCE)

    def has_turned(self, annotators: IntArray) -> BoolArray:
        """(n_annotations,) whether the label follows the matrix of somebody who means harm."""
        turned = np.isin(self.kind[annotators], CARELESS_KINDS)
        order = np.lexsort((self.time, annotators))
        starts = np.searchsorted(annotators[order], np.arange(len(self.kind)))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - starts[annotators[order]]
        return np.asarray(
            turned | ((self.turns_after[annotators] != NO_SOURCE) & (place >= self.turns_after[annotators]))
        )

    def copy_labels(self, labels: IntArray, pairs: Pairs) -> IntArray:
        """The labels, with those of the source in the place of copies."""
        return np.where(self.copied, labels[self._at_source(pairs)], labels)


def draw_adversaries(common: FloatArray, settings: CrowdSettings) -> Adversaries | None:
    """Who means harm in a crowd with these common confusions (R, C, C); None if nobody does."""
    kinds = [kind.strip() for kind in settings.adversaries.split(",") if kind.strip()]
    if not kinds:
        return None
    R = settings.n_annotators
    n = max(1, round(settings.adversary_share * R))
    if n >= R:
        raise InputError(f"adversary_share: {n} of {R} annotators mean harm; leave at least one honest annotator")
    rng = stream(settings.seed, "adversaries")
    chosen = rng.permutation(R)[:n]
    kind = np.full(R, HONEST, dtype="U16")
    kind[chosen] = [kinds[k % len(kinds)] for k in range(n)]
    matrices = _matrices(kind, common, rng)
    sources = rng.choice(np.flatnonzero(kind == HONEST), size=R)
    empty = np.zeros(0, dtype=np.int64)
    return Adversaries(
        kind,
        matrices,
        source=np.where(kind == "copyists", sources, NO_SOURCE),
        turns_after=np.where(kind == "sleepers", settings.turn_after, NO_SOURCE),
        copied=empty.astype(bool),
        time=empty,
    )


def _matrices(kind: npt.NDArray[np.str_], common: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Spammers say one class, clickers and sleepers any, a ring exchanges classes in a circle, followers err as all."""
    from conal.metrics.suspicion import common_mistakes  # which needs scipy

    found, C = np.zeros(common.shape), common.shape[-1]
    habits, circle = rng.integers(C, size=len(kind)), rng.permutation(C)
    exchanged = np.zeros((C, C))
    exchanged[circle, np.roll(circle, 1)] = 1.0
    found[kind == "spammers"] = np.eye(C)[habits[kind == "spammers"]][:, None, :]
    found[(kind == "clickers") | (kind == "sleepers")] = 1 / C
    found[kind == "ring"] = exchanged
    found[kind == "followers"] = np.eye(C)[common_mistakes(common[kind == "followers"])]
    return found
