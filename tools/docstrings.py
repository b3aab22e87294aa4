"""Docstrings as the site shows them: formulas as MathML, which browsers draw without a script, and names as code."""

from __future__ import annotations

import pydoc
import re
import textwrap
from typing import Any

import griffe
from latex2mathml.converter import convert

from conal.parameters import parameters_of

__all__ = ["Readable", "readable"]

ROLE = re.compile(r":(?:class|data|func|meth|mod|attr):`[~.]?([^`]+)`")
MATH = re.compile(r":math:`([^`]+)`")
DISPLAY = re.compile(
    r"^(?P<indent>[ ]*)\.\. math::[ ]*(?P<first>.*)\n(?P<rest>(?:(?:(?P=indent)[ ]+.*|[ ]*)\n)*)", re.M
)


GROUP = re.compile(r"^(?P<names>\w+(?:, \w+)+)(?P<kind> : .*\n(?:[ ]+.*\n|[ ]*\n(?=[ ]+\S))*)", re.M)


class Readable(griffe.Extension):
    """Rewrite every docstring once, when its object is read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute."""
        made = _declared(obj)
        if made is not None:
            obj.docstring = griffe.Docstring(made, parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)


def _declared(obj: Any) -> str | None:
    """The docstring of a class that declares its parameters, which are documented when it is made."""
    found = pydoc.locate(obj.path) if obj.is_class else None
    return found.__doc__ if parameters_of(found) else None


def readable(text: str) -> str:
    r"""Markdown of a docstring.

    >>> readable("Uses :func:`conal.make`; see :class:`~conal.Annotations`.")
    'Uses `conal.make`; see `conal.Annotations`.'
    """
    text = DISPLAY.sub(_display, text + "\n")
    text = GROUP.sub(_one_by_one, text).rstrip("\n")
    text = MATH.sub(lambda found: _mathml(found[1]), text)
    return ROLE.sub(r"`\1`", text)


def _display(found: re.Match[str]) -> str:
    body = " ".join(f"{found['first']}\n{textwrap.dedent(found['rest'])}".split())
    return f"\n{found['indent']}{_mathml(body, 'block')}\n\n"


def _one_by_one(found: re.Match[str]) -> str:
    """Parameters that share a description, each with it: defaults would all be shown as the first one's."""
    return "".join(name + found["kind"] for name in found["names"].split(", "))


def _mathml(latex: str, display: str = "inline") -> str:
    return str(convert(latex, display=display))
