"""omega: how likely an annotation comes from the common confusion, given instance and annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conal._support.arrays import row_slices
from conal.datasets.streams import stream
from conal.parameters.simulation import CrowdSettings

__all__ = ["Gate", "draw_gate", "project", "solve_bias"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CHUNK_CELLS = 2**21
BISECTIONS = 100


@dataclass(frozen=True, eq=False)
class Gate:
    r"""The true gate: omega_i^r = sigmoid(scale * u_r . v_i + bias).

    Parameters
    ----------
    annotator_embedding : (R, D) float64
        u, rows of length 1.
    instance_embedding : (N, D) float64
        v, rows of length 1.
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
    """Random embeddings, and the bias at which the mean omega of the observed ``pairs`` is ``settings.proportion``.

    u is a random linear map of random annotator features, v one of the features, centred. Without centring, features
    that are never negative, such as pixels, would all point the same way.
    """
    rng = stream(settings.seed, "gate")
    dim = settings.embedding_dim
    annotator_features = rng.standard_normal((settings.n_annotators, dim))
    u = _unit_rows(annotator_features @ rng.standard_normal((dim, dim)))
    n_features = int(np.prod(features.shape[1:]))
    projected = project(features, rng.standard_normal((n_features, dim)))
    v = _unit_rows(projected - projected.mean(axis=0))
    scores = settings.gate_scale * _pair_scores(v, u, *pairs)
    return Gate(u, v, settings.gate_scale, solve_bias(scores, settings.proportion, settings.gate_scale))


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
