"""conal: train classifiers directly from crowd labels.

The public names are below; torch is imported only when one of them needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0.dev0"

__all__ = [
    "Annotations",
    "CoNAL",
    "CrossCoNAL",
    "Preferences",
    "TextFeatures",
    "aggregation",
    "datasets",
    "load",
    "make",
    "methods",
    "metrics",
    "theory",
]

if TYPE_CHECKING:
    from conal import aggregation, datasets, methods, metrics, theory
    from conal.data.annotations import Annotations
    from conal.data.preferences import Preferences
    from conal.estimator import CoNAL, CrossCoNAL, load, make
    from conal.text import TextFeatures

_HOMES = {
    "Annotations": "conal.data.annotations",
    "CoNAL": "conal.estimator",
    "CrossCoNAL": "conal.estimator",
    "Preferences": "conal.data.preferences",
    "TextFeatures": "conal.text",
    "load": "conal.estimator",
    "make": "conal.estimator",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'conal' has no attribute {name!r}")
    try:
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        return importlib.import_module(f"conal.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "conal":
            raise
        from conal.errors import missing_package

        raise ModuleNotFoundError(missing_package(error.name, f"conal.{name}"), name=error.name) from error


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
