"""Text to terms: words and pairs of words, and pieces of words.

Chinese and Japanese are written without blanks, so that a "word" between blanks would be a sentence that occurs once:
there, every character counts as a word. Combining marks belong to the word they stand in, as vowels of Hindi do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

__all__ = ["PIECE_LENGTHS", "WordByWord", "piece_terms", "word_terms"]

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
