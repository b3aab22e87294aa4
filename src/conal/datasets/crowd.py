"""Simulated crowds whose mistakes are partly shared, as in the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray, IntArray, draw_from_rows, row_slices
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, decode_position
from conal.datasets.adversaries import CARELESS_KINDS, Adversaries, draw_adversaries, stream
from conal.errors import InputError, examples
from conal.parameters.simulation import GATE_SCALES, CommonType, CrowdSettings, Pairs

# True confusion matrices for simulated crowds.


def common_confusion(classes: Names, settings: CrowdSettings, rng: np.random.Generator) -> FloatArray:
    """(C, C) ``pi_g[c, l] = P(observe l | true c, common)``."""
    if settings.pairs is not None:
        targets = _chosen_targets(classes, settings.pairs, settings.common_type)
    elif settings.common_type == "symmetric":
        targets = _swapped_targets(len(classes), rng)
    else:
        targets = _other_targets((len(classes),), rng)
    return corrupt(targets, settings.common_strength)


def own_confusions(count: int, n_classes: int, strength: float, rng: np.random.Generator) -> FloatArray:
    """(R, C, C) ``[r, c, l] = P(observe l | true c)`` of each of so many annotators or families, asymmetric."""
    return corrupt(_other_targets((count, n_classes), rng), strength)


def corrupt(targets: IntArray, strength: float) -> FloatArray:
    """(..., C, C) matrices that move ``strength`` of each row c from c to ``targets[..., c]``.

    A class that is its own target keeps a row of the identity.

    >>> corrupt(np.array([1, 0, 2]), 0.25).tolist()
    [[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]
    """
    identity = np.eye(targets.shape[-1])
    mixed = (1 - strength) * identity + strength * identity[targets]
    own = targets == np.arange(targets.shape[-1])
    return np.where(own[..., None], identity, mixed)


def _other_targets(shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
    """For every class one uniformly chosen *other* class."""
    n_classes = shape[-1]
    return (np.arange(n_classes) + rng.integers(1, n_classes, size=shape)) % n_classes


def _swapped_targets(n_classes: int, rng: np.random.Generator) -> IntArray:
    """Random pairs of classes, each the other's target; a class without a partner keeps itself."""
    order = rng.permutation(n_classes)
    return _swap(n_classes, order[: n_classes - n_classes % 2].reshape(-1, 2))


def _swap(n_classes: int, pairs: IntArray) -> IntArray:
    targets = np.arange(n_classes)
    targets[pairs[:, 0]], targets[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    return targets


def _chosen_targets(classes: Names, pairs: Pairs, common_type: CommonType) -> IntArray:
    asymmetric = isinstance(pairs, Mapping)
    if asymmetric != (common_type == "asymmetric"):
        wanted = "a mapping {true: observed}" if common_type == "asymmetric" else "a list of pairs (a, b)"
        raise InputError(f"pairs: {common_type} confusion takes {wanted}, not {type(pairs).__name__}")
    chosen = _class_codes(classes, pairs.items() if isinstance(pairs, Mapping) else pairs)
    if (chosen[:, 0] == chosen[:, 1]).any():
        raise InputError("pairs: a class cannot be confused with itself; leave it out to keep it uncorrupted")
    if asymmetric:
        targets = np.arange(len(classes))
        targets[chosen[:, 0]] = chosen[:, 1]
        return targets
    if len(np.unique(chosen)) < chosen.size:
        raise InputError("pairs: symmetric confusion swaps each class with one other, but some class is in two pairs")
    return _swap(len(classes), chosen)


def _class_codes(classes: Names, pairs: Iterable[Any]) -> IntArray:
    flat = [name for pair in pairs for name in pair]
    codes = decode_position(classes, as_names(flat))
    unknown = [name for name, code in zip(flat, codes, strict=True) if code == MISSING]
    if unknown:
        raise InputError(f"pairs: {examples(unknown)} not among the classes {classes.tolist()}")
    return codes.reshape(-1, 2)


# omega: how likely an annotation comes from the common confusion, given instance and annotator.

CHUNK_CELLS = 2**21
MAX_BISECTIONS = 100
GRID_CELLS = 2**18
"""Pairs of instances and annotators on which the shares of omega's variance are adjusted."""
MAX_ADJUSTMENTS = 60
MAX_SHARE_ERROR = 0.002
"""Shares of variance that differ by less than this from those asked for need no further adjustment."""


@dataclass(frozen=True, eq=False)
class Gate:
    r"""The true gate: omega_i^r = sigmoid(scale * u_r . v_i + bias).

    Parameters
    ----------
    annotator_embedding : (R, D) float64
        u. Two further columns with the gate "effects": a constant, and the annotator's effect. Rows have length 1,
        unless this gate has a wide range.
    instance_embedding : (N, D) float64
        v. As u, with the instance's effect and a constant.
    scale : float
        kappa.
    bias : float
        b; minus or plus infinity make omega exactly 0 or 1.

    Examples
    --------
    >>> gate = Gate(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), scale=4.0, bias=0.0)
    >>> gate.matrix().tolist()
    [[0.5]]
    """

    annotator_embedding: FloatArray
    instance_embedding: FloatArray
    scale: float
    bias: float

    def of_pairs(self, tasks: IntArray, annotators: IntArray) -> FloatArray:
        """(n_pairs,) omega of these pairs alone."""
        scores = _pair_scores(self.instance_embedding, self.annotator_embedding, tasks, annotators)
        return sigmoid(self.scale * scores + self.bias)

    def matrix(self) -> FloatArray:
        """(N, R) omega of every pair."""
        return sigmoid(self.scale * self.instance_embedding @ self.annotator_embedding.T + self.bias)


def draw_gate(features: npt.NDArray[Any], pairs: tuple[IntArray, IntArray], settings: CrowdSettings) -> Gate:
    """Random embeddings, and the bias at which the mean omega of the observed ``pairs`` is ``settings.proportion``."""
    u, v = _draw_embeddings(features, settings)
    if settings.gate == "effects":
        return _gate_of_effects(u - u.mean(0), v, pairs, settings)
    u, v, scale = _unit_rows(u), _unit_rows(v), _scale(settings)
    return Gate(u, v, scale, solve_bias(scale * _pair_scores(v, u, *pairs), settings.proportion, scale))


def _scale(settings: CrowdSettings) -> float:
    return GATE_SCALES[settings.gate_scale] if isinstance(settings.gate_scale, str) else settings.gate_scale


def variance_shares(omega: FloatArray) -> FloatArray:
    r"""Shares of the variance of omega (N, R) between instances, between annotators, and in their interaction.

    The two-way analysis of variance of a complete table:

    .. math::
        \operatorname{Var}(\omega) = \operatorname{Var}_i(\bar\omega_{i \cdot}) +
            \operatorname{Var}_r(\bar\omega_{\cdot r}) + \text{interaction}

    A constant omega has shares of 0.

    >>> variance_shares(np.array([[0.1, 0.3], [0.5, 0.7]])).round(6).tolist()
    [0.8, 0.2, 0.0]
    """
    total = omega.var()
    if total < 1e-20:
        return np.zeros(3)
    instances, annotators = omega.mean(1).var(), omega.mean(0).var()
    return np.asarray(np.array([instances, annotators, max(total - instances - annotators, 0.0)]) / total)


def _draw_embeddings(features: npt.NDArray[Any], settings: CrowdSettings) -> tuple[FloatArray, FloatArray]:
    """(R, D) a random linear map of random annotator features, and (N, D) one of the features, centred.

    Without centring, features that are never negative, such as pixels, would all point the same way.
    """
    rng = stream(settings.seed, "gate")
    dim = settings.embedding_dim
    annotator_features = rng.standard_normal((settings.n_annotators, dim))
    u = annotator_features @ rng.standard_normal((dim, dim))
    n_features = int(np.prod(features.shape[1:]))
    projected = project(features, rng.standard_normal((n_features, dim)))
    return u, projected - projected.mean(axis=0)


def _gate_of_effects(u: FloatArray, v: FloatArray, pairs: tuple[IntArray, IntArray], settings: CrowdSettings) -> Gate:
    r"""The paper's Equation 3, :math:`(W_u e_r + b_u) \cdot (W_v x_i + b_v)`, with the shares of variance asked for.

    The product has four terms: an interaction, an effect of the instance :math:`b_u \cdot W_v x_i`, one of the
    annotator :math:`b_v \cdot W_u e_r`, and a constant. The lengths of the bias vectors weigh the first three. The
    sigmoid changes the shares of variance, so that the weights are adjusted until those of omega are right.

    In the paper's range, embeddings have length 1, as in the paper's network.
    """
    rng = stream(settings.seed, "gate biases")
    instance, annotator = (_scaled(x @ rng.standard_normal(x.shape[1])) for x in (v, u))
    spread = np.sqrt(np.trace((u.T @ u / len(u)) @ (v.T @ v / max(len(v), 1))))
    if spread > 0:  # u . v gets a standard deviation of 1, and u and v about the same length
        longer = np.sqrt(np.linalg.norm(v) / np.linalg.norm(u) * np.sqrt(len(u) / len(v)))
        u, v = u * longer / np.sqrt(spread), v / (longer * np.sqrt(spread))
    asked = np.array([settings.difficulty_share, settings.expertise_share])
    asked = np.append(asked, 1 - asked.sum())
    some = np.linspace(0, len(v) - 1, min(len(v), max(GRID_CELLS // len(u), 2))).astype(np.int64)

    def weighed(weights: FloatArray) -> Gate:
        """The gate whose log-odds have these shares of variance, and the bias that gives the proportion."""
        of_instance, of_annotator, of_both = np.sqrt(_scale(settings) * np.sqrt(weights))
        left = np.column_stack([of_both * u, np.full(len(u), of_instance), of_annotator * annotator])
        right = np.column_stack([of_both * v, of_instance * instance, np.full(len(v), of_annotator)])
        if settings.gate_scale == "paper":
            left, right = _unit_rows(left), _unit_rows(right)
        scores = _pair_scores(right, left, *pairs)
        return Gate(left, right, 1.0, solve_bias(scores, settings.proportion, float(np.abs(scores).max(initial=0.0))))

    weights = asked.copy()
    for _ in range(MAX_ADJUSTMENTS):
        gate = weighed(weights)
        found = variance_shares(replace(gate, instance_embedding=gate.instance_embedding[some]).matrix())
        if np.abs(found - asked).max() < MAX_SHARE_ERROR or not found.any():
            break
        weights = weights * np.where(asked > 0, (asked / np.maximum(found, 1e-6)) ** 0.7, 0.0)
        weights /= weights.sum()
    return gate


def _scaled(values: FloatArray) -> FloatArray:
    """Centred, with a standard deviation of 1; zeros if all are equal."""
    centred = values - values.mean()
    deviation = centred.std()
    return np.asarray(centred / deviation if deviation > 1e-12 else np.zeros_like(centred))


def project(features: npt.NDArray[Any], weights: FloatArray) -> FloatArray:
    """(N, D) flattened features times weights, a few rows at a time so that images stay bytes."""
    projected = np.empty((len(features), weights.shape[1]))
    for rows in row_slices(len(features), len(weights), CHUNK_CELLS):
        some = features[rows]
        projected[rows] = some.reshape(len(some), -1).astype(np.float64) @ weights
    return projected


def solve_bias(scores: FloatArray, proportion: float, bound: float) -> float:
    """The b at which the mean of sigmoid(scores + b) is ``proportion``, by bisection; ``|scores| <= bound``.

    >>> round(solve_bias(np.array([-1.0, -3.0]), 0.5, bound=3.0), 6)
    2.0
    """
    if proportion in (0, 1):
        return float(np.inf if proportion else -np.inf)
    middle = np.log(proportion) - np.log1p(-proportion)
    low, high = middle - bound - 1e-9, middle + bound + 1e-9  # here every omega is on one side of the proportion
    for _ in range(MAX_BISECTIONS):
        centre = (low + high) / 2
        if high - low < 1e-12:
            break
        if sigmoid(scores + centre).mean() < proportion:
            low = centre
        else:
            high = centre
    return float((low + high) / 2)


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + exp(-values)), which overflows nowhere and is exact at both infinities."""
    return 0.5 + 0.5 * np.tanh(0.5 * values)


def _pair_scores(v: FloatArray, u: FloatArray, tasks: IntArray, annotators: IntArray) -> FloatArray:
    """u_r . v_i of each pair, one dimension at a time: memory stays at one number per pair."""
    scores = np.zeros(len(tasks))
    for d in range(u.shape[1]):
        scores += v[tasks, d] * u[annotators, d]
    return scores


def _unit_rows(vectors: FloatArray) -> FloatArray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1.0)


# A simulated crowd whose mistakes are partly shared: the paper's annotation generator.


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
        What each family has in common: ``settings.family_share`` of its members' ``pi_r``, or their common confusion;
        ``pi_g`` is then the mean.
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

    u and v contain bias vectors, as in the paper's Equation 3: some instances are difficult for all, and some
    annotators lean on the common confusion everywhere. ``truth.omega_shares()`` measures how much of omega's variance
    that is. They have length 1, so that omega stays between 0.27 and 0.73 where its mean is one half; with
    ``settings.gate_scale="wide"``, it goes nearly from 0 to 1.

    With ``settings.families``, the annotators are divided into families of equal size, and their own confusion is
    partly the family's: :math:`\pi^r = h \pi^{f(r)} + (1 - h) \tilde\pi^r`, where h is ``settings.family_share``. With
    ``settings.families_share="common"``, each family has a common confusion instead, in the place of :math:`\pi^g`.

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
    pi_g = common_confusion(as_names(classes), settings, stream(settings.seed, "common"))
    C, R, strength = len(classes), settings.n_annotators, settings.individual_strength
    pi_r = own_confusions(R, C, strength, stream(settings.seed, "individual"))
    groups = pi_f = None
    common = np.broadcast_to(pi_g, (R, C, C))
    if settings.families:
        groups = np.arange(R) * settings.families // R
    if groups is not None and settings.families_share == "common":
        rng = stream(settings.seed, "families")
        pi_f = np.stack([common_confusion(as_names(classes), settings, rng) for _ in range(settings.families)])
        pi_g, common = pi_f.mean(0), pi_f[groups]
    elif groups is not None:
        pi_f = own_confusions(settings.families, C, strength, stream(settings.seed, "families"))
        pi_r = settings.family_share * pi_f[groups] + (1 - settings.family_share) * pi_r
    counts = draw_counts(len(codes), settings, stream(settings.seed, "assignment"))
    tasks, annotators = draw_assignment(counts, settings.n_annotators, stream(settings.seed, "annotators"))
    harmful = draw_adversaries(common, settings)
    if harmful is not None:
        tasks, annotators = harmful.move_copyists((tasks, annotators), settings.seed)
        harmful = harmful.act((tasks, annotators), settings)
    gate = draw_gate(features, (tasks, annotators), settings)
    omega = gate.of_pairs(tasks, annotators)
    # Drawn at once, so that the same seed gives the same random numbers whatever the matrices are.
    uniform = stream(settings.seed, "labels").random((2, len(tasks)))
    s: npt.NDArray[np.bool_] = uniform[0] < omega
    rows = np.where(s[:, None], common[annotators, codes[tasks]], pi_r[annotators, codes[tasks]])
    labels = draw_from_rows(rows, uniform[1])
    if harmful is not None:
        turned = harmful.has_turned(annotators)
        s, omega = s & ~turned & ~harmful.copied, np.where(turned | harmful.copied, 0.0, omega)
        rows = np.where(turned[:, None], harmful.matrices[annotators, codes[tasks]], rows)
        labels = harmful.copy_labels(draw_from_rows(rows, uniform[1]), (tasks, annotators))
        pi_r = np.where(np.isin(harmful.kind, CARELESS_KINDS)[:, None, None], harmful.matrices, pi_r)
    annotations = _numbered((tasks, annotators, labels), len(codes), R, as_names(classes))
    return annotations, CrowdTruth(codes, s, omega, pi_g, pi_r, gate, settings, groups, pi_f, harmful)


def _numbered(codes: tuple[IntArray, IntArray, IntArray], n_tasks: int, n_annotators: int, names: Names) -> Annotations:
    """Annotations of tasks and annotators that are called by their numbers."""
    tasks, annotators = np.arange(n_tasks), np.arange(n_annotators)
    return Annotations(*codes, task_ids=tasks, annotator_ids=annotators, classes=names, by_position=True)


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


def _check_instances(z: npt.ArrayLike, features: npt.NDArray[Any], n_classes: int) -> IntArray:
    codes = np.asarray(z, dtype=np.int64)
    if codes.ndim != 1 or len(codes) != len(features):
        raise InputError(f"z has shape {codes.shape} for {len(features)} rows of features; pass one class code per row")
    if n_classes < 2:
        raise InputError(f"a simulated crowd needs at least 2 classes, not {n_classes}")
    if len(codes) and (codes.min() < 0 or codes.max() >= n_classes):
        raise InputError(f"class codes must be in range({n_classes}), found {codes.min()} to {codes.max()}")
    return codes
