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
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conal.errors import InputError
from conal.io import limits, read_annotations, read_features, read_table
from conal.io.platforms.files import parse_records
from helpers.files import write_lines
from helpers.processes import one_thread

ROW = '{"task": 1, "worker": "a", "label": "x"}'


def refused_by_a_process(path: Path) -> str:
    """The message of a process of its own, which may end by a signal."""
    words = [sys.executable, "-m", "conal", "aggregate", str(path), "--out", str(path.with_name("out.csv"))]
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
    nested = "[" * limits.MAX_DEPTH + "]" * limits.MAX_DEPTH
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
    monkeypatch.setattr("conal.io.limits.TABLE_BYTES", 2**20)
    ending = "gz" if pack is gzip.compress else "bz2" if pack is bz2.compress else "zst"
    content = b"task,worker,label\n" + b"1,a,x\n" * 2**19
    (tmp_path / f"a.csv.{ending}").write_bytes(pack(content))
    with pytest.raises(InputError, match=r"unpacks to more than 1 MB, over 100 times its size; .* unpack it yourself"):
        read_table(tmp_path / f"a.csv.{ending}")


BOMBS = ["labels.parquet", "texts.parquet", "features.parquet", "labels.arrow", "labels.xlsx"]
SCRIPT = """
import resource, sys
from pathlib import Path
from conal.errors import InputError
from conal.io import read_annotations, read_features, read_texts

resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
path = Path(sys.argv[1])
try:
    {"labels": read_annotations, "texts": read_texts, "features": read_features}[path.stem](path)
except InputError as error:
    print(error)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads its peak memory from /proc, as Linux has it")
@pytest.mark.parametrize("name", BOMBS)
def test_small_tables_of_many_gigabytes(name: str, tmp_path: Path) -> None:
    """One long value in many rows, and lists of zeros: refused before the values are copied."""
    path = tmp_path / name
    _write_bomb(path)
    assert path.stat().st_size < 2**20
    run = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(path)]
    done = subprocess.run(run, env=one_thread(), capture_output=True, text=True, check=True, timeout=120)
    message, gigabytes = done.stdout.splitlines()
    assert "unpacks to more than 512 MB, over 100 times its size" in message
    assert "write it without compression and without dictionaries, or as CSV" in message
    assert float(gigabytes) < 1


def _write_bomb(path: Path) -> None:
    n, long = 100_000, "x" * 4_000_000
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, dtype=np.int32)), pa.array([long]))
    column = "text" if path.stem == "texts" else "label"
    table = pa.table({"task": np.arange(n) // 5, "worker": np.arange(n) % 5, column: repeated})
    if path.name == "features.parquet":
        zeros = pa.array(np.zeros(7_000_000))
        lists = pa.ListArray.from_arrays(np.arange(11, dtype=np.int32) * 700_000, zeros)
        with pq.ParquetWriter(path, pa.schema({"x": lists.type}), compression="zstd") as file:
            for _ in range(25):
                file.write_table(pa.table({"x": lists}))
    elif path.suffix == ".parquet":
        pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=2**30, store_schema=False)
    elif path.suffix == ".arrow":
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(path, table.schema, options=options) as file:
            file.write_table(table)
    else:
        _write_workbook(path, long)


def _write_workbook(path: Path, long: str) -> None:
    """Five thousand cells that refer to one text."""
    book = openpyxl.Workbook()
    for row in [("task", "worker", "label"), *((k // 5, f"w{k % 5}", "MARK") for k in range(5000))]:
        book.active.append(row)
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist() if "shared" not in name}
    sheet, types = "xl/worksheets/sheet1.xml", "[Content_Types].xml"
    members[sheet] = members[sheet].replace('t="inlineStr"><is><t>MARK</t></is>', 't="s"><v>0</v>')
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    part = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    members[types] = members[types].replace("</Types>", part)
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    members["xl/sharedStrings.xml"] = f'<sst xmlns="{space}"><si><t>{long}</t></si></sst>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_json_lines_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.limits.JSON_BYTES", 2**20)
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
    monkeypatch.setattr("conal.io.limits.ARRAY_BYTES", 2**20)
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
