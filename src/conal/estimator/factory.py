"""An estimator class for every registered method, made from the method's parameters."""

from __future__ import annotations

import difflib
from typing import Any

from conal import methods
from conal.errors import InputError
from conal.estimator.classifier import CrowdClassifier

_CLASSES: dict[str, type[CrowdClassifier]] = {}


def make(name: str, **parameters: Any) -> CrowdClassifier:
    """An estimator for the method called ``name``, by the paper's name for it.

    >>> make("dl-mv", lr=0.005).get_params()["lr"]
    0.005
    """
    cls = estimator_class(name)
    unknown = sorted(set(parameters) - set(cls.declared))
    if unknown:
        close = difflib.get_close_matches(unknown[0], cls.declared, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(
            f"method {name!r} has no parameter {', '.join(map(repr, unknown))}; {hint}it has {_parameter_names(cls)}; "
            "docs/api/classifiers.md says what they mean"
        )
    return cls(**parameters)


def estimator_class(name: str) -> type[CrowdClassifier]:
    """The estimator class of a method: its parameters, then those of every classifier, with the method's defaults."""
    method = methods.get(name)
    if name not in _CLASSES:
        lacks = [key for key, p in CrowdClassifier.declared.items() if p.for_losses and key not in method.uses]
        body = {"method": name, "lacks": lacks, "__doc__": method.story, "__module__": __name__, "__annotations__": {}}
        _CLASSES[name] = type(
            _class_name(method), (CrowdClassifier,), body | dict(method.defaults) | dict(method.declared)
        )
    return _CLASSES[name]


def _parameter_names(cls: type[CrowdClassifier]) -> str:
    """The method's own parameters first, then those of every method."""
    own = sorted(methods.get(cls.method).declared)
    common = ", ".join(sorted(set(cls.declared) - set(own)))
    return f"{', '.join(own)}; and, as every method, {common}" if own else common


def _class_name(method: type[methods.CrowdMethod]) -> str:
    return method.estimator_name or method.__name__.removesuffix("Method") + "Classifier"


def __getattr__(name: str) -> Any:
    """Let pickle find the classes by their names."""
    for key in methods.names() if not name.startswith("_") else []:
        if _class_name(methods.get(key)) == name:
            return estimator_class(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
