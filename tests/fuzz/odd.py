"""Odd names and values: what people, spreadsheets and attackers put where a name is expected."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

__all__ = ["JUNK", "KINDS", "missing_like", "odd_name", "odd_value"]

KINDS: dict[str, tuple[str, ...]] = {
    "decimals": ("1.1", "1.10", "1.100", "3.0", "3", "3.", ".5", "0.5", "0.50", "-0", "0", "-0.0", "00", "007", "+7"),
    "exponents": ("1e5", "1E5", "1e400", "100000", "1_000", "0x10", "1,000", "1 000", "inf", "-inf", "Infinity"),
    "long digits": (
        *("9007199254740993", "9007199254740992", "12345678901234567890", "12345678901234567891"),
        *("123456789012345678901234567890", "0.1234567890123456789", "0.12345678901234567891"),
    ),
    "blanks": (" a", "a ", "a", "a\u00a0", "\ta", "a\u200b", "A", "a  b", "a b", "\u3000a", "\ufeffa"),
    "unicode": (
        "é",
        "e\u0301",
        "ß",
        "ss",
        "\u017f",
        "İ",
        "\u0131",
        "Å",
        "A\u030a",
        "ﬁ",
        "fi",
        "😀",
        "\u202eabc",
        "中文",
        "א",
    ),
    "missing-like": ("NA", "nan", "NaN", "null", "None", "N/A", "#N/A", "<NA>", "-", "nil", "missing", "?", "#REF!"),
    "quotes": ('"', "'", '""', 'a"b', "a'b", '"a', 'a"', "a,b", "a;b", "a\tb", "a\nb", "a\r\nb", "a\\b", "`", "#a"),
    "formulas": ("=1+1", "+A1", "-A1", "@SUM(A1)", "=HYPERLINK(x)", "%41", "-1", "-2"),
    "truths": ("true", "True", "TRUE", "false", "yes", "no", "t", "f", "0", "1"),
    "dates": ("2026-01-01", "01/02/2026", "12:00", "2026-01-01T00:00:00Z", "1970-01-01 00:00:00", "5-10", "MAR1"),
    "scripts": ("<script>alert(1)</script>", "</script>", "<!--", "{{7*7}}", "${x}", "__proto__", "toString"),
    "controls": ("\x1b[31mred", "\x07", "a\x00b", "\x7f", "\u2028", "\x85", "\x1f"),
    "long": ("x" * 300, "y" * 70_000),
    "surrogates": ("\ud800", "a\udfff", "\udce9"),
    "plain": ("a", "b", "cat", "dog", "worker 1", "t1", "t2", "t10"),
    "numbers": tuple(map(str, range(12))),
}
USUAL = [kind for kind in KINDS if kind not in ("long", "surrogates", "controls")]
DROPPED = ("nan", "na", "n/a", "#n/a", "<na>", "null", "#ref!")
JUNK: list[Any] = [
    *(None, "", "x", 0, -1, 7, 2**31, 2**53 + 1, 2**63, 10**30, 10**400, 0.5, 1e308, float("nan"), float("inf"), True),
    *([], {}, [[]], [{}], {"a": 1}, ["x", "y"], [0] * 300, {"": {"": {"": []}}}),
    *("\ud800", "\x00", "../secret", "/etc/passwd", "x" * 5000),
]


def missing_like(name: str) -> bool:
    """Whether a label of this text may be left out, with a warning."""
    return not name.strip() or name.strip().lower() in DROPPED


def odd_name(rng: random.Random, kind: str | None = None) -> str:
    """One name, of any kind unless it is given."""
    if kind is None:
        kind = rng.choice(USUAL) if rng.random() < 0.95 else rng.choice(list(KINDS))
    return rng.choice(KINDS[kind])


def odd_value(rng: random.Random) -> Any:
    """A name as a frame may have it: text, or of another type."""
    if rng.random() < 0.5:
        return odd_name(rng)
    numbers: list[Any] = [0, 1, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, 1.0, -0.0, 1e300, 0.1 + 0.2]
    return rng.choice([*numbers, True, False, dt.date(2026, 1, 1)])
