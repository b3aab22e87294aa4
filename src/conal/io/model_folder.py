"""Model folders: tables, safetensors and JSON, written atomically, and checked when they are read."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from datetime import date, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from conal._arrays import FloatArray, IntArray
from conal._files import atomic_folder, check_folder_place, real_path
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names, as_names, name_column, numbers_or_text, text_column
from conal.data.scales import score_columns
from conal.errors import InputError, ModelFolderError, examples
from conal.io.limits import ARROW_ERRORS, first_line
from conal.io.tables import fill_table, open_delimited, with_long_rows

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator

# Names of tasks, annotators and classes as JSON values, and back.


def names_to_json(names: Names) -> list[Any]:
    """Names as JSON values; dates and tuples are marked so that they can be restored."""
    return [name_to_json(name) for name in names.tolist()]


def names_from_json(values: list[Any]) -> Names:
    """The inverse of :func:`names_to_json`."""
    return as_names([_from_json(value) for value in values])


def name_to_json(name: Any) -> Any:
    """A name as a JSON value; what cannot be restored is refused."""
    if isinstance(name, str | bool | int | float):
        return name
    if isinstance(name, tuple):
        return {"tuple": [name_to_json(part) for part in name]}
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


# What is known about annotators as JSON values, and back.

ANNOTATOR_INFO = "annotator_info"


def annotator_info_to_json(info: AnnotatorInfo | None) -> dict[str, Any]:
    """An entry of ``config.json`` in the order of the annotators; empty if nothing is known."""
    if info is None:
        return {}
    found: dict[str, Any] = {"groups": info.groups, "feature_names": info.feature_names}
    for name, values in (("costs", info.costs), ("limits", info.limits), ("features", info.features)):
        found[name] = None if values is None else values.tolist()
    if info.limits is not None:  # JSON has no infinity
        found["limits"] = [None if np.isinf(limit) else limit for limit in info.limits.tolist()]
    return {ANNOTATOR_INFO: found}


def annotator_info_from_json(config: Mapping[str, Any], annotators: Names) -> AnnotatorInfo | None:
    """The inverse of :func:`annotator_info_to_json`, checked."""
    found = config.get(ANNOTATOR_INFO)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise TypeError(f"{ANNOTATOR_INFO} must be an object")
    R, groups, names = len(annotators), found.get("groups"), list(found.get("feature_names", []))
    if len(groups or annotators) != R or not all(isinstance(name, str) for name in [*(groups or ()), *names]):
        raise TypeError(f"{ANNOTATOR_INFO}.groups must be {R:,} names")
    limits = found.get("limits")
    limits = None if limits is None else [np.inf if limit is None else limit for limit in limits]
    return AnnotatorInfo(
        annotators,
        groups=None if groups is None else tuple(groups),
        costs=_numbers_from_json("costs", found.get("costs"), (R,), at_least=0.0),
        features=_numbers_from_json("features", found.get("features"), (R, len(names)), at_least=-np.inf),
        feature_names=tuple(names),
        limits=_numbers_from_json("limits", limits, (R,), at_least=0.0, at_most=np.inf),
    )


def _numbers_from_json(name: str, values: Any, shape: tuple[int, ...], at_least: float, at_most: float = 1e300) -> Any:
    """Numbers of this shape within bounds; None if there are none."""
    if values is None:
        return None
    found = np.asarray(values, dtype=np.float64)
    if found.shape != shape or not ((found >= at_least) & (found <= at_most)).all() or np.isneginf(found).any():
        raise TypeError(f"{ANNOTATOR_INFO}.{name} must be numbers of shape {shape} within their bounds")
    return found


# Files of a model folder: JSON, tensors and digests, read as if anybody might have written them.

MAX_JSON = 2**28
"""Bytes of a JSON file: a quarter of a gigabyte is enough for the ids of ten million tasks."""
Tensors = Mapping[str, npt.NDArray[Any]]


def open_file(path: Path) -> Any:
    """Open a file of the folder for reading: a link could lead anywhere, and a pipe would never end."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ELOOP or path.is_symlink():
            raise ModelFolderError(
                f"{path}: is a symbolic link, which conal does not follow; copy the file itself into the folder"
            ) from error
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); fit the model again") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ModelFolderError(f"{path}: is not a file; fit the model again")
    return os.fdopen(handle, "rb")


