"""Columns of every type of Parquet in every role: a result, or an error that names the file."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations, read_features, read_gold, read_table, read_texts
from conal.io.binary_tables import table_batches
from conal.io.images import items_of

N = 8
TYPES: dict[str, tuple[Any, list[Any]]] = {
    "bytes": (pa.binary(), [b"a", b"b"]),
    "no text": (pa.binary(), [b"a", b"\xff"]),
    "large bytes": (pa.large_binary(), [b"a", b"\xff"]),
    "fixed bytes": (pa.binary(2), [b"ab", b"\xff\xfe"]),
    "bytes view": (pa.binary_view(), [b"a", b"\xff"]),
    "text view": (pa.string_view(), ["a", "b"]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal(2)]),
    "decimal without places": (pa.decimal128(10, 0), [Decimal(1), Decimal(2)]),
    "long decimal": (pa.decimal256(50, 0), [Decimal(10**40), Decimal(2)]),
    "moments": (pa.timestamp("us"), [datetime(2020, 1, 1), datetime(2021, 1, 1)]),
    "no time zone": (pa.timestamp("us", "No/Where"), [1, 2]),
    "no date": (pa.date32(), [1, 2**30]),
    "no date either": (pa.date64(), [1, 2**60]),
    "time": (pa.time64("us"), [1, 2]),
    "no time": (pa.time64("us"), [-1, 2**62]),
    "duration": (pa.duration("ns"), [1, 2]),
    "lists": (pa.list_(pa.int64()), [[1], [2, 3]]),
    "texts": (pa.large_list(pa.string()), [["a"], ["b"]]),
    "fixed lists": (pa.list_(pa.float32(), 2), [[1, 2], [3, 4]]),
    "nested lists": (pa.list_(pa.list_(pa.int64())), [[[1]], [[2]]]),
    "objects": (pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": 2}]),
    "maps": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("b", 2)]]),
    "nothing": (pa.null(), [None]),
    "halves": (pa.float16(), [np.float16(1), np.float16(2)]),
    "infinity": (pa.float64(), [1.0, np.inf]),
    "long numbers": (pa.uint64(), [1, 2**64 - 1]),
    "categories": (pa.dictionary(pa.int32(), pa.binary()), [b"a", b"\xff"]),
    "moments as categories": (pa.dictionary(pa.int32(), pa.date32()), [1, 2**30]),
    "lists of no dates": (pa.list_(pa.date32()), [[1], [2**30]]),
    "objects with moments": (pa.struct([("a", pa.timestamp("us"))]), [{"a": datetime(2020, 1, 1)}]),
    "objects with bytes": (pa.struct([("a", pa.binary())]), [{"a": b"\xff"}]),
}
TASKS = [f"t{k}" for k in range(N)]
OTHER = ["x", "y"] * (N // 2)
FLOATS = np.arange(float(N))


def column(kind: str) -> pa.Array:
    dtype, values = TYPES[kind]
    repeated = [values[k % len(values)] for k in range(N)]
    if pa.types.is_dictionary(dtype):
        return pa.array(repeated, dtype.value_type).dictionary_encode()
    return pa.array(repeated, dtype)


@pytest.mark.filterwarnings("ignore::conal.errors.DataWarning")
@pytest.mark.parametrize("kind", TYPES)
def test_any_type_in_any_role(kind: str, tmp_path: Path) -> None:
    path, odd = tmp_path / "a.parquet", column(kind)
    whole = {"task": TASKS, "worker": OTHER, "label": OTHER}
    cases: list[tuple[Any, dict[str, Any]]] = [(read_annotations, whole | {role: odd}) for role in whole]
    cases += [(read_gold, {"task": TASKS, "label": odd}), (read_gold, {"task": odd, "label": OTHER})]
    cases += [(read_features, {"task": odd, "a": FLOATS}), (read_features, {"task": TASKS, "a": odd})]
    cases += [(read_features, {"a": odd, "b": FLOATS}), (read_texts, {"task": odd, "text": OTHER})]
    cases += [(read_texts, {"task": TASKS, "text": odd})]
    wide = {"task": TASKS, "a": odd, "b": OTHER}, {"task": odd, "a": OTHER, "b": OTHER}
    cases += [(lambda path: read_annotations(path, format="wide"), columns) for columns in wide]
    for read, columns in cases:
        pq.write_table(pa.table(columns), path)
        try:
            read(path)
        except InputError as error:
            assert "a.parquet" in str(error)  # noqa: PT017


LISTED = [["x"]] * N
JUDGED = [[{"assessment_name": "k", "source": {"source_id": "u"}, "feedback": {"value": "x"}}]] * N
PLATFORMS: dict[str, dict[str, Any]] = {
    "toloka": {f"{name}:{of}": OTHER for name, of in (("INPUT", "x"), ("OUTPUT", "k"), ("GOLDEN", "k"))}
    | {f"ASSIGNMENT:{name}": OTHER for name in ("task_id", "worker_id", "status", "submitted")},
    "lists": {"id": TASKS, "annotators": LISTED, "labels": LISTED, "x": OTHER},
    "mlflow": {"trace_id": TASKS, "request": OTHER, "assessments": JUDGED},
    "argilla": {"id": TASKS, "text": OTHER, "k.responses": LISTED, "k.responses.users": LISTED},
}
READERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gold": (read_gold, {"task": TASKS, "label": OTHER, "inclusion_probability": [0.5] * N}),
}


@pytest.mark.filterwarnings("ignore::conal.errors.DataWarning")
@pytest.mark.parametrize("kind", TYPES)
def test_any_type_in_any_column_of_a_platform(kind: str, tmp_path: Path) -> None:
    """Also in columns that contain no names: times, true labels and what annotators were shown."""
    path, odd = tmp_path / "a.parquet", column(kind)

    def read_all(path: Path, name: str) -> None:
        found = import_file(path, format=name.split(" ")[0])
        found.all_tasks(), found.task_data(), items_of(found.data)

    readers = READERS | {name: (partial(read_all, name=name), columns) for name, columns in PLATFORMS.items()}
    for read, columns in readers.values():
        for replaced in columns:
            pq.write_table(pa.table(columns | {replaced: odd}), path)
            try:
                read(path)
            except InputError as error:
                assert "a.parquet" in str(error)  # noqa: PT017


def test_categories_are_sorted_as_times(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = pa.array(["2026-01-02", "2026-01-01"]).dictionary_encode()
    columns = {"ASSIGNMENT:task_id": [1, 1], "ASSIGNMENT:worker_id": [5, 5], "OUTPUT:kind": ["new", "old"]}
    pq.write_table(pa.table(columns | {"ASSIGNMENT:submitted": times}), path)
    with pytest.warns(DataWarning, match="kept the last of each"):
        crowd = read_annotations(path)
    assert crowd.classes[crowd.labels].tolist() == ["new"]


def test_a_file_that_promises_other_rows_than_it_has(tmp_path: Path) -> None:
    """A row group that says 4 rows, and has 3 by its pages."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"task": [1, 2, 3], "worker": [1, 2, 3], "label": [1, 2, 3]}), path)
    whole = path.read_bytes()
    found = []
    for at in range(len(whole) - 8, 0, -1):  # the footer has the number twice, as the varint of 2 * 3
        if whole[at] == 6:
            path.write_bytes(whole[:at] + b"\x04" + whole[at + 1 :])
            try:
                assert len(read_annotations(path)) == 3
            except InputError as error:
                found.append(str(error))
    assert any("says that it has 2 rows, and has more; write it again" in message for message in found)


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"index_columns": 7}', b"\xff", b"[" * 5000])
def test_damaged_descriptions_of_a_pandas_index_are_none(metadata: bytes, tmp_path: Path) -> None:
    table = pa.table({"task": [1, 2], "a": [0, 1], "b": [1, 1]}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_annotations(tmp_path / "a.parquet", format="wide").n_annotations == 4
    assert read_features(tmp_path / "a.parquet").values.shape == (2, 2)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("bytes", ["a", "b"]),
        ("decimal", ["1.50", "2.00"]),
        ("decimal without places", [1, 2]),
        ("long decimal", ["1" + "0" * 40, "2"]),
        ("moments", [datetime(2020, 1, 1), datetime(2021, 1, 1)]),
    ],
)
def test_what_names_become(kind: str, names: list[Any], tmp_path: Path) -> None:
    pq.write_table(pa.table({"task": TASKS, "worker": OTHER, "label": column(kind)}), tmp_path / "a.parquet")
    assert read_annotations(tmp_path / "a.parquet").classes.tolist() == names


