"""Constraints on parameters: a test, its description, and values from text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any

from conal.errors import InputError

__all__ = [
    "Constraint",
    "anything",
    "comma_separated",
    "either",
    "flag",
    "is_number",
    "is_whole",
    "json_or_text",
    "maybe_none",
    "number",
    "one_of",
    "only_none",
    "optional",
    "place",
    "several_of",
    "share",
    "whole",
    "widths",
]


# Tests for numbers: NumPy's numbers count, booleans do not.


def is_whole(value: Any) -> bool:
    """Whether it is a whole number.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_number(value: Any) -> bool:
    """Whether it is a finite real number.

    >>> is_number(0.5), is_number(float("nan")), is_number("1")
    (True, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


# Values of parameters from text, as a command line gives them.


def json_or_text(text: str) -> Any:
    """The text parsed as JSON if possible, otherwise the text itself.

    >>> json_or_text("[64, 32]"), json_or_text("balanced")
    ([64, 32], 'balanced')
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def comma_separated(text: str) -> list[str]:
    """Names separated by commas, in order.

    >>> comma_separated("cat, dog")
    ['cat', 'dog']
    """
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InputError(f"{text!r}: a name is empty; separate names by single commas")
    return names


def maybe_none(text: str) -> list[str]:
    """Names separated by commas; none if the text is empty.

    >>> maybe_none("NA,-1"), maybe_none("")
    (['NA', '-1'], [])
    """
    return comma_separated(text) if text.strip() else []


# Constraints on parameters: a test, and its description.


@dataclass(frozen=True)
class Constraint:
    """A test of a value, and a description that completes "must be ...".

    >>> whole(1).meaning, whole(1).holds(0), whole(1).holds(3)
    ('a whole number of at least 1', False, True)
    """

    meaning: str
    holds: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    """The allowed words, if there are only a few."""

    def check(self, name: str, value: Any) -> None:
        """Reject a value that fails the test.

        >>> whole(1).check("n_bins", 0)
        Traceback (most recent call last):
        conal.errors.InputError: n_bins must be a whole number of at least 1, not 0
        """
        if not self.holds(value):
            raise InputError(f"{name} must be {self.meaning}, not {value!r}")


def whole(at_least: int, *, below: int | None = None, shown_below: str = "") -> Constraint:
    """Whole numbers of at least ``at_least``, and below ``below`` if given."""
    if below is None:
        return Constraint(f"a whole number of at least {at_least}", lambda v: is_whole(v) and v >= at_least)
    meaning = f"a whole number from {at_least} to below {shown_below or below}"
    return Constraint(meaning, lambda v: is_whole(v) and at_least <= v < below)


def number(
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Constraint:
    """Finite numbers, within bounds if given.

    >>> number(above=0).meaning, number(at_least=0, below=1).meaning, number(at_least=0, at_most=1).meaning
    ('a finite number above 0', 'a number from 0 to below 1', 'a number from 0 to 1')
    """

    def holds(value: Any) -> bool:
        return (
            is_number(value)
            and (at_least is None or value >= at_least)
            and (above is None or value > above)
            and (below is None or value < below)
            and (at_most is None or value <= at_most)
        )

    if at_least is not None and below is not None:
        return Constraint(f"a number from {at_least:g} to below {below:g}", holds)
    if at_least is not None and at_most is not None:
        return Constraint(f"a number from {at_least:g} to {at_most:g}", holds)
    words = {"of at least": at_least, "above": above, "below": below, "of at most": at_most}
    parts = [f"{word} {bound:g}" for word, bound in words.items() if bound is not None]
    return Constraint(" ".join(["a finite number", " and ".join(parts)]).strip(), holds)


def share() -> Constraint:
    """Numbers between 0 and 1, both excluded."""
    return Constraint("a share above 0 and below 1", lambda v: is_number(v) and 0 < v < 1)


def flag() -> Constraint:
    """True or false."""
    return Constraint("true or false", lambda v: isinstance(v, bool))


def one_of(*values: str) -> Constraint:
    """One of a few words.

    >>> one_of("constant", "cosine").meaning, one_of("a", "b", "c").meaning
    ("'constant' or 'cosine'", "'a', 'b' or 'c'")
    """
    *first, last = (repr(value) for value in values)
    meaning = f"{', '.join(first)} or {last}" if first else last
    return Constraint(meaning, lambda v: isinstance(v, str) and v in values, choices=values)


def several_of(*words: str) -> Constraint:
    """A text of some of these words, each once, separated by commas; an empty text for none.

    >>> several_of("a", "b").holds("b, a"), several_of("a", "b").holds("a,a"), several_of("a", "b").holds("c")
    (True, False, False)
    """

    def holds(value: Any) -> bool:
        found = [word.strip() for word in value.split(",")] if isinstance(value, str) and value.strip() else []
        return isinstance(value, str) and set(found) <= set(words) and len(set(found)) == len(found)

    return Constraint(f"empty, or one or several of {', '.join(words)}, separated by commas", holds)


def optional(constraint: Constraint) -> Constraint:
    """None, or a value that meets the constraint."""
    return either(only_none(), constraint)


def only_none() -> Constraint:
    """None alone."""
    return Constraint("None", lambda v: v is None)


def place() -> Constraint:
    """Paths of files or folders."""
    return Constraint("a path", lambda v: isinstance(v, str | PathLike))


def either(*constraints: Constraint) -> Constraint:
    """A value that meets at least one of the constraints."""
    meaning = " or ".join(constraint.meaning for constraint in constraints)
    choices = constraints[0].choices if len(constraints) == 1 else ()
    return Constraint(meaning, lambda v: any(constraint.holds(v) for constraint in constraints), choices)


def anything(meaning: str = "anything") -> Constraint:
    """No constraint here: the value is checked where it is used."""
    return Constraint(meaning, lambda v: True)


def widths() -> Constraint:
    """Layer sizes."""

    def holds(value: Any) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, str) and all(whole(1).holds(v) for v in value)

    return Constraint("a list of whole numbers of at least 1, such as [64, 32]", holds)
