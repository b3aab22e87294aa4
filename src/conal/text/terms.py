"""Weighted terms: a vocabulary with inverse document frequencies (TF-IDF)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

__all__ = ["TermWeights", "fit_terms"]

Analyzer = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class TermWeights:
    r"""Terms and what each is worth: :math:`w_{dt} = (1 + \ln n_{dt}) \, (1 + \ln\frac{1 + N}{1 + N_t})`.

    :math:`n_{dt}` is how often the term occurs in the text, :math:`N_t` in how many of the :math:`N` training texts.
    Every row has length 1, or 0 where the text holds none of the terms. This is what scikit-learn's
    ``TfidfVectorizer(sublinear_tf=True)`` computes.

    Attributes
    ----------
    vocabulary : tuple of str
        Terms, in the order of the columns.
    idf : (n_terms,) float64
    """

    analyzer: Analyzer
    vocabulary: tuple[str, ...]
    idf: npt.NDArray[np.float64]

    def transform(self, texts: Sequence[str]) -> Any:
        """(n, n_terms) sparse weights."""
        if not self.vocabulary:
            return sparse.csr_matrix((len(texts), 0))
        columns = {term: k for k, term in enumerate(self.vocabulary)}
        counter = CountVectorizer(analyzer=self.analyzer, vocabulary=columns, dtype=np.float64)
        return self.weigh(counter.transform(texts))

    def weigh(self, counts: Any) -> Any:
        """The weights of terms that were counted already."""
        weights = counts.tocsr(copy=True).astype(np.float64)
        weights.data = (1 + np.log(weights.data)) * self.idf[weights.indices]
        return normalize(weights, copy=False)


def fit_terms(texts: Sequence[str], analyzer: Analyzer, max_terms: int) -> tuple[TermWeights, Any]:
    """The terms of these texts, and their weights in them.

    A term of a single text tells nothing about others and is left out, unless every term is one. Of the rest the
    ``max_terms`` that occur in most texts are kept, in alphabetical order.
    """
    counter = CountVectorizer(analyzer=analyzer, dtype=np.float64)
    try:
        counts = counter.fit_transform(texts).tocsr()
    except ValueError:  # scikit-learn's word for "no terms at all"
        return TermWeights(analyzer, (), np.empty(0)), sparse.csr_matrix((len(texts), 0))
    found = np.bincount(counts.indices, minlength=counts.shape[1])
    frequent = np.argsort(-found, kind="stable")[:max_terms]
    several = frequent[found[frequent] > 1]
    kept = np.sort(several if len(several) else frequent)
    names = counter.get_feature_names_out()
    idf = 1 + np.log((1 + len(texts)) / (1 + found[kept]))
    terms = TermWeights(analyzer, tuple(names[kept].tolist()), idf)
    return terms, terms.weigh(counts[:, kept])
