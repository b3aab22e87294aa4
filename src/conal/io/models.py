"""Model folders: safetensors and JSON, written atomically, and checked when they are read.

``config.json`` lists the files with a digest of each, and contains a digest of itself, so that a folder that lost a
file or was changed by accident is noticed before it predicts nonsense. Digests prove nothing about who wrote a folder:
what they cover is checked as if anybody might have written it. Nothing is ever unpickled, and no file outside the
folder is ever touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa

from conal._files import atomic_folder, check_folder_place
from conal.errors import ModelFolderError, examples
from conal.io.formulas import warn_of_formulas
from conal.io.json_names import names_from_json, names_to_json
from conal.io.model_files import (
    Tensors,
    TensorShape,
    compact_json,
    digest_of_file,
    digest_of_json,
    load_json,
    load_tensors,
    save_tensors,
    tensor_shapes,
    write_json,
)
from conal.io.tables import fill_table

__all__ = [
    "AGGREGATOR",
    "FORMAT",
    "FORMAT_VERSION",
    "ModelFolder",
    "TensorShape",
    "Verification",
    "check_target",
    "compact_json",
    "names_from_json",
    "names_to_json",
    "page_place",
    "read_document",
    "read_model",
    "verify_model",
    "write_model",
]

FORMAT, AGGREGATOR = "conal-model", "conal-aggregator"
"""What a folder contains: a classifier, or labels and what an aggregator learned from them."""
KINDS = {FORMAT: "a conal model folder", AGGREGATOR: "a folder of conal aggregate --save"}
FORMAT_VERSION = 2
"""Version 1 had digests of the weights and of some documents only."""
WEIGHTS, CONFIG, METRICS = "model.safetensors", "config.json", "metrics.json"
REPORT, PAGE, TASKS, TEXT = "report.json", "report.html", "tasks.json", "text.json"
DATA = "data.safetensors"
"""Labels and features that a model was trained on, where the user wants to update it."""
_NAMED = {WEIGHTS, METRICS, REPORT, TASKS, TEXT, DATA}
_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\.csv")
"""Files of a model folder: a folder from elsewhere must not name any others, inside of itself or outside."""


def write_model(
    folder: str | PathLike[str],
    tensors: Tensors,
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    documents: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    page: str | None = None,
    data: Tensors | None = None,
    format: str = FORMAT,  # noqa: A002 - what config.json calls it
    overwrite: bool = False,
) -> None:
    """Write a model folder under a temporary name, then rename it.

    Parameters
    ----------
    tensors, config : mappings
        The weights and everything needed to rebuild the model around them.
    metrics : mapping
        Figures for ``metrics.json``.
    tables : mapping
        File name to table, such as ``labels.csv``.
    documents : mapping, optional
        File name to JSON object that is too long for ``config.json``, such as a vocabulary or ``report.json``.
    page : str, optional
        The report as HTML.
    data : mapping, optional
        What the model was trained on.
    """
    path = Path(folder)
    _check_names([*tables, *(documents or {})], path)
    check_target(path, format, overwrite=overwrite)
    with atomic_folder(path) as temporary:
        save_tensors(tensors, temporary / WEIGHTS)
        if data is not None:
            save_tensors(data, temporary / DATA)
        write_json(temporary / METRICS, metrics)
        for name, table in tables.items():
            fill_table(table, temporary / name)
        for name, document in (documents or {}).items():
            (temporary / name).write_text(compact_json(document), encoding="utf-8")
        if page is not None:
            (temporary / PAGE).write_text(page, encoding="utf-8")
        files = sorted([WEIGHTS, METRICS, *([] if data is None else [DATA]), *tables, *(documents or {})])
        content = {
            "format": format,
            "format_version": FORMAT_VERSION,
            **config,
            "files": files,
            "digests": {name: digest_of_file(temporary / name) for name in files},
        }
        write_json(temporary / CONFIG, {**content, "config_sha256": digest_of_json(content)})
    warn_of_formulas(tables.values(), path)


def check_target(path: Path, format: str = FORMAT, *, overwrite: bool) -> None:  # noqa: A002
    """Reject an existing path, unless it is a folder of this kind that may be replaced."""
    check_folder_place(path, overwrite=overwrite, kind=KINDS[format], own=partial(_written, format=format))


def _written(path: Path, format: str) -> set[str]:  # noqa: A002
    found = ModelFolder(path)
    found.expect(format)
    return {CONFIG, PAGE, *found.files}


def read_model(folder: str | PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any], dict[str, Any]]:
    """Weights, configuration and metrics of a model folder, after checking that it is complete."""
    found = ModelFolder(folder)
    found.check_complete()
    return found.tensors(), found.config, found.document(METRICS)


def read_document(folder: str | PathLike[str], name: str) -> dict[str, Any]:
    """A JSON document of a model folder, after checking that it is the one that was saved."""
    return ModelFolder(folder).document(name)


def page_place(folder: str | PathLike[str]) -> Path:
    """Where the report is, inside a model folder. A link there could lead anywhere, so it is refused."""
    path = Path(folder) / PAGE
    if path.is_symlink():
        raise ModelFolderError(f"{path}: is a symbolic link, which conal does not follow; delete it")
    return path


class ModelFolder:
    """A model folder whose configuration has been checked. Every other file is checked when it is read."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.path = Path(folder)
        self.config = _read_config(self.path)
        self.files: list[str] = self.config["files"]

    def expect(self, format: str) -> None:  # noqa: A002
        """Reject a folder that contains something else."""
        if self.config["format"] != format:
            raise ModelFolderError(f"{self.path}: is {KINDS[self.config['format']]}, not {KINDS[format]}")

    def check_complete(self) -> None:
        """Reject a folder from which a file is missing."""
        missing = [name for name in self.files if not os.path.lexists(self.path / name)]
        if missing:
            raise ModelFolderError(f"{self.path}: is incomplete, {', '.join(missing)} missing; fit the model again")

    def digest(self, name: str) -> str | None:
        """The digest of a file as it was saved; None where version 1 has none."""
        if self.config["format_version"] > 1:
            return str(self.config["digests"][name])
        found: Mapping[str, Any] = {WEIGHTS: self.config.get("sha256")} | self.config.get("documents_sha256", {})
        return found.get(name)

    def checked(self, name: str) -> Path:
        """The path of a file that is what was saved: present, a file and not a link, and unchanged."""
        if name not in self.files or not os.path.lexists(self.path / name):
            raise ModelFolderError(f"{self.path}: has no {name}; fit the model again with this version of conal")
        path, wanted = self.path / name, self.digest(name)
        found = digest_of_file(path)
        if wanted is not None and found != wanted:
            raise ModelFolderError(f"{path}: has changed since it was saved; fit the model again")
        return path

    def document(self, name: str) -> dict[str, Any]:
        """A JSON document."""
        return load_json(self.checked(name))

    def shapes(self) -> dict[str, TensorShape]:
        """Types and shapes of the weights, from their header: nothing else is read."""
        return tensor_shapes(self.checked(WEIGHTS))

    def tensors(self, name: str = WEIGHTS) -> dict[str, npt.NDArray[Any]]:
        """The weights, or other tensors."""
        return load_tensors(self.checked(name))


