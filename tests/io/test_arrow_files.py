"""Arrow's own files and saved datasets: what Hugging Face datasets, pandas and Arrow write, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conal import Annotations
from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations, read_gold, read_texts
from conal.io.binary_tables import read_columns

DATASETS = Path(__file__).parent / "exports" / "datasets"
LISTS = [
    *(("t1", "ann", "cat"), ("t1", "bob", "dog")),
    *(("t2", "ann", "cat"), ("t2", "bob", "dog"), ("t2", "eve", "dog")),
]
TABLE = pa.table({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", "y"]})


def rows_of(crowd: Annotations) -> list[tuple[Any, Any, Any]]:
    return list(zip(*crowd.to_table().to_pydict().values(), strict=True))


def write_ipc(path: Path, table: pa.Table, *, stream: bool = True, compression: str | None = None) -> Path:
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return path


# ---------------------------------------------------------------- what datasets wrote


@pytest.mark.parametrize("name", ["lists.parquet", "lists/data-00000-of-00001.arrow"])
def test_lists_with_the_names_of_classes(name: str) -> None:
    found = import_file(DATASETS / name)
    assert (found.format, rows_of(found.annotations)) == ("lists", LISTS)
    assert found.dropped == {"without an answer": 1, "tasks without a label": 1}
    assert found.data is not None
    assert found.data.to_pydict() == {"task": ["t1", "t2", "t3", "t4"], "text": ["meow", "woof", "tweet", "hm"]}


def test_json_lines_have_numbers() -> None:
    crowd = import_file(DATASETS / "lists.jsonl").annotations
    assert rows_of(crowd)[:2] == [("t1", "ann", 0), ("t1", "bob", 1)]


def test_files_and_folders_of_a_saved_dataset(tmp_path: Path) -> None:
    tables = [read_columns(path, "arrow") for path in sorted((DATASETS / "long").glob("*.arrow"))]
    whole = pa.concat_tables(tables)
    assert whole["label"].to_pylist() == [2, 1, -1]
    with pytest.warns(DataWarning, match="dropped 1 rows without a label"):
        crowd = read_annotations(write_ipc(tmp_path / "a.arrow", whole))
    assert rows_of(crowd) == [(1, "ann", "bird"), (1, "bob", "dog")]
    gold = write_ipc(tmp_path / "gold.arrow", whole.select(["task", "label"]).slice(1, 1))
    assert read_gold(gold).labels.tolist() == ["dog"]
    with pytest.raises(InputError, match=r"long: is a folder of Arrow files; .*load_from_disk\(.*\)\.to_parquet"):
        read_annotations(DATASETS / "long")


def test_texts_of_a_saved_dataset() -> None:
    assert read_texts(DATASETS / "lists" / "data-00000-of-00001.arrow").texts == ("meow", "woof", "tweet", "hm")


def test_numbers_beyond_the_declared_classes_are_refused(tmp_path: Path) -> None:
    schema = pq.read_schema(DATASETS / "lists.parquet")
    rows = {"id": ["t"], "text": ["x"], "annotators": [["ann"]], "labels": [[3]]}
    pq.write_table(pa.table(rows, schema=schema), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"row 1, column 'labels': 3 is none of the 3 classes"):
        read_annotations(tmp_path / "a.parquet")


# ---------------------------------------------------------------- lists


def test_lists_of_different_length_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"annotators": [["a", "b"]], "labels": [["x"]]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"row 1 has 2 entries in 'annotators' and 1 entries in 'labels'"):
        read_annotations(tmp_path / "a.parquet")


def test_columns_of_lists_are_chosen_by_name(tmp_path: Path) -> None:
    table = pa.table({"raters": [["a"], ["b"]], "label": [["x"], ["y"]], "votes": [["p"], ["q"]]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert rows_of(read_annotations(tmp_path / "a.parquet")) == [(0, "a", "x"), (1, "b", "y")]
    assert rows_of(read_annotations(tmp_path / "a.parquet", label="votes")) == [(0, "a", "p"), (1, "b", "q")]
    with pytest.raises(
        InputError, match="column 'who' contains no lists; those that do are 'raters', 'label', 'votes'"
    ):
        read_annotations(tmp_path / "a.parquet", worker="who")


# ---------------------------------------------------------------- other writers


def test_feather_of_pandas(tmp_path: Path) -> None:
    TABLE.to_pandas().to_feather(tmp_path / "a.feather")  # compressed
    assert read_annotations(tmp_path / "a.feather") == Annotations.of(TABLE.to_pandas())
    pd.DataFrame({"task": [1, 2], "label": ["x", "y"]}).to_feather(tmp_path / "gold.feather")
    assert read_gold(tmp_path / "gold.feather").labels.tolist() == ["x", "y"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_streams_and_files_compressed_or_not(stream: bool, compression: str | None, tmp_path: Path) -> None:
    path = write_ipc(tmp_path / "labels", TABLE, stream=stream, compression=compression)  # known by its content
    assert read_annotations(path, format="arrow") == Annotations.of(TABLE)
    assert read_annotations(path.rename(tmp_path / "labels.arrow")) == Annotations.of(TABLE)


def test_codes_with_a_dictionary(tmp_path: Path) -> None:
    coded = TABLE.set_column(1, "worker", TABLE["worker"].dictionary_encode())
    assert read_annotations(write_ipc(tmp_path / "a.arrow", coded)) == Annotations.of(TABLE)


# ---------------------------------------------------------------- limits and damage


def test_a_compressed_buffer_that_promises_too_much_is_refused(tmp_path: Path) -> None:
    """Before it is unpacked."""
    path = write_ipc(tmp_path / "a.arrow", pa.table({"task": np.zeros(2**16, np.int64)}), compression="zstd")
    content = path.read_bytes()
    promised = (8 * 2**16).to_bytes(8, "little")
    assert content.count(promised) == 1
    path.write_bytes(content.replace(promised, (2**40).to_bytes(8, "little")))
    with pytest.raises(InputError, match="unpacks to more than"):
        read_columns(path, "arrow")


def test_rows_that_take_no_room_are_refused(tmp_path: Path) -> None:
    path = write_ipc(tmp_path / "a.arrow", pa.table({"task": pa.nulls(2**30)}))
    assert path.stat().st_size < 1000
    with pytest.raises(InputError, match="unpacks to more than"):
        read_columns(path, "arrow")


def test_one_long_name_for_many_rows_is_refused(tmp_path: Path) -> None:
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2**20, np.int8)), pa.array(["x" * 2**20]))
    path = write_ipc(tmp_path / "a.arrow", pa.table({"task": names}))
    with pytest.raises(InputError, match="unpacks to more than"):
        read_columns(path, "arrow")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = write_ipc(tmp_path / "a.arrow", TABLE, compression="zstd")
    content = path.read_bytes()
    for cut in (12, 100, len(content) // 2, len(content) - 30):
        path.write_bytes(content[:cut])
        with pytest.raises(InputError, match=r"a.arrow"):
            read_annotations(path)


def test_names_of_columns_that_are_no_text(tmp_path: Path) -> None:
    nested = pa.table({"task": [1], "worker": [2], "label": [{"inner": 1}]})
    for table, name in ((TABLE, b"worker"), (nested, b"inner")):
        path = write_ipc(tmp_path / "a.arrow", table)
        path.write_bytes(path.read_bytes().replace(name, b"\xff" + name[1:]))
        for read in (read_annotations, read_gold, read_texts):
            with pytest.raises(InputError, match=r"a\.arrow: cannot be read as arrow: 'utf-8' codec can't decode"):
                read(path)
        pq.write_table(table, tmp_path / "a.parquet", store_schema=False)
        damaged = (tmp_path / "a.parquet").read_bytes().replace(name, b"\xff" + name[1:])
        (tmp_path / "a.parquet").write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.parquet: cannot be read as parquet"):
            read_annotations(tmp_path / "a.parquet")


def test_views_of_text_as_polars_writes_them(tmp_path: Path) -> None:
    names = pa.array(["a short one", None, "one that is longer than twelve bytes"], pa.string_view())
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["x", "y"], pa.string_view()))
    table = pa.table({"task": [1, 2, 3], "worker": coded, "label": names})
    path = write_ipc(tmp_path / "a.arrow", table)
    with pytest.warns(DataWarning, match="dropped 1 rows"):
        crowd = read_annotations(path)
    assert rows_of(crowd) == [(1, "x", names[0].as_py()), (3, "x", names[2].as_py())]


def test_views_that_share_a_long_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rows of one text: a few bytes each in the file, and all of it once they are copied."""
    monkeypatch.setattr("conal.io.limits.TABLE_BYTES", 2**20)
    monkeypatch.setattr("conal.io.limits.MAX_RATIO", 1)
    shared = _repeated_view(pa.array(["x" * 10_000], pa.string_view()), 1000)
    path = write_ipc(tmp_path / "a.arrow", pa.table({"task": range(1000), "text": shared}))
    with pytest.raises(InputError, match=r"a\.arrow: unpacks to more than 1 MB"):
        read_texts(path)


def _repeated_view(text: pa.Array, times: int) -> pa.Array:
    _, views, *data = text.buffers()
    repeated = pa.py_buffer(views.to_pybytes()[:16] * times)
    return pa.Array.from_buffers(text.type, times, [None, repeated, *data])
