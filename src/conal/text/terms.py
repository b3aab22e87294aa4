"""Weighted terms: a vocabulary with inverse document frequencies (TF-IDF)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from conal.text.analysis import WordByWord

__all__ = ["Analyzer", "TermWeights", "count_terms", "fit_terms"]

Analyzer = Callable[[str], Iterable[str]]
"""From a text to its terms."""


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
        counts, _ = count_terms(texts, self.analyzer, self.vocabulary)
        weighting = TfidfTransformer(sublinear_tf=self.counted)
        weighting.idf_ = self.idf
        return weighting.transform(counts if self.counted else _occurs(counts))


def fit_terms(texts: Sequence[str], analyzer: Analyzer, max_terms: int) -> tuple[TermWeights, Any]:
    """The terms of these texts, and their weights in them.

    A term that occurs in a single text is left out, unless all terms do. Of the rest, the ``max_terms`` that occur in
    most texts are kept, in alphabetical order.
    """
    counts, every = count_terms(texts, analyzer)
    if not len(every):
        return TermWeights(analyzer, (), np.empty(0)), sparse.csr_matrix((len(texts), 0))
    found = np.bincount(counts.indices, minlength=counts.shape[1])
    frequent = np.argsort(-found, kind="stable")[:max_terms]
    several = frequent[found[frequent] > 1]
    kept = np.sort(several if len(several) else frequent)
    weighting = TfidfTransformer()
    weights = weighting.fit_transform(_occurs(counts[:, kept]))
    return TermWeights(analyzer, tuple(every[kept].tolist()), weighting.idf_), weights


def count_terms(
    texts: Sequence[str], analyzer: Analyzer, vocabulary: Sequence[str] | None = None
) -> tuple[Any, npt.NDArray[np.object_]]:
    """(n, n_terms) sparse counts of all terms in alphabetical order, or of those in a vocabulary; and the terms.

    >>> counts, terms = count_terms(["b a", "b b"], str.split)
    >>> terms.tolist(), counts.toarray().tolist()
    (['a', 'b'], [[1.0, 1.0], [0.0, 2.0]])
    """
    if isinstance(analyzer, WordByWord):
        of_texts, words = count_terms(texts, analyzer.words)
        of_words, terms = count_terms(words.tolist(), analyzer.terms, vocabulary)
        counts = of_texts @ of_words
        counts.sort_indices()
        return counts, terms
    # Analysers lower the case. What stays a capital then is one, and no reason for scikit-learn to warn.
    counter = CountVectorizer(analyzer=analyzer, vocabulary=vocabulary, dtype=np.float64, lowercase=False)
    try:
        counts = counter.fit_transform(texts).tocsr()
    except ValueError:  # scikit-learn found no terms at all
        return sparse.csr_matrix((len(texts), 0)), np.empty(0, dtype=object)
    return counts, counter.get_feature_names_out()


def _occurs(counts: Any) -> Any:
    """1 for every count."""
    counts.data = np.ones_like(counts.data)
    return counts
