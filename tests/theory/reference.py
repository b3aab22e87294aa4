"""Slow and obvious: explicit sums over everything, for small crowds."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np


class Parameters(NamedTuple):
    """What a crowd is drawn from."""

    rho: Any
    pi_g: Any
    pi_r: Any
    omega: Any


def random_parameters(
    rng: np.random.Generator, N: int, R: int, C: int, *, noise: float = 1.0, zeros: bool = False
) -> Parameters:
    """A random crowd; with ``noise`` near 0, labels tell classes apart, near infinity they say nothing."""

    def matrices(*shape: int) -> Any:
        pi = rng.dirichlet(np.ones(C), size=shape) + noise + 1e-3
        if zeros:
            pi[rng.random(pi.shape) < 0.15] = 0
            pi += np.eye(C)
        return pi / pi.sum(-1, keepdims=True)

    return Parameters(rng.dirichlet(np.full(C, 3.0), size=N), matrices(C), matrices(R, C), rng.random((N, R)))


def kl(p: Any, q: Any) -> float:
    """Sum of p log(p / q) with 0 log 0 = 0."""
    total = 0.0
    for a, b in zip(p.tolist(), q.tolist(), strict=True):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total


def times(weight: float, value: float) -> float:
    """0 times infinity is 0."""
    return weight * value if weight > 0 else 0.0


def mixture(p: Parameters, i: int, r: int) -> Any:
    w = p.omega[i, r]
    return w * p.pi_g + (1 - w) * p.pi_r[r]


def entropy(p: Parameters, i: int) -> float:
    return float(-sum(v * math.log(v) for v in p.rho[i].tolist() if v > 0))


def divergences(p: Parameters, i: int, observed: Any) -> tuple[float, float]:
    """The theorem's triple sum for instance i, and that of the mixtures."""
    C = len(p.pi_g)
    separate = mixed = 0.0
    for r, c, d in itertools.product(range(len(p.pi_r)), range(C), range(C)):
        if observed[i, r]:
            w, weight, m = float(p.omega[i, r]), float(p.rho[i, c] * p.rho[i, d]), mixture(p, i, r)
            apart = times(w, kl(p.pi_g[c], p.pi_g[d])) + times(1 - w, kl(p.pi_r[r, c], p.pi_r[r, d]))
            separate += times(weight, apart)
            mixed += times(weight, kl(m[c], m[d]))
    return separate, mixed


def exact_bayes_error(p: Parameters, observed: Any) -> float:
    """The error of the best guess, by enumerating all labels that an instance may get."""
    N, C = p.rho.shape
    wrong = 0.0
    for i in range(N):
        asked = np.flatnonzero(observed[i]).tolist()
        for labels in itertools.product(range(C), repeat=len(asked)):
            joint = p.rho[i].copy()
            for r, label in zip(asked, labels, strict=True):
                joint *= mixture(p, i, r)[:, label]
            wrong += joint.sum() - joint.max()
    return float(wrong / N)
