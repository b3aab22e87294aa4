"""Equations written out as loops, for tests to compare with, and the labels to loop over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conal.methods import Batch

__all__ = ["slow_sources", "triples"]


def triples(batch: Batch) -> list[tuple[int, int, int]]:
    """(row of the batch, annotator, label) of every annotation."""
    return list(zip(batch.rows.tolist(), batch.annotators.tolist(), batch.labels.tolist(), strict=True))


def slow_sources(
    counts: npt.NDArray[Any],
    pi_g: npt.NDArray[Any],
    pi_r: npt.NDArray[Any],
    omega: npt.NDArray[Any],
    pooling: float,
    diagonal: float = 1.5,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """One round of the closed forms, cell by cell."""
    R, C, _ = counts.shape
    common, own, rate = np.zeros((C, C)), np.zeros((R, C, C)), np.zeros(R)
    for r in range(R):
        for c in range(C):
            for k in range(C):
                mixture = omega[r] * pi_g[c, k] + (1 - omega[r]) * pi_r[r, c, k]
                t = omega[r] * pi_g[c, k] / mixture
                common[c, k] += counts[r, c, k] * t
                own[r, c, k] = counts[r, c, k] * (1 - t)
                rate[r] += counts[r, c, k] * t
        rate[r] = (rate[r] + 1) / (counts[r].sum() + 2)
    for c in range(C):
        for k in range(C):
            common[c, k] += 0.5 + diagonal * (c == k)
    common /= common.sum(1, keepdims=True)
    for r in range(R):
        own[r] += pooling * common
        own[r] /= own[r].sum(1, keepdims=True)
    return common, own, rate
