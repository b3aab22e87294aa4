"""Model folders: safetensors and JSON, written atomically, and checked when they are read.

``config.json`` lists the files and contains a digest of the weights and of itself, so that a folder that lost a file or
was changed by hand is noticed before it predicts nonsense. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.encoding import Names, as_names
from conal.errors import InputError, ModelFolderError, examples
from conal.io.atomic import atomic_folder, check_folder_place
from conal.io.formulas import warn_of_formulas
from conal.io.tables import write_table

__all__ = [
    "FORMAT_VERSION",
    "check_target",
    "names_from_json",
    "names_to_json",
    "read_document",
    "read_model",
    "write_model",
]

FORMAT = "conal-model"
FORMAT_VERSION = 1
WEIGHTS, CONFIG, METRICS = "model.safetensors", "config.json", "metrics.json"
REPORT, PAGE = "report.json", "report.html"
_BARE = re.compile(r"[A-Za-z0-9][\w-]*\.(csv|json|safetensors)")
"""Files of a model folder: a folder from elsewhere must not name files outside of itself."""
Tensors = Mapping[str, npt.NDArray[Any]]


def write_model(
    folder: str | PathLike[str],
    tensors: Tensors,
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    documents: Mapping[str, Mapping[str, Any]] | None = None,
    *,
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
    """
    from safetensors.numpy import save_file

    path = Path(folder)
    check_target(path, overwrite=overwrite)
    with atomic_folder(path) as temporary:
        save_file({name: np.asarray(array, order="C") for name, array in tensors.items()}, temporary / WEIGHTS)
        _write_json(temporary / METRICS, metrics)
        for name, table in tables.items():
            write_table(table, temporary / name, tell=False)
        digests = {}
        for name, document in (documents or {}).items():
            _write_compact_json(temporary / name, document)
            digests[name] = _digest((temporary / name).read_bytes())
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **config,
            "files": sorted([WEIGHTS, METRICS, *tables, *digests]),
            "sha256": _digest((temporary / WEIGHTS).read_bytes()),
            **({"documents_sha256": digests} if digests else {}),
        }
        _write_json(temporary / CONFIG, {**content, "config_sha256": _digest(_canonical(content))})
    warn_of_formulas(tables.values(), path)


def read_model(folder: str | PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any], dict[str, Any]]:
    """Weights, configuration and metrics of a model folder, after checking that it is complete."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = Path(folder)
    config = _read_config(path)
    missing = [name for name in config["files"] if not (path / name).is_file()]
    if missing:
        raise ModelFolderError(f"{path}: is incomplete, {', '.join(missing)} missing; fit the model again")
    weights = (path / WEIGHTS).read_bytes()
    if _digest(weights) != config["sha256"]:
        raise ModelFolderError(f"{path / WEIGHTS}: has changed since it was saved; fit the model again")
    try:
        tensors = load(weights)
    except SafetensorError as error:
        raise ModelFolderError(f"{path / WEIGHTS}: cannot be read ({error}); fit the model again") from error
    return tensors, config, _load_json(path / METRICS)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Reject an existing path, unless it is a model folder that may be replaced."""
    check_folder_place(path, overwrite=overwrite, kind="a conal model folder", own=_written)


def _written(path: Path) -> set[str]:
    return {CONFIG, PAGE, *_read_config(path)["files"]}


def read_document(folder: str | PathLike[str], name: str) -> dict[str, Any]:
    """A JSON document of a model folder, after checking that it is the one that was saved."""
    path = Path(folder)
    config = _read_config(path)
    if name not in config["files"] or not (path / name).is_file():
        raise ModelFolderError(f"{path}: has no {name}; fit the model again with this version of conal")
    if _digest((path / name).read_bytes()) != config["documents_sha256"][name]:
        raise ModelFolderError(f"{path / name}: has changed since it was saved; fit the model again")
    return _load_json(path / name)


def names_to_json(names: Names) -> list[Any]:
    """Names as JSON values; dates and tuples are marked so that they can be restored."""
    return [_to_json(name) for name in names.tolist()]


def names_from_json(values: list[Any]) -> Names:
    """The inverse of :func:`names_to_json`."""
    return as_names([_from_json(value) for value in values])


def _to_json(name: Any) -> Any:
    if isinstance(name, str | bool | int | float):
        return name
    if isinstance(name, tuple):
        return {"tuple": [_to_json(part) for part in name]}
    if isinstance(name, date):  # and datetime, which is one
        return {"datetime" if isinstance(name, datetime) else "date": name.isoformat()}
    raise InputError(f"names of type {type(name).__name__}, such as {name!r}, cannot be saved; use text or numbers")


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_from_json(part) for part in content)
    return {"date": date, "datetime": datetime}[kind].fromisoformat(content)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise ModelFolderError(f"{path}: no such model folder")
    if not (path / CONFIG).is_file():
        raise ModelFolderError(f"{path}: is not a model folder, it has no {CONFIG}")
    config = _load_json(path / CONFIG)
    if config.get("format") != FORMAT:
        raise ModelFolderError(f"{path / CONFIG}: does not describe a conal model")
    version = config.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ModelFolderError(
            f"{path}: was written by a newer conal (model format {version}, this version reads up to "
            f"{FORMAT_VERSION}); upgrade conal"
        )
    digest = config.pop("config_sha256", None)
    if digest != _digest(_canonical(config)):
        raise ModelFolderError(f"{path / CONFIG}: has changed since it was saved; fit the model again")
    outside = [name for name in config.get("files", ()) if not (isinstance(name, str) and _BARE.fullmatch(name))]
    if outside or not isinstance(config.get("files"), list):
        raise ModelFolderError(f"{path / CONFIG}: lists {examples(outside)}, which is not a file of a model folder")
    return config


def _load_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelFolderError(f"{path}: cannot be read ({error}); fit the model again") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path}: does not contain a JSON object; fit the model again")
    return content


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, default=_to_json) + "\n", encoding="utf-8")


def _write_compact_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_to_json)
    path.write_text(text + "\n", encoding="utf-8")


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
