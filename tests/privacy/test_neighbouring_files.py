"""Neighbouring files, through every reader of a private release: a person changes counts by the bound, no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conal.io import read_annotations
from conal.parameters.reading import PLAIN_FORMATS
from conal.privacy import UNIT, bounded_counts, positions

M = 10
PEOPLE, TASKS = range(8), range(10)
KINDS: dict[str, list[Any]] = {
    "truth values": [True, False],
    "numbers": [0, 1],
    "decimals": [0.5, 1.5],
    "floats": [1.0, 2.0],
    "text": ["yes", "no"],
    "long numbers": [2**40, 2**40 + 1],
}
ODD = ["maybe", "TRUE", "true", "007", "1.0", "1.10", "NA", "#REF!", "2020-01-01", 7, 2.5, True, None]
Rows = list[tuple[Any, Any, Any]]


def crowd_of(classes: list[Any]) -> Rows:
    return [(task, who, classes[(task + who) % 2]) for task in TASKS for who in PEOPLE]


def write(path: Path, rows: Rows) -> Path:
    """As tools write such rows: columns of several types become text, where a format has no others."""
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"], dtype=object)
    kind = path.suffix.lstrip(".")
    if kind == "npy":
        matrix = frame.pivot(index="task", columns="worker", values="label").to_numpy()
        mixed = len({type(cell) for cell in matrix.ravel()}) > 1
        texts = ["" if cell is None else str(cell) for cell in matrix.ravel()]
        np.save(path, np.array(texts if mixed else matrix.ravel().tolist()).reshape(matrix.shape))
    elif kind == "xlsx":
        frame.to_excel(path, index=False)
    elif kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    else:
        for name in frame.columns:
            present = frame[name].dropna()
            if present.map(type).nunique() > 1:
                frame[name] = frame[name].map(lambda cell: None if cell is None else str(cell))
        if kind == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in frame.to_dict("records")), encoding="utf-8")
        else:
            typed = frame.convert_dtypes()
            typed.to_parquet(path) if kind == "parquet" else typed.to_feather(path)
    return path


def counted(path: Path, kind: str, classes: list[Any]) -> np.ndarray[Any, Any]:
    at = positions(classes, "class")
    truth = {str(task): task % 2 for task in TASKS}
    return np.asarray(bounded_counts(read_annotations(path, format=kind), truth, at, M))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", PLAIN_FORMATS)
@pytest.mark.parametrize("labels", KINDS)
def test_one_person_changes_the_counts_by_the_bound(kind: str, labels: str, tmp_path: Path) -> None:
    classes = KINDS[labels]
    rows = crowd_of(classes)
    before = counted(write(tmp_path / f"a.{kind}", rows), kind, classes)
    assert before.sum() == UNIT * len(rows)  # nobody has more labels than the bound
    for odd in ODD[list(KINDS).index(labels) % 3 :: 3]:  # each with two kinds of labels, in every format
        new: Rows = [(task, 99, odd if task < 5 else classes[0]) for task in TASKS]
        persons = [new] if kind == "npy" else [new, [*new, (f"x{odd}", 99, odd)], [(0, f"x{odd}", classes[0])]]
        for k, person in enumerate(persons):
            after = counted(write(tmp_path / f"b{k}.{kind}", [*rows, *person]), kind, classes)
            change = after - before
            assert (change >= 0).all(), (odd, k)
            assert change.sum() <= UNIT * M, (odd, k)
