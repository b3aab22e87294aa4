"""What is known about annotators: the same for every order and kind of table, and refused where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.errors import DataWarning, InputError, people_hidden
from conal.io.true_labels import read_annotator_info
from helpers.files import write_lines

COLUMNS: dict[str, list[Any]] = {
    "worker": ["gpt", "ann", "bob"],
    "group": ["llm", "human", "human"],
    "cost": [0.01, 0.5, 0.25],
    "years": [1, 7, 4],
    "expert": [False, True, False],
}


def crowd(*workers: Any) -> Annotations:
    workers = workers or ("ann", "bob", "gpt")
    return Annotations.from_triples(["t"] * len(workers), list(workers), ["x"] * len(workers))


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame])
def test_rows_follow_the_crowd(make: Any) -> None:
    info = AnnotatorInfo.of(make(COLUMNS), crowd())
    assert info.annotators.tolist() == ["ann", "bob", "gpt"]
    assert info.groups == ("human", "human", "llm")
    assert info.costs is not None
    assert info.costs.tolist() == [0.5, 0.25, 0.01]
    assert info.feature_names == ("years", "expert")
    np.testing.assert_array_equal(info.features, [[7, 1], [4, 0], [1, 0]])
    names, codes = info.coded_groups() or ((), np.empty(0))
    assert (names, codes.tolist()) == (("human", "llm"), [0, 0, 1])


def test_what_is_not_there_is_none() -> None:
    info = AnnotatorInfo.of(pa.table({"annotator_id": ["ann", "bob", "gpt"], "Cost per label": [1, 2, 3]}), crowd())
    assert info.costs is not None
    assert info.costs.tolist() == [1, 2, 3]
    assert [info.groups, info.features, info.coded_groups(), info.standardised_features()] == [None] * 4


def test_it_can_be_put_into_the_order_of_another_crowd() -> None:
    info = AnnotatorInfo.of(pa.table(COLUMNS), crowd())
    with pytest.warns(DataWarning, match="ignored 1 of 3, who gave no label here: 'ann'"):
        other = AnnotatorInfo.of(info, crowd("bob", "gpt"))
    assert other.groups == ("human", "llm")
    np.testing.assert_array_equal(other.features, [[4, 0], [1, 0]])


def test_standardised_features_have_no_unit() -> None:
    columns = {"worker": ["ann", "bob", "gpt"], "years": [1.0, 3.0, 8.0], "all alike": [5, 5, 5]}
    found = AnnotatorInfo.of(pa.table(columns), crowd()).standardised_features()
    assert found is not None
    np.testing.assert_allclose(found[:, 0], (np.array([1, 3, 8]) - 4) / np.std([1, 3, 8]))
    assert found[:, 1].tolist() == [0, 0, 0]


def changed(**columns: list[Any]) -> dict[str, list[Any]]:
    return {**COLUMNS, **columns}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (changed(worker=["gpt", "eve", "bob"]), "1 of the 3 annotators are missing: 'ann'; add a row for each"),
        (changed(worker=["gpt", "gpt", "bob"]), "has several rows for 'gpt'"),
        (changed(worker=["gpt", "ann", None]), "row 3 does not name an annotator"),
        (changed(group=["llm", None, " "]), "column 'group' has no value for 'ann', 'bob'"),
        (changed(cost=[0.01, -0.5, 0.25]), "cannot be negative, as that of 'ann' is"),
        (changed(cost=["cheap", "0.5", "0.25"]), "column 'cost' must contain numbers"),
        (changed(years=[1, None, 4]), "column 'years' has no value for 'ann'"),
        (changed(years=[1.0, float("inf"), 4.0]), "column 'years' has no value for 'ann'"),
        ({"worker": ["gpt", "ann", "bob"]}, "says nothing about the annotators"),
        ({"who": ["gpt", "ann", "bob"], "group": ["a", "b", "c"]}, "no column of annotators; it has 'who', 'group'"),
    ],
)
def test_refusals(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AnnotatorInfo.of(pa.table(columns), crowd())


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="expected a table with a row for every annotator, not dict"):
        AnnotatorInfo.of(COLUMNS, crowd())


def test_unused_columns_are_told() -> None:
    table = pa.table(COLUMNS | {"vendor": ["a", "b", "c"]})
    with pytest.warns(DataWarning, match="did not use 'vendor'; columns that count are"):
        AnnotatorInfo.of(table, crowd())


def test_names_can_be_hidden() -> None:
    with people_hidden(), pytest.raises(InputError) as refused:
        AnnotatorInfo.of(pa.table(changed(worker=["gpt", "eve", "bob"])), crowd())
    assert "ann'" not in str(refused.value)


# ---------------------------------------------------------------- files


def test_names_keep_their_text(tmp_path: Path) -> None:
    """A group 007 is not 7, and annotators whose names are numbers match where another file has text too."""
    path = write_lines(tmp_path / "a.csv", "worker,group,cost", "1,007,2", "2,true,0.5", "x,007,1")
    info = read_annotator_info(path, crowd("1", "2", "x"))
    assert info.groups == ("007", "true", "007")
    with pytest.warns(DataWarning, match="ignored 1 of 3"):
        info = read_annotator_info(path, crowd(1, 2))
    assert info.groups == ("007", "true")
    assert info.annotators.tolist() == [1, 2]


def test_the_column_of_annotators_can_be_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv", "who,id,group", "ann,1,a", "bob,2,b", "gpt,3,b")
    assert read_annotator_info(path, crowd(), worker="who").groups == ("a", "b", "b")
    usual = write_lines(tmp_path / "b.csv", "id,group", "ann,a", "bob,b", "gpt,b")
    assert read_annotator_info(usual, crowd(), worker="who").groups == ("a", "b", "b")


def test_messages_name_the_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv", "worker,group", "ann,a", "bob,b")
    with pytest.raises(InputError, match=r"a\.csv: 1 of the 3 annotators are missing: 'gpt'"):
        read_annotator_info(path, crowd())


def test_limits_may_be_left_open() -> None:
    crowd = Annotations.from_triples(["t", "t"], ["ann", "bob"], ["a", "b"])
    info = AnnotatorInfo.of(pa.table({"worker": ["bob", "ann"], "limit": [None, 7]}), crowd)
    assert info.limits is not None
    assert info.limits.tolist() == [7.0, np.inf]
    assert info.features is None  # a limit is no feature
    with pytest.raises(InputError, match="the limit of labels cannot be negative, as that of 'ann' is"):
        AnnotatorInfo.of(pa.table({"worker": ["bob", "ann"], "capacity": [1, -7]}), crowd)