class Verification(NamedTuple):
    """How the files of a model folder compare to what was saved."""

    format_version: int
    same: list[str]
    problems: dict[str, str]
    """File to what is wrong with it."""
    unchecked: list[str]
    """Files without a digest, in folders of version 1, and the report, which can be written again at any time."""
    other: list[str]
    """What else is in the folder; nothing reads it."""


def verify_model(folder: str | PathLike[str]) -> Verification:
    """Compare every file of a model folder to its digest."""
    found = ModelFolder(folder)
    same, unchecked = [CONFIG], list[str]()
    problems: dict[str, str] = {}
    for name in found.files:
        try:
            found.checked(name)
        except ModelFolderError as error:
            missing = not os.path.lexists(found.path / name)
            problems[name] = "is missing" if missing else str(error).removeprefix(f"{found.path / name}: ")
        else:
            (same if found.digest(name) is not None else unchecked).append(name)
    there = sorted(entry.name for entry in found.path.iterdir())
    unchecked += [PAGE] if PAGE in there else []
    other = [name for name in there if name not in {*found.files, CONFIG, PAGE}]
    return Verification(found.config["format_version"], same, problems, unchecked, other)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise ModelFolderError(f"{path}: no such model folder")
    if not os.path.lexists(path / CONFIG):
        raise ModelFolderError(f"{path}: is not a model folder, it has no {CONFIG}")
    config = load_json(path / CONFIG)
    if config.get("format") not in tuple(KINDS):  # it may be anything, also what cannot be looked up
        raise ModelFolderError(f"{path / CONFIG}: does not describe a conal model")
    version = config.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ModelFolderError(
            f"{path}: was written by a newer conal (model format {version}, this version reads up to "
            f"{FORMAT_VERSION}); upgrade conal"
        )
    found = config.pop("config_sha256", None)
    if found != digest_of_json(config):
        raise ModelFolderError(f"{path / CONFIG}: has changed since it was saved; fit the model again")
    if type(version) is not int or version < 1:
        raise ModelFolderError(f"{path / CONFIG}: has no usable format_version ({version!r}); fit the model again")
    _check_files(config, path / CONFIG)
    return config


def _check_files(config: Mapping[str, Any], where: Path) -> None:
    files = config.get("files")
    if not isinstance(files, list):
        raise ModelFolderError(f"{where}: does not list the files of the model; fit the model again")
    _check_names(files, where)
    if not {WEIGHTS, METRICS} <= set(files) or len(set(files)) < len(files):
        raise ModelFolderError(f"{where}: lists {examples(files)}, which is no model folder; fit the model again")
    name, digests = ("digests", files) if config["format_version"] > 1 else ("documents_sha256", [])
    found = config.get(name, {})
    bare = sorted(set(digests) - found.keys()) if isinstance(found, dict) else [name]
    if bare:
        raise ModelFolderError(f"{where}: has no digest of {examples(bare)}; fit the model again")


def _check_names(names: Collection[object], where: Path) -> None:
    outside = [name for name in names if not (isinstance(name, str) and (name in _NAMED or _TABLE.fullmatch(name)))]
    if outside:
        raise ModelFolderError(f"{where}: lists {examples(outside)}, which is not a file of a model folder")
