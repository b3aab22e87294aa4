"""Valid documents of every kind that conal reads, from random crowds: the grammar, before anything is broken."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from torture.odd import odd_name, odd_value

__all__ = [
    "Document",
    "Rows",
    "arrow_bytes",
    "crowd",
    "csv_bytes",
    "document",
    "ipc_bytes",
    "json_of",
    "npy_bytes",
    "npz_bytes",
    "zip_bytes",
]

Rows = list[tuple[Any, Any, Any]]


@dataclass(frozen=True)
class Document:
    """A file for one of the readers."""

    reader: str
    name: str
    content: bytes
    options: dict[str, Any] = field(default_factory=dict)


def crowd(rng: random.Random) -> Rows:
    """A few annotations with names of all kinds."""
    tasks = [odd_name(rng) for _ in range(rng.randint(1, 4))]
    workers = [odd_name(rng) for _ in range(rng.randint(1, 4))]
    labels = [odd_name(rng) for _ in range(rng.randint(1, 3))]
    return [(rng.choice(tasks), rng.choice(workers), rng.choice(labels)) for _ in range(rng.randint(1, 9))]


# ---------------------------------------------------------------- containers


def csv_bytes(header: Iterable[Any], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([list(header), *map(list, rows)])
    return text.getvalue().encode("utf-8", "surrogatepass")


def json_of(value: Any, *, lines: bool = False, ascii_only: bool = True) -> bytes:
    texts = [json.dumps(each, ensure_ascii=ascii_only, default=str) for each in (value if lines else [value])]
    return ("\n".join(texts) + "\n").encode("utf-8", "surrogatepass")


def npy_bytes(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def npz_bytes(**arrays: Any) -> bytes:
    return zip_bytes({f"{name}.npy": npy_bytes(array) for name, array in arrays.items()})


def zip_bytes(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def arrow_bytes(table: pa.Table, rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression=rng.choice(["snappy", "gzip", "none", "zstd"]))
    return buffer.getvalue()


def ipc_bytes(table: pa.Table, rng: random.Random) -> bytes:
    """Arrow's own format: a stream, or a file with an index."""
    buffer = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    make = rng.choice([pa.ipc.new_stream, pa.ipc.new_file])
    with make(buffer, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice([1, 3, 100]))
    return buffer.getvalue()


# ---------------------------------------------------------------- labels


def _by_task(rows: Rows) -> dict[Any, Rows]:
    found: dict[Any, Rows] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def _label_studio(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    def annotation(worker: Any, label: Any) -> dict[str, Any]:
        result = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [label]}}
        who = rng.choice([worker, {"id": 1, "email": worker}])
        return {
            "completed_by": who,
            "result": [result],
            "was_cancelled": rng.random() < 0.1,
            "updated_at": "2026-01-01T10:00:00Z",
        }

    tasks = [
        {
            "id": task,
            "data": {"text": f"about {task}"},
            "annotations": [annotation(w, y) for _, w, y in group],
            "drafts": [],
        }
        for task, group in _by_task(rows).items()
    ]
    return "export.json", json_of(tasks, ascii_only=rng.random() < 0.5)


