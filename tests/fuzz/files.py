"""Files of every format that conal reads, and its readers: a file is read, or refused with a message."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook

from conal.aggregation import DawidSkene, MajorityVote
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.io import ReadOptions, import_file, read_annotations, read_features, read_gold, read_texts
from conal.io.images import items_of
from conal.io.model_folder import label_table
from conal.io.tables import write_table
from conal.report.inspection import inspect_file
from conal.report.page import render
from fuzz.odd import odd_name, odd_value
from helpers.platforms import EXPORTS, VARIANTS, Rows

__all__ = ["FILES", "csv_bytes", "zip_bytes"]

PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
Read = Callable[[Path, dict[str, Any]], object]


def csv_bytes(rows: Iterable[Iterable[Any]], delimiter: str = ",", **dialect: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, **{"lineterminator": "\n", **dialect}).writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def zip_bytes(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _saved(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def _json_lines(header: list[str], rows: Iterable[Iterable[Any]]) -> bytes:
    return "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows).encode()


# ---------------------------------------------------------------- tables of any types


TYPES: list[pa.DataType] = [
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view(), pa.bool_(), pa.null()),
    *(pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(30, 4)),
    *(pa.date32(), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.time64("us"), pa.duration("s")),
    *(pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.list_(pa.string()), pa.list_(pa.list_(pa.int64()))),
    *(pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.list_(pa.date32())),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64())),
]


def _odd_column(rng: random.Random, length: int) -> pa.Array:
    """A column of any type, with some values missing."""
    kind = rng.choice(TYPES) if rng.random() < 0.6 else pa.string()
    values: list[Any] = [None if rng.random() < 0.1 else odd_value(rng) for _ in range(length)]
    pairs = [[rng.randrange(100), rng.randrange(100)] for _ in values]
    maps = [[("a", one)] for one, _ in pairs]
    for attempt in (values, list(map(str, values)), [one for one, _ in pairs], pairs, maps):
        try:
            return pa.array(attempt, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
            continue
    return pa.nulls(length, kind)


def _odd_table(rng: random.Random, header: list[str]) -> pa.Table:
    length = rng.choice([0, 1, 3, 8])
    return pa.Table.from_arrays([_odd_column(rng, length) for _ in header], names=header)


def _arrow(rng: random.Random, folder: Path, name: str, header: list[str]) -> Path:
    """Parquet, or Arrow's own format: a stream, or a file with an index."""
    table, buffer = _odd_table(rng, header), io.BytesIO()
    if rng.random() < 0.5:
        pq.write_table(table, buffer, compression=rng.choice(["snappy", "gzip", "none", "zstd"]))
        return _saved(folder, f"{name}.parquet", buffer.getvalue())
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    with rng.choice([pa.ipc.new_stream, pa.ipc.new_file])(buffer, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice([1, 3, 100]))
    return _saved(folder, f"{name}.{rng.choice(['arrow', 'feather'])}", buffer.getvalue())


# ---------------------------------------------------------------- labels


def _rows(rng: random.Random) -> Rows:
    names = [[odd_name(rng) for _ in range(rng.randint(1, 4))] for _ in range(3)]
    return [(rng.choice(names[0]), rng.choice(names[1]), rng.choice(names[2])) for _ in range(rng.randint(1, 9))]


def _labels(rng: random.Random, folder: Path) -> tuple[Path, dict[str, Any]]:
    options: dict[str, Any] = {}
    if rng.random() < 0.1:
        options["classes"] = [odd_name(rng) for _ in range(3)]
    if rng.random() < 0.1:
        options["on_duplicate"] = rng.choice(["first", "last", "error"])
    if rng.random() < 0.5:
        return _table_of_labels(rng, folder), options
    layout = rng.choice([*EXPORTS, *VARIANTS])
    if rng.random() < 0.7:
        options["format"] = layout if layout in EXPORTS else VARIANTS[layout][0]
    try:
        export = EXPORTS.get(layout) or VARIANTS[layout][1]
        return export(_rows(rng), folder), options
    except (UnicodeEncodeError, struct.error):  # half of a surrogate pair; a name too long for a member of an archive
        return _table_of_labels(rng, folder), {}


def _table_of_labels(rng: random.Random, folder: Path) -> Path:
    header = [rng.choice(["task", "item"]), rng.choice(["worker", "annotator"]), rng.choice(["label", "answer"])]
    kind = rng.choice(["csv", "tsv", "jsonl", "arrow", "npy", "xlsx"])
    if kind == "arrow":
        return _arrow(rng, folder, "labels", header)
    if kind == "npy":
        return _saved(folder, "labels.npy", _matrix(rng, "i1 i8 f4 f8 U3 ? S2 >i4 u8 c16 M8[D]"))
    rows = _rows(rng)
    if kind == "jsonl":
        return _saved(folder, "labels.jsonl", _json_lines(header, rows))
    if kind == "xlsx" and all(name.isprintable() and len(name) < 1000 for row in rows for name in row):
        book = Workbook(write_only=True)
        sheet = book.create_sheet()
        for row in [header, *rows]:
            sheet.append(row)
        book.save(folder / "labels.xlsx")
        return folder / "labels.xlsx"
    content = csv_bytes([header, *rows], "\t" if kind == "tsv" else ",")
    ending = rng.choice(["", "", *PACKED])
    return _saved(folder, f"labels.{'tsv' if kind == 'tsv' else 'csv'}{ending}", PACKED.get(ending, bytes)(content))


