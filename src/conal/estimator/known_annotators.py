"""What is known about annotators, in a model folder: stored, checked and restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names
from conal.errors import examples

__all__ = ["from_config", "to_config"]

KEY = "annotator_info"


def to_config(info: AnnotatorInfo | None) -> dict[str, Any]:
    """Groups, costs, limits and features as JSON values, in the order of the annotators; empty if none is known."""
    if info is None:
        return {}
    found: dict[str, Any] = {}
    if info.groups is not None:
        found["groups"] = list(info.groups)
    if info.costs is not None:
        found["costs"] = info.costs.tolist()
    if info.limits is not None:  # JSON has no infinity
        found["limits"] = [None if np.isinf(limit) else limit for limit in info.limits.tolist()]
    if info.features is not None:
        found |= {"features": info.features.tolist(), "feature_names": list(info.feature_names)}
    return {KEY: found} if found else {}


def from_config(config: Mapping[str, Any], annotators: Names) -> AnnotatorInfo | None:
    """The same, checked: a folder may come from anybody."""
    if KEY not in config:
        return None
    found = config[KEY]
    if not isinstance(found, dict):
        raise TypeError(f"{KEY} must be an object, not {examples([found])}")
    R = len(annotators)
    groups = found.get("groups")
    if groups is not None and not (_is_list(groups, R) and all(isinstance(name, str) for name in groups)):
        raise TypeError(f"{KEY}.groups must be {R:,} names")
    names = found.get("feature_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{KEY}.feature_names must be names")
    features = _numbers(found, "features", (R, len(names)))
    costs, limits = _at_least_0(found, "costs", R), _limits(found, R)
    about = None if groups is None else tuple(groups)
    return AnnotatorInfo(annotators, about, costs, features, tuple(names), limits)


def _at_least_0(found: Mapping[str, Any], name: str, length: int) -> Any:
    values = _numbers(found, name, (length,))
    if values is not None and (values < 0).any():
        raise TypeError(f"{KEY}.{name} must be at least 0")
    return values


def _limits(found: Mapping[str, Any], length: int) -> Any:
    """Numbers of labels, infinite where nothing is said."""
    given = found.get("limits")
    if given is None:
        return None
    if not _is_list(given, length):
        raise TypeError(f"{KEY}.limits must be {length:,} numbers, or null for no limit")
    stated = np.array([limit is not None for limit in given])
    values = _at_least_0({"limits": [0 if limit is None else limit for limit in given]}, "limits", length)
    return np.where(stated, values, np.inf)


def _is_list(values: Any, length: int) -> bool:
    return isinstance(values, list) and len(values) == length


def _numbers(found: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Any:
    """Finite numbers of this shape; None if there are none."""
    if found.get(name) is None:
        return None
    values = np.asarray(found[name], dtype=np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise TypeError(f"{KEY}.{name} must be finite numbers of shape {shape}, one row for each annotator")
    return values
