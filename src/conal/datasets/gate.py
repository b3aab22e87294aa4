"""omega: how likely an annotation comes from the common confusion, given instance and annotator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from conal._support.arrays import row_slices
from conal.datasets.streams import stream
from conal.parameters.simulation import CrowdSettings

__all__ = ["Gate", "draw_gate", "project", "solve_bias", "variance_shares"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CHUNK_CELLS = 2**21
BISECTIONS = 100
GRID_CELLS = 2**18
"""Pairs of instances and annotators on which the shares of omega's variance are adjusted."""
ADJUSTMENTS = 60
CLOSE = 0.002
"""Shares of variance that differ by less than this from those asked for need no further adjustment."""


@dataclass(frozen=True, eq=False)
class Gate:
    r"""The true gate: omega_i^r = sigmoid(scale * u_r . v_i + bias).

    Parameters
    ----------
    annotator_embedding : (R, D) float64
        u. Rows of length 1, or with the gate "effects" two further columns: 1, and the annotator's effect.
    instance_embedding : (N, D) float64
        v. Rows of length 1, or with the gate "effects" two further columns: the instance's effect, and 1.
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
    u, v = _unit_rows(u), _unit_rows(v)
    scores = settings.gate_scale * _pair_scores(v, u, *pairs)
    return Gate(u, v, settings.gate_scale, solve_bias(scores, settings.proportion, settings.gate_scale))


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
    """
    rng = stream(settings.seed, "gate biases")
    instance, annotator = (_scaled(x @ rng.standard_normal(x.shape[1])) for x in (v, u))
    spread = np.sqrt(np.trace((u.T @ u / len(u)) @ (v.T @ v / max(len(v), 1))))
    u = u / spread if spread > 0 else u
    asked = np.array([settings.difficulty_share, settings.expertise_share])
    asked = np.append(asked, 1 - asked.sum())
    some = np.linspace(0, len(v) - 1, min(len(v), max(GRID_CELLS // len(u), 2))).astype(np.int64)
    weights = asked.copy()
    for _ in range(ADJUSTMENTS):
        gate = _weighed(u, v, instance, annotator, weights, pairs, settings)
        found = variance_shares(replace(gate, instance_embedding=gate.instance_embedding[some]).matrix())
        if np.abs(found - asked).max() < CLOSE or not found.any():
            break
        weights = weights * np.where(asked > 0, (asked / np.maximum(found, 1e-6)) ** 0.7, 0.0)
        weights /= weights.sum()
    return gate


def _weighed(
    u: FloatArray,
    v: FloatArray,
    instance: FloatArray,
    annotator: FloatArray,
    weights: FloatArray,
    pairs: tuple[IntArray, IntArray],
    settings: CrowdSettings,
) -> Gate:
    """The gate whose log-odds have these shares of variance, and the bias that gives the proportion."""
    of_instance, of_annotator, of_both = settings.gate_scale * np.sqrt(weights)
    u = np.column_stack([of_both * u, np.ones(len(u)), of_annotator * annotator])
    v = np.column_stack([v, of_instance * instance, np.ones(len(v))])
    scores = _pair_scores(v, u, *pairs)
    bound = float(np.abs(scores).max(initial=0.0))
    return Gate(u, v, 1.0, solve_bias(scores, settings.proportion, bound))


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
    for _ in range(BISECTIONS):
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
