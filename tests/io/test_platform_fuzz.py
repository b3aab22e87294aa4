"""Whatever stands in place of one value of an export: annotations, or an error that conal raises on purpose."""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.io import read_annotations
from torture.mutate import places, replaced

JUNK: list[Any] = [None, "", "x", 7, True, [], {}, [[]], [{}], {"a": 1}, ["x", "y"], "\ud800", 10**30, 10**400]

CHOICE = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": ["cat"]}}
RESPONSES = {"user_id": ["u", "v"], "value": ["cat", "dog"], "status": ["submitted", "submitted"]}
FLAT = {"id": "t", "text": "x", "k.responses": ["cat"], "k.responses.users": ["u"], "k.responses.status": ["submitted"]}
LINE = {"text": "x", "_input_hash": 1, "label": "cat", "answer": "accept", "_annotator_id": "u", "_timestamp": 1}
EXPORTS: dict[str, Any] = {
    "label-studio": [
        {
            "id": 1,
            "data": {"text": "x"},
            "annotations": [{"completed_by": 1, "result": [CHOICE], "updated_at": "2026-01-01T10:00:00Z"}],
            "drafts": [],
        },
        {"id": 2, "data": {"text": "y"}, "annotations": [{"completed_by": {"email": "a@b"}, "result": [CHOICE]}]},
    ],
    "label-studio-min": [
        {"text": "x", "id": 1, "kind": "cat", "annotator": 1, "annotation_id": 1, "updated_at": "2026-01-01T10:00:00Z"},
        {"text": "x", "id": 1, "kind": {"choices": ["dog"]}, "annotator": 2, "annotation_id": 2},
    ],
    "argilla": [{"id": "t", "fields": {"text": "x"}, "responses": {"k": [{"value": "cat", "user_id": "u"}]}}],
    "argilla-flat": [FLAT, FLAT | {"id": "u"}],
    "argilla-1": [{"id": "t", "text": "x", "k": RESPONSES, "k-suggestion": "cat", "metadata": {}}],
    "prodigy": [LINE, LINE | {"_annotator_id": "v", "answer": "reject"}],
    "prodigy-choice": [{"_input_hash": 1, "accept": ["cat"], "options": [{"id": "cat"}], "answer": "accept"} | LINE],
    "peerannot": {"1": {"u": 0, "v": 1}, "2": {"u": 1}},
}


def read_or_refuse(path: Path, name: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert isinstance(read_annotations(path, format=name), Annotations)
        except InputError as error:
            assert path.name in str(error)  # noqa: PT017


@pytest.mark.parametrize("name", EXPORTS)
def test_any_value_may_be_junk(name: str, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    for place in places(EXPORTS[name]):
        for junk in JUNK:
            path.write_text(json.dumps(replaced(EXPORTS[name], place, junk)), encoding="utf-8")
            base = "argilla" if name.startswith("argilla") else name.removesuffix("-choice")
            read_or_refuse(path, base)
        read_or_refuse(path, None)


TABLES = {
    "mturk": [
        ["HITId", "WorkerId", "AssignmentStatus", "SubmitTime", "Input.text", "Answer.kind", "Answer.taskAnswers"],
        ["h1", "w1", "Approved", "Wed Dec 08 14:26:17 PST 2010", "x", "cat", '[{"q": {"label": "cat"}}]'],
        ["h1", "w2", "Rejected", "Wed Dec 08 14:26:18 PST 2010", "x", "dog", '[{"q": {"label": "cat"}}]'],
    ],
    "toloka": [
        ["INPUT:text", "OUTPUT:kind", "GOLDEN:kind", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:status"],
        ["x", "cat", "cat", "t1", "w1", "APPROVED"],
        ["x", "dog", "", "t1", "w2", "REJECTED"],
    ],
    "label-studio-min": [
        ["annotation_id", "annotator", "id", "kind", "text", "updated_at"],
        ["1", "ann", "1", "cat", "x", "2026-01-01T10:00:00Z"],
        ["2", "bob", "1", '{"choices": ["a", "b"]}', "x", "2026-01-01T10:00:00Z"],
    ],
    "wide": [["task", "ann", "bob"], ["t1", "cat", ""], ["t2", "cat", "dog"]],
}
CELLS = ["", " ", "7", "007", "nan", "x,y", '"', "[", '[{"q": {"cat": true, "dog": true}}]', "1e400", "\ufeff", "é\n"]


@pytest.mark.parametrize("name", TABLES)
def test_any_cell_may_be_junk(name: str, tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    table = TABLES[name]
    for place in ((i, j) for i, row in enumerate(table) for j in range(len(row))):
        for junk in CELLS:
            text = io.StringIO(newline="")
            csv.writer(text, delimiter="\t" if name == "toloka" else ",").writerows(replaced(table, place, junk))
            path.write_text(text.getvalue(), encoding="utf-8", newline="")
            read_or_refuse(path, name)
        read_or_refuse(path, None)


@pytest.mark.parametrize("name", ["labels.json", "labels.csv", "labels.tsv", "labels"])
@pytest.mark.parametrize("start", ["", "task,worker,label\n", "task,worker,label\n1,2,3\n"])
def test_one_enormous_field_is_refused(name: str, start: str, tmp_path: Path) -> None:
    """Python's reader of CSV takes fields of 128 KB at most."""
    path = tmp_path / name
    path.write_text(start + "x" * 200_000 + "\n4,5,6\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"labels"):
        read_annotations(path)
