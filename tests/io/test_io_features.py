"""Features from arrays, frames and files."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from conal.data.joining import RowIndex
from conal.errors import DataWarning, InputError
from conal.io import FeatureTable, features_from, read_features, write_table
from conal.io import features as module
from conal.io import features as row_groups

X = np.array([[1.0, 2.5], [3.0, 4.0], [-5.0, 0.25]])
IDS = ["c", "a", "b"]


def columns() -> dict[str, list[Any]]:
    return {"task": IDS, "width": X[:, 0].tolist(), "height": X[:, 1].tolist()}


def check(table: FeatureTable, ids: list[Any] | None, names: tuple[str, ...] = ()) -> None:
    np.testing.assert_array_equal(table.values, X)
    assert (None if table.ids is None else table.ids.tolist()) == ids
    assert table.columns == names
    assert len(table) == 3


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_npy_stays_on_disk(tmp_path: Path, dtype: Any) -> None:
    np.save(tmp_path / "x.npy", X.astype(dtype))
    table = read_features(tmp_path / "x.npy")
    check(table, None)
    assert isinstance(table.values, np.memmap)
    assert table.values.dtype == dtype
    assert not table.values.flags.writeable
    assert table.where == str(tmp_path / "x.npy")


def test_npy_of_images(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.save(tmp_path / "x.npy", images)
    np.testing.assert_array_equal(read_features(str(tmp_path / "x.npy")).values, images)


@pytest.mark.parametrize("key", ["X", "features", "anything"])
@pytest.mark.parametrize("ids_key", [None, "task", "task_ids", "id", "ids"])
def test_npz(tmp_path: Path, key: str, ids_key: str | None) -> None:
    arrays: dict[str, Any] = {key: X} if ids_key is None else {ids_key: np.array(IDS), key: X}
    np.savez(tmp_path / "x.npz", **arrays)
    check(read_features(tmp_path / "x.npz"), None if ids_key is None else IDS)


def test_npz_with_other_arrays_beside_the_features(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", other=np.zeros(2), X=X, ids=np.array([7, 9, 8]))
    check(read_features(tmp_path / "x.npz"), [7, 9, 8])


def test_npz_with_one_id_for_all_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=X, ids=np.array(7))
    with pytest.raises(InputError, match=r"x\.npz: ids: found 7 where a list of names belongs; pass one name per row"):
        read_features(tmp_path / "x.npz")


def test_npz_without_a_clear_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", train=X, test=X)
    message = r"x\.npz: contains arrays 'train', 'test'; call the features 'X' or 'features'"
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "x.npz")


@pytest.mark.parametrize("ending", ["csv", "tsv", "tab", "parquet", "pq"])
def test_tables_with_ids(tmp_path: Path, ending: str) -> None:
    write_table(pa.table(columns()), tmp_path / f"x.{ending}")
    table = read_features(tmp_path / f"x.{ending}")
    check(table, IDS, ("width", "height"))
    assert table.values.dtype == np.float32


def test_table_without_ids(tmp_path: Path) -> None:
    write_table(pa.table(columns()).drop_columns("task"), tmp_path / "x.csv")
    check(read_features(tmp_path / "x.csv"), None, ("width", "height"))


def test_id_column_by_name(tmp_path: Path) -> None:
    write_table(pa.table(columns()).rename_columns(["song", "width", "height"]), tmp_path / "x.csv")
    check(read_features(tmp_path / "x.csv", task="song"), IDS, ("width", "height"))
    with pytest.raises(InputError, match="no column 'track'; it has 'song', 'width', 'height'"):
        read_features(tmp_path / "x.csv", task="track")


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int16()])
@pytest.mark.parametrize("fixed", [False, True])
def test_one_column_of_lists(tmp_path: Path, kind: pa.DataType, fixed: bool) -> None:
    rows = X.astype(int).tolist()
    vectors = pa.array(rows, pa.list_(kind, 2) if fixed else pa.list_(kind))
    write_table(pa.table({"id": [5, 4, 6], "vector": vectors}), tmp_path / "x.parquet")
    table = read_features(tmp_path / "x.parquet")
    assert table.values.tolist() == rows
    assert table.values.dtype == np.float32
    assert table.ids is not None
    assert table.ids.tolist() == [5, 4, 6]


def test_numbers_of_every_type() -> None:
    table = features_from(
        pa.table(
            {
                "whole": pa.array([1, 2], pa.uint8()),
                "yes": [True, False],
                "money": pa.array([1, 2]).cast(pa.decimal128(25, 2)),
                "half": pa.array(np.array([0.5, 1.5], dtype=np.float16)),
            }
        )
    )
    assert table.values.tolist() == [[1, 1, 1, 0.5], [2, 0, 2, 1.5]]


# ---------------------------------------------------------------- arrays and frames


@pytest.mark.parametrize("values", [X, X.tolist(), X.astype(np.float32)])
def test_arrays(values: Any) -> None:
    check(features_from(values), None)
    check(features_from(values, task_ids=IDS), IDS)


def test_an_array_is_not_copied() -> None:
    assert features_from(X).values is X


@pytest.mark.parametrize("frame", [pd.DataFrame(columns()), pl.DataFrame(columns()), pa.table(columns())])
def test_frames(frame: Any) -> None:
    check(features_from(frame), IDS, ("width", "height"))
    check(features_from(frame, task_ids=[1, 2, 3]), [1, 2, 3], ("width", "height"))


def test_frame_with_numbered_columns() -> None:
    check(features_from(pd.DataFrame(X)), None, ("0", "1"))


@pytest.mark.parametrize("ids", [pd.Series(IDS, index=[3, 4, 5]), np.array(IDS), pa.array(IDS), tuple(IDS), iter(IDS)])
def test_ids_of_every_kind(ids: Any) -> None:
    check(features_from(X, task_ids=ids), IDS)


def test_whole_numbers_are_integers_as_in_annotations() -> None:
    ids = features_from(X, task_ids=[2.0, 0.0, 1.0]).ids
    assert ids is not None
    assert ids.dtype == np.int64


def test_a_feature_table_passes_through(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    table = read_features(tmp_path / "x.npy")
    assert features_from(table) is table
    named = features_from(table, task_ids=IDS)
    check(named, IDS)
    assert named.where == str(tmp_path / "x.npy")
    assert named.values is table.values


# ---------------------------------------------------------------- not numbers, not finite


@pytest.mark.parametrize(("bad", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_bad_numbers_are_named_by_row_and_column(tmp_path: Path, bad: float, shown: str) -> None:
    values = X.copy()
    values[1, 1] = values[2, 0] = values[2, 1] = bad
    end = r"\(2 rows contain NaN, infinity or more than 3\.4e38; rows count from 0\); impute or remove them"
    with pytest.raises(InputError, match=rf"^features: {shown} in row 1, column 1 {end}$"):
        features_from(values)
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(InputError, match=rf"x\.npy: {shown} in row 1, column 1 {end}$"):
        read_features(tmp_path / "x.npy")
    frame = pd.DataFrame(values, columns=["width", "height"]).assign(id=IDS)
    with pytest.raises(InputError, match=rf"^train: {shown} in row 1, column 'height' {end}$"):
        features_from(frame, where="train")


def test_bad_number_in_an_image() -> None:
    images = np.zeros((4, 3, 2))
    images[3, 2, 1] = np.nan
    with pytest.raises(InputError, match=r"nan in row 3, column 2, 1 \(1 rows"):
        features_from(images)


def test_gaps_in_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,width,height\na,1,2\nb,,3\nc,4,inf\n")
    with pytest.raises(InputError, match=r"x\.csv: nan in row 1, column 'width' \(2 rows contain NaN"):
        read_features(tmp_path / "x.csv")


def test_numbers_beyond_single_precision() -> None:
    values = X.copy()
    values[2, 1] = -1e39
    with pytest.raises(
        InputError, match=r"-1e\+39 in row 2, column 1 \(1 rows contain NaN, infinity or more than 3\.4e38"
    ):
        features_from(values)
    features_from(np.full((2, 2), np.finfo(np.float32).max, dtype=np.float64))


def test_a_column_without_a_name(tmp_path: Path) -> None:
    pd.DataFrame({"width": [1.0, 2.0]}).to_csv(tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"x\.csv: a column has no name \(a pandas index\?\)"):
        read_features(tmp_path / "x.csv")


def test_ids_in_csv_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("song,width\n007,1\n7,2\n")
    ids = read_features(tmp_path / "x.csv", task="song").ids
    assert ids is not None
    assert ids.tolist() == ["007", "7"]


def test_gap_in_a_list() -> None:
    with pytest.raises(InputError, match="nan in row 1, column 0"):
        features_from(pl.DataFrame({"id": [1, 2], "vector": [[1.0, 2.0], [None, 1.0]]}))


def test_large_arrays_are_checked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 32)  # two rows of two doubles
    values = np.zeros((7, 2))
    features_from(values)
    values[4, 1] = values[6, 0] = np.inf
    with pytest.raises(InputError, match=r"inf in row 4, column 1 \(2 rows"):
        features_from(values)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_whole_numbers_need_no_check(dtype: Any) -> None:
    assert features_from(np.ones((2, 2), dtype=dtype)).values.dtype == dtype


def test_one_cell_that_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,width\na,1\nb,-2.5e3\nc,3 cm\nd,\n e,.5\n")
    with pytest.raises(
        InputError, match=r"x\.csv: column 'width' has '3 cm' in row 2, .* \(2 of 5 rows have none; rows"
    ):
        read_features(tmp_path / "x.csv")


def test_labels_among_the_features_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,width,label,Annotator\na,1,0,7\n")
    with pytest.warns(DataWarning, match=r"x\.csv: 'label', 'Annotator' become features; remove labels and annotators"):
        assert read_features(tmp_path / "x.csv").columns == ("width", "label", "Annotator")


def test_text_in_a_column(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,width,colour\na,1,red\n")
    message = r"x\.csv: column 'colour' contains string, not numbers; remove it, encode it, or if it is the task id"
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([["a", "b"]]), "features must be numbers, found <U1; encode text first"),
        (np.array([[1, None]], dtype=object), "features must be numbers, found object"),
        (np.ones((2, 2), dtype=complex), "features must be numbers, found complex128"),
        (np.arange(3), r"expected rows x features, got shape \(3,\)"),
        (np.float64(3), r"expected rows x features, got shape \(\)"),
        (np.empty((0, 2)), r"contains no features \(shape \(0, 2\)\)"),
        (np.empty((2, 0)), r"contains no features \(shape \(2, 0\)\)"),
        (pd.DataFrame({"task": [1, 2]}), "has ids but no feature columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns have the same name: .*'a' 2 times"),
        (pl.DataFrame({"v": [[1, 2], [1]]}), "feature lists have 1 to 2 entries; they must be equally long"),
        (pl.DataFrame({"v": [[1, 2], None]}), "feature lists have 0 to 2 entries"),
        (pl.DataFrame({"v": [["a"], ["b"]]}), "feature lists must contain numbers only"),
        (pl.DataFrame({"v": [[[1], [2, 3]], [[1], [2]]]}), "feature lists must contain numbers only, equally many"),
        (pl.DataFrame({"v": [[1.0]], "w": [[1.0]]}), "column 'v' contains .*list.*, not numbers"),
    ],
)
def test_features_that_cannot_be_used(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^features: {message}"):
        features_from(values)


# ---------------------------------------------------------------- ids


def test_ids_that_occur_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"features: 1 ids occur more than once \('a'\); keep one row per task"):
        features_from(X, task_ids=["a", "b", "a"])
    (tmp_path / "x.csv").write_text("id,width\n7,1\n7,2\n")
    with pytest.raises(InputError, match=r"x\.csv: 1 ids occur more than once \(7\)"):
        read_features(tmp_path / "x.csv")


def test_ids_and_rows_must_be_equally_many(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="features: 2 ids for 3 rows; pass one per row"):
        features_from(X, task_ids=["a", "b"])
    np.savez(tmp_path / "x.npz", X=X, ids=np.arange(4))
    with pytest.raises(InputError, match=r"x\.npz: 4 ids for 3 rows"):
        read_features(tmp_path / "x.npz")


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_missing_ids(gap: Any) -> None:
    with pytest.raises(InputError, match="features: 1 rows have no id, the first is row 2"):
        features_from(X, task_ids=["a", gap, "b"])


@pytest.mark.parametrize("name", ["a", "1"])
def test_missing_ids_in_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.csv").write_text(f"id,width\n{name},1\n,2\n,3\n")
    with pytest.raises(InputError, match=r"x\.csv: 2 rows have no id, the first is row 2"):
        read_features(tmp_path / "x.csv")


def test_ids_that_cannot_be_names() -> None:
    with pytest.raises(InputError, match=r"features: ids: \[0, 0\] cannot be a name"):
        features_from(X, task_ids=np.zeros((3, 2), dtype=int))


def test_several_columns_could_be_the_ids(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,item,width\n1,1,1\n")
    with pytest.raises(InputError, match="columns 'id', 'item' could all be the task"):
        read_features(tmp_path / "x.csv")


# ---------------------------------------------------------------- files that cannot be used


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "parquet"])
def test_missing_empty_and_folder(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    with pytest.raises(InputError, match="no such file"):
        read_features(path)
    path.touch()
    with pytest.raises(InputError, match="is empty"):
        read_features(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="is a folder"):
        read_features(path)


def test_unknown_ending(tmp_path: Path) -> None:
    (tmp_path / "x.mat").write_text("x")
    with pytest.raises(InputError, match=r"x\.mat: unknown kind of features '\.mat'; use \.npy, \.npz"):
        read_features(tmp_path / "x.mat")


@pytest.mark.parametrize("content", [b"PK\x03\x04 and junk", b"junk", b"\x93NUMPY", b"1,2\n"])
@pytest.mark.parametrize(("ending", "kind"), [("npy", "NumPy numbers or text"), ("npz", "a .npz archive")])
def test_junk(tmp_path: Path, ending: str, kind: str, content: bytes) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"{path}: cannot be read as {kind}: ")):
        read_features(path)


def test_cut_off_files(tmp_path: Path) -> None:
    for ending, save in (("npy", np.save), ("npz", np.savez)):
        path = tmp_path / f"x.{ending}"
        save(path, np.zeros((100, 100)))
        path.write_bytes(path.read_bytes()[:5000])
        with pytest.raises(InputError, match="cannot be read as"):
            read_features(path)


def test_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(50, 50)))
    content = bytearray(path.read_bytes())
    content[2000:3000] = bytes(1000)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.npz: X\.npy: cannot be read as NumPy numbers or text"):
        read_features(path)


def test_pickles_are_refused(tmp_path: Path) -> None:
    objects = np.array([[1, None]], dtype=object)
    np.save(tmp_path / "x.npy", objects, allow_pickle=True)
    with pytest.raises(InputError, match=r"x\.npy: cannot be read as NumPy numbers or text: .*Python objects"):
        read_features(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", X=X, ids=np.array(IDS, dtype=object), allow_pickle=True)
    with pytest.raises(
        InputError, match=r"x\.npz: ids\.npy: cannot be read as NumPy numbers or text: .*Python objects"
    ):
        read_features(tmp_path / "x.npz")


def test_kinds_of_numpy_files_mixed_up(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "y.npz", X=X)
    with pytest.raises(InputError, match=r"x\.npz: cannot be read as a \.npz archive"):
        read_features((tmp_path / "x.npy").rename(tmp_path / "x.npz"))
    with pytest.raises(InputError, match=r"y\.npy: cannot be read as NumPy numbers"):
        read_features((tmp_path / "y.npz").rename(tmp_path / "y.npy"))


@pytest.mark.parametrize("rows", ["a;1,5;2\nb;-0,25;3\n", "a;,5;2\nb;7;3\nc;2;2\n"])
def test_decimal_commas_are_named(rows: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"task;width;height\n{rows}")
    with pytest.raises(
        InputError, match=r"x\.csv: column 'width' has '1?,5' in row 0, where a number is expected .*points"
    ):
        read_features(tmp_path / "x.csv")


def test_blanks_around_numbers_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("task, width, height\na, 0.5, 2\nb, 1.5, 3\n")
    np.testing.assert_array_equal(read_features(tmp_path / "x.csv").values, [[0.5, 2], [1.5, 3]])


def test_a_pandas_index_is_no_feature(tmp_path: Path) -> None:
    """Shuffled frames keep their index; it must not become a column, in memory or in Parquet."""
    frame = pd.DataFrame(X, columns=["width", "height"]).iloc[::-1]
    table = features_from(frame)
    assert table.columns == ("width", "height")
    assert isinstance(table.ids, RowIndex)
    assert table.ids.tolist() == [2, 1, 0]
    np.testing.assert_array_equal(table.values, X[::-1].astype(np.float32))
    frame.to_parquet(tmp_path / "x.parquet")
    assert read_features(tmp_path / "x.parquet").columns == ("width", "height")


def test_a_named_pandas_index_is_no_feature_either(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["width", "height"], index=pd.Index([5, 6, 7], name="row"))
    frame.to_parquet(tmp_path / "x.parquet")
    table = read_features(tmp_path / "x.parquet")
    assert (table.columns, table.ids) == (("width", "height"), None)
    table = read_features(tmp_path / "x.parquet", task="row")
    assert table.ids is not None
    assert (table.columns, table.ids.tolist()) == (("width", "height"), [5, 6, 7])


@pytest.mark.parametrize(
    "index",
    [
        [0, 1, 2],
        ["a", "a", "b"],
        ["a", None, "b"],
        ["a", " ", "b"],
        pd.MultiIndex.from_tuples([(0, 1), (0, 2), (1, 1)]),
    ],
)
def test_an_index_that_cannot_be_ids_is_left_out(index: Any) -> None:
    assert features_from(pd.DataFrame(X, columns=["width", "height"], index=index)).ids is None


def test_a_pandas_index_that_is_called_like_an_id_is_one() -> None:
    frame = pd.DataFrame(X, columns=["width", "height"], index=pd.Index(IDS, name="task"))
    table = features_from(frame)
    assert table.columns == ("width", "height")
    assert table.ids is not None
    assert table.ids.tolist() == list(IDS)


def test_the_usual_name_where_the_named_column_is_absent(tmp_path: Path) -> None:
    write_table(pa.table(columns()), tmp_path / "x.csv")
    check(read_features(tmp_path / "x.csv", task="song", fallback_to_aliases=True), IDS, ("width", "height"))


def test_sparse_features_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"sparse matrix; pass X\.toarray\(\)"):
        features_from(scipy.sparse.eye(3).tocsr())


def test_values_are_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read and found usable is not read again; a table made by hand is looked at."""
    np.save(tmp_path / "x.npy", X)
    table = read_features(tmp_path / "x.npy")
    with pytest.raises(InputError, match="nan in row 0"):
        features_from(FeatureTable(np.array([[np.nan, 1.0]])))
    monkeypatch.setattr(module, "check_finite", lambda _: pytest.fail("checked twice"))
    assert features_from(table) is table
    named = features_from(table, task_ids=list(IDS))
    assert named.ids is not None
    assert named.ids.tolist() == list(IDS)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.binary_tables.BATCH_BYTES", 500)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("spill", [0, 2**30])
