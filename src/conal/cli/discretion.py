"""Reads files without a message that quotes the name of an annotator."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from conal.errors import ConalWarning, people_hidden, warn

if TYPE_CHECKING:
    from conal.cli.files import FitData

__all__ = ["read_discreetly"]

_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def read_discreetly(read: Callable[[], FitData]) -> FitData:
    """The data; warnings come when it is read, with the names of annotators replaced by dots.

    Warnings before an error are left out: until a file is read, nobody knows which of the words in them are names.
    """
    with people_hidden(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = read()
    names = getattr(data.target, "annotator_ids", None)
    quoted = set() if names is None else {form(name) for name in names.tolist() for form in (repr, ascii)}
    for entry in caught:
        if issubclass(entry.category, ConalWarning):
            warn(without(str(entry.message), quoted), entry.category)
    return data


def without(message: str, quoted: set[str]) -> str:
    """A message with dots in place of these quoted words.

    >>> without("worker 'ann' of task 't1'", {"'ann'"})
    "worker '…' of task 't1'"
    """

    def dots(found: re.Match[str]) -> str:
        return "'…'" if found[0] in quoted else found[0]

    return _QUOTED.sub(dots, message)
