"""The parameters of a crowd, read and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conal._arrays import row_slices
from conal.errors import InputError
from conal.metrics.classification import confusion_matrices, numbers, probabilities
from conal.parameters import number

__all__ = ["NoiseModel", "chunks", "read_noise_model", "smooth"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

CHUNK_CELLS = 2**20
"""Numbers in one temporary array: 8 MB."""


class NoiseModel(NamedTuple):
    """Common and individual confusion of a crowd with known parameters.

    Attributes
    ----------
    rho : (N, C)
        P(z_i = c), the class distribution of each instance.
    pi_g, pi_r : (C, C), (R, C, C)
        Common and individual confusion, true class before observed class.
    omega : (N, R)
        P(s_i^r = 1), the probability that a label comes from the common confusion.
    observed : (N, R) bool
        Which annotators label which instances.
    """

    rho: FloatArray
    pi_g: FloatArray
    pi_r: FloatArray
    omega: FloatArray
    observed: BoolArray

    def part(self, rows: slice) -> NoiseModel:
        """The same crowd on some of the instances."""
        return self._replace(rho=self.rho[rows], omega=self.omega[rows], observed=self.observed[rows])

    def active(self) -> IntArray:
        """The annotators who label anything here."""
        return np.flatnonzero(self.observed.any(axis=0))

    def mixture(self, rows: IntArray, r: int) -> FloatArray:
        """(n, C, C) distributions of annotator r's labels of these instances: omega pi_g + (1 - omega) pi_r."""
        omega = self.omega[rows, r, None, None]
        return np.asarray(omega * self.pi_g + (1 - omega) * self.pi_r[r])


def read_noise_model(rho: object, pi_g: object, pi_r: object, omega: object, observed: object = None) -> NoiseModel:
    """Checked parameters in double precision; one class distribution for all instances is repeated."""
    common, individual = confusion_matrices(pi_g, "pi_g"), confusion_matrices(pi_r, "pi_r")
    C = common.shape[-1]
    if common.ndim != 2 or C < 2:
        raise InputError(f"pi_g: expected one (C, C) matrix of at least 2 classes, got shape {common.shape}")
    if individual.ndim != 3 or individual.shape[-1] != C:
        raise InputError(
            f"pi_r: expected a ({C}, {C}) matrix per annotator, as pi_g has, got shape {individual.shape}; "
            "for a single annotator pass pi_r[None]"
        )
    rates = _read_omega(omega, len(individual))
    classes = _read_rho(rho, len(rates), C)
    # Rows may be rounded, and a divergence of unnormalised rows may be negative.
    return NoiseModel(
        _normalised(classes), _normalised(common), _normalised(individual), rates, _read_mask(observed, rates.shape)
    )


def smooth(pi: object, epsilon: float) -> FloatArray:
    r"""Confusion matrices without zero entries: with probability epsilon a label is drawn uniformly.

    .. math::
        (1 - \epsilon) \, \pi + \epsilon / C

    A crowd with smoothed matrices is noisier. What holds for it need not hold for the original.

    Parameters
    ----------
    pi : (C, C) or (R, C, C)
    epsilon : float
        Between 0, which changes nothing, and 1.

    Examples
    --------
    >>> smooth([[1.0, 0.0], [0.0, 1.0]], 0.5).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    number(at_least=0, at_most=1).check("epsilon", epsilon)
    matrices = confusion_matrices(pi, "pi")
    return np.asarray((1 - epsilon) * matrices + epsilon / matrices.shape[-1])


def chunks(n: int, cells: int) -> Iterator[slice]:
    """Slices of ``range(n)``: chunks of rows such that an array with ``cells`` numbers per row stays small."""
    return row_slices(n, cells, CHUNK_CELLS)


def _read_omega(omega: object, R: int) -> FloatArray:
    rates = numbers(omega, "omega")
    if rates.ndim != 2 or rates.shape[1] != R or not len(rates):
        raise InputError(f"omega: expected instances x {R} annotators, as pi_r has, got shape {rates.shape}")
    outside = np.argwhere((rates < 0) | (rates > 1))
    if len(outside):
        i, r = outside[0].tolist()
        raise InputError(f"omega: {rates[i, r]:.6g} at [{i}, {r}]; pass probabilities between 0 and 1")
    return rates


def _read_rho(rho: object, N: int, C: int) -> FloatArray:
    classes = numbers(rho, "rho")
    if classes.ndim == 1:
        classes = np.broadcast_to(classes, (N, len(classes)))
    classes = probabilities(classes, "rho")
    if classes.shape != (N, C):
        raise InputError(
            f"rho: shape {classes.shape} for {N:,} rows of omega and {C} classes; "
            "pass a class distribution per instance, or one for all"
        )
    return classes


def _read_mask(observed: object, shape: tuple[int, ...]) -> BoolArray:
    if observed is None:
        return np.ones(shape, dtype=bool)
    mask = np.asarray(observed)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise InputError(
            f"observed: expected booleans of shape {shape}, as omega has, got {mask.dtype} of shape {mask.shape}; "
            "for a label matrix A with -1 for no label, pass A != -1"
        )
    return mask


def _normalised(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
