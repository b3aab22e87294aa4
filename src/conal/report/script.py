"""Data for the page's scripts."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

__all__ = ["to_script"]

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def to_script(data: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it can end the element or begin another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 - every character that HTML knows is escaped
