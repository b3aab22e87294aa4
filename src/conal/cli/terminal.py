"""Printing: what users supply, such as names and paths, cannot move the cursor, hide text or add lines."""

from __future__ import annotations

import re

import typer

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, those that change the direction of text, and halves of characters."""

BOTH_WAYS = re.compile(r"\b[a-z_]+=(?:'[^']*'|\w*) \((--[a-z][^()]*)\)")
"""A keyword with its option, such as ``overwrite=True (--overwrite)``."""


def say(text: str, *, err: bool = False) -> None:
    """Print a line or several; all that conal prints goes through here."""
    typer.echo(visible(text), err=err)


def visible(text: str) -> str:
    r"""Text with its control characters spelled out, so that terminals do not obey them; JSON stays the same JSON.

    >>> visible("red \x1b[31m alert")
    'red \\u001b[31m alert'
    """
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: object) -> str:
    """Text without line ends and surplus spaces.

    >>> one_line("a\\n  b")
    'a b'
    """
    return " ".join(str(text).split())


def class_name(name: object) -> str:
    """The name of a class in one line; quoted if blanks around it would hide that it is another class.

    >>> class_name("cat"), class_name("cat "), class_name(3)
    ('cat', "'cat '", '3')
    """
    text = str(name)
    return one_line(text) if text == text.strip() else repr(text)


def with_flags(message: str) -> str:
    """A message of the library, which names both ways to set a parameter, with the way of the command line only.

    >>> with_flags("a.csv: exists already; pass overwrite=True (--overwrite), or pass missing='' (--set missing=)")
    'a.csv: exists already; pass --overwrite, or pass --set missing='
    """
    return BOTH_WAYS.sub(r"\1", message)
