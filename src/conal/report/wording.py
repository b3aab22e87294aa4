"""Numbers and names as readers see them, in the sentences of findings and on the page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

MAX_NAME = 60
NONE = "\u2013"
"""Shown if there is no number: a dash."""
LARGEST = 1e9
"""Larger shares, infinite ones and NaN are shown as none: a damaged report may contain them."""
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\x00-\x08\x0e-\x1f\x7f]")
"""Characters that change the direction of text: a name with one could change how the text around it reads."""


def short(name: object, limit: int = MAX_NAME) -> str:
    """A name that fits on a line and cannot affect the text around it; a long one keeps its beginning and end.

    Words stay whole, unless they are long.

    >>> short("x" * 30 + "middle" + "y" * 30, limit=11)
    'xxxxx…yyyyy'
    >>> short("neither agree nor disagree with it", limit=30)
    'neither agree…with it'
    """
    text = " ".join(_DIRECTIONS.sub("", str(name)).split()) or "(empty)"
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return f"{_beginning(text, half)}…{_beginning(text[::-1], half)[::-1]}"


def _beginning(text: str, limit: int) -> str:
    """As many whole words as fit, if these are half of it or more."""
    words = text[: limit + 1].rpartition(" ")[0].rstrip()
    return words if 2 * len(words) >= limit else text[:limit]


def listed(items: Sequence[Any], limit: int) -> str:
    """Items in a row, as many whole ones as fit, and the number of the others.

    >>> listed(["one", "two", "three"], 8), listed(["one", "two"], 8)
    ('one, two and 1 more', 'one, two')
    """
    shown = [short(item, limit) for item in items]
    ends = accumulate(len(text) + 2 for text in shown)
    return first_of(shown, max(1, sum(end - 2 <= limit for end in ends)))


def first_of(items: Sequence[str], most: int) -> str:
    """The first items in a row, and the number of the others.

    >>> first_of(["one", "two", "three"], 1)
    'one and 2 more'
    """
    rest = f" and {count(len(items) - most)} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest


def short_names(names: list[Any], limit: int = MAX_NAME) -> list[str]:
    """Names cut to a line each, numbered if they would look the same.

    >>> short_names(["a" * 90 + "1" + "b" * 90, "a" * 90 + "2" + "b" * 90, 1, "1"], limit=5)
    ['aa…bb', 'aa…bb (2)', '1', '1 (2)']
    """
    seen: dict[str, int] = {}
    shown = []
    for name in names:
        text = short(name, limit)
        seen[text] = seen.get(text, 0) + 1
        shown.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return shown


def called(row: Mapping[str, Any]) -> Any:
    """What readers call an annotator: the name if it is known, and otherwise the id.

    >>> called({"worker": 7, "name": "Ann"}), called({"worker": 7})
    ('Ann', 7)
    """
    return row.get("name") or row["worker"]


def percent(share: float | None, digits: int = 0) -> str:
    """A share in percent, or a dash for none. Less than all is never shown as 100, nor more than nothing as 0.

    >>> percent(0.256), percent(0.9999), percent(1.0), percent(0.0001), percent(None)
    ('26\\xa0%', '>99\\xa0%', '100\\xa0%', '<1\\xa0%', '–')
    """
    if not isinstance(share, int | float) or not abs(share) <= LARGEST:
        return NONE  # also for what a damaged report, or a finding of somebody else, calls a share
    text = f"{100 * share:.{digits}f}"
    least = 10.0**-digits
    if share < 1 and float(text) >= 100:
        text = f">{100 - least:.{digits}f}"
    elif share > 0 and float(text) == 0:
        text = f"<{least:.{digits}f}"
    return f"{text}\u00a0%"


def interval(low: float | None, high: float | None, digits: int = 0) -> str:
    """Both ends in percent, rounded outwards, so that the shown interval contains the exact one.

    >>> interval(0.251, 0.371), interval(0.251, 0.3712, 1)
    ('25 to 38\\xa0%', '25.1 to 37.2\\xa0%')
    """
    if low is None or high is None or not all(abs(end) <= LARGEST for end in (low, high)):
        return NONE
    scale = 10**digits
    ends = math.floor(round(100 * scale * low, 6)) / scale, math.ceil(round(100 * scale * high, 6)) / scale
    return f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}\u00a0%"


def points(low: float, high: float) -> str:
    """Both ends of a difference in points, rounded outwards.

    >>> points(-0.071, 0.15)
    '\u22128 to +15'
    """
    ends = math.floor(round(100 * low, 6)), math.ceil(round(100 * high, 6))
    return " to ".join(f"{end:+d}".replace("-", "\u2212") for end in ends)


def count(number: int | None, one: str = "", many: str = "") -> str:
    """A number with separators, and the word that goes with it.

    >>> count(1, "task", "tasks"), count(12000, "task", "tasks"), count(3)
    ('1 task', '12,000 tasks', '3')
    """
    if number is None:
        return NONE
    word = one if number == 1 else many
    return f"{number:,} {word}" if word else f"{number:,}"
