"""An estimator class for every registered method, made from the method's own signature."""

from __future__ import annotations

import inspect
from typing import Any

from conal import methods
from conal.errors import InputError
from conal.estimator.base import CrowdClassifier
from conal.estimator.conal import CoNAL

__all__ = ["estimator_class", "make"]

_CLASSES: dict[str, type[CrowdClassifier]] = {"conal": CoNAL}


def make(name: str, **parameters: Any) -> CrowdClassifier:
    """An estimator for the method called ``name``, by the paper's name for it.

    >>> make("dl-mv", lr=0.005).get_params()["lr"]
    0.005
    """
    cls = estimator_class(name)
    unknown = sorted(set(parameters) - set(cls._get_param_names()))
    if unknown:
        raise InputError(
            f"method {name!r} has no parameter {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(cls._get_param_names())}"
        )
    return cls(**parameters)


def estimator_class(name: str) -> type[CrowdClassifier]:
    """The estimator class of a method; one is made where none was written by hand."""
    method = methods.get(name)
    if name not in _CLASSES:
        _CLASSES[name] = _derive(name, method)
    return _CLASSES[name]


def _derive(name: str, method: type[methods.CrowdMethod]) -> type[CrowdClassifier]:
    own = [p for p in inspect.signature(method.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY]
    shared = inspect.signature(CrowdClassifier.__init__).parameters
    common = [p.replace(default=method.defaults.get(key, p.default)) for key, p in shared.items() if key != "self"]
    signature = inspect.Signature([shared["self"], *own, *common])

    def __init__(self: CrowdClassifier, **parameters: Any) -> None:  # noqa: N807
        bound = signature.bind(self, **parameters)
        bound.apply_defaults()
        for key, value in list(bound.arguments.items())[1:]:
            setattr(self, key, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]  # scikit-learn reads parameters from here
    body = {"method": name, "__init__": __init__, "__doc__": method.__doc__, "__module__": __name__}
    return type(_class_name(method), (CrowdClassifier,), body)


def _class_name(method: type[methods.CrowdMethod]) -> str:
    return method.estimator_name or method.__name__.removesuffix("Method") + "Classifier"


def __getattr__(name: str) -> Any:
    """Let pickle find the derived classes by their names."""
    for key in methods.names() if not name.startswith("_") else []:
        if _class_name(methods.get(key)) == name:
            return estimator_class(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