@pytest.mark.parametrize("kind", ["columns", "lists", "images"])
def test_row_groups_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spill: int, kind: str) -> None:
    monkeypatch.setattr(row_groups, "SPILL_BYTES", spill)
    x = np.random.default_rng(0).normal(size=(101, 6)).astype(np.float32)
    kinds: dict[str, dict[str, Any]] = {
        "columns": {f"f{k}": x[:, k] for k in range(6)},
        "lists": {"vector": list(x)},
        "images": {"image": x.reshape(101, 3, 2).tolist()},
    }
    columns = kinds[kind]
    ids = [f"t{k}" for k in range(101)][::-1]
    pq.write_table(pa.table({"id": ids, **columns}), tmp_path / "x.parquet", row_group_size=13)
    table = read_features(tmp_path / "x.parquet")
    np.testing.assert_array_equal(table.values, x.reshape(101, 3, 2) if kind == "images" else x)
    assert isinstance(table.values, np.memmap) == (spill == 0)
    assert table.ids is not None
    assert table.ids.tolist() == ids
    assert table.columns == (tuple(columns) if kind == "columns" else ())


@pytest.mark.usefixtures("small_pieces")
def test_lists_that_change_their_length_in_a_later_row_group(tmp_path: Path) -> None:
    vectors = [[1.0, 2.0]] * 30 + [[1.0, 2.0, 3.0]] * 30
    pq.write_table(pa.table({"id": range(60), "v": vectors}), tmp_path / "x.parquet", row_group_size=30)
    with pytest.raises(InputError, match=r"equally long"):
        read_features(tmp_path / "x.parquet")


def test_a_spilled_file_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "SPILL_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / "x.parquet")
    table = read_features(tmp_path / "x.parquet")
    assert list((tmp_path / "tmp").iterdir()) == []
    np.testing.assert_array_equal(table.values, [[1.0], [2.0]])


def test_usual_names_in_tables_of_labels_stay_features() -> None:
    frame = pd.DataFrame({"image": [1, 2], "rating": [4.5, 3.0], "model": [0, 1]})
    found = features_from(frame)
    assert (found.ids, found.columns) == (None, ("image", "rating", "model"))
