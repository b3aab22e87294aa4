r"""The paper's noise model in closed form: a label comes from the common confusion or from the annotator's own.

With probability :math:`\omega_r` annotator r errs like the crowd, by :math:`\pi^g`, otherwise individually, by
:math:`\pi^r`:

.. math::
    m^r_{cl} = \omega_r \pi^g_{cl} + (1 - \omega_r) \pi^r_{cl}, \qquad
    g^r_{cl} = P(\text{common} \mid c, l) = \omega_r \pi^g_{cl} / m^r_{cl}

The expected counts :math:`n^r_{cl}` (annotator r said l where the truth is c) split into :math:`n^r_{cl} g^r_{cl}` and
the rest. Each part gives the rows of its matrix, and their sizes give :math:`\omega`.

Every function takes NumPy arrays or torch tensors, and returns the same kind.

References
----------
Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI. Appendix B.
"""

from __future__ import annotations

from conal.aggregation.arrays import Array, normalised

__all__ = ["from_common", "mixture", "rows", "share_of_common", "updated_omega"]


def mixture(omega: Array, pi_g: Array, pi_r: Array) -> Array:
    """Omega pi_g + (1 - omega) pi_r: P(observed | true), under either confusion.

    The axes of omega are the first ones of ``pi_r``: annotators (R,) of matrices (R, C, C), or labels (P,) of the
    columns (P, C) that the labels select.
    """
    omega = _beside(omega, pi_r)
    return omega * pi_g + (1 - omega) * pi_r


def share_of_common(omega: Array, pi_g: Array, pi_r: Array) -> Array:
    """P(the label came from the common confusion), shaped like ``pi_r``; one half where both rule the label out.

    At most 1, whatever the rounding.
    """
    mixed = mixture(omega, pi_g, pi_r)
    impossible = mixed <= 0
    return (_beside(omega, pi_r) * pi_g + 0.5 * impossible) / (mixed + impossible)


def from_common(counts: Array, omega: Array, pi_g: Array, pi_r: Array) -> Array:
    """How many of the expected labels ``counts[r, true, observed]`` came from the common confusion.

    For rows with pseudo-labels: rounding may leave a negative rest, which ``counts * share_of_common(...)`` never does.
    """
    mixed = mixture(omega, pi_g, pi_r)
    return counts * _beside(omega, pi_r) * pi_g / (mixed + (mixed <= 0))


def updated_omega(common: Array, counts: Array, a: float, b: float) -> Array:
    """(R,) share of ``common`` in ``counts``, both (R, C, C); one half for an annotator without any.

    ``a`` and ``b`` are pseudo-labels from the common and from the own confusion: the mode under a
    Beta(1 + a, 1 + b) prior.
    """
    n_common: Array = common.sum((1, 2))
    total: Array = counts.sum((1, 2)) + (a + b)
    empty = total <= 0
    return (n_common + a + 0.5 * empty) / (total + empty)


def rows(counts: Array, *pseudo: float | Array) -> Array:
    """Confusion matrices from counts (..., C, C) and pseudo-labels, as numbers for every cell or as arrays.

    Every row is the mode under a Dirichlet(1 + pseudo) prior; uniform where there are no labels at all.
    """
    for more in pseudo:
        counts = counts + more
    return normalised(counts)


def _beside(omega: Array, pi_r: Array) -> Array:
    """Omega with further axes, to multiply what is shaped like ``pi_r``."""
    return omega.reshape(tuple(omega.shape) + (1,) * (pi_r.ndim - omega.ndim))
