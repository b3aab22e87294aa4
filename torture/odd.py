"""Odd names: everything that people, spreadsheets and attackers put where a name is expected."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

__all__ = ["KINDS", "missing_like", "odd_json", "odd_name", "odd_value"]

MISSING_LIKE = ("NA", "nan", "NaN", "null", "NULL", "None", "N/A", "n/a", "#N/A", "<NA>", "-", "nil", "missing", "?")
DROPPED = ("nan", "na", "n/a", "#n/a", "<na>", "null")
KINDS: dict[str, tuple[str, ...]] = {
    "decimals": ("1.1", "1.10", "1.100", "3.0", "3", "3.", ".5", "0.5", "0.50", "-0", "0", "-0.0", "00", "007", "+7"),
    "exponents": (
        "1e5",
        "1E5",
        "1e400",
        "1e-400",
        "100000",
        "1_000",
        "0x10",
        "1,000",
        "1 000",
        "inf",
        "-inf",
        "Infinity",
    ),
    "long digits": (
        "9007199254740993",
        "9007199254740992",
        "12345678901234567890",
        "12345678901234567891",
        "123456789012345678901234567890",
        "0.1234567890123456789",
        "0.12345678901234567891",
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
        "👩‍🔬",
        "\u202eabc",
        "中文",
        "א",
    ),
    "missing-like": MISSING_LIKE,
    "quotes": ('"', "'", '""', 'a"b', "a'b", "a,b", "a;b", "a\tb", "a\nb", "a\r\nb", "a\\b", "a|b", "`", "#a", "//a"),
    "formulas": ("=1+1", "+A1", "-A1", "@SUM(A1)", "=HYPERLINK(x)", "|calc", "%41", "-1", "-2"),
    "truths": ("true", "True", "TRUE", "false", "yes", "no", "t", "f", "0", "1"),
    "dates": (
        "2026-01-01",
        "01/02/2026",
        "12:00",
        "2026-01-01T00:00:00Z",
        "1970-01-01 00:00:00",
        "5-10",
        "MAR1",
        "1-2",
    ),
    "scripts": (
        "<script>alert(1)</script>",
        "</script>",
        "<!--",
        "{{7*7}}",
        "${x}",
        "constructor",
        "__proto__",
        "toString",
    ),
    "controls": ("\x1b[31mred", "\x07", "a\x00b", "\x7f", "\u2028", "\u2029", "\x85", "\x1f"),
    "long": ("x" * 300, "y" * 70_000),
    "surrogates": ("\ud800", "a\udfff", "\udce9"),
    "plain": ("a", "b", "cat", "dog", "worker 1", "t1", "t2", "t10"),
    "numbers": tuple(map(str, range(12))),
}
COMMON = [kind for kind in KINDS if kind not in ("long", "surrogates", "controls")]


def missing_like(name: str) -> bool:
    """Whether a label of this text may be left out, with a warning."""
    return not name.strip() or name.strip().lower() in DROPPED


def odd_name(rng: random.Random) -> str:
    """One name."""
    if rng.random() < 0.04:
        return "".join(
            chr(rng.choice([rng.randrange(32, 127), rng.randrange(160, 0x2FFF)])) for _ in range(rng.randint(0, 6))
        )
    kind = rng.choice(COMMON) if rng.random() < 0.95 else rng.choice(list(KINDS))
    return rng.choice(KINDS[kind])


def odd_json(rng: random.Random) -> Any:
    """A value that JSON has."""
    value = odd_value(rng)
    return value if isinstance(value, str | int | float) else str(value)


def odd_value(rng: random.Random) -> Any:
    """A name as a frame or a JSON document may have it: text, or of another type."""
    which = rng.randrange(10)
    if which < 5:
        return odd_name(rng)
    if which < 7:
        return rng.choice([0, 1, -1, 7, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
    return rng.choice([0.5, 1.0, 1.5, -0.0, 1e300, True, False, dt.date(2026, 1, 1), 0.1 + 0.2])
