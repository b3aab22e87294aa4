"""Texts to a few hundred numbers each, by TF-IDF and a truncated SVD."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from conal._progress import Progress
from conal.errors import DataWarning, InputError, warn
from conal.parameters import whole

# Text to terms: words and pairs of words, and pieces of words.
#
# Chinese and Japanese are written without blanks, so that a "word" between blanks would be a sentence that occurs once:
# there, every character counts as a word. Combining marks belong to the word they stand in, as vowels of Hindi do.

PIECE_LENGTHS = (3, 4)
"""Characters in a piece of a word, a blank at either end included.

On short technical texts a classifier was better with them than with words and pairs alone. Pieces of 3 to 5 characters
were no better, for half as many terms again.
"""

UNSPACED = "\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
"""Han characters and kana. On simulated text without blanks, a classifier was far better with characters and pairs than
with pieces of three to five characters."""
JOINERS = "\u200c\u200d"
GRAPHEME_JOINER = "\u034f"
"""Separates runs of combining marks, and has no meaning of its own."""
SURROGATES = "\ud800-\udfff"


def word_terms(text: str) -> Iterator[str]:
    """Words, marks and unspaced characters, and pairs of neighbours.

    >>> list(word_terms("Not good!"))
    ['not', 'good', '!', 'not good', 'good !']
    >>> list(word_terms("天气 ok"))
    ['天', '气', 'ok', '天 气', '气 ok']
    """
    tokens = _tokens().findall(_plain(text))
    yield from tokens
    for first, second in pairwise(tokens):
        yield f"{first} {second}"


@dataclass(frozen=True)
class WordByWord:
    """Terms of a text that follow from its words one by one, so that a word of many texts is analysed once.

    Parameters
    ----------
    words : callable
        From a text to its words.
    terms : callable
        From a word to its terms.
    """

    words: Callable[[str], Iterable[str]]
    terms: Callable[[str], Iterable[str]]

    def __call__(self, text: str) -> Iterator[str]:
        """The terms of a text."""
        for word in self.words(text):
            yield from self.terms(word)


def _spaced_words(text: str) -> list[str]:
    return _words().findall(_plain(text))


def _pieces(word: str) -> Iterator[str]:
    padded = f" {word} "
    for length in PIECE_LENGTHS:
        for start in range(len(padded) - length + 1):
            yield padded[start : start + length]


piece_terms = WordByWord(_spaced_words, _pieces)
"""Pieces of the words that are written with blanks between them; a blank marks where a word begins or ends.

>>> list(piece_terms("Cat 猫"))
[' ca', 'cat', 'at ', ' cat', 'cat ']
"""


def _plain(text: str) -> str:
    """Normalise compatible forms, such as full-width characters, and lower the case."""
    if not text.isascii():
        text = _long_runs().sub(rf"\g<0>{GRAPHEME_JOINER}", text)
    return unicodedata.normalize("NFKC", text).casefold()


@cache
def _long_runs() -> re.Pattern[str]:
    """As many combining marks as Unicode's stream-safe format allows in a row; normalising n takes n² steps."""
    return re.compile(f"[{_combining_marks()}]{{30}}")


@cache
def _words() -> re.Pattern[str]:
    marks = _combining_marks() + JOINERS
    letter = rf"[^\W{UNSPACED}]"
    return re.compile(rf"{letter}+(?:[{marks}]+{letter}*)*")


@cache
def _tokens() -> re.Pattern[str]:
    """Words, unspaced characters one by one, and other marks (such as emoji) one by one."""
    return re.compile(rf"{_words().pattern}|[{UNSPACED}]|[^\w\s{SURROGATES}]")


def _combining_marks() -> str:
    """All of them, for a character class: Python's \\w excludes them, and words would break there."""
    return "".join(chr(code) for code in range(0x300, 0x20000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))


# How a text is written: its length, marks, capitals and digits, which words and pieces of words do not tell.

