"""Simulated texts with known classes: made-up words, some of which are more frequent in one class than in another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CONSONANTS, VOWELS = list("bdfgklmnprstvz"), list("aeiou")
ENDINGS = ("", "s", "ed", "ing", "er")
"""Words with the same stem mean the same: pieces of words can find them."""
INFORMATIVE = 0.1
"""Share of the stems whose frequency depends on the class."""
OFFSET = 2.7
"""Of Zipf's law, after Mandelbrot."""


@dataclass(frozen=True, eq=False)
class SimulatedTexts:
    """Texts, and all that they were drawn from.

    Parameters
    ----------
    texts : list of str
    z : (n,) int64
        Class of each text.
    vocabulary : (n_words,) array of str
    word_shares : (C, n_words)
        ``word_shares[c, w]`` = P(word w | class c).
    """

    texts: list[str]
    z: npt.NDArray[np.int64]
    vocabulary: npt.NDArray[np.str_]
    word_shares: npt.NDArray[np.float64]


def simulate_texts(
    n: int,
    n_classes: int = 4,
    *,
    n_stems: int = 1000,
    length: float = 30.0,
    signal: float = 1.0,
    burstiness: float = 0.02,
    seed: int = 0,
) -> SimulatedTexts:
    r"""Texts whose words follow Zipf's law, with classes that prefer some of them.

    Stem k of ``n_stems`` has the share :math:`p_k \propto 1 / (k + 2.7)`. In class c, a tenth of the stems have
    :math:`p_k e^{s_{ck}}` instead, with :math:`s_{ck} \sim N(0, \text{signal}^2)`. Each stem has five endings, equally
    likely. A text has a number of words with mean ``length``, and words that occurred come again:

    .. math:: P(w_{t+1} = v \mid w_1, \ldots, w_t) = \frac{p_v + b \, n_v(t)}{1 + b \, t}

    with :math:`b` the ``burstiness`` and :math:`n_v(t)` how often the word occurred before (Pólya's urn).

    Parameters
    ----------
    n, n_classes : int
    n_stems : int
    length : float
        Mean number of words; numbers vary as a log-normal distribution with spread 0.5 does.
    signal : float
        How different classes are. With 0, texts say nothing about the class.
    burstiness : float
        0 for independent words.
    seed : int

    References
    ----------
    Madsen, Kauchak and Elkan (2005). Modeling word burstiness using the Dirichlet distribution. ICML.

    Examples
    --------
    >>> made = simulate_texts(3, 2, length=4, seed=1)
    >>> len(made.texts), made.word_shares.shape, bool(np.allclose(made.word_shares.sum(1), 1))
    (3, (2, 5000), True)
    """
    rng = np.random.default_rng(seed)
    stems = _stems(n_stems, rng)
    vocabulary = np.array([stem + ending for stem in stems for ending in ENDINGS])
    tilt = np.zeros((n_classes, n_stems))
    informative = rng.choice(n_stems, size=max(1, round(INFORMATIVE * n_stems)), replace=False)
    tilt[:, informative] = rng.normal(0.0, signal, size=(n_classes, len(informative)))
    shares = np.exp(tilt) / (np.arange(1, n_stems + 1) + OFFSET)
    shares = np.repeat(shares / shares.sum(1, keepdims=True), len(ENDINGS), axis=1) / len(ENDINGS)
    z = rng.integers(n_classes, size=n)
    lengths = np.maximum(1, rng.lognormal(np.log(length) - 0.5**2 / 2, 0.5, size=n).round().astype(int))
    drawn = (_words(shares[c], size, burstiness, rng) for c, size in zip(z, lengths, strict=True))
    return SimulatedTexts([" ".join(vocabulary[words]) for words in drawn], z, vocabulary, shares)


def _stems(count: int, rng: np.random.Generator) -> list[str]:
    """Different stems of two or three syllables."""
    found: dict[str, None] = {}
    while len(found) < count:
        size = rng.integers(2, 4)
        syllables = zip(rng.choice(CONSONANTS, size), rng.choice(VOWELS, size), strict=True)
        found["".join(first + second for first, second in syllables)] = None
    return list(found)


def _words(shares: npt.NDArray[np.float64], size: int, burstiness: float, rng: np.random.Generator) -> list[int]:
    """Words of one text: fresh ones, or one of those before."""
    fresh = rng.choice(len(shares), size=size, p=shares)
    words: list[int] = []
    for t in range(size):
        is_fresh = rng.random() * (1 + burstiness * t) < 1
        words.append(int(fresh[t]) if is_fresh else words[int(rng.integers(t))])
    return words