def test_uuids_are_text(tmp_path: Path) -> None:
    stored = pa.array([bytes([k]) * 16 for k in range(N)], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    pq.write_table(pa.table({"task": uuids, "worker": OTHER, "label": OTHER}), tmp_path / "a.parquet")
    assert read_annotations(tmp_path / "a.parquet").task_ids[1] == "01010101-0101-0101-0101-010101010101"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("time", r"column 'label' contains time64\[us\], which cannot be names; convert it to text or whole numbers"),
        ("no date", r"column 'label' contains dates that do not exist"),
        ("no text", r"column 'label' is not UTF-8 text"),
        ("infinity", r"label: infinity cannot be a name"),
    ],
)
def test_what_cannot_be_names(kind: str, message: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"task": TASKS, "worker": OTHER, "label": column(kind)}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=message):
        read_annotations(tmp_path / "a.parquet")


def test_a_small_file_with_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal values take no room in Parquet."""
    monkeypatch.setattr("conal.io.limits.TABLE_BYTES", 2**20)
    ones = np.ones(1_000_000, dtype=np.int32)
    pq.write_table(pa.table({"task": ones, "worker": ones, "label": ones}), tmp_path / "a.parquet")
    for read in (read_annotations, read_features, read_gold):
        with pytest.raises(InputError, match=r"a\.parquet: unpacks to more than 1 MB, over 100 times its size"):
            read(tmp_path / "a.parquet")
    long = pa.DictionaryArray.from_arrays(pa.array(ones[:2000] * 0), pa.array(["x" * 10_000]))
    pq.write_table(pa.table({"task": ones[:2000], "text": long}), tmp_path / "b.parquet", store_schema=False)
    with pytest.raises(InputError, match=r"b\.parquet: unpacks to more than 1 MB"):
        read_texts(tmp_path / "b.parquet")


@pytest.mark.parametrize("kind", ["text", "lists of text", "shared beginnings", "bytes of one length", "numbers"])
def test_values_are_counted_before_they_are_copied(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.limits.TABLE_BYTES", 2**24)
    codes, long = pa.array(np.zeros(5000, dtype=np.int32)), "x" * 100_000
    text = pa.DictionaryArray.from_arrays(codes, pa.array([long]))
    columns: dict[str, Any] = {
        "text": text,
        "lists of text": pa.ListArray.from_arrays(np.arange(5001, dtype=np.int32), text),
        "shared beginnings": pa.array([long] * 500),
        "bytes of one length": pa.array([long.encode()] * 500, pa.binary(len(long))),
        "numbers": pa.ListArray.from_arrays(np.arange(11, dtype=np.int32) * 500_000, pa.array(np.zeros(5_000_000))),
    }
    how: dict[str, Any] = {"use_dictionary": kind != "shared beginnings", "store_schema": False}
    if kind == "shared beginnings":
        how["column_encoding"] = "DELTA_BYTE_ARRAY"
    table = pa.table({"x": columns[kind]})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", write_statistics=False, **how)
    before = pa.total_allocated_bytes()
    most = 0
    with pytest.raises(InputError, match=r"a\.parquet: unpacks to more than 16 MB"):  # noqa: PT012
        for _ in table_batches(tmp_path / "a.parquet", "parquet"):
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < 2**25
    monkeypatch.setattr("conal.io.limits.TABLE_BYTES", 2**30)
    assert read_table(tmp_path / "a.parquet").num_rows == len(table)


def test_texts_that_share_their_beginning_are_read(tmp_path: Path) -> None:
    """Arrow does not read this encoding as codes."""
    columns = {"task": ["t1", "t1", "t2"], "worker": ["w1", "w2", "w1"], "label": ["yes", "yesterday", "yes"]}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    assert read_annotations(path).to_table().to_pydict() == columns
