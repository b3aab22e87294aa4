"""Odd names through every door and back: same tasks, same annotators, same labels."""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conal import Annotations
from conal.data.encoding import numbers_or_text, spelling
from conal.io import import_file, read_annotations, read_features, read_gold, read_texts, write_annotations
from conal.io.platform_files import fill_prelabels, label_studio_tasks
from conal.io.tables import UNTYPED, is_padded, write_table

Triples = list[tuple[str, str, str]]
ODD = [
    "1", "01", "1.0", "1.10", "1.1", "-0", "1e3", "0x10", "12345678901234567890", "123456789012345678.5", "\u0661",
    "NA", "nan", "null", "None", "n/a", "-1", "-1.0", "inf", "true", "False",
    "", " ", " 1", "a ", "a", "A", "é", "e\u0301", "a,b", 'a"b', "a\nb", "a\r", "\ta", "a;b", "\x1b[31m", "\u202ex",
    "2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00:00", "12:00", "=1+1", "@a", "+1", "#", "\ufeff", "\u200b",
    "task", "worker", "label", "toString", "__proto__", "🙂",
]  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
    st.from_regex(r"\A-?[0-9]{1,19}(\.[0-9]{1,3})?\Z"),
)
PRESENT = NAMES.filter(lambda name: bool(name.strip()))


@st.composite
def triples(draw: st.DrawFn) -> Triples:
    names = [draw(st.lists(kind, min_size=1, max_size=5, unique=True)) for kind in (PRESENT, PRESENT, NAMES)]
    pairs = draw(st.lists(st.tuples(*map(st.sampled_from, names[:2])), min_size=1, max_size=8, unique=True))
    return [(task, worker, draw(st.sampled_from(names[2]))) for task, worker in pairs]


def content(found: Annotations) -> dict[tuple[str, str], str]:
    """Pair to label. A text file has no types: names are compared as it spells them."""
    columns = found.to_table().to_pydict()
    cells = zip(columns["task"], columns["worker"], columns["label"], strict=True)
    return {(spelling(task), spelling(worker)): spelling(label) for task, worker, label in cells}


def by_hand(rows: Triples) -> dict[tuple[str, str], str]:
    """The rule for text: blank labels and a few words are missing, everything else is a label."""
    words = {"", "na", "n/a", "#n/a", "<na>", "nan", "null"}
    return {(task, worker): label for task, worker, label in rows if label.strip().casefold() not in words}


def as_pandas_writes_gaps(rows: Triples) -> bool:
    """Whether some label is a whole number such as 1.0, which is read as 1 beside gaps."""
    return any(re.fullmatch(r"-?[0-9]+\.0", label) for _, _, label in rows)


def on_lines(rows: Iterable[Sequence[str]]) -> bool:
    """Whether no name contains a line end, as in a text table that is read."""
    return not any(end in name for row in rows for name in row for end in "\r\n")


def columns_of(rows: Triples) -> dict[str, list[str]]:
    return dict(zip(("task", "worker", "label"), map(list, zip(*rows, strict=True)), strict=True))


def through_csv(rows: Triples, place: Path) -> Annotations:
    assume(len(by_hand(rows)) == len(rows) or not as_pandas_writes_gaps(rows))
    assume(on_lines(rows))
    pd.DataFrame(columns_of(rows)).to_csv(place / "a.csv", index=False, quoting=csv.QUOTE_ALL)
    return read_annotations(place / "a.csv")


def through_tsv(rows: Triples, place: Path) -> Annotations:
    assume(len(by_hand(rows)) == len(rows) or not as_pandas_writes_gaps(rows))
    assume(on_lines(rows))
    pd.DataFrame(columns_of(rows)).to_csv(place / "a.tsv", index=False, sep="\t", quoting=csv.QUOTE_ALL)
    return read_annotations(place / "a.tsv")


def through_parquet(rows: Triples, place: Path) -> Annotations:
    pd.DataFrame(columns_of(rows)).to_parquet(place / "a.parquet")
    return read_annotations(place / "a.parquet")


