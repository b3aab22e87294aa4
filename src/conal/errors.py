"""What can go wrong, said so that the reader can mend it.

Every message answers three questions in this order: what is wrong, where, and what to do about it.
The command line turns a :class:`ConalError` into one line on standard error and exit code 2.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

__all__ = [
    "ConalError",
    "ConalWarning",
    "ConvergenceWarning",
    "DataWarning",
    "DivergenceError",
    "EarlyEpochWarning",
    "InputError",
    "ModelFolderError",
    "PriorWarning",
    "TrainingError",
    "VanishedClassWarning",
    "examples",
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
    """Training left the numbers behind: going on from a checkpoint would end the same way."""


class ConalWarning(UserWarning):
    """Base of conal's warnings."""


class ConvergenceWarning(ConalWarning):
    """An iterative method stopped before it had settled; the message says what to try."""


class DataWarning(ConalWarning):
    """Something in the data was dropped or merged; the message counts what."""


class EarlyEpochWarning(ConalWarning):
    """The epoch that scored best is one in which little had been learned about the annotators."""


class PriorWarning(ConalWarning):
    """What the user states about the shares of the classes is far from what the annotations say."""


class VanishedClassWarning(ConalWarning):
    """A class that the crowd votes for is not predicted, or not inferred, any more."""


def examples(values: Iterable[object], limit: int = 3) -> str:
    """Quote a few values and count the rest.

    >>> examples(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    # Identifiers come out of NumPy arrays: show 3, not np.int64(3).
    quoted = [_cut(repr(value.item() if hasattr(value, "item") else value)) for value in values]
    shown = ", ".join(quoted[:limit])
    return shown if len(quoted) <= limit else f"{shown} and {len(quoted) - limit:,} more"


def _cut(text: str, width: int = 80) -> str:
    """A value in a message, which is one line: free text may have been taken for a label."""
    return text if len(text) <= width else f"{text[: width - 1]}…{text[0]}"


def warn(message: str, category: type[ConalWarning]) -> None:
    """Warn at the line of the user's own code that called conal, however deep in it the reason was found."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "conal":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
