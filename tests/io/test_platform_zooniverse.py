"""Zooniverse's classification export, with what its cells contain."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from conal.errors import InputError
from conal.io import AnnotationFile, import_file
from helpers.crowds import triples

HEADER = [
    *("classification_id", "user_name", "user_id", "user_ip", "workflow_id", "workflow_name", "workflow_version"),
    *("created_at", "gold_standard", "expert", "metadata", "annotations", "subject_data", "subject_ids"),
]
ANON = "not-logged-in-b644753d0e3948f81dc2"
OTHER = "not-logged-in-0c12a1b2c3d4e5f60718"


def row(
    subject: Any, user: str, answers: Any, *, workflow: int = 10, at: str = "16:17:42", gold: str = ""
) -> list[Any]:
    """A classification as the export has it."""
    given = [{"task": task, "task_label": f"What about {task}?", "value": value} for task, value in answers.items()]
    retired = {"id": 1, "workflow_id": workflow, "retired_at": None}
    names = str(subject).split(";")
    data = {name: {"retired": retired, "Filename": f"{name}.jpg", "#private": 0.5} for name in names}
    return [
        *(1, user, "", "b644", workflow, "Supernovae", "16.55", f"2024-02-23 {at} UTC", gold, "", '{"source":"api"}'),
        *(json.dumps(given), json.dumps(data), subject),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "classifications.csv"


def write(path: Path, *rows: list[Any]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return path


def rows_of(found: AnnotationFile) -> list[tuple[Any, Any, Any]]:
    return triples(found.annotations)


def test_people_who_are_not_logged_in_are_told_apart(path: Path) -> None:
    write(path, row(7, ANON, {"T0": "Yes"}), row(7, OTHER, {"T0": "No"}), row(8, "ann", {"T0": "No"}))
    found = import_file(path)
    assert (found.format, found.question) == ("zooniverse", "T0")
    assert rows_of(found) == [(7, OTHER, "No"), (7, ANON, "Yes"), (8, "ann", "No")]
    assert found.data is not None
    assert found.data.to_pydict() == {"task": [7, 8], "Filename": ["7.jpg", "8.jpg"], "#private": [0.5, 0.5]}
    assert rows_of(import_file(path, task="Filename"))[2] == ("8.jpg", "ann", "No")


def test_several_tasks_are_questions(path: Path) -> None:
    """T1 follows only some answers, and T2 is a drawing, which is no label."""
    box = [{"x": 1.5, "y": 2, "tool": 0, "details": []}]
    write(path, row(7, "ann", {"T0": "Yes", "T1": "Red", "T2": box}), row(7, "bob", {"T0": "No", "T2": []}))
    with pytest.raises(InputError, match=r"has several tasks: 'T0', 'T1'; choose one with question="):
        import_file(path)
    found = import_file(path, question="T1")
    assert (rows_of(found), found.dropped) == ([(7, "ann", "Red")], {"without an answer": 1})


def test_tasks_that_are_combined_in_one(path: Path) -> None:
    write(path, row(7, "ann", {"T5": [{"task": "T0", "value": "Yes"}, {"task": "T1", "value": ["a", "b"]}]}))
    found = import_file(path, question="T0")
    assert (found.question, rows_of(found)) == ("T0", [(7, "ann", "Yes")])


def test_one_of_several_choices(path: Path) -> None:
    write(path, row(7, "ann", {"T0": ["a", "b"]}), row(7, "bob", {"T0": []}), row(7, "eve", {"T0": ["b"]}))
    found = import_file(path, question="T0=a")
    assert rows_of(found) == [(7, "ann", "yes"), (7, "bob", "no"), (7, "eve", "no")]


def test_several_workflows(path: Path) -> None:
    write(path, row(7, "ann", {"T0": "Yes"}), row(7, "bob", {"T0": "Spiral"}, workflow=11))
    with pytest.raises(InputError, match="has several tasks: '10/T0', '11/T0'"):
        import_file(path)
    assert rows_of(import_file(path, question="11/T0")) == [(7, "bob", "Spiral")]


def test_the_later_of_two_classifications_counts(path: Path) -> None:
    write(path, row(7, "ann", {"T0": "late"}, at="16:17:43"), row(7, "ann", {"T0": "early"}, at="16:17:42"))
    with pytest.warns(UserWarning, match="kept the last of each"):
        assert rows_of(import_file(path)) == [(7, "ann", "late")]


def test_what_is_left_out(path: Path) -> None:
    several = row("7;8", "ann", {"T0": "Yes"})
    write(path, row(7, "ann", {"T0": "Yes"}), row(8, "ann", {"T0": None}), row(9, "ann", {"T0": ["a", "b"]}), several)
    found = import_file(path)
    assert rows_of(found) == [("7", "ann", "Yes")]
    reasons = {"without an answer": 1, "with several answers": 1, "of several subjects at once": 1}
    assert found.dropped == reasons


def test_the_gold_standard(path: Path) -> None:
    write(path, row(7, "ann", {"T0": "Yes"}), row(7, "expert", {"T0": "No"}, gold="true"))
    found = import_file(path)
    assert (rows_of(found), found.true_labels) == ([(7, "ann", "Yes")], {7: "No"})


def test_a_cell_that_is_cut_off(path: Path) -> None:
    broken = row(7, "ann", {"T0": "Yes"})
    broken[11] = broken[11][:-5]
    write(path, broken)
    with pytest.raises(
        InputError, match=r"row 1, column 'annotations' is not JSON .*; export the classifications again"
    ):
        import_file(path)
