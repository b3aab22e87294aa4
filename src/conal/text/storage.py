"""Text features as tensors and JSON, which are checked when they are read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.errors import ModelFolderError
from conal.text.encoders import EncodedTexts
from conal.text.features import ANALYZERS, STYLE, StyleWeights, TermWeights, TextFeatures

VERSION = 2
"""Grows whenever the same text would get other features. Models with an encoder came with version 2."""
COUNTED = 1
"""The version whose terms have logarithms of counts, without numbers about style."""

Tensors = Mapping[str, npt.NDArray[Any]]


def to_state(features: TextFeatures | EncodedTexts) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Numbers for safetensors, and the rest for JSON."""
    if isinstance(features, EncodedTexts):
        encoder = {"name": features.name, "sha256": features.sha256}
        return {"mean": features.mean_}, {"version": VERSION, "encoder": encoder}
    tensors: dict[str, npt.NDArray[Any]] = {"components": features.components_, "mean": features.mean_}
    tensors |= {f"{kind}.idf": terms.idf for kind, terms in features.terms_.items()}
    parameters = {name: int(value) for name, value in features.get_params().items()}
    vocabulary = {kind: list(terms.vocabulary) for kind, terms in features.terms_.items()}
    if features.style_ is not None:
        tensors |= {"style.mean": features.style_.mean, "style.factor": features.style_.factor}
    version = COUNTED if features.style_ is None else VERSION
    return tensors, {"version": version, "parameters": parameters, "vocabulary": vocabulary}


def from_state(tensors: Tensors, document: Mapping[str, Any], where: str) -> TextFeatures | EncodedTexts:
    """The inverse of :func:`to_state`; inconsistent sizes and types are an error."""
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ModelFolderError(
            f"{where}: text features have version {version!r}, this conal reads {VERSION}; upgrade conal"
        )
    if "encoder" in document:
        return _encoded(tensors, _mapping(document["encoder"], "encoder", where), where)
    parameters, vocabulary = (_mapping(document.get(name), name, where) for name in ("parameters", "vocabulary"))
    made = TextFeatures()
    if set(parameters) != set(made.get_params()) or set(vocabulary) != set(ANALYZERS):
        raise ModelFolderError(f"{where}: the parameters or kinds of terms are unknown; fit again")
    made.set_params(**parameters)
    counted = version <= COUNTED
    made.terms_ = {
        kind: _terms(
            kind, vocabulary[kind], _stored_numbers(tensors, f"{kind}.idf", 1, np.float64, where), counted, where
        )
        for kind in ANALYZERS
    }
    made.style_ = None if counted else _style(tensors, where)
    made.components_ = _stored_numbers(tensors, "components", 2, np.float32, where)
    made.mean_ = _stored_numbers(tensors, "mean", 1, np.float64, where)
    n_terms = sum(len(terms.vocabulary) for terms in made.terms_.values()) + (0 if counted else len(STYLE))
    if made.components_.shape != (len(made.mean_), n_terms):
        raise ModelFolderError(
            f"{where}: components have shape {made.components_.shape}, expected ({len(made.mean_)}, {n_terms}) from "
            "the mean and the vocabulary; fit again"
        )
    return made


def _style(tensors: Tensors, where: str) -> StyleWeights:
    mean, factor = (_stored_numbers(tensors, f"style.{name}", 1, np.float64, where) for name in ("mean", "factor"))
    if len(mean) != len(STYLE) or len(factor) != len(STYLE):
        raise ModelFolderError(f"{where}: style must have {len(STYLE)} numbers; fit again")
    return StyleWeights(mean, factor)


def _encoded(tensors: Tensors, encoder: Mapping[str, Any], where: str) -> EncodedTexts:
    name, sha256 = encoder.get("name"), encoder.get("sha256")
    if not isinstance(name, str) or not isinstance(sha256, str):
        raise ModelFolderError(f"{where}: the encoder must have a name and a digest; fit again")
    return EncodedTexts.detached(name, sha256, _stored_numbers(tensors, "mean", 1, np.float64, where))


def _terms(kind: str, names: Any, idf: npt.NDArray[Any], counted: bool, where: str) -> TermWeights:
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ModelFolderError(f"{where}: the vocabulary of {kind} must be a list of text; fit again")
    if len(set(names)) != len(names) or len(names) != len(idf):
        raise ModelFolderError(
            f"{where}: the vocabulary of {kind} has {len(set(names)):,} different terms in {len(names):,} places for "
            f"{len(idf):,} weights; fit again"
        )
    return TermWeights(ANALYZERS[kind], tuple(names), idf, counted)


def _mapping(value: Any, name: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ModelFolderError(f"{where}: {name} must be a JSON object; fit again")
    return value


def _stored_numbers(tensors: Tensors, name: str, ndim: int, dtype: Any, where: str) -> npt.NDArray[Any]:
    value = tensors.get(name)
    if value is None or value.ndim != ndim or value.dtype != dtype or not np.isfinite(value).all():
        raise ModelFolderError(
            f"{where}: the tensor {name!r} is missing or not {ndim}-dimensional {np.dtype(dtype).name}; fit again"
        )
    return value
