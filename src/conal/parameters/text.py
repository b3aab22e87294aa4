"""Values of parameters from text, as a command line gives them."""

from __future__ import annotations

import json
from typing import Any

from conal.errors import InputError

__all__ = ["comma_separated", "json_or_text", "maybe_none"]


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
