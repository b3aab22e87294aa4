"""Weighted terms: a vocabulary with inverse document frequencies (TF-IDF)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

__all__ = ["TermWeights", "fit_terms"]

Analyzer = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class TermWeights:
    r"""Terms and their weights: :math:`w_{dt} = [n_{dt} > 0] \, (1 + \ln\frac{1 + N}{1 + N_t})`.

    :math:`n_{dt}` is how often the term occurs in the text, :math:`N_t` in how many of the :math:`N` training texts.
    Every row has length 1, or 0 where the text contains none of the terms. scikit-learn's
    ``TfidfVectorizer(binary=True)`` computes them.

    How often a term occurs in a text is not used: a word that occurred is likely to come again, which says more about
    the text than about its class.

    Attributes
    ----------
    vocabulary : tuple of str
        Terms, in the order of the columns.
    idf : (n_terms,) float64
    counted : bool
        Whether :math:`1 + \ln n_{dt}` takes the place of :math:`[n_{dt} > 0]`, as in models of earlier versions.
    """

    analyzer: Analyzer
    vocabulary: tuple[str, ...]
    idf: npt.NDArray[np.float64]
    counted: bool = False

    def transform(self, texts: Sequence[str]) -> Any:
        """(n, n_terms) sparse weights."""
        if not self.vocabulary:
            return sparse.csr_matrix((len(texts), 0))
        vectorizer = TfidfVectorizer(
            analyzer=self.analyzer, vocabulary=self.vocabulary, binary=not self.counted, sublinear_tf=self.counted
        )
        vectorizer.idf_ = self.idf
        return vectorizer.transform(texts)


def fit_terms(texts: Sequence[str], analyzer: Analyzer, max_terms: int) -> tuple[TermWeights, Any]:
    """The terms of these texts, and their weights in them.

    A term that occurs in a single text is left out, unless all terms do. Of the rest, the ``max_terms`` that occur in
    most texts are kept, in alphabetical order.
    """
    counter = CountVectorizer(analyzer=analyzer, binary=True, dtype=np.float64)
    try:
        counts = counter.fit_transform(texts).tocsr()
    except ValueError:  # scikit-learn found no terms at all
        return TermWeights(analyzer, (), np.empty(0)), sparse.csr_matrix((len(texts), 0))
    found = np.bincount(counts.indices, minlength=counts.shape[1])
    frequent = np.argsort(-found, kind="stable")[:max_terms]
    several = frequent[found[frequent] > 1]
    kept = np.sort(several if len(several) else frequent)
    names = counter.get_feature_names_out()[kept]
    weighting = TfidfTransformer()
    weights = weighting.fit_transform(counts[:, kept])
    return TermWeights(analyzer, tuple(names.tolist()), weighting.idf_), weights
