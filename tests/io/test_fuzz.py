"""Damaged files of every kind: a result, or an error that conal raises on purpose and that names the file."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conal.errors import InputError
from conal.io import read_annotations, read_features, read_gold, read_texts

CASES = int(os.environ.get("CASES", 150))
"""Mutations per kind of file."""

ROWS = [(f"t{k // 3}", f"w{k % 3}", "cat" if k % 4 else "dog") for k in range(24)]
NUMBERS = np.random.default_rng(0).normal(size=(8, 3))
CSV = "task,worker,label\n" + "".join(",".join(row) + "\n" for row in ROWS)
LINES = "".join(json.dumps(dict(zip(("task", "worker", "label"), row, strict=True))) + "\n" for row in ROWS)
DOCUMENTS = "".join(json.dumps({"id": k, "text": f"text {k}", "label": ["cat"]}) + "\n" for k in range(5))


def saved(save: Callable[..., object], *parts: Any, **named: Any) -> bytes:
    """What a function writes to a file that it is given."""
    file = io.BytesIO()
    save(file, *parts, **named)
    return file.getvalue()


def zipped(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("ann.jsonl", DOCUMENTS)
        archive.writestr("bob.csv", "id,text,label\n0,text 0,cat\n1,text 1,dog\n")
    return file.getvalue()


def parquet(compression: str, **columns: Any) -> bytes:
    table = pa.table(columns)
    return saved(lambda file: pq.write_table(table, file, compression=compression))


TASKS, WORKERS, LABELS = (list(column) for column in zip(*ROWS, strict=True))
IDS = [f"t{k}" for k in range(8)]
FEATURES = {"task": IDS, "a": NUMBERS[:, 0], "b": NUMBERS[:, 1]}
LISTS = {"task": IDS, "x": NUMBERS.tolist()}
EXPORT = [
    {
        "id": k,
        "data": {"text": f"text {k}"},
        "annotations": [
            {"completed_by": 1, "result": [{"from_name": "kind", "type": "choices", "value": {"choices": ["cat"]}}]}
        ],
    }
    for k in range(3)
]

FILES: dict[str, tuple[Callable[..., object], bytes]] = {
    "labels.csv": (read_annotations, CSV.encode()),
    "labels.csv.gz": (read_annotations, gzip.compress(CSV.encode(), mtime=0)),
    "labels.tsv": (read_annotations, CSV.replace(",", "\t").encode()),
    "labels.jsonl": (read_annotations, LINES.encode()),
    "labels.json": (read_annotations, json.dumps(EXPORT).encode()),
    "labels.npy": (read_annotations, saved(np.save, np.arange(12).reshape(4, 3) % 2)),
    "texts.npy": (read_annotations, saved(np.save, np.array([["cat", "dog"], ["dog", ""]]))),
    "labels.parquet": (read_annotations, parquet("none", task=TASKS, worker=WORKERS, label=LABELS)),
    "zstd.parquet": (read_annotations, parquet("zstd", task=TASKS, worker=WORKERS, label=LABELS)),
    "deflated.zip": (read_annotations, zipped(zipfile.ZIP_DEFLATED)),
    "stored.zip": (read_annotations, zipped(zipfile.ZIP_STORED)),
    "lzma.zip": (read_annotations, zipped(zipfile.ZIP_LZMA)),
    "bz2.zip": (read_annotations, zipped(zipfile.ZIP_BZIP2)),
    "x.npy": (read_features, saved(np.save, NUMBERS)),
    "x.npz": (read_features, saved(np.savez, X=NUMBERS, ids=np.array(IDS))),
    "packed.npz": (read_features, saved(np.savez_compressed, X=NUMBERS, ids=np.array(IDS))),
    "x.csv": (read_features, b"task,a,b\n" + b"".join(b"t%d,%d,0.5\n" % (k, k) for k in range(8))),
    "x.parquet": (read_features, parquet("snappy", **FEATURES)),
    "lists.parquet": (read_features, parquet("none", **LISTS)),
    "gold.csv": (read_gold, b"task,label\n" + b"".join(b"t%d,cat\n" % k for k in range(8))),
    "gold.npy": (read_gold, saved(np.save, np.arange(5))),
    "gold.parquet": (read_gold, parquet("none", task=IDS, label=["cat"] * 8)),
    "texts.jsonl": (read_texts, DOCUMENTS.encode()),
    "texts.parquet": (read_texts, parquet("none", task=IDS, text=["text"] * 8)),
}
TOKENS = (
    *(b"\0", b"\xff", b'"', b"\\", b"[", b"{", b"null", b"NaN", b"1e999", b"-1", b"\n", b"\r", b",", b"'", b"(", b")"),
    *(b"\\ud800", b"\xed\xa0\x80", b"True", b"|O", b"<f4", b"<U9", b"99999999999", b"PK\x01\x02", b"PAR1", b"O", b"L"),
)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A few changes of a few bytes each."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, length = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 4, 16))
        change = rng.randrange(6)
        if change == 0:
            data[at : at + length] = rng.randbytes(length)
        elif change == 1:
            data[at : at + length] = b""
        elif change == 2:
            data[at:at] = data[at : at + length] * rng.choice((1, 2, 100))
        elif change == 3:
            data[at : at + rng.choice((0, length))] = rng.choice(TOKENS)
        elif change == 4 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif rng.random() < 0.3:
            del data[at:]
    return bytes(data)


def read_or_refuse(read: Callable[..., object], path: Path) -> bool:
    """Whether the file was read; every error but conal's own is the test's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
    except InputError as error:
        assert path.name in str(error)  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    read, content = FILES[name]
    path, rng = tmp_path / name, random.Random(name)  # noqa: S311
    path.write_bytes(content)
    assert read_or_refuse(read, path)
    refused = 0
    for _ in range(CASES):
        damaged = mutated(content, rng)
        path.write_bytes(damaged)
        try:
            refused += not read_or_refuse(read, path)
        except BaseException:
            print(repr(damaged))  # noqa: T201 - the case, beside the traceback
            raise
    assert refused
