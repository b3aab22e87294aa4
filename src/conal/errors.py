"""Errors and warnings, with messages that say how to fix the problem.

Every message answers three questions in this order: what is wrong, where, and what to do about it.
The command line turns a :class:`ConalError` into one line on standard error and exit code 2.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "CollapseWarning",
    "ConalError",
    "ConalWarning",
    "ContradictionWarning",
    "ConvergenceWarning",
    "DataWarning",
    "DivergenceError",
    "EarlyEpochWarning",
    "FeatureWarning",
    "InputError",
    "ModelFolderError",
    "NetworkWarning",
    "PriorWarning",
    "PrivacyWarning",
    "TrainingError",
    "VanishedClassWarning",
    "examples",
    "missing_package",
    "people",
    "people_hidden",
    "person",
    "warn",
]


class ConalError(Exception):
    """Base of every error that conal raises on purpose."""


class InputError(ConalError, ValueError):
    """Data, a file or an argument that the user supplied cannot be used."""


class ModelFolderError(InputError):
    """A model folder is incomplete, was changed, or comes from a newer version."""


class TrainingError(ConalError):
    """Training failed although the input was usable, for example because the loss is no longer a number."""


class DivergenceError(TrainingError):
    """The loss or a score is no longer a number; continuing from a checkpoint would end the same way."""


class ConalWarning(UserWarning):
    """Base of conal's warnings."""


class ContradictionWarning(ConalWarning):
    """The inferred labels contradict both the votes and Dawid-Skene widely."""


class ConvergenceWarning(ConalWarning):
    """An iterative method stopped before it converged; the message says what to try."""


class DataWarning(ConalWarning):
    """Something in the data was dropped or merged; the message says what, and how many."""


class EarlyEpochWarning(ConalWarning):
    """The selected epoch is so early that little was learned about the annotators."""


class FeatureWarning(ConalWarning):
    """Some features are so far from the others that they do not count; the message says where they are."""


class NetworkWarning(ConalWarning):
    """A user's network gives something else than class logits."""


class PriorWarning(ConalWarning):
    """The class prior of the user is far from the vote shares."""


class PrivacyWarning(ConalWarning):
    """Names of annotators are still in what is to be anonymous; the message says where, without the names."""


class VanishedClassWarning(ConalWarning):
    """A class that the crowd votes for is no longer predicted or inferred."""


class CollapseWarning(VanishedClassWarning):
    """Inferred labels no longer have to do with the votes: a class is lost, exchanged with another, or grown."""


def examples(values: Iterable[object], limit: int = 3) -> str:
    """Quote a few values and count the rest.

    >>> examples(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    # Identifiers come out of NumPy arrays: show 3, not np.int64(3).
    quoted = [_cut(repr(value.item() if hasattr(value, "item") else value)) for value in values]
    shown = ", ".join(quoted[:limit])
    return shown if len(quoted) <= limit else f"{shown} and {len(quoted) - limit:,} more"


HIDDEN_NAME = "(a hidden name)"
_HIDDEN: ContextVar[bool] = ContextVar("names of annotators are hidden", default=False)


@contextmanager
def people_hidden(hidden: bool = True) -> Iterator[None]:
    """While this lasts, messages do not quote the names of annotators (:func:`people`)."""
    before = _HIDDEN.set(hidden)
    try:
        yield
    finally:
        _HIDDEN.reset(before)


def people(values: Iterable[object], limit: int = 3) -> str:
    """As :func:`examples`, for names of annotators, which may have to be hidden.

    >>> with people_hidden():
    ...     people(["ann"])
    '(a hidden name)'
    """
    return HIDDEN_NAME if _HIDDEN.get() else examples(values, limit)


def person(name: object) -> str:
    """As :func:`people`, for one name without quotes."""
    return HIDDEN_NAME if _HIDDEN.get() else str(name)


def _cut(text: str, width: int = 80) -> str:
    """Shorten a value to fit into a message: free text may have been read as a label."""
    return text if len(text) <= width else f"{text[: width - 1]}…{text[0]}"


def warn(message: str, category: type[ConalWarning]) -> None:
    """Warn at the line of the user's code that called conal, at any depth of the call stack."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "conal":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


# Packages that only a part of conal needs, and the extra that installs each.

EXTRAS = {
    "PIL": "images",
    "lightning_fabric": "train",
    "numba": "fast",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
    "opendp": "privacy",
    "openpyxl": "xlsx",
    "sklearn": "train",
    "torch": "train",
    "vl_convert": "svg",
}


def missing_package(name: str, what: str = "this") -> str:
    """One sentence: what needs a package that is not installed, and the command that installs it.

    >>> missing_package("torch", "conal.CoNAL")
    "conal.CoNAL needs torch, which is not installed; run: pip install 'conal[train]'"
    """
    package = name.partition(".")[0]
    source = f"'conal[{EXTRAS[package]}]'" if package in EXTRAS else "conal"
    return f"{what} needs {package}, which is not installed; run: pip install {source}"
