"""Small files that would fill the memory or end the process are refused, with the limit and a remedy."""

from __future__ import annotations

import bz2
import gzip
import json
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal.errors import InputError
from conal.io import limits, read_annotations, read_features, read_table
from conal.io.platforms.json_files import parse_records
from helpers.files import write_lines
from helpers.processes import one_thread

ROW = '{"task": 1, "worker": "a", "label": "x"}'


def refused_by_a_process(path: Path) -> str:
    """The message of a process of its own, which may end by a signal."""
    words = [sys.executable, "-m", "conal", "inspect", str(path)]
    done = subprocess.run(words, env=one_thread(), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, (done.returncode, done.stderr)
    return done.stderr


@pytest.mark.parametrize("text", ["null", f"null\n{ROW}", f"{ROW}\n \tnull", f"{ROW}\n" * 30_000 + "null"])
def test_null_is_no_line(text: str, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", text)
    number = text.partition("null")[0].count("\n") + 1
    assert f"a.jsonl: cannot be read as jsonl: line {number} is no JSON object but 'null'" in refused_by_a_process(
        tmp_path / "a.jsonl"
    )


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a": ', "}")])
def test_deep_lines_do_not_reach_arrow(before: str, after: str, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", ROW, f'{{"task": {before * 50_000}1{after * 50_000}}}')
    message = refused_by_a_process(tmp_path / "a.jsonl")
    assert "line 2: has lists and objects more than 100 deep inside each other" in message


def test_depth_counts_no_brackets_in_strings(tmp_path: Path) -> None:
    text = '"' + "[" * 300 + '\\" [' + '"'
    (tmp_path / "a.jsonl").write_text(f'{{"task": {text}, "worker": 1, "label": 2}}\n' * 3)
    assert read_table(tmp_path / "a.jsonl").num_rows == 3
    nested = "[" * limits.DEEPEST + "]" * limits.DEEPEST
    limits.check_depth(nested.encode(), "x")
    limits.check_depth(f'["]]]", {nested[1:-1]}]'.encode(), "x")
    with pytest.raises(InputError, match="x: has lists"):
        limits.check_depth(f'["]]]", {nested}]'.encode(), "x")
    with pytest.raises(InputError, match="x: has lists"):
        limits.check_depth(b" " * 2**20 + f"[{nested}]".encode(), "x")


def test_lines_that_are_longer_than_a_block(tmp_path: Path) -> None:
    rows = [{"task": k, "worker": "w" * 3_000_000, "label": "x"} for k in range(3)]
    write_lines(tmp_path / "a.jsonl", "", *map(json.dumps, rows), "  ")
    assert read_annotations(tmp_path / "a.jsonl").n_annotations == 3
    write_lines(tmp_path / "a.jsonl", "\ufeff" + ROW, ROW.replace("1", "2"))
    limits.check_json_lines([(tmp_path / "a.jsonl").read_bytes()], tmp_path)


def test_nested_json_of_a_platform() -> None:
    with pytest.raises(InputError, match="export: has lists and objects more than 100 deep"):
        parse_records(b'{"a": ' * 300 + b"1" + b"}" * 300, "export")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lambda data: pa.compress(data, "zstd", asbytes=True)])
def test_compressed_bombs(pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.quotes.TABLE_BYTES", 2**20)
    ending = "gz" if pack is gzip.compress else "bz2" if pack is bz2.compress else "zst"
    content = b"task,worker,label\n" + b"1,a,x\n" * 2**19
    (tmp_path / f"a.csv.{ending}").write_bytes(pack(content))
    with pytest.raises(InputError, match=r"unpacks to more than 1 MB, over 100 times its size; .* unpack it yourself"):
        read_table(tmp_path / f"a.csv.{ending}")


def test_json_lines_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.delimited.JSON_BYTES", 2**20)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(f"{ROW}\n".encode() * 2**17))
    with pytest.raises(InputError, match="unpacks to more than 1 MB"):
        read_annotations(tmp_path / "a.jsonl.gz")


def test_what_compresses_well_is_read(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k % 7},{k % 3}\n" for k in range(200_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"task,worker,label\n{rows}".encode()))
    assert read_annotations(tmp_path / "a.csv.gz").n_annotations == 200_000


def npy(shape: str, kind: str = "<f8", more: bytes = b"") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + more


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("content", [npy("(1000000, 1000000)"), npy("(10, -10)"), npy("(99999999999,)", "<U0")])
def test_headers_that_promise_too_much(ending: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_bytes(content)
    if ending == "npz":
        path.unlink()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    with pytest.raises(InputError, match=r"takes -?[\d,]+ bytes, and there are 0; the file was cut off or damaged"):
        read_features(path)
    if ending == "npy":
        with pytest.raises(InputError, match="the file was cut off or damaged"):
            read_annotations(path)


def test_npz_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.numpy_files.ARRAY_BYTES", 2**20)
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((1000, 1000)))
    with pytest.raises(InputError, match=r"x\.npz: unpacks to more than 1 MB"):
        read_features(tmp_path / "x.npz")


def test_an_empty_matrix(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((0, 3), dtype=int))
    with pytest.raises(InputError, match=r"a\.npy: contains no label, its shape is \(0, 3\)"):
        read_annotations(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "text", [b'{"a":' * 600_000, b'["' + b"\\]" * 1_500_000 + b'"]', b'["' + b"x" * 3_000_000 + b'"]']
)
def test_to_look_for_depth_takes_no_memory(text: bytes) -> None:
    tracemalloc.start()
    limits._is_deep(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