STYLE = ("words", "lines", "capitals", "digits", "?", "!", ",", ".", "characters per word", "different words")
"""Names of the numbers. The first two are logarithms; capitals and digits are shares of the characters, the marks and
the different words shares of the words."""
MARKS = STYLE[4:8]
STYLE_DEVIATION = 0.1
"""Standard deviation of every number. All together, they add a tenth to the length of a text's terms, which is 1."""
MAX_DEVIATIONS = 3.0
"""Standard deviations at which a number is cut off: a single text of a thousand lines must not decide."""
MIN_DEVIATION = 1e-9


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
        limit = MAX_DEVIATIONS * STYLE_DEVIATION
        return np.clip((numbers - self.mean) * self.factor, -limit, limit)


def fit_style(texts: Sequence[str]) -> tuple[StyleWeights, Any]:
    """The style of these texts, and its weights in them; a number that never varies has weight 0."""
    numbers = _numbers(texts)
    ordered = np.sort(numbers, axis=0)  # the same sums in any order of the texts
    mean, deviation = ordered.mean(0), ordered.std(0)
    factor = np.where(deviation > MIN_DEVIATION, STYLE_DEVIATION / np.maximum(deviation, MIN_DEVIATION), 0.0)
    made = StyleWeights(mean, factor)
    return made, sparse.csr_matrix(made._weights(numbers))


