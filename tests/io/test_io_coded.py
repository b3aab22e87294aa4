"""Names read batch by batch into codes are what reading them at once would give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conal import Annotations
from conal.data.encoding import encode
from conal.io import tables
from conal.io.tables import read_table

N = 500


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 256)
    monkeypatch.setattr(tables, "CODED_ROWS", 7)


@pytest.fixture
def frame() -> pd.DataFrame:
    """Tasks that come back in later batches, each with every class, and a column that nobody asked for."""
    rng = np.random.default_rng(0)
    rows = {
        "task": [f"t{k % 97}" for k in range(N)],
        "worker": [f"w{k // 97}" for k in range(N)],
        "label": rng.choice(["cat", "dog", "eel"], N),
        "note": ["x" * 50] * N,
    }
    return pd.DataFrame(rows)


def expected(frame: pd.DataFrame) -> dict[tuple[object, object], object]:
    return {(task, worker): label for task, worker, label in frame[["task", "worker", "label"]].to_numpy().tolist()}


def found(ann: Annotations) -> dict[tuple[object, object], object]:
    names = ann.task_ids[ann.tasks], ann.annotator_ids[ann.annotators], ann.classes[ann.labels]
    return {(t, w): label for t, w, label in zip(*(column.tolist() for column in names), strict=True)}


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet", "jsonl"])
@pytest.mark.usefixtures("small_blocks")
def test_many_batches_give_the_annotations_of_the_whole(frame: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"labels.{ending}"
    if ending == "parquet":
        frame.to_parquet(path, row_group_size=50)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    ann = Annotations.read(path)
    assert ann.n_annotations == N
    assert found(ann) == expected(frame)
    assert ann.task_ids.tolist() == sorted(set(frame["task"]))


def test_only_the_columns_asked_for_are_kept(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "a.csv", index=False)

    def but_the_note(header: Sequence[str]) -> list[str]:
        return [name for name in header if name != "note"]

    table = tables.read_delimited(tmp_path / "a.csv", ",", but_the_note, coded=True)
    assert table.column_names == ["task", "worker", "label"]
    assert all(pa.types.is_dictionary(column.type) for column in table.columns)
    assert {column.type.index_type for column in table.columns} == {pa.int32()}


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("last", "first_id"), [("7", 1), ("007", "1"), ("x", "1"), ("7.5", 1.0)])
def test_one_late_name_decides_what_all_are(tmp_path: Path, last: str, first_id: object) -> None:
    rows = [f"{k},w,yes" for k in range(1, 300)]
    (tmp_path / "a.csv").write_text("task,worker,label\n" + "\n".join([*rows, f"{last},v,no"]) + "\n")
    ann = Annotations.read(tmp_path / "a.csv")
    assert first_id in ann.task_ids.tolist()
    assert type(ann.task_ids.tolist()[0]) is type(first_id)
    table = read_table(tmp_path / "a.csv")  # the reader of whole tables agrees
    assert table["task"][0].as_py() == first_id


@pytest.mark.usefixtures("small_blocks")
def test_missing_labels_in_any_batch_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [f"{k},w,{'NA' if k % 10 == 0 else 'yes'}" for k in range(200)]
    (tmp_path / "a.csv").write_text("task,worker,label\n" + "\n".join(rows) + "\n")
    with pytest.warns(UserWarning, match="dropped 20 rows without a label"):
        ann = Annotations.read(tmp_path / "a.csv")
    assert ann.classes.tolist() == ["yes"]
    assert ann.n_annotations == 180


@pytest.mark.usefixtures("small_blocks")
def test_line_ends_in_quotes_may_cross_blocks(tmp_path: Path) -> None:
    rows = [f'{k},w,yes,"note\n{"long " * 30}{k}"\n' for k in range(20)]
    (tmp_path / "a.csv").write_text("task,worker,label,note\n" + "".join(rows))
    assert Annotations.read(tmp_path / "a.csv").task_ids.tolist() == list(range(20))


def test_numbers_and_truth_values_in_parquet(tmp_path: Path) -> None:
    table = pa.table({"task": [3, 1, 3], "worker": [1.0, 2.0, 2.0], "label": [True, False, False]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    ann = Annotations.read(tmp_path / "a.parquet")
    assert (ann.task_ids.tolist(), ann.annotator_ids.tolist(), ann.classes.tolist()) == ([1, 3], [1, 2], [False, True])
    assert Annotations.read(tmp_path / "a.parquet", classes=["true", "false"]).classes.tolist() == [True, False]


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcde")), min_size=1), st.integers(1, 4))
def test_codes_from_elsewhere_are_the_codes_of_the_values(values: list[str | None], pieces: int) -> None:
    parts = [pa.array(values[k::pieces], type=pa.string()) for k in range(pieces)]
    plain = encode(pa.chunked_array(parts))
    ours = encode(pa.chunked_array([part.dictionary_encode() for part in parts]))
    np.testing.assert_array_equal(ours[0], plain[0])
    assert ours[1].tolist() == plain[1].tolist()


def test_categories_that_nobody_chose_are_no_classes() -> None:
    labels = pd.Categorical(["b", "c", "b"], categories=["a", "b", "c", "d"])
    frame = pd.DataFrame({"task": [1, 2, 3], "worker": "w", "label": labels})
    assert Annotations.from_frame(frame).classes.tolist() == ["b", "c"]


def test_codes_of_other_types() -> None:
    frame = pl.DataFrame({"task": [1, 2, 3], "worker": ["w"] * 3, "label": ["b", None, "a"]})
    frame = frame.with_columns(pl.col("label").cast(pl.Categorical))
    with pytest.warns(UserWarning, match="dropped 1 rows"):
        ann = Annotations.from_frame(frame)
    assert ann.classes.tolist() == ["a", "b"]
    assert ann.labels.tolist() == [1, 0]


def test_annotations_do_not_change_with_the_arrays_they_were_made_of() -> None:
    tasks = np.array([0, 1], dtype=np.int32)
    ann = Annotations(tasks, tasks * 0, tasks, task_ids=[1, 2], annotator_ids=["w"], classes=["x", "y"])
    tasks[:] = 0
    assert ann.tasks.tolist() == ann.labels.tolist() == [0, 1]