def load_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_JSON:
            raise ModelFolderError(
                f"{path}: has more than {MAX_JSON:,} bytes, which no model needs; fit the model again"
            )
        try:
            text = file.read().decode("utf-8")
            content = json.loads(text)
            if "\\ud" in text or "\\uD" in text:  # JSON can spell half a character, which no file can contain
                json.dumps(content, ensure_ascii=False).encode("utf-8")
        except (ValueError, OSError, RecursionError) as error:
            raise ModelFolderError(f"{path}: cannot be read ({error}); fit the model again") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path}: does not contain a JSON object; fit the model again")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object for people, such as ``config.json``."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, default=name_to_json) + "\n", encoding="utf-8")


def compact_json(content: Mapping[str, Any]) -> str:
    """A document of a model folder, such as ``report.json``."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=name_to_json)
    return text + "\n"


def save_tensors(tensors: Tensors, path: Path) -> None:
    """Write tensors with safetensors; a failure is an :class:`OSError`, as it is for other files."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.asarray(array, order="C") for name, array in tensors.items()}, path)
    except SafetensorError as error:  # such as a full disk
        raise OSError(f"{path.name} cannot be written: {error}") from error


def load_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All tensors of a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:  # also types that NumPy does not have
        raise ModelFolderError(f"{path}: cannot be read ({error}); fit the model again") from error


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors in a file, from its header: nothing else is read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise ModelFolderError(f"{path}: cannot be read ({error}); fit the model again") from error


def digest_of_json(content: Mapping[str, Any]) -> str:
    """The digest of a JSON object, however its file is laid out."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_file(path: Path) -> str:
    """The digest of a file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Model folders: safetensors and JSON, written atomically, and checked when they are read.
#
# ``config.json`` lists the files with a digest of each, and contains a digest of itself, so that a folder that lost a
# file or was changed by accident is noticed before it predicts nonsense. Digests prove nothing about who wrote a
# folder: what they cover is checked as if anybody might have written it. Nothing is ever unpickled, and no file outside
# the folder is ever touched.

FORMAT, AGGREGATOR = "conal-model", "conal-aggregator"
"""What a folder contains: a classifier, or labels and what an aggregator learned from them."""
KINDS = {FORMAT: "a conal model folder", AGGREGATOR: "a folder of conal aggregate --save"}
INSTEAD = {
    FORMAT: "load it with conal.load",
    AGGREGATOR: "to predict, use conal fit, and for a report conal aggregate --report",
}
"""What to do with a folder where the other kind is expected."""
FORMAT_VERSION = 2
"""Version 1 was written by 0.1.0."""
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


def check_target(path: Path, format: str = FORMAT, *, overwrite: bool) -> None:  # noqa: A002
    """Reject an existing path, unless it is a folder of this kind that may be replaced."""
    check_folder_place(path, overwrite=overwrite, kind=KINDS[format], own=partial(_written, format=format))


def _written(path: Path, format: str) -> set[str]:  # noqa: A002
    found = ModelFolder(path)
    found.expect(format)
    return {CONFIG, PAGE, *found.files}


def read_document(folder: str | PathLike[str], name: str) -> dict[str, Any]:
    """A JSON document of a model folder, after checking that it is the one that was saved."""
    found = ModelFolder(folder)
    found.expect(FORMAT)
    return found.document(name)


