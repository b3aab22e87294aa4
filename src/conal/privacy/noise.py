"""Exact noise: the discrete Laplace distribution, drawn with whole numbers only.

Floating-point noise can be taken apart: the low bits of a sum tell which of two values noise was added to (Mironov
2012). Here every decision is a comparison of whole numbers that the source of randomness draws uniformly, so that what
comes out has exactly the stated distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

__all__ = ["discrete_laplace", "exact", "noisy_counts"]


def noisy_counts(counts: Sequence[int], sensitivity: int, epsilon: float, source: Random) -> list[int]:
    """The counts with independent discrete Laplace noise of scale sensitivity / epsilon: the whole mechanism.

    Parameters
    ----------
    counts : sequence of int
        Of which one person changes at most ``sensitivity`` in total.
    """
    scale = sensitivity / exact(epsilon)
    return [count + discrete_laplace(scale, source) for count in counts]


def exact(value: float) -> Fraction:
    """The number that a user wrote: 1/10 for 0.1, not the nearest binary fraction.

    >>> exact(0.1), exact(2)
    (Fraction(1, 10), Fraction(2, 1))
    """
    return Fraction(str(value))


def discrete_laplace(scale: Fraction, source: Random) -> int:
    r"""A whole number x, drawn with probability proportional to :math:`e^{-|x| / \text{scale}}`.

    With scale = t / s, a geometric variable with ratio :math:`e^{-1/t}` is put together from its remainder modulo t, by
    rejection, and its quotient; dividing it by s and drawing a sign gives the result (Algorithm 2 of the reference).

    Parameters
    ----------
    scale : Fraction
        Above 0.
    source : random.Random
        ``random.SystemRandom()`` for a release. A source with a seed is for tests: who knows the seed knows the noise.

    References
    ----------
    Canonne, Kamath, Steinke. The Discrete Gaussian for Differential Privacy. NeurIPS 2020.
    Mironov. On Significance of the Least Significant Bits for Differential Privacy. CCS 2012.

    Examples
    --------
    >>> [discrete_laplace(Fraction(5, 2), Random(k)) for k in range(6)]
    [-1, 0, -5, 0, 0, 2]
    """
    t, s = scale.numerator, scale.denominator
    while True:
        remainder = source.randrange(t)
        if not _happens(remainder, t, source):
            continue
        quotient = 0
        while _happens(1, 1, source):
            quotient += 1
        size = (remainder + t * quotient) // s
        negative = bool(source.getrandbits(1))
        if size or not negative:  # otherwise zero would come up twice as often as it should
            return -size if negative else size


def _happens(numerator: int, denominator: int, source: Random) -> bool:
    """True with probability e^(-numerator / denominator), of a share between 0 and 1.

    The probability that the k-th of the draws with probabilities g, g/2, g/3, ... is the first to fail is
    g^(k-1)/(k-1)! - g^k/k!; summed over odd k this is the series of e^(-g).
    """
    k = 1
    while source.randrange(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