def _read_labels(path: Path, options: dict[str, Any]) -> None:
    size = path.stat().st_size if path.is_file() else 0
    if size % 20 == 0:  # also of files that are refused, whose other problems it lists
        with suppress(InputError):
            json.dumps(inspect_file(path, ReadOptions(**options)), default=str)
    file = import_file(path, **options)
    file.warn_of_dropped()
    if size % 5 == 1:
        file.all_tasks(), file.task_data(), items_of(file.data)
        fitted, ending = MajorityVote().fit(file.annotations), ("csv", "jsonl", "parquet")[size % 3]
        write_table(label_table(fitted.task_ids_, fitted.probas_, fitted.classes_), path.with_name(f"out.{ending}"))
        write_table(file.annotations.to_table(), path.with_name(f"again.{ending}"))
        read_annotations(path.with_name(f"again.{ending}"), format=ending)


# ---------------------------------------------------------------- features, texts, true labels


def _matrix(rng: random.Random, kinds: str) -> bytes:
    shape = rng.randint(1, 5), rng.randint(1, 4)
    return _npy(np.random.default_rng(rng.randrange(99)).integers(-1, 4, shape).astype(rng.choice(kinds.split())))


def _npy(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(values), allow_pickle=False)
    return buffer.getvalue()


def _features(rng: random.Random, folder: Path) -> tuple[Path, dict[str, Any]]:
    kind, header = rng.choice(["npy", "npz", "csv", "arrow"]), ["task", "f0", "f1"]
    if kind == "arrow":
        return _arrow(rng, folder, "features", header), {}
    if kind == "npy":
        return _saved(folder, "features.npy", _matrix(rng, "f4 f8 f2 i4 >f8")), {}
    names = [odd_name(rng) for _ in range(rng.randint(1, 5))]
    if kind == "csv":
        return _saved(folder, "features.csv", csv_bytes([header, *([name, 0.5, len(name)] for name in names)])), {}
    ids = np.array(names) if rng.random() < 0.5 else np.arange(len(names))
    return _saved(folder, "features.npz", zip_bytes({"X.npy": _npy(np.eye(len(names))), "ids.npy": _npy(ids)})), {}


def _texts(rng: random.Random, folder: Path, name: str = "texts", column: str = "text") -> tuple[Path, dict[str, Any]]:
    kind, header = rng.choice(["csv", "tsv", "jsonl", "arrow"]), ["task", column]
    if kind == "arrow":
        return _arrow(rng, folder, name, header), {}
    rows = [(odd_name(rng), odd_name(rng)) for _ in range(rng.randint(1, 5))]
    if kind == "jsonl":
        return _saved(folder, f"{name}.jsonl", _json_lines(header, rows)), {}
    return _saved(folder, f"{name}.{kind}", csv_bytes([header, *rows], "\t" if kind == "tsv" else ",")), {}


def _true_labels(rng: random.Random, folder: Path) -> tuple[Path, dict[str, Any]]:
    if rng.random() < 0.2:
        return _saved(folder, "gold.npy", _npy(np.arange(rng.randint(1, 5)))), {}
    return _texts(rng, folder, "gold", "label")


def _read_true_labels(path: Path, options: dict[str, Any]) -> None:
    found = read_gold(path, **options)
    found.for_tasks(Annotations.from_triples(["1", "1.10", "a", "007"], ["w"] * 4, ["cat", "dog", "1", "NA"]))
    found.for_rows(len(found.labels), found.task_ids)


# ---------------------------------------------------------------- what conal itself wrote


@cache
def _report_of_a_crowd() -> bytes:
    rows = [(f"t{k % 9}", f"w{k % 5}", "ab"[k % 4 // 3]) for k in range(45)]
    return json.dumps(DawidSkene().fit(Annotations.from_triples(*zip(*rows, strict=True))).report().document).encode()


def _report(rng: random.Random, folder: Path) -> tuple[Path, dict[str, Any]]:
    return _saved(folder, "report.json", _report_of_a_crowd()), {}


def _read_report(path: Path, options: dict[str, Any]) -> None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # whatever reads the folder says so
        raise InputError("not JSON") from error
    if isinstance(document, dict):
        render(document)


def _checkpoint(rng: random.Random, folder: Path) -> tuple[Path, dict[str, Any]]:
    import torch

    from conal.training.checkpoint import Checkpoint, State

    path = folder / "a.checkpoint"
    tensors = {"model/w": torch.zeros(2, 3), "best/w": torch.ones(3)}
    Checkpoint(path).write(State(tensors, {"epoch": 2, "history": [{"a": 1.5}]}))
    return path, {}


def _read_checkpoint(path: Path, options: dict[str, Any]) -> None:
    from conal.training.checkpoint import Checkpoint

    Checkpoint(path, options, resume=True).read()


Make = Callable[[random.Random, Path], tuple[Path, dict[str, Any]]]
FILES: dict[str, tuple[Make, Read, int]] = {
    "labels": (_labels, _read_labels, 12),
    "features": (_features, lambda path, options: read_features(path, **options), 3),
    "texts": (_texts, lambda path, options: read_texts(path, **options), 2),
    "true labels": (_true_labels, _read_true_labels, 2),
    "report": (_report, _read_report, 1),
    "checkpoint": (_checkpoint, _read_checkpoint, 1),
}
"""For every kind of file: what makes a valid one, what reads it, and how often it is tried."""
