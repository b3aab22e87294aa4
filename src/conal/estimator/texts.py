"""Convert texts to features before training and prediction; methods and networks see only numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal._progress import make_progress
from conal.errors import DataWarning, InputError, warn
from conal.io import FeatureTable
from conal.io.texts import TextTable, is_text, texts_from
from conal.parameters.training import ClassifierParameters
from conal.report.evidence import plain_names
from conal.text import EncodedTexts, TextFeatures
from conal.text.features import STEPS

__all__ = ["Learned", "as_numbers", "further_as_numbers", "learn_texts"]

TOO_MANY = 0.5
"""Share of texts without a known term above which they are hardly of the kind that was trained on."""


class Learned(NamedTuple):
    """Features to train on; for texts, also the fitted text features and the texts by task name."""

    X: Any
    features: TextFeatures | EncodedTexts | None = None
    texts: Mapping[Any, str] | None = None


def learn_texts(X: Any, task_ids: Any, parameters: ClassifierParameters) -> Learned:
    """Features of the texts X, by directions that are learned from them or by an encoder; other X as they are."""
    if not is_text(X):
        if parameters.encoder is not None:
            raise InputError("encoder: the instances are features, not texts; leave it out")
        return Learned(X)
    features = _untrained(parameters)
    table = texts_from(X, task_ids=task_ids)
    _warn_of_empty(table)
    names = range(len(table)) if table.ids is None else plain_names(table.ids)
    with make_progress("texts", parameters.verbose, total=STEPS) as progress:
        numbers = _feature_table(features.fit_transform(table.texts, progress=progress), table)
    return Learned(numbers, features, dict(zip(names, table.texts, strict=True)))


def _untrained(parameters: ClassifierParameters) -> TextFeatures | EncodedTexts:
    if parameters.encoder is not None:
        return EncodedTexts(parameters.encoder)
    return TextFeatures(parameters.text_components, seed=int(parameters.seed))


def as_numbers(fitted: TextFeatures | EncodedTexts | None, X: Any, where: str = "texts") -> Any:
    """Features of the texts X, for a model with these text features; X itself for other models."""
    if fitted is None:
        if is_text(X):
            raise InputError(f"{where}: the model was trained on features, not on texts; pass it the same features")
        return X
    if isinstance(X, FeatureTable):  # already converted
        return X
    if not is_text(X):
        raise InputError(f"{where}: the model was trained on texts; pass it a list of texts, or a frame with a column")
    table = texts_from(X, where=where)
    _warn_of_empty(table)
    features = fitted.transform(table.texts)
    _warn_of_unknown(features, table)
    return _feature_table(features, table)


def further_as_numbers(
    fitted: TextFeatures | EncodedTexts | None,
    validation: tuple[Any, Any] | None,
    monitor: Mapping[str, tuple[Any, Any]],
) -> tuple[tuple[Any, Any] | None, dict[str, tuple[Any, Any]]]:
    """The same for validation sets and other data; nothing is learned from their texts."""

    def converted(name: str, pair: tuple[Any, Any]) -> tuple[Any, Any]:
        return as_numbers(fitted, pair[0], f"{name} texts"), pair[1]

    others = {name: converted(name, pair) for name, pair in monitor.items()}
    return None if validation is None else converted("validation", validation), others


def _feature_table(features: npt.NDArray[np.float32], table: TextTable) -> FeatureTable:
    return FeatureTable(features, table.ids, where=table.where, checked=True)


def _is_empty(texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    return np.array([not text.strip() for text in texts])


def _warn_of_empty(table: TextTable) -> None:
    count = int(_is_empty(table.texts).sum())
    if count:
        warn(f"{table.where}: {count:,} of {len(table):,} texts are empty; they carry no information", DataWarning)


def _warn_of_unknown(features: npt.NDArray[np.float32], table: TextTable) -> None:
    unknown = ~features.any(1) & ~_is_empty(table.texts)
    if unknown.mean() > TOO_MANY:
        warn(
            f"{table.where}: {int(unknown.sum()):,} of {len(table):,} texts contain no known term, such as "
            f"{table.texts[int(unknown.argmax())][:40]!r}; are they in the language of the training texts?",
            DataWarning,
        )