def page_place(folder: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Where the report is written: ``out``, or inside the model folder, where a link could lead anywhere."""
    path = Path(folder) / PAGE if out is None else Path(out)
    if path.is_symlink() and real_path(path.parent) == real_path(folder):
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
            found = self.config["format"]
            raise ModelFolderError(f"{self.path}: is {KINDS[found]}, not {KINDS[format]}; {INSTEAD[found]}")

    def check_complete(self) -> None:
        """Reject a folder from which a file is missing."""
        missing = [name for name in self.files if not os.path.lexists(self.path / name)]
        if missing:
            raise ModelFolderError(f"{self.path}: is incomplete, {', '.join(missing)} missing; fit the model again")

    def checked(self, name: str) -> Path:
        """The path of a file that is what was saved: present, a file and not a link, and unchanged."""
        if name not in self.files or not os.path.lexists(self.path / name):
            raise ModelFolderError(f"{self.path}: has no {name}; fit the model again with this version of conal")
        path = self.path / name
        if digest_of_file(path) != self.config["digests"][name]:
            raise ModelFolderError(f"{path}: has changed since it was saved; fit the model again")
        return path

    def document(self, name: str) -> dict[str, Any]:
        """A JSON document."""
        return load_json(self.checked(name))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights, from their header: nothing else is read."""
        return tensor_shapes(self.checked(WEIGHTS))

    def tensors(self, name: str = WEIGHTS) -> dict[str, npt.NDArray[Any]]:
        """The weights, or other tensors."""
        return load_tensors(self.checked(name))


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
    if version != FORMAT_VERSION:
        raise ModelFolderError(
            f"{path / CONFIG}: has format_version {version!r}, which this conal does not read; fit the model again, or "
            "load the folder with conal 0.2.0 and export the model"
        )
    _check_files(config, path / CONFIG)
    return config


def _check_files(config: Mapping[str, Any], where: Path) -> None:
    files = config.get("files")
    if not isinstance(files, list):
        raise ModelFolderError(f"{where}: does not list the files of the model; fit the model again")
    outside = [name for name in files if not (isinstance(name, str) and (name in _NAMED or _TABLE.fullmatch(name)))]
    if outside:
        raise ModelFolderError(f"{where}: lists {examples(outside)}, which is not a file of a model folder")
    if not {WEIGHTS, METRICS} <= set(files) or len(set(files)) < len(files):
        raise ModelFolderError(f"{where}: lists {examples(files)}, which is no model folder; fit the model again")
    digests = config.get("digests")
    if not isinstance(digests, dict) or not set(files) <= digests.keys():
        raise ModelFolderError(f"{where}: has no digest of every file; fit the model again")


# The columns of the user's files, which commands that read further files look for first.

COLUMN_ROLES = {"task", "worker", "label", "question", "format", "text", "tasks_called"}
"""What a folder remembers; "tasks_called" is the column of tasks as the user named it, for tables of results."""


def columns_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The columns in a configuration; none in folders of earlier versions."""
    columns = config.get("columns", {})
    if not isinstance(columns, dict) or not all(isinstance(name, str) for name in columns.values()):
        raise TypeError(f"columns must be names, not {examples([columns])}")
    return {role: name for role, name in columns.items() if role in COLUMN_ROLES}


def with_own_names(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """A table of labels in which the column of tasks is called as in the user's files, if the user named it."""
    called = columns.get("tasks_called", "task")
    if called in table.column_names:
        return table
    return table.rename_columns([called if name == "task" else name for name in table.column_names])


# Tables of results: labels of tasks, quality of annotators, confusion matrices.

ColumnKind = Literal["task", "annotator", "class", "count"]
"""What a column of a table of results may contain; all others contain floats, or text."""
NamesOf = Mapping[str, Names]
"""Kind of column to the names that it may contain."""


def label_table(
    tasks: Names,
    probas: FloatArray,
    classes: Names,
    codes: IntArray | None = None,
    labelled: npt.NDArray[np.bool_] | None = None,
    *,
    levels: IntArray | None = None,
) -> pa.Table:
    """One row per task: its label, the label's probability, and ``proba_<class>`` for every class.

    The label is the most probable class, unless ``codes`` say which class won, as where ties were drawn by lot. Label
    and probability are empty where a task is not ``labelled``. On a scale, whose ``levels`` (C,) say the place of each
    class, mean, median, low and high follow the probability.
    """
    winners = probas.argmax(1) if codes is None else codes
    unknown = None if labelled is None else ~labelled
    columns = {
        "task": name_column(tasks),
        "label": name_column(classes).take(pa.array(winners, mask=unknown)),
        "probability": pa.array(probas[np.arange(len(probas)), winners], mask=unknown),
    }
    columns |= {} if levels is None else score_columns(probas, classes, levels, unknown)
    return pa.table(columns | dict(zip(proba_columns(classes), probas.T, strict=True)))


def proba_columns(classes: Names) -> list[str]:
    """``proba_<class>`` for every class; classes that look the same, such as 1 and "1", get underscores.

    >>> proba_columns(np.array([1, "1"], dtype=object))
    ['proba_1', 'proba_1_']
    """
    columns: list[str] = []
    for name in classes.tolist():
        column = f"proba_{name}"
        while column in columns:
            column += "_"
        columns.append(column)
    return columns


def annotator_table(crowd: Annotations, quality: pa.Array, codes: IntArray) -> pa.Table:
    """One row per annotator: labels given, quality, and the share of labels that equal the inferred ``codes``.

    Where abstentions were listed, also their number.
    """
    columns = {
        "worker": name_column(crowd.annotator_ids),
        "num_examples_labeled": pa.array(crowd.labels_per_annotator()),
        "annotator_quality": quality,
        "agreement_with_consensus": mean_by_annotator(crowd, (codes[crowd.tasks] == crowd.labels).astype(float)),
    }
    if crowd.abstentions is not None:
        columns["num_examples_refused"] = pa.array(crowd.abstentions.labels_per_annotator())
    return pa.table(columns)


def confusion_table(crowd: Annotations, confusion: FloatArray, abstention: FloatArray | None = None) -> pa.Table:
    """One row per annotator, true and observed class: ``confusion[r, c, l]`` = P(r says l | true c).

    With ``abstention[r, c]`` = P(r declines | true c), declining is a further observed label, and the probabilities of
    all labels are lower by it.
    """
    seen = crowd.classes
    if abstention is not None and crowd.abstentions is not None:
        confusion = np.concatenate([confusion * (1 - abstention)[..., None], abstention[..., None]], axis=-1)
        seen = as_names([*crowd.classes.tolist(), " / ".join(crowd.abstentions.classes.tolist())])
    workers, true, observed = np.unravel_index(np.arange(confusion.size), confusion.shape)
    silent = np.repeat(crowd.labels_per_annotator() == 0, confusion[0].size)
    return pa.table(
        {
            "worker": name_column(crowd.annotator_ids).take(pa.array(workers)),
            "true": name_column(crowd.classes).take(pa.array(true)),
            "observed": name_column(seen).take(pa.array(observed)),
            "probability": pa.array(confusion.ravel(), mask=silent),
        }
    )


def mean_by_annotator(crowd: Annotations, values: FloatArray) -> pa.Array:
    """The mean of a figure of each annotation over those of every annotator; empty for those without labels."""
    total = np.bincount(crowd.annotators, weights=values, minlength=crowd.n_annotators)
    return where_labelled(crowd, total / np.maximum(crowd.labels_per_annotator(), 1))


def labelled_tasks(aggregator: Aggregator) -> npt.NDArray[np.bool_]:
    """(N,) which tasks have a label or a known true label; of the others, aggregation knows only the class prior."""
    return np.asarray((aggregator.annotations_.labels_per_task() > 0) | (aggregator.known_codes_ >= 0))


def where_labelled(crowd: Annotations, values: FloatArray) -> pa.Array:
    """A figure per annotator; empty for annotators without labels."""
    return pa.array(values, mask=crowd.labels_per_annotator() == 0)


def read_results(path: Path, kinds: Mapping[str, ColumnKind], names: NamesOf) -> pa.Table:
    """Read a CSV file of a model folder with its original types.

    CSV has no types: Arrow alone would read the class ``007`` as 7, and probabilities of 0 and 1 as integers.

    Parameters
    ----------
    kinds : mapping
        What columns contain, where they do not contain floats.
    names : mapping
        Kind of column to the names that it may contain; others are text unless all of them are numbers.
    """
    types = {column: pa.int64() if kind == "count" else pa.string() for column, kind in kinds.items()}

    def read(block_size: int | None) -> pa.Table:
        _, blocks, parse = open_delimited(path, ",", block_size)
        return pv.read_csv(path, blocks, parse, pv.ConvertOptions(column_types=types))

    try:
        table = with_long_rows(read)
    except ARROW_ERRORS as error:
        raise ModelFolderError(f"{path}: cannot be read ({first_line(error)}); fit the model again") from error
    columns = {column: _typed(table[column], kinds.get(column), names) for column in table.column_names}
    return pa.table(columns)


def _typed(column: pa.ChunkedArray, kind: ColumnKind | None, names: NamesOf) -> pa.ChunkedArray:
    if kind is None and pa.types.is_string(column.type):  # an empty cell is no text
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if kind is None:
        numeric = pa.types.is_integer(column.type) or pa.types.is_null(column.type)
        return column.cast(pa.float64()) if numeric else column
    if kind == "count":
        return column
    return _named(column, names[kind]) if kind in names else numbers_or_text(column)


def _named(column: pa.ChunkedArray, names: Names) -> pa.ChunkedArray:
    """Texts replaced by their names; empty texts are null, and a column with an unknown text is unchanged."""
    known = name_column(names)
    if pa.types.is_boolean(known.type):
        column = pc.utf8_capitalize(column)  # earlier versions wrote true and false
    at = pc.index_in(column, value_set=text_column(known))
    unknown = pc.and_(pc.is_null(at), pc.not_equal(column, ""))
    return column if pc.any(unknown, min_count=0).as_py() or not len(column) else known.take(at)
