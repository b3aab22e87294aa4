"""Texts from files and from memory: one per task, columns found, nothing guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conal.errors import InputError
from conal.io import FeatureTable, TextTable, read_texts, write_table
from conal.io.features import is_text, texts_from
from helpers.files import write_csv

TEXTS = ["plain", 'quoted "words", and commas', "two\nlines", "天气很好", "007"]
IDS = ["t1", "t2", "t3", "t4", "t5"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_every_format(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"texts.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"id": IDS, "text": TEXTS}), path)
    elif ending == "jsonl":
        lines = (json.dumps({"id": name, "text": text}) for name, text in zip(IDS, TEXTS, strict=True))
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        write_csv(path, ("id", "text"), zip(IDS, TEXTS, strict=True))
    found = read_texts(path)
    assert found.texts == tuple(TEXTS)
    assert found.ids is not None
    assert found.ids.tolist() == IDS
    assert found.where == str(path)


@pytest.mark.parametrize("name", ["text", "Sentence", "content", "body", "comment", "TWEET", "re-view", "message"])
def test_usual_names_of_the_column(name: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ("task", "year", name), [(0, 1990, "a"), (1, 1991, "b")])
    assert read_texts(path).texts == ("a", "b")


def test_text_is_the_first_choice_among_usual_names(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ("body", "text"), [("x", "a")])
    assert read_texts(path).texts == ("a",)
    assert read_texts(path, text="body").texts == ("x",)


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        (("task", "gist"), {}, r"no column for the text; it has 'task', 'gist'.*--set text_column=NAME"),
        (("task", "gist"), {"text": "body"}, "no column 'body'; it has 'task', 'gist'"),
        (("body", "content"), {}, "'body', 'content' could all be the text; choose one with .*--set text_column=NAME"),
    ],
)
def test_columns_that_are_not_there(header: tuple[str, str], options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_texts(write_csv(tmp_path / "t.csv", header, [("1", "a")]), **options)


def test_rows_without_ids_are_numbered_by_their_order(tmp_path: Path) -> None:
    found = read_texts(write_csv(tmp_path / "t.csv", ("text", "length"), [("a", 1), ("a", 1), ("b", 1)]))
    assert found.ids is None
    assert found.texts == ("a", "a", "b")


def test_numbers_and_truth_values_are_texts_too(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ("task", "text"), [(1, "12"), (2, "7")])
    assert read_texts(path).texts == ("12", "7")
    path = write_csv(tmp_path / "t.csv", ("task", "gist"), [(1, "true"), (2, "12:00")])
    assert read_texts(path, text="gist").texts == ("true", "12:00")


def test_a_file_of_labels_holds_each_text_several_times(tmp_path: Path) -> None:
    rows = [("b", "ann", "x", "two"), ("a", "ann", "y", "one"), ("b", "bob", "x", "two"), ("a", "bob", "y", "")]
    found = read_texts(write_csv(tmp_path / "l.csv", ("task", "worker", "label", "text"), rows))
    assert found.ids is not None
    assert found.ids.tolist() == ["b", "a"]
    assert found.texts == ("two", "one")


def test_an_empty_text_gives_way_to_a_later_one(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "l.csv", ("task", "text"), [("a", " "), ("b", ""), ("a", "one")])
    assert read_texts(path).texts == ("one", "")


def test_two_texts_of_one_task_are_an_error_that_names_it(tmp_path: Path) -> None:
    rows = [("t7", "one"), ("t8", "two"), ("t7", "x" * 99)]
    path = write_csv(tmp_path / "l.csv", ("task", "text"), rows)
    with pytest.raises(
        InputError, match=rf"{path}: task 't7' has different texts, the second is in row 3: 'one' and 'x{{37}}\.\.\.'"
    ):
        read_texts(path)


def test_missing_texts_are_empty(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", None]}), tmp_path / "t.parquet")
    assert read_texts(tmp_path / "t.parquet").texts == ("a", "")
    path = write_csv(tmp_path / "t.csv", ("id", "text"), [(1, "a"), (2, ""), (3, "NA")])
    assert read_texts(path).texts == ("a", "", "NA")


def test_a_column_of_lists_is_no_text(tmp_path: Path) -> None:
    write_table(pa.table({"id": [1], "text": [["a", "b"]]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"column 'text' contains list<.*>, not text"):
        read_texts(tmp_path / "t.parquet")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_text_longer_than_the_blocks_that_files_are_read_in(ending: str, tmp_path: Path) -> None:
    texts = ["short", "five " * 800_000, "also\nshort"]
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        write_csv(path, ("id", "text"), enumerate(texts))
    else:
        path.write_text("".join(json.dumps({"id": k, "text": t}) + "\n" for k, t in enumerate(texts)))
    assert read_texts(path).texts == tuple(texts)


# -------------------------------------------------------------------- from memory

PAIR = ["a", "b"]


@pytest.mark.parametrize(
    "values",
    [
        PAIR,
        ("a", "b"),
        np.array(PAIR),
        np.array(PAIR, dtype=object),
        pd.Series(PAIR, index=[7, 3]),
        pd.Series(PAIR, dtype="string"),
        pl.Series(PAIR),
        pa.array(PAIR),
        pa.chunked_array([["a"], ["b"]]),
        pd.DataFrame({"text": PAIR}),
        pd.DataFrame({"anything": PAIR}),
        pl.DataFrame({"body": PAIR}),
        pa.table({"text": PAIR}),
        pd.DataFrame({"text": pd.Categorical(PAIR)}),
        pd.DataFrame({"text": PAIR, "language": ["en", "en"]}),
        TextTable(("a", "b")),
    ],
)
def test_texts_in_memory(values: Any) -> None:
    assert is_text(values)
    found = texts_from(values)
    assert found.texts == ("a", "b")
    assert found.ids is None


@pytest.mark.parametrize(
    "values",
    [
        pd.DataFrame({"task": ["x", "y"], "text": PAIR}),
        pl.DataFrame({"id": ["x", "y"], "gist": PAIR}),
        pd.DataFrame({"text": PAIR}, index=pd.Index(["x", "y"], name="task_id")),
        pd.Series(PAIR, index=pd.Index(["x", "y"], name="task")),
    ],
)
def test_ids_in_memory(values: Any) -> None:
    assert is_text(values)
    found = texts_from(values)
    assert found.ids is not None
    assert found.ids.tolist() == ["x", "y"]
    assert texts_from(values, task_ids=[5, 6]).ids.tolist() == [5, 6]  # type: ignore[union-attr]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_in_memory(missing: Any) -> None:
    values = [missing, "a"]
    assert is_text(values)
    assert is_text(pd.Series(values))
    assert texts_from(values).texts == ("", "a")
    assert texts_from(pd.Series(values)).texts == ("", "a")
    assert texts_from(pd.DataFrame({"text": values})).texts == ("", "a")


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((2, 3)),
        np.zeros(3),
        np.array([["a", "b"]]),
        [[1.0, 2.0]],
        [1, 2],
        ["a", 1],
        [None, None],
        [],
        "a text",
        None,
        pd.Series([1.0, 2.0]),
        pd.DataFrame({"task": ["x"], "f": [1.0]}),
        pd.DataFrame({"task": ["x"], "f": [1.0], "colour": ["red"]}),
        pd.DataFrame({"a": ["x"], "b": ["y"]}),
        FeatureTable(np.zeros((2, 3)), columns=("text", "b", "c")),
    ],
)
def test_what_is_no_text(values: Any) -> None:
    assert not is_text(values)


def test_text_beside_features_is_ambiguous() -> None:
    with pytest.raises(InputError, match="has text in 'text' and other columns, 'f1'"):
        is_text(pd.DataFrame({"task": ["x"], "text": ["a"], "f1": [1.0]}))
