"""How a text is written: its length, marks, capitals and digits, which words and pieces of words do not tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

__all__ = ["STYLE", "StyleWeights", "fit_style", "style_numbers"]

STYLE = ("words", "lines", "capitals", "digits", "?", "!", ",", ".", "characters per word", "different words")
"""Names of the numbers. The first two are logarithms; capitals and digits are shares of the characters, the marks and
the different words shares of the words."""
MARKS = STYLE[4:8]
DEVIATION = 0.1
"""Standard deviation of every number. All together, they add a tenth to the length of a text's terms, which is 1."""
LIMIT = 3.0
"""Standard deviations at which a number is cut off: a single text of a thousand lines must not decide."""
TINY = 1e-9


def style_numbers(text: str) -> tuple[float, ...]:
    """The numbers of one text, in the order of :data:`STYLE`.

    >>> dict(zip(STYLE, style_numbers("No. No, 3!"), strict=True))["different words"]
    1.0
    """
    words, characters = text.split(), max(len(text), 1)
    count = max(len(words), 1)
    return (
        math.log1p(len(words)),
        math.log1p(text.count("\n")),
        sum(map(str.isupper, text)) / characters,
        sum(map(str.isdigit, text)) / characters,
        *(text.count(mark) / count for mark in MARKS),
        characters / count,
        len(set(words)) / count,
    )


@dataclass(frozen=True)
class StyleWeights:
    r"""Style as columns beside the terms: :math:`w_{dk} = a_k (s_{dk} - \bar s_k)`, cut off at 3 deviations.

    Attributes
    ----------
    mean, factor : (n_numbers,) float64
        :math:`\bar s_k` and :math:`a_k`, by which a number has the standard deviation 0.1.
    """

    mean: npt.NDArray[np.float64]
    factor: npt.NDArray[np.float64]

    def transform(self, texts: Sequence[str]) -> Any:
        """(n, n_numbers) sparse weights."""
        return sparse.csr_matrix(self._weights(_numbers(texts)))

    def _weights(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.clip((numbers - self.mean) * self.factor, -LIMIT * DEVIATION, LIMIT * DEVIATION)


def fit_style(texts: Sequence[str]) -> tuple[StyleWeights, Any]:
    """The style of these texts, and its weights in them; a number that never varies has weight 0."""
    numbers = _numbers(texts)
    ordered = np.sort(numbers, axis=0)  # the same sums in any order of the texts
    mean, deviation = ordered.mean(0), ordered.std(0)
    factor = np.where(deviation > TINY, DEVIATION / np.maximum(deviation, TINY), 0.0)
    made = StyleWeights(mean, factor)
    return made, sparse.csr_matrix(made._weights(numbers))


def _numbers(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    return np.array([style_numbers(text) for text in texts], dtype=np.float64).reshape(-1, len(STYLE))
