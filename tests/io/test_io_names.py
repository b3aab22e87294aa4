"""Names stay what they are on every way in: no two become one, and none changes on the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conal
from conal import Annotations
from conal.data.encoding import numbers_or_text
from conal.io import read_annotations, read_gold, write_annotations

LOOKALIKES = ["1.1", "1.10", "1.100", "2.0", "2", "0.5", "00.5", "-0", "0", "12345678901234567.5", "1e3", "1000"]


def typed(*names: str) -> list[Any]:
    return list(numbers_or_text(pa.chunked_array([pa.array(names, pa.string())])).to_pylist())


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (("1", "2"), [1, 2]),
        (("1", "", " "), [1, None, None]),
        (("1", "", "NA"), ["1", "", "NA"]),  # NA may be the name of a task or an annotator
        ((" 1", "2 "), [" 1", "2 "]),
        (("1.5", "2.5"), [1.5, 2.5]),
        (("7", "7.5"), [7.0, 7.5]),
        (("1.1", "1.10"), ["1.1", "1.10"]),
        (("1.10", "2.5"), ["1.10", "2.5"]),
        (("2.0", "3.0"), ["2.0", "3.0"]),
        (("2.0", "", "3.0"), [2.0, None, 3.0]),  # integers with a gap, as pandas writes them
        (("2.0", "", "3"), ["2.0", "", "3"]),
        ((" 1", "1"), [" 1", "1"]),
        (("-0", "0"), ["-0", "0"]),
        (("-0", "5"), ["-0", "5"]),
        (("12345678901234567.5", "12345678901234567.25"), ["12345678901234567.5", "12345678901234567.25"]),
        (("123456789012345678", "123456789012345679"), [123456789012345678, 123456789012345679]),
        (("1234567890123456789", "1"), ["1234567890123456789", "1"]),
        (("007", "7"), ["007", "7"]),
    ],
)
def test_names_become_numbers_only_without_loss(names: tuple[str, ...], read: list[Any]) -> None:
    assert typed(*names) == read
    assert [type(value) for value in typed(*names)] == [type(value) for value in read]


@given(st.lists(st.from_regex(r"\A-?[0-9]{1,19}(\.[0-9]{1,3})?\Z"), min_size=1, max_size=8, unique=True))
def test_no_two_names_merge(names: list[str]) -> None:
    assert len(set(typed(*names))) == len(names)


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
@pytest.mark.parametrize("role", ["task", "worker", "label"])
def test_lookalikes_are_the_same_through_every_door(tmp_path: Path, ending: str, role: str) -> None:
    columns = {"task": [f"t{k}" for k in range(12)], "worker": [f"w{k}" for k in range(12)], "label": ["x", "y"] * 6}
    columns[role] = LOOKALIKES
    frame = pd.DataFrame(columns)
    there = Annotations.from_frame(frame)
    write_annotations(there, tmp_path / f"a.{ending}")
    back = read_annotations(tmp_path / f"a.{ending}")
    assert back == there
    assert back == Annotations.from_triples(*(frame[name].to_numpy() for name in ("task", "worker", "label")))
    names = {"task": back.task_ids, "worker": back.annotator_ids, "label": back.classes}[role]
    assert sorted(names.tolist()) == sorted(LOOKALIKES)


def test_gold_is_of_the_task_that_it_names(tmp_path: Path) -> None:
    crowd = Annotations.from_triples(["1.1", "1.10", "1.2"], ["w"] * 3, ["x", "y", "x"])
    (tmp_path / "gold.csv").write_text("task,label\n1.10,y\n1.1,x\n")
    assert read_gold(tmp_path / "gold.csv").for_tasks(crowd) == {"1.10": "y", "1.1": "x"}
    (tmp_path / "few.csv").write_text("task,label\n1.2,x\n")  # a number here, a text in the annotations
    assert read_gold(tmp_path / "few.csv").for_tasks(crowd) == {"1.2": "x"}


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
@pytest.mark.parametrize(
    "ids",
    [LOOKALIKES, [str(k) for k in range(12)], [("a", k) for k in range(12)], list(range(12))],
    ids=["lookalikes", "text that could be numbers", "tuples", "numbers"],
)
def test_task_ids_survive_saving(tmp_path: Path, ids: list[Any]) -> None:
    rng = np.random.default_rng(0)
    tasks = [ids[k] for k in range(12) for _ in range(3)]
    workers, labels = ["a", "b", "c"] * 12, rng.integers(2, size=36)
    crowd = Annotations.from_triples(tasks, workers, labels)
    x = rng.standard_normal((12, 3)).astype(np.float32)
    clf = conal.make("dl-mv", epochs=1, hidden=(2,), verbose=False).fit(x, crowd, task_ids=ids)
    clf.save(tmp_path / "m")
    loaded = conal.load(tmp_path / "m")
    assert loaded.task_ids_.tolist() == clf.task_ids_.tolist()
    assert [type(name) for name in loaded.task_ids_.tolist()] == [type(name) for name in clf.task_ids_.tolist()]
