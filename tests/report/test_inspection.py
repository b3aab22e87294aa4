"""What is said about an annotation file: figures by hand, and every problem with its remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal.data.annotations import Annotations
from conal.data.problems import warn_of_problems
from conal.errors import DataWarning
from conal.io import AnnotationFile
from conal.metrics import cohen_kappa, fleiss_kappa, krippendorff_alpha
from conal.report.inspection import inspect_file, inspect_import
from helpers.files import write_lines

HEADER = "task,worker,label"


def problems(facts: dict[str, Any]) -> list[str]:
    assert all(entry["remedy"] for entry in facts["problems"])
    return [entry["problem"] for entry in facts["problems"]]


def crowd_of(matrix: Any, **more: Any) -> dict[str, Any]:
    return inspect_import(
        AnnotationFile(Path("a.npy"), "npy", "a matrix", Annotations.from_matrix(np.array(matrix)), **more)
    )


def test_the_figures_of_a_table(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv", HEADER, "t1,a,x", "t1,b,y", "t1,c,x", "t2,a,y", "t2,b,y", "t3,a,x")
    facts = inspect_file(path)
    assert (facts["file"], facts["format"], facts["question"]) == (str(path), "csv", None)
    counts = [facts[name] for name in ("n_annotations", "n_tasks", "n_annotators", "n_classes")]
    assert counts == [6, 3, 3, 2]
    assert facts["classes"] == {"x": 3, "y": 3}
    assert facts["labels_per_task"] == {"min": 1, "median": 2.0, "mean": 2.0, "max": 3}
    assert facts["labels_per_annotator"] == {"min": 1, "median": 2.0, "mean": 2.0, "max": 3}
    crowd = Annotations.read(path)
    assert facts["agreement"] == {
        "krippendorff_alpha": krippendorff_alpha(crowd)._asdict(),
        "fleiss_kappa": fleiss_kappa(crowd)._asdict(),
    }
    assert facts["gold"] == {"n_tasks": 0, "accuracy": None}
    json.dumps(facts)


def test_two_annotators_are_compared_by_cohen() -> None:
    matrix = [[0, 0], [1, 1], [0, 1], [1, 1]]
    assert crowd_of(matrix)["agreement"]["cohen_kappa"] == cohen_kappa(matrix)._asdict()
    assert "fleiss_kappa" not in crowd_of(matrix)["agreement"]


def test_true_labels_measure_the_crowd() -> None:
    facts = crowd_of([[0, 1, 1], [1, 1, -1], [0, -1, -1]], true_labels={0: 1, 1: 0, 9: 1})
    assert facts["gold"] == {"n_tasks": 3, "accuracy": 2 / 5}
    facts = crowd_of([[0, 1], [1, 1]], true_labels={0: 7})
    assert facts["gold"]["accuracy"] == 0.0
    assert "true labels that no annotator gave: 7" in problems(facts)


def test_what_was_said_while_reading_is_a_problem(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv", HEADER, "t1,a,x", "t1,a,X", "t1,b,", "t2,a,x", "t2,b,x")
    found = {entry["problem"]: entry["remedy"] for entry in inspect_file(path)["problems"]}
    (repeated,) = [problem for problem in found if "repeat a (task, worker) pair" in problem]
    assert "--set on_duplicate=first" in found[repeated]
    assert any("differ only in case" in problem for problem in found)
    assert any("dropped 1 rows without a label" in problem for problem in found)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([["a"], ["b"]], "one annotator"),
        ([["x" * 101, "y"], ["y", "y"]], "1 class names are longer than 100 characters, the longest has 101"),
        ([[f"{k}", f"{k + 30}"] for k in range(30)], "60 classes in 60 labels"),
        ([[f"{k % 250}", f"{k % 250}"] for k in range(2000)], "250 classes in 4,000 labels"),
    ],
)
def test_labels_that_no_method_can_use_are_a_warning(labels: Any, problem: str) -> None:
    crowd = Annotations.from_matrix(np.array(labels, dtype=object))
    found = inspect_import(AnnotationFile(Path("a.npy"), "npy", "a matrix", crowd))["problems"]
    (remedy,) = [entry["remedy"] for entry in found if entry["problem"] == problem]
    with pytest.warns(DataWarning) as caught:
        warn_of_problems(crowd, "a.npy")
    assert [str(entry.message) for entry in caught] == [f"a.npy: {problem}; {remedy}"]


def test_a_usual_crowd_is_no_warning() -> None:
    warn_of_problems(Annotations.from_matrix([[0, 1, 1], [2, 2, -1]]), "a.npy")


def test_what_was_left_out_is_a_problem() -> None:
    facts = crowd_of([[0, 1], [1, 1]], dropped={"with several answers": 3, "rejected by the requester": 1})
    found = {entry["problem"]: entry["remedy"] for entry in facts["problems"]}
    assert "one choice" in found["left out: 3 with several answers"]
    assert found["left out: 1 rejected by the requester"] == "keep them with --set keep_rejected=true"
    assert facts["dropped"] == {"with several answers": 3, "rejected by the requester": 1}


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ([[0], [1]], "one annotator"),
        ([[0, -1], [-1, 1]], "no task has two labels"),
        ([[0, 1], [1, 0], [0, 1]], "agreement is low (alpha -0.67), near agreement by chance"),
        ([[5, 5], [5, 5]], "one class, '5'"),
        ([[0, 0]] * 9 + [[0, 1]], "classes with fewer than 5 labels: '1'"),
        ([[0, 0], [1, 1]], "2 of 2 annotators gave fewer than 5 labels"),
        ([[0, k % 2] for k in range(12)], "1 annotators always gave the same label, 10 times or more: 0"),
        ([[k, k + 1] for k in range(30)], "31 classes in 60 labels"),
    ],
)
def test_problems_of_crowds(matrix: Any, problem: str) -> None:
    assert problem in problems(crowd_of(matrix))


def test_a_class_name_that_is_a_text(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv", HEADER, f"t1,a,{'x' * 10_000}", "t1,b,y")
    assert "1 class names are longer than 100 characters, the longest has 10,000" in problems(inspect_file(path))


def test_a_sound_crowd_has_no_problems() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=(60, 1))
    matrix = np.where(rng.random((60, 4)) < 0.8, truth, rng.integers(3, size=(60, 4)))
    assert problems(crowd_of(matrix)) == []


def test_slips_are_rare_classes_spelled_nearly_as_a_frequent_one(tmp_path: Path) -> None:
    """Not a class that is as frequent, begins otherwise, has a number, or differs in case alone."""
    slips = ["biling", "othr", "illegal", "grade 2", "Legal", "billings"]
    labels = ["billing", "other", "legal", "grade 1"] * 30 + slips + ["billings"] * 20
    path = write_lines(tmp_path / "a.csv", HEADER, *(f"t{k // 3},w{k % 3},{label}" for k, label in enumerate(labels)))
    (found,) = [entry for entry in inspect_file(path)["problems"] if "may be slips" in entry["problem"]]
    assert found["problem"] == "classes that may be slips: 'biling' of 'billing', 'othr' of 'other'"
    assert found["lines"] == [2 + labels.index("biling"), 2 + labels.index("othr")]
    assert "unless they are classes of their own" in found["remedy"]


@pytest.mark.parametrize(("merge", "lines"), [(False, [3, 4]), (True, [4])])
def test_labels_outside_the_listed_classes_have_lines(tmp_path: Path, merge: bool, lines: list[int]) -> None:
    path = write_lines(tmp_path / "a.csv", HEADER, "t1,a,x", "t1,b,X", "t1,c,z", "t2,a,y", "t2,b,x")
    facts = inspect_file(path, classes=["x", "y"], merge_spelling=merge)
    problem = facts["problems"][0]
    assert not facts["usable"]
    assert "not among the 2 classes" in problem["problem"]
    assert problem["lines"] == lines
