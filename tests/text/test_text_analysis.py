"""Text to terms: by hand, in many scripts, and pieces against scikit-learn's."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from conal.text.features import PIECE_LENGTHS, piece_terms, word_terms


def words(text: str) -> list[str]:
    """Terms that are no pairs."""
    return [term for term in word_terms(text) if " " not in term]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t", []),
        ("Not GOOD at all!", ["not", "good", "at", "all", "!"]),
        ("don't", ["don", "'", "t"]),
        ("C++ 3.5", ["c", "+", "+", "3", ".", "5"]),
        ("天气很好。", ["天", "气", "很", "好", "。"]),
        ("GPU性能 ok", ["gpu", "性", "能", "ok"]),
        ("カタカナ漢字", list("カタカナ漢字")),
        ("\uff46\uff55\uff4c\uff4c ｶﾅ", ["full", "カ", "ナ"]),  # full and half width are one
        ("좋은 날씨", ["좋은", "날씨"]),  # Korean has blanks
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs and virama do not break words
        ("می\u200cرم", ["می\u200cرم"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("café cafe\u0301", ["café", "café"]),
        ("great 😀👍", ["great", "😀", "👍"]),
        ("a\ud800b", ["a", "b"]),  # half a character cannot be stored
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_pairs_of_neighbours_follow_the_words() -> None:
    assert list(word_terms("a b c")) == ["a", "b", "c", "a b", "b c"]
    assert list(word_terms("one")) == ["one"]


def test_pieces_by_hand() -> None:
    assert list(piece_terms("Ab, it!")) == [" ab", "ab ", " ab ", " it", "it ", " it "]
    assert list(piece_terms("a 猫猫猫猫")) == [" a "]
    assert list(piece_terms("")) == []


def test_pieces_are_those_of_scikit_learn_where_words_stand_between_blanks() -> None:
    text = f"the quick brown fox {'long' * 32} jumps over the lazy dog"
    theirs = TfidfVectorizer(analyzer="char_wb", ngram_range=PIECE_LENGTHS).build_analyzer()(text)
    assert sorted(piece_terms(text)) == sorted(theirs)


@given(st.text())
def test_no_term_is_empty_or_cannot_be_stored(text: str) -> None:
    for term in [*word_terms(text), *piece_terms(text)]:
        assert term.strip()
        term.encode("utf-8")


def test_all_marks_of_words_are_known() -> None:
    """Marks beyond the range that is looked through would break words; those left over are variation selectors."""
    later = (chr(code) for code in range(0x20000, sys.maxunicode + 1))
    left = [mark for mark in later if unicodedata.category(mark) in ("Mn", "Mc")]
    assert all("VARIATION SELECTOR" in unicodedata.name(mark) for mark in left)


def test_long_runs_of_combining_marks() -> None:
    """Normalising 200,000 marks in a row takes more than a minute, and 20 in a row are as before."""
    start = time.process_time()
    assert len(list(word_terms("a" + "\u0301\u0316" * 100_000))) == 1
    assert time.process_time() - start < 10
    marks = "\u0316" * 19
    assert list(word_terms(f"e\u0301{marks} x")) == list(word_terms(f"e{marks}\u0301 x"))