def through_jsonl(rows: Triples, place: Path) -> Annotations:
    lines = [json.dumps(dict(zip(("task", "worker", "label"), row, strict=True))) for row in rows]
    (place / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_annotations(place / "a.jsonl")


def through_npy(rows: Triples, place: Path) -> Annotations:
    """A matrix has no names; those of its rows and columns are put back."""
    matrix, tasks, workers = matrix_of(rows)
    np.save(place / "a.npy", matrix.astype(str))
    found = read_annotations(place / "a.npy")
    return Annotations(
        found.tasks, found.annotators, found.labels, task_ids=tasks, annotator_ids=workers, classes=found.classes
    )


def through_wide(rows: Triples, place: Path) -> Annotations:
    matrix, tasks, workers = matrix_of(rows)
    assume("task" not in workers and not as_pandas_writes_gaps(rows))
    assume(on_lines(rows))
    assume(not any(map(is_padded, workers)))  # blanks around names are blanks around cells
    frame = pd.DataFrame(matrix, columns=workers)
    frame.insert(0, "task", tasks)
    frame.to_csv(place / "w.csv", index=False, quoting=csv.QUOTE_ALL)
    return read_annotations(place / "w.csv", format="wide")


def through_peerannot(rows: Triples, place: Path) -> Annotations:
    assume(all(worker != "AI" for _, worker, _ in rows))
    answers: dict[str, dict[str, str]] = {}
    for task, worker, label in rows:
        answers.setdefault(task, {})[worker] = label
    (place / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    return read_annotations(place / "answers.json", format="peerannot")


def matrix_of(rows: Triples) -> tuple[np.ndarray[Any, Any], list[str], list[str]]:
    tasks, workers = (list(dict.fromkeys(row[k] for row in rows)) for k in (0, 1))
    matrix = np.full((len(tasks), len(workers)), "", dtype=object)
    for task, worker, label in rows:
        matrix[tasks.index(task), workers.index(worker)] = label
    return matrix, tasks, workers


LONG: dict[str, Callable[[Triples, Path], Annotations]] = {
    "lists": lambda rows, _: Annotations.from_triples(*columns_of(rows).values()),
    "arrays": lambda rows, _: Annotations.from_triples(*map(np.array, columns_of(rows).values())),
    "objects": lambda rows, _: Annotations.from_triples(
        *(np.array(column, dtype=object) for column in columns_of(rows).values())
    ),
    "pandas": lambda rows, _: Annotations.of(pd.DataFrame(columns_of(rows))),
    "categories": lambda rows, _: Annotations.of(pd.DataFrame(columns_of(rows), dtype="category")),
    "polars": lambda rows, _: Annotations.of(pl.DataFrame(columns_of(rows))),
    "arrow": lambda rows, _: Annotations.of(pa.table(columns_of(rows))),
    "csv": through_csv,
    "tsv": through_tsv,
    "parquet": through_parquet,
    "jsonl": through_jsonl,
    "peerannot": through_peerannot,
}
MATRICES: dict[str, Callable[[Triples, Path], Annotations]] = {
    "matrix": lambda rows, _: Annotations.from_matrix(
        matrix_of(rows)[0], task_ids=matrix_of(rows)[1], annotator_ids=matrix_of(rows)[2]
    ),
    "npy": through_npy,
    "wide": through_wide,
}


@pytest.fixture
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("door", LONG)
@settings(max_examples=25)
@given(rows=triples())
def test_the_same_names_are_the_same_through_every_door(door: str, rows: Triples) -> None:
    wanted = by_hand(rows)
    assume(wanted)
    with TemporaryDirectory() as place:
        assert content(LONG[door](rows, Path(place))) == wanted


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("door", MATRICES)
@settings(max_examples=25)
@given(rows=triples())
def test_the_same_names_are_the_same_in_matrices(door: str, rows: Triples) -> None:
    wanted = {pair: label for pair, label in by_hand(rows).items() if label.strip() not in ("-1", "-1.0")}
    assume(wanted)
    with TemporaryDirectory() as place:
        assert content(MATRICES[door](rows, Path(place))) == wanted


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
@settings(max_examples=20)
@given(rows=triples(), typed=st.booleans())
def test_what_conal_writes_it_reads_back(ending: str, rows: Triples, typed: bool) -> None:
    assume(by_hand(rows) and (ending not in UNTYPED or on_lines(rows)))
    columns = columns_of(rows)
    if typed:  # as CSV would read them
        columns = {name: numbers_or_text(pa.chunked_array([column])) for name, column in columns.items()}
    there = Annotations.from_triples(*columns.values())
    with TemporaryDirectory() as place:
        path = Path(place) / f"a.{ending}"
        write_annotations(there, path)
        back = read_annotations(path)
        assert content(back) == content(there)
        again = path.with_name(f"b.{ending}")
        write_annotations(back, again)
        assert content(read_annotations(again)) == content(there)


@pytest.mark.usefixtures("_quiet")
@settings(max_examples=20)
@given(rows=triples())
def test_label_studio_there_and_back(rows: Triples) -> None:
    assume(by_hand(rows))
    with TemporaryDirectory() as place:
        source, tasks = Path(place) / "a.parquet", Path(place) / "tasks.json"
        write_annotations(Annotations.from_triples(*columns_of(rows).values()), source)
        fill_prelabels(label_studio_tasks(import_file(source), {}, with_annotations=True), tasks)
        assert content(read_annotations(tasks, task="task")) == by_hand(rows)


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
@settings(max_examples=20)
@given(tasks=st.lists(PRESENT, min_size=1, max_size=6, unique=True), data=st.data())
def test_gold_texts_and_features_belong_to_the_tasks_that_they_name(
    ending: str, tasks: list[str], data: st.DataObject
) -> None:
    """A part of the tasks, in another order, as numbers or text: each keeps its own label, text and features."""
    assume(ending not in UNTYPED or on_lines([tasks]))
    some = data.draw(st.lists(st.sampled_from(tasks), min_size=1, unique=True))
    crowd = Annotations.from_triples(tasks, ["w"] * len(tasks), [f"c{k % 2}" for k in range(len(tasks))])
    with TemporaryDirectory() as place:
        path = Path(place) / f"t.{ending}"
        write_table(pa.table({"task": some, "label": [f"c{tasks.index(name) % 2}" for name in some]}), path)
        gold = read_gold(path).for_tasks(crowd)
        assert gold == {name: f"c{tasks.index(name) % 2}" for name in some}
        write_table(pa.table({"task": some, "text": [f"text {tasks.index(name)}" for name in some]}), path)
        texts = read_texts(path)
        assert texts.ids is not None
        pairs = dict(zip(map(spelling, texts.ids.tolist()), texts.texts, strict=True))
        assert pairs == {name: f"text {tasks.index(name)}" for name in some}
        if ending != "jsonl":
            write_table(pa.table({"task": some, "x": [float(tasks.index(name)) for name in some]}), path)
            features = read_features(path)
            assert features.ids is not None
            rows = dict(zip(map(spelling, features.ids.tolist()), features.values[:, 0].tolist(), strict=True))
            assert rows == {name: float(tasks.index(name)) for name in some}
