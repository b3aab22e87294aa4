"""Errors of parsers as messages: one place that says which errors a damaged file can cause."""

from __future__ import annotations

import decimal
import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from conal.errors import InputError

__all__ = ["ARROW_ERRORS", "NUMPY_ERRORS", "VALUE_ERRORS", "ZIP_ERRORS", "first_line", "refusing"]

Errors = tuple[type[Exception], ...]

ARROW_ERRORS: Errors = (
    *(pa.ArrowException, UnicodeError, OSError, OverflowError, MemoryError),
    decimal.DecimalException,
)
"""What Arrow raises about a table, and Python about names that are no UTF-8, dates and decimals that do not exist."""
VALUE_ERRORS: Errors = (*ARROW_ERRORS, ValueError)
"""What Arrow and Python raise about values that become Python objects."""
NUMPY_ERRORS: Errors = (
    *(ValueError, TypeError, SyntaxError, tokenize.TokenError, KeyError, IndexError, AttributeError, OverflowError),
    *(RecursionError, MemoryError, OSError, EOFError, struct.error),
)
"""What NumPy raises about a header, which is a Python literal: whatever Python's parser and types do."""
ZIP_ERRORS: Errors = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError),
    *(ValueError, IndexError, OverflowError, MemoryError, RuntimeError, NotImplementedError, TypeError),
)
"""What reading an archive raises: damaged, encrypted, or packed by a method that Python does not have."""


@contextmanager
def refusing(errors: Errors, message: str) -> Iterator[None]:
    """These errors as an :class:`InputError` with this message, in which the last ``{}`` stands for the reason.

    Put nothing but calls of the parser into the block: a defect of conal must not look like a damaged file.
    """
    try:
        yield
    except InputError:
        raise
    except errors as error:
        before, _, after = message.rpartition("{}")
        raise InputError(before + first_line(error) + after) from error


def first_line(error: Exception) -> str:
    """What an error says, in one line; its type where it says nothing."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
