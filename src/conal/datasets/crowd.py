"""A simulated crowd whose mistakes are partly shared: the paper's annotation generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conal._support.arrays import draw_from_rows
from conal.data.annotations import Annotations
from conal.data.encoding import as_names
from conal.datasets.adversaries import CARELESS, Adversaries, draw_adversaries
from conal.datasets.confusion_matrices import common_confusion, family_confusions, individual_confusions
from conal.datasets.gate import Gate, draw_gate, variance_shares
from conal.datasets.streams import stream
from conal.errors import InputError
from conal.parameters.simulation import CrowdSettings

__all__ = ["CrowdTruth", "draw_assignment", "simulate_crowd"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CrowdTruth:
    """The truth of a simulated crowd, to measure recovery. Methods never see it.

    Parameters
    ----------
    z : (N,) int64
        True class codes.
    s : (n_annotations,) bool
        Whether an annotation came from the common confusion, in the order of ``annotations.labels``.
    omega : (n_annotations,) float64
        P(s = 1) of each annotation, in the same order.
    pi_g : (C, C) float64
        ``pi_g[c, l] = P(observe l | true c, common)``.
    pi_r : (R, C, C) float64
        ``pi_r[r, c, l] = P(observe l | true c, annotator r's own confusion)``.
    gate : Gate
        The embeddings, scale and bias that omega comes from.
    settings : CrowdSettings
        The settings of the generator.
    groups : (R,) int64, optional
        The family of every annotator, where there are families.
    pi_f : (G, C, C) float64, optional
        What each family has in common: ``settings.family_share`` of its members' ``pi_r``.
    adversaries : Adversaries, optional
        Who means harm: the kind, whom they copy, when they turn. Their labels have an ``omega`` of 0; ``pi_r`` is what
        copyists do where they do not copy, and sleepers before they turn.
    """

    z: IntArray
    s: npt.NDArray[np.bool_]
    omega: FloatArray
    pi_g: FloatArray
    pi_r: FloatArray
    gate: Gate
    settings: CrowdSettings
    groups: IntArray | None = None
    pi_f: FloatArray | None = None
    adversaries: Adversaries | None = None

    def omega_matrix(self) -> FloatArray:
        """(N, R) omega of every pair, observed or not, if all were honest; for crowds whose matrix fits in memory."""
        return self.gate.matrix()

    def omega_shares(self) -> FloatArray:
        """(3,) shares of omega's variance between instances, between annotators, and in their interaction.

        Measured on every pair, observed or not; the size of the matrix is as for :meth:`omega_matrix`.
        """
        return variance_shares(self.omega_matrix())


def simulate_crowd(
    z: npt.ArrayLike, features: npt.NDArray[Any], classes: Sequence[Any], settings: CrowdSettings | None = None
) -> tuple[Annotations, CrowdTruth]:
    r"""Label instances by a simulated crowd with common and individual confusion.

    For each observed pair of instance i and annotator r, a coin decides between the common confusion and the
    annotator's own. The label is drawn from the row of the true class in that matrix:

    .. math::
        s_i^r \sim B(\omega_i^r), \quad \omega_i^r = \sigma(\kappa\, u_r \cdot v_i + b), \qquad
        y_i^r \mid z_i = c \sim \pi^g_{c\cdot} \text{ if } s_i^r = 1, \text{ else } \pi^r_{c\cdot}

    With ``settings.gate="effects"``, u and v contain bias vectors, as in the paper's Equation 3: some instances are
    difficult for all, and some annotators lean on the common confusion everywhere. ``truth.omega_shares()`` measures
    how much of omega's variance that is.

    With ``settings.families``, the annotators are divided into families of equal size, and their own confusion is
    partly the family's: :math:`\pi^r = h \pi^{f(r)} + (1 - h) \tilde\pi^r`, where h is ``settings.family_share``.

    With ``settings.adversaries``, some annotators mean harm instead (:class:`conal.datasets.adversaries.Adversaries`).
    The labels of the others stay the same, but for tasks that copyists leave or take.

    Parameters
    ----------
    z : (N,) class codes
        True labels: positions in ``classes``.
    features : (N, ...) array
        What omega depends on, in any shape and number type; images are projected in chunks.
    classes : sequence
        The names of the C classes.
    settings : CrowdSettings, optional
        The crowd; the paper's by default.

    Returns
    -------
    annotations, truth : Annotations, CrowdTruth

    References
    ----------
    Chu, Ma, Wang. Learning from Crowds by Modeling Common Confusions. AAAI 2021.

    Examples
    --------
    >>> ann, truth = simulate_crowd([0, 1, 0], np.eye(3), ["cat", "dog"], CrowdSettings(n_annotators=4, seed=1))
    >>> ann.n_annotations == len(truth.s) == len(truth.omega)
    True
    >>> truth.pi_g.tolist()
    [[0.6, 0.4], [0.4, 0.6]]
    """
    settings = settings or CrowdSettings()
    codes = _check_instances(z, features, len(classes))
    counts = draw_counts(len(codes), settings, stream(settings.seed, "assignment"))
    tasks, annotators = draw_assignment(counts, settings.n_annotators, stream(settings.seed, "annotators"))
    if settings.prolific_share:
        tasks, annotators = _with_prolific(tasks, annotators, len(codes), settings)
    harmful = draw_adversaries(len(classes), settings)
    if harmful is not None:
        tasks, annotators = harmful.move_copyists((tasks, annotators), settings.seed)
        harmful = harmful.act((tasks, annotators), settings)
    gate = draw_gate(features, (tasks, annotators), settings)
    pi_g = common_confusion(as_names(classes), settings, stream(settings.seed, "common"))
    pi_r = individual_confusions(len(classes), settings, stream(settings.seed, "individual"))
    groups = pi_f = None
    if settings.families:
        groups = np.arange(settings.n_annotators) * settings.families // settings.n_annotators
        pi_f = family_confusions(len(classes), settings, stream(settings.seed, "families"))
        pi_r = settings.family_share * pi_f[groups] + (1 - settings.family_share) * pi_r
    omega = gate.of_pairs(tasks, annotators)
    # Drawn at once, so that the same seed gives the same random numbers whatever the matrices are.
    uniform = stream(settings.seed, "labels").random((2, len(tasks)))
    s: npt.NDArray[np.bool_] = uniform[0] < omega
    rows = np.where(s[:, None], pi_g[codes[tasks]], pi_r[annotators, codes[tasks]])
    labels = draw_from_rows(rows, uniform[1])
    if harmful is not None:
        turned = harmful.has_turned(annotators)
        s, omega = s & ~turned & ~harmful.copied, np.where(turned | harmful.copied, 0.0, omega)
        rows = np.where(turned[:, None], harmful.matrices[annotators, codes[tasks]], rows)
        labels = harmful.copy_labels(draw_from_rows(rows, uniform[1]), (tasks, annotators))
        pi_r = np.where(np.isin(harmful.kind, CARELESS)[:, None, None], harmful.matrices, pi_r)
    annotations = Annotations(
        tasks,
        annotators,
        labels,
        task_ids=np.arange(len(codes)),
        annotator_ids=np.arange(settings.n_annotators),
        classes=as_names(classes),
        by_position=True,
    )
    return annotations, CrowdTruth(codes, s, omega, pi_g, pi_r, gate, settings, groups, pi_f, harmful)


def draw_counts(n_instances: int, settings: CrowdSettings, rng: np.random.Generator) -> IntArray:
    """(N,) how many annotators label each instance: 1 + Binomial(R - 1, p)."""
    others = settings.n_annotators - 1
    p = (settings.labels_per_instance - 1) / others if others else 0.0
    return 1 + rng.binomial(others, p, size=n_instances).astype(np.int64)


def draw_assignment(counts: IntArray, n_annotators: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Pairs (task, annotator): ``counts[i]`` different annotators for task i, every set of them equally likely.

    Floyd's algorithm, one step for all tasks at once, so that nothing of size tasks x annotators is made.
    Pairs are sorted by task, then annotator, as :class:`Annotations` keeps them.
    """
    chosen = np.full((len(counts), int(counts.max(initial=0))), -1, dtype=np.int64)
    for step in range(chosen.shape[1]):
        last = n_annotators - counts + step
        candidate = rng.integers(0, last + 1)
        taken = (chosen[:, :step] == candidate[:, None]).any(axis=1)
        chosen[:, step] = np.where(step < counts, np.where(taken, last, candidate), -1)
    chosen.sort(axis=1)
    tasks, slots = np.nonzero(chosen >= 0)
    return tasks, chosen[tasks, slots]


def _with_prolific(
    tasks: IntArray, annotators: IntArray, n_instances: int, settings: CrowdSettings
) -> tuple[IntArray, IntArray]:
    """The assignment, with a share of all instances for the first annotator."""
    chosen = np.flatnonzero(stream(settings.seed, "prolific").random(n_instances) < settings.prolific_share)
    new = np.setdiff1d(chosen, tasks[annotators == 0])
    tasks, annotators = np.append(tasks, new), np.append(annotators, np.zeros(len(new), dtype=np.int64))
    order = np.lexsort((annotators, tasks))
    return tasks[order], annotators[order]


def _check_instances(z: npt.ArrayLike, features: npt.NDArray[Any], n_classes: int) -> IntArray:
    codes = np.asarray(z, dtype=np.int64)
    if codes.ndim != 1 or len(codes) != len(features):
        raise InputError(f"z has shape {codes.shape} for {len(features)} rows of features; pass one class code per row")
    if n_classes < 2:
        raise InputError(f"a simulated crowd needs at least 2 classes, not {n_classes}")
    if len(codes) and (codes.min() < 0 or codes.max() >= n_classes):
        raise InputError(f"class codes must be in range({n_classes}), found {codes.min()} to {codes.max()}")
    return codes
