"""``TextFeatures``: texts to a few hundred numbers each, by TF-IDF and a truncated SVD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from conal._support.progress import Progress
from conal.errors import DataWarning, InputError, warn
from conal.parameters import whole
from conal.text.analysis import piece_terms, word_terms
from conal.text.style import StyleWeights, fit_style
from conal.text.terms import Analyzer, TermWeights, fit_terms

__all__ = ["ANALYZERS", "STEPS", "TextFeatures", "check_texts", "is_missing"]

ANALYZERS: dict[str, Analyzer] = {"words": word_terms, "pieces": piece_terms}
"""Kinds of terms, in the order of their columns; each has its own vocabulary."""
STEPS = len(ANALYZERS) + 2
"""Steps of learning features: the terms of each kind, their decomposition, and the features."""
SMALLEST = 1e-6
"""Directions with less than this share of the largest singular value are rounding errors."""


class TextFeatures(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    r"""Texts to features: which words and pieces of words occur, condensed to a few hundred numbers.

    Words, pairs of neighbouring words and pieces of words are weighted by inverse document frequency; beside them
    stand ten numbers about style (:data:`conal.text.style.STYLE`). A truncated SVD keeps the directions in which texts
    differ most (latent semantic analysis):

    .. math:: x_d = Q V^\top w_d - \bar x

    The random rotation Q spreads these directions evenly over the features and preserves distances. Without it, a
    classifier that scales every feature to variance 1 would weight the faintest direction as much as the strongest and,
    with about as many directions as texts, memorise the texts. Trained on few short texts with true labels, it was far
    less accurate without the rotation; on many texts it made no difference.

    The mean of the training texts is subtracted. The features of a text without any known term are zero: those of an
    average text.

    Labels are not used, so you may fit it to texts without labels, too.

    Parameters
    ----------
    n_components : int
        Number of features; fewer where there are few texts or terms.
    max_terms : int
        Largest number of terms of each kind (words and their pairs; pieces of words). The most frequent are kept.
    seed : int
        Seed of the SVD and the rotation. The same seed and texts give the same features.

    Attributes
    ----------
    terms_ : dict of str to TermWeights
        Vocabulary and inverse document frequencies of each kind.
    style_ : StyleWeights or None
        Means and scales of the numbers about style; None in models of earlier versions, which have none.
    components_ : (n_features, n_terms + n_style) float32
        Directions that are kept, rotated: orthogonal rows of length 1.
    mean_ : (n_features,) float64
        Features of the average training text.

    References
    ----------
    Deerwester, Dumais, Furnas, Landauer and Harshman (1990). Indexing by latent semantic analysis. JASIS.

    Examples
    --------
    >>> texts = ["a good film", "a bad film", "good", "bad, bad film"]
    >>> TextFeatures().fit_transform(texts).shape
    (4, 3)
    """

    terms_: dict[str, TermWeights]
    style_: StyleWeights | None
    components_: npt.NDArray[np.float32]
    mean_: npt.NDArray[np.float64]

    def __init__(self, n_components: int = 200, *, max_terms: int = 20_000, seed: int = 0) -> None:
        self.n_components = n_components
        self.max_terms = max_terms
        self.seed = seed

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Learn terms, their weights and the directions from texts; ``y`` is ignored."""
        self.fit_transform(X)
        return self

    def fit_transform(
        self, X: Sequence[str], y: Any = None, *, progress: Progress | None = None
    ) -> npt.NDArray[np.float32]:
        """Learn from texts and return their features; ``progress`` is told about every step."""
        told = progress or Progress()
        whole(1).check("n_components", self.n_components)
        whole(1).check("max_terms", self.max_terms)
        texts = check_texts(X)
        fitted = {}
        for k, (kind, analyzer) in enumerate(ANALYZERS.items()):
            told.update(k, STEPS, f"terms of {len(texts):,} texts")
            fitted[kind] = fit_terms(texts, analyzer, self.max_terms)
        told.update(STEPS - 2, STEPS, "singular value decomposition")
        self.terms_ = {kind: terms for kind, (terms, _) in fitted.items()}
        if not any(terms.vocabulary for terms in self.terms_.values()):
            raise InputError("no text contains a word; are these the texts, and is it the right column?")
        self.style_, style = fit_style(texts)
        weights = _joined([found for _, found in fitted.values()], style)
        # In one order whatever the order of the texts, since the start of the SVD is drawn by row.
        ordered = weights[sorted(range(len(texts)), key=texts.__getitem__)]
        self.components_ = self._directions(ordered)
        self.mean_ = np.asarray(ordered[_informative(ordered)].mean(0)).ravel() @ self.components_.T
        told.update(STEPS - 1, STEPS, "features")
        features = self._project(weights)
        if len(texts) > 1 and np.abs(features).max() < SMALLEST:
            warn("all texts contain the same words, so they cannot separate the classes", DataWarning)
        return features

    def transform(self, X: Sequence[str]) -> npt.NDArray[np.float32]:
        """(n, n_features) features; zero where a text is empty or contains no known term."""
        check_is_fitted(self, "components_")
        texts = check_texts(X)
        style = None if self.style_ is None else self.style_.transform(texts)
        return self._project(_joined([terms.transform(texts) for terms in self.terms_.values()], style))

    @property
    def n_features(self) -> int:
        """Number of features of a text."""
        return len(self.components_)

    def _directions(self, weights: Any) -> npt.NDArray[np.float32]:
        """(n_features, n_terms + n_style) the rotated directions; in single precision, which takes half of the time."""
        most = max(1, min(self.n_components, *(size - 1 for size in weights.shape)))
        first, second = np.random.SeedSequence(self.seed).spawn(2)
        start = np.random.RandomState(np.random.MT19937(first))
        with np.errstate(invalid="ignore", divide="ignore"):  # shares of a variance of zero, where all texts are equal
            svd = TruncatedSVD(most, random_state=start).fit(weights.astype(np.float32))
        real = svd.components_[svd.singular_values_ > SMALLEST * svd.singular_values_[0]]
        rotation, _ = np.linalg.qr(np.random.default_rng(second).normal(size=(len(real), len(real))))
        return np.ascontiguousarray(rotation @ real, dtype=np.float32)

    def _project(self, weights: Any) -> npt.NDArray[np.float32]:
        features = weights @ self.components_.T.astype(np.float64) - self.mean_
        features[~_informative(weights)] = 0
        return np.asarray(features, dtype=np.float32)


def check_texts(texts: Any) -> list[str]:
    """A list of texts; None, NaN and pandas' NA are empty texts, and other types are an error."""
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got a single text; put it into a list")
    found = ["" if is_missing(text) else text for text in texts]
    invalid = next((k for k, text in enumerate(found) if not isinstance(text, str)), None)
    if invalid is not None:
        raise InputError(f"text {invalid} is of type {type(found[invalid]).__name__}; expected text (str)")
    if not found:
        raise InputError("there are no texts")
    return found


def is_missing(value: Any) -> bool:
    """Whether a value in a list or column means "no text"."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _joined(parts: list[Any], style: Any) -> Any:
    """All terms side by side, rows of length 1 again, and then the style of texts that have any known term."""
    terms = normalize(sparse.hstack(parts, format="csr"), copy=False)
    if style is None:
        return terms
    return sparse.hstack([terms, sparse.diags(_informative(terms).astype(np.float64)) @ style], format="csr")


def _informative(weights: Any) -> npt.NDArray[np.bool_]:
    """Rows with any known term."""
    known: npt.NDArray[np.bool_] = np.diff(weights.indptr) > 0
    return known