def _label_studio_min(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    header = ["text", "id", "kind", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"]
    time = "2026-01-01T10:00:00.000000Z"
    values = [["x", t, y, w, k, time, time, 1.5] for k, (t, w, y) in enumerate(rows)]
    if rng.random() < 0.5:
        return "min.csv", csv_bytes(header, values)
    return "min.json", json_of([dict(zip(header, row, strict=True)) for row in values])


def _argilla(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    groups = _by_task(rows).items()
    shape = rng.randrange(3)
    if shape == 0:
        records: list[Any] = [
            {
                "id": t,
                "fields": {"text": "x"},
                "responses": {"k": [{"value": y, "user_id": w} for _, w, y in group]},
                "status": "completed",
            }
            for t, group in groups
        ]
        return "argilla.json", json_of(records)
    if shape == 1:
        records = [
            {"id": t, "text": "x", "k.responses": [y for *_, y in group], "k.responses.users": [w for _, w, _ in group]}
            | {"k.responses.status": ["submitted"] * len(group)}
            for t, group in groups
        ]
        return "argilla.jsonl", json_of(records, lines=True)
    records = [
        {
            "text": "x",
            "k": {
                "user_id": [w for _, w, _ in group],
                "value": [y for *_, y in group],
                "status": ["submitted"] * len(group),
            },
        }
        | {"external_id": t}
        for t, group in groups
    ]
    return "argilla.json", json_of(records)


def _doccano(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    members = {}
    for number, worker in enumerate({str(w): None for _, w, _ in rows}):
        own = [(t, y) for t, w, y in rows if str(w) == worker]
        name = worker.encode("utf-8", "replace").decode().replace("\0", "")[:80] or str(number)
        if rng.random() < 0.7:
            members[f"{name}.jsonl"] = json_of([{"id": t, "text": "x", "label": [y]} for t, y in own], lines=True)
        else:
            members[f"{name}.csv"] = csv_bytes(["id", "text", "label"], [(t, "x", y) for t, y in own])
    return "export.zip", zip_bytes(members)


def _prodigy(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    def line(number: int, t: Any, w: Any, y: Any) -> dict[str, Any]:
        record = {
            "text": "x",
            "_input_hash": t,
            "_task_hash": number,
            "answer": "accept",
            "_annotator_id": w,
            "_timestamp": number,
        }
        return record | rng.choice([{"label": y}, {"accept": [y], "options": [{"id": y}], "_view_id": "choice"}])

    return "prodigy.jsonl", json_of([line(k, *row) for k, row in enumerate(rows)], lines=True)


def _mturk(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    if rng.random() < 0.4:
        values = [[t, w, json.dumps([{"k": {"label": y}}], default=str)] for t, w, y in rows]
        return "batch.csv", csv_bytes(["HITId", "WorkerId", "Answer.taskAnswers"], values)
    header = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "SubmitTime", "Input.text", "Answer.kind.label"]
    time = "Wed Dec 08 14:26:17 PST 2010"
    return "batch.csv", csv_bytes(header, [[t, k, w, "Approved", time, "x", y] for k, (t, w, y) in enumerate(rows)])


def _toloka(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    header = [
        "INPUT:text",
        "OUTPUT:kind",
        "GOLDEN:kind",
        "ASSIGNMENT:task_id",
        "ASSIGNMENT:worker_id",
        "ASSIGNMENT:status",
    ]
    values = [["x", y, rng.choice(["", y]), t, w, "APPROVED"] for t, w, y in rows]
    return "toloka.tsv", csv_bytes(header, values, "\t")


def _peerannot(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    return "answers.json", json_of({str(t): {str(w): y for _, w, y in group} for t, group in _by_task(rows).items()})


def _wide(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    workers = list(dict.fromkeys(w for _, w, _ in rows))
    cells = {(t, w): y for t, w, y in rows}
    values = [[t, *(cells.get((t, w), "") for w in workers)] for t in _by_task(rows)]
    return "wide.csv", csv_bytes([rng.choice(["", "task"]), *workers], values)


def _lists(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    groups = _by_task(rows).items()
    columns: dict[str, list[Any]] = {
        "id": [t for t, _ in groups],
        "annotators": [[w for _, w, _ in group] for _, group in groups],
        "labels": [[y for *_, y in group] for _, group in groups],
    }
    try:
        table = pa.table(columns)
    except (pa.ArrowException, UnicodeError, OverflowError):  # names of several types
        return "lists.jsonl", json_of(
            [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], lines=True
        )
    if rng.random() < 0.3:
        return "lists.parquet", arrow_bytes(table, rng)
    return f"lists.{rng.choice(['arrow', 'feather'])}", ipc_bytes(table, rng)


def _zooniverse(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    header = ["classification_id", "user_name", "user_id", "workflow_id", "created_at", "gold_standard"]
    header += ["annotations", "subject_data", "subject_ids"]
    values = [
        [
            *(k, w, "", 10, "2024-02-23 16:17:42 UTC", rng.choice(["", "", "true"])),
            *(json.dumps([{"task": "T0", "value": y}], default=str), json.dumps({str(t): {"name": str(t)}}), t),
        ]
        for k, (t, w, y) in enumerate(rows)
    ]
    return "classifications.csv", csv_bytes(header, values)


def _inspect_ai(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    samples = [
        {
            "id": t,
            "epoch": rng.choice([1, 1, 2]),
            "input": rng.choice(["x", [{"role": "user", "content": "x"}]]),
            "target": rng.choice(["a", ["a", "b"]]),
            "scores": {str(w): {"value": y, "answer": rng.choice([None, str(y)])} for _, w, y in group},
        }
        for t, group in _by_task(rows).items()
    ]
    header = {"version": 2, "status": "success", "eval": {"model": "m"}}
    if rng.random() < 0.5:
        return "log.json", json_of(header | {"samples": samples})
    members = {f"samples/{k}_epoch_1.json": json_of(sample) for k, sample in enumerate(samples)}
    return "log.eval", zip_bytes(members | {"header.json": json_of(header)})


def _mlflow(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    def assessment(worker: Any, label: Any) -> dict[str, Any]:
        said = {rng.choice(["feedback", "feedback", "expectation"]): {"value": label}}
        return {"assessment_name": "kind", "source": {"source_id": worker}, "valid": rng.random() < 0.9} | said

    infos = [{"trace_id": t, "assessments": [assessment(w, y) for _, w, y in g]} for t, g in _by_task(rows).items()]
    return "traces.json", json_of([rng.choice([info, {"info": info, "data": {}}]) for info in infos])


def _excel(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    from openpyxl import Workbook
    from openpyxl.utils.exceptions import IllegalCharacterError

    book = Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    sheet.append([rng.choice(["task", "item"]), "worker", "label"])
    buffer = io.BytesIO()
    try:
        for row in rows:
            sheet.append([cell if isinstance(cell, int | float | bool | str) else str(cell) for cell in row])
        book.save(buffer)
    except (IllegalCharacterError, ValueError):  # control characters, or half of a surrogate pair
        return "labels.csv", csv_bytes(["task", "worker", "label"], rows)
    return "labels.xlsx", buffer.getvalue()


def _plain(rows: Rows, rng: random.Random) -> tuple[str, bytes]:
    header = [
        rng.choice(["task", "item", "question"]),
        rng.choice(["worker", "annotator"]),
        rng.choice(["label", "answer"]),
    ]
    kind = rng.choice(["csv", "tsv", "jsonl", "parquet", "npy"])
    if kind in ("csv", "tsv"):
        content = csv_bytes(header, rows, "\t" if kind == "tsv" else ",")
        packed = rng.random()
        if packed < 0.05:
            return f"labels.{kind}.gz", gzip.compress(content)
        if packed < 0.1:
            return f"labels.{kind}.bz2", bz2.compress(content)
        return f"labels.{kind}", content
    if kind == "jsonl":
        return "labels.jsonl", json_of([dict(zip(header, row, strict=True)) for row in rows], lines=True)
    if kind == "npy":
        matrix = np.random.default_rng(rng.randrange(2**32)).integers(
            -1, 4, size=(rng.randint(1, 5), rng.randint(1, 5))
        )
        return "labels.npy", npy_bytes(
            matrix.astype(rng.choice(["i1", "i8", "f4", "f8", "U3", "?", "S2", ">i4", "u8", "c16", "M8[D]"]))
        )
    if rng.random() < 0.5:
        return "labels.arrow", ipc_bytes(odd_table(rng, header), rng)
    return "labels.parquet", arrow_bytes(odd_table(rng, header), rng)


LAYOUTS: dict[str, Callable[[Rows, random.Random], tuple[str, bytes]]] = {
    "label-studio": _label_studio,
    "label-studio-min": _label_studio_min,
    "argilla": _argilla,
    "doccano": _doccano,
    "prodigy": _prodigy,
    "mturk": _mturk,
    "toloka": _toloka,
    "peerannot": _peerannot,
    "wide": _wide,
    "lists": _lists,
    "xlsx": _excel,
    "zooniverse": _zooniverse,
    "inspect-ai": _inspect_ai,
    "mlflow": _mlflow,
    "plain": _plain,
}


# ---------------------------------------------------------------- other readers


TYPES: list[Callable[[], Any]] = [
    pa.string, pa.large_string, pa.binary, pa.int8, pa.int64, pa.uint64, pa.float16, pa.float32, pa.float64,
    pa.bool_, pa.date32, pa.null, lambda: pa.timestamp("ns"), lambda: pa.timestamp("us", "UTC"),
    lambda: pa.time64("us"), lambda: pa.duration("s"), lambda: pa.decimal128(30, 4),
    lambda: pa.list_(pa.float32()), lambda: pa.list_(pa.string()), lambda: pa.list_(pa.list_(pa.int64())),
    lambda: pa.struct([("a", pa.int64())]), lambda: pa.map_(pa.string(), pa.int64()),
    lambda: pa.dictionary(pa.int32(), pa.string()), lambda: pa.dictionary(pa.int8(), pa.int64()),
    lambda: pa.list_(pa.float64(), 2), pa.string_view, pa.binary_view, lambda: pa.list_(pa.date32()),
    lambda: pa.struct([("a", pa.timestamp("us"))]),
]  # fmt: skip


def odd_column(rng: random.Random, length: int) -> pa.Array:
    """A column of a random type, with some values missing."""
    kind = rng.choice(TYPES)() if rng.random() < 0.6 else pa.string()
    plain: list[Any] = [None if rng.random() < 0.1 else odd_value(rng) for _ in range(length)]
    for values in (plain, [str(value) for value in plain], [rng.randrange(100) for _ in plain]):
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError):
            continue
    try:
        return pa.array([[{"a": 1}.get(str(k), rng.random()) for k in range(2)] for _ in plain], kind)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.nulls(length, kind)


def odd_table(rng: random.Random, header: list[str]) -> pa.Table:
    length = rng.choice([0, 1, 3, 8])
    return pa.Table.from_arrays([odd_column(rng, length) for _ in header], names=header)


def _features(rng: random.Random) -> Document:
    n, d = rng.randint(1, 5), rng.randint(1, 4)
    values = (
        np.random.default_rng(rng.randrange(2**32))
        .normal(size=(n, d))
        .astype(rng.choice(["f4", "f8", "f2", "i4", ">f8"]))
    )
    ids = [odd_name(rng) for _ in range(n)]
    columns = [f"f{k}" for k in range(d)]
    kind = rng.choice(["npy", "npz", "csv", "parquet"])
    if kind == "npy":
        return Document("features", "features.npy", npy_bytes(values))
    if kind == "npz":
        ids_array = np.array([str(name) for name in ids]) if rng.random() < 0.5 else np.arange(n)
        return Document(
            "features", "features.npz", npz_bytes(X=values, **({"ids": ids_array} if rng.random() < 0.5 else {}))
        )
    if kind == "csv":
        rows = [[name, *row] for name, row in zip(ids, values.tolist(), strict=True)]
        return Document("features", "features.csv", csv_bytes(["task", *columns], rows))
    return Document("features", "features.parquet", arrow_bytes(odd_table(rng, ["task", *columns]), rng))


def _texts(rng: random.Random) -> Document:
    rows = [(odd_name(rng), odd_name(rng)) for _ in range(rng.randint(1, 5))]
    kind = rng.choice(["csv", "tsv", "jsonl", "parquet"])
    if kind == "parquet":
        return Document("texts", "texts.parquet", arrow_bytes(odd_table(rng, ["task", "text"]), rng))
    if kind == "jsonl":
        return Document("texts", "texts.jsonl", json_of([{"task": t, "text": x} for t, x in rows], lines=True))
    return Document("texts", f"texts.{kind}", csv_bytes(["task", "text"], rows, "\t" if kind == "tsv" else ","))


def _gold(rng: random.Random) -> Document:
    found = _texts(rng)
    if rng.random() < 0.2:
        return Document("gold", "gold.npy", npy_bytes(np.arange(rng.randint(1, 5))))
    return Document("gold", found.name.replace("texts", "gold"), found.content.replace(b"text", b"label", 1))


def document(rng: random.Random) -> Document:
    """A valid document for a random reader."""
    which = rng.random()
    if which < 0.6:
        layout = rng.choice(list(LAYOUTS))
        name, content = LAYOUTS[layout](crowd(rng), rng)
        return Document("labels", name, content, _options(layout, rng))
    return (_features if which < 0.76 else _texts if which < 0.88 else _gold)(rng)


def _options(layout: str, rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if layout != "plain" and rng.random() < 0.7:
        options["format"] = layout
    if rng.random() < 0.1:
        options["classes"] = [str(odd_name(rng)) for _ in range(3)]
    if rng.random() < 0.1:
        options["on_duplicate"] = rng.choice(["first", "last", "error"])
    return options