def _numbers(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    return np.array([style_numbers(text) for text in texts], dtype=np.float64).reshape(-1, len(STYLE))


# Weighted terms: a vocabulary with inverse document frequencies (TF-IDF).

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
    """

    analyzer: Analyzer
    vocabulary: tuple[str, ...]
    idf: npt.NDArray[np.float64]

    def transform(self, texts: Sequence[str]) -> Any:
        """(n, n_terms) sparse weights."""
        if not self.vocabulary:
            return sparse.csr_matrix((len(texts), 0))
        counts, _ = count_terms(texts, self.analyzer, self.vocabulary)
        weighting = TfidfTransformer()
        weighting.idf_ = self.idf
        return weighting.transform(_occurs(counts))


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


# ``TextFeatures``: texts to a few hundred numbers each, by TF-IDF and a truncated SVD.

ANALYZERS: dict[str, Analyzer] = {"words": word_terms, "pieces": piece_terms}
"""Kinds of terms, in the order of their columns; each has its own vocabulary."""
STEPS = len(ANALYZERS) + 2
"""Steps of learning features: the terms of each kind, their decomposition, and the features."""
VERSION = 2
"""Of stored features; grows whenever the same text would get other features."""
MIN_SINGULAR_SHARE = 1e-6
"""Directions with less than this share of the largest singular value are rounding errors."""


class TextFeatures(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    r"""Texts to features: which words and pieces of words occur, condensed to a few hundred numbers.

    Words, pairs of neighbouring words and pieces of words are weighted by inverse document frequency; beside them
    stand ten numbers about style (:data:`STYLE`). A truncated SVD keeps the directions in which texts
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
    style_ : StyleWeights
        Means and scales of the numbers about style.
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
    style_: StyleWeights
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
        """Learn from texts and return their features; ``progress`` shows every step."""
        steps = progress or Progress()
        whole(1).check("n_components", self.n_components)
        whole(1).check("max_terms", self.max_terms)
        texts = check_texts(X)
        fitted = {}
        for k, (kind, analyzer) in enumerate(ANALYZERS.items()):
            steps.update(k, STEPS, f"terms of {len(texts):,} texts")
            fitted[kind] = fit_terms(texts, analyzer, self.max_terms)
        steps.update(STEPS - 2, STEPS, "singular value decomposition")
        self.terms_ = {kind: terms for kind, (terms, _) in fitted.items()}
        if not any(terms.vocabulary for terms in self.terms_.values()):
            raise InputError("no text contains a word; are these the texts, and is it the right column?")
        self.style_, style = fit_style(texts)
        weights = _joined([found for _, found in fitted.values()], style)
        # In one order whatever the order of the texts, since the start of the SVD is drawn by row.
        ordered = weights[sorted(range(len(texts)), key=texts.__getitem__)]
        self.components_ = self._directions(ordered)
        self.mean_ = np.asarray(ordered[_informative(ordered)].mean(0)).ravel() @ self.components_.T
        steps.update(STEPS - 1, STEPS, "features")
        features = self._project(weights)
        if len(texts) > 1 and np.abs(features).max() < MIN_SINGULAR_SHARE:
            warn("all texts contain the same words, so they cannot separate the classes", DataWarning)
        return features

    def transform(self, X: Sequence[str]) -> npt.NDArray[np.float32]:
        """(n, n_features) features; zero where a text is empty or contains no known term."""
        check_is_fitted(self, "components_")
        texts = check_texts(X)
        terms = [terms.transform(texts) for terms in self.terms_.values()]
        return self._project(_joined(terms, self.style_.transform(texts)))

    @property
    def n_features(self) -> int:
        """Number of features of a text."""
        return len(self.components_)

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Numbers for safetensors, and the rest for JSON."""
        tensors: dict[str, npt.NDArray[Any]] = {"components": self.components_, "mean": self.mean_}
        tensors |= {f"{kind}.idf": terms.idf for kind, terms in self.terms_.items()}
        tensors |= {"style.mean": self.style_.mean, "style.factor": self.style_.factor}
        parameters = {name: int(value) for name, value in self.get_params().items()}
        vocabulary = {kind: list(terms.vocabulary) for kind, terms in self.terms_.items()}
        return tensors, {"version": VERSION, "parameters": parameters, "vocabulary": vocabulary}

    @classmethod
    def from_state(cls, tensors: Mapping[str, npt.NDArray[Any]], document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`state`; a :class:`ValueError` or :class:`KeyError` if it does not fit together."""
        if document["version"] != VERSION:
            raise ValueError(f"text features have version {document['version']!r}, this conal reads {VERSION}")
        made = cls()
        made.set_params(**document["parameters"])
        made.terms_ = {
            kind: _stored_terms(kind, document["vocabulary"][kind], stored_numbers(tensors, f"{kind}.idf"))
            for kind in ANALYZERS
        }
        style = (stored_numbers(tensors, f"style.{name}", (len(STYLE),)) for name in ("mean", "factor"))
        made.style_ = StyleWeights(*style)
        made.mean_ = stored_numbers(tensors, "mean")
        n_terms = sum(len(terms.vocabulary) for terms in made.terms_.values())
        made.components_ = stored_numbers(tensors, "components", (len(made.mean_), n_terms + len(STYLE)), np.float32)
        return made

    def _directions(self, weights: Any) -> npt.NDArray[np.float32]:
        """(n_features, n_terms + n_style) the rotated directions; in single precision, which takes half of the time."""
        most = max(1, min(self.n_components, *(size - 1 for size in weights.shape)))
        first, second = np.random.SeedSequence(self.seed).spawn(2)
        start = np.random.RandomState(np.random.MT19937(first))
        with np.errstate(invalid="ignore", divide="ignore"):  # shares of a variance of zero, where all texts are equal
            svd = TruncatedSVD(most, random_state=start).fit(weights.astype(np.float32))
        real = svd.components_[svd.singular_values_ > MIN_SINGULAR_SHARE * svd.singular_values_[0]]
        rotation, _ = np.linalg.qr(np.random.default_rng(second).normal(size=(len(real), len(real))))
        return np.ascontiguousarray(rotation @ real, dtype=np.float32)

    def _project(self, weights: Any) -> npt.NDArray[np.float32]:
        features = weights @ self.components_.T.astype(np.float64) - self.mean_
        features[~_informative(weights)] = 0
        return np.asarray(features, dtype=np.float32)


def stored_numbers(
    tensors: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...] | None = None, kind: Any = np.float64
) -> npt.NDArray[Any]:
    """Finite numbers of this shape, by default a list of them; a :class:`ValueError` if there are others."""
    found = tensors[name]
    expected = (len(found),) if shape is None else shape
    if found.shape != expected or found.dtype != kind or not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite {np.dtype(kind).name} of shape {expected}, not {found.shape}")
    return found


def _stored_terms(kind: str, names: Any, idf: npt.NDArray[np.float64]) -> TermWeights:
    is_text = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    if not is_text or not len(set(names)) == len(names) == len(idf):
        raise ValueError(f"the vocabulary of {kind} must be {len(idf):,} different terms")
    return TermWeights(ANALYZERS[kind], tuple(names), idf)


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
    return sparse.hstack([terms, sparse.diags(_informative(terms).astype(np.float64)) @ style], format="csr")


def _informative(weights: Any) -> npt.NDArray[np.bool_]:
    """Rows with any known term."""
    known: npt.NDArray[np.bool_] = np.diff(weights.indptr) > 0
    return known
