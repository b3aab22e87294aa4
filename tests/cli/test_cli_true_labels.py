"""``--true-labels``: a file of known true labels, or those of an export, in ``fit`` and ``aggregate``."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.files import write_lines

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Write = Callable[..., Path]


def fit(crowd: Crowd, out: Path, *options: object) -> tuple[object, ...]:
    fast = ("--method", "dl-mv", "--epochs", 2, "--no-report")
    return ("fit", crowd.labels, "--features", crowd.features, "--out", out, *fast, *options)


def cleaned(folder: Path, name: str = "labels.csv") -> dict[str, str]:
    with (folder / name).open(encoding="utf-8") as file:
        return {next(iter(row.values())): row["label"] for row in csv.DictReader(file)}  # named by the user or not


def wrong_labels(crowd: Crowd, count: int = 6) -> list[tuple[int, str]]:
    """Labels that nobody would infer, so that it shows where they are used."""
    other = {"cat": "dog", "dog": "fish", "fish": "cat"}
    return [(task, other[label]) for task, label in enumerate(crowd.z[:count].tolist())]


@pytest.mark.parametrize("header", [("task", "label"), ("item_id", "gold"), ("my item", "my answer")])
def test_a_file_with_any_names_of_columns(
    conal: Run, crowd: Crowd, write: Write, tmp_path: Path, header: tuple[str, str]
) -> None:
    gold = write(tmp_path / "gold.csv", header, wrong_labels(crowd))
    named = ("--task-column", "my item", "--label-column", "my answer") if header[0] == "my item" else ()
    labels = crowd.labels
    if named:
        write(labels, ("my item", "worker", "my answer"), crowd.rows)
    done = conal(*fit(crowd, tmp_path / "model", "--true-labels", gold, *named, "--json"))
    assert done.json()["n_true_labels"] == 6
    found = cleaned(tmp_path / "model")
    assert {task: found[str(task)] for task, _ in wrong_labels(crowd)} == dict(wrong_labels(crowd))


def test_the_summary_counts_them(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.csv", ("task", "label"), wrong_labels(crowd))
    done = conal(*fit(crowd, tmp_path / "model", "--true-labels", gold))
    assert "6 true labels taken as certain" in done.out
    assert "of 6 contradict every vote of their task" in done.err


def test_the_command_says_how_long_refits_take(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.csv", ("task", "label"), list(enumerate(crowd.z[:12].tolist())))
    fit = ["fit", crowd.labels, "--features", crowd.features, "--true-labels", gold, "--epochs", 2, "--no-report"]
    done = conal(*fit, "--out", tmp_path / "m")
    assert done.code == 0
    assert re.search(r"measuring by true labels: 5 further fits, about \d+ s; --set refits=0 leaves them out", done.err)
    for more in (["--set", "refits=0"], ["--quiet"]):
        done = conal(*fit, "--out", tmp_path / "m", "--overwrite", *more)
        assert done.code == 0
        assert "further fits" not in done.err


def test_a_task_with_a_true_label_and_no_annotations(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    rows = [(f"t{task}", *rest) for task, *rest in crowd.rows if task != 3]
    write(crowd.labels, ("task", "worker", "label"), rows)
    features = write(
        tmp_path / "features.csv",
        ("task", *(f"f{k}" for k in range(crowd.x.shape[1]))),
        [(f"t{task}", *values) for task, values in enumerate(crowd.x.tolist())],
    )
    gold = write(tmp_path / "gold.csv", ("task", "label"), [("t3", "fish"), ("t4", "cat")])
    fast = ("--method", "dl-mv", "--epochs", 2, "--no-report", "--json")
    out = tmp_path / "model"
    done = conal("fit", crowd.labels, "--features", features, "--out", out, "--true-labels", gold, *fast)
    assert done.json()["n_true_labels"] == 2
    assert (cleaned(out)["t3"], cleaned(out)["t4"]) == ("fish", "cat")


def test_two_labels_for_one_task_are_refused_before_anything_is_written(
    conal: Run, crowd: Crowd, write: Write, tmp_path: Path
) -> None:
    gold = write(tmp_path / "gold.csv", ("task", "label"), [(1, "cat"), (2, "dog"), (1, "dog")])
    refused = conal(*fit(crowd, tmp_path / "model", "--true-labels", gold)).refusal()
    assert "1 tasks have several labels, such as 1 ('cat', 'dog'); pass one true label per task" in refused
    assert not (tmp_path / "model").exists()


def test_the_method_gold_refuses_them(conal: Run, crowd: Crowd, write: Write, tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.csv", ("task", "label"), list(enumerate(crowd.z)))
    out = tmp_path / "model"
    ways = ("--features", crowd.features, "--out", out, "--method", "gold", "--true-labels", gold)
    assert "the method gold takes the labels themselves as true" in conal("fit", gold, *ways).refusal()


@pytest.fixture
def export(crowd: Crowd, tmp_path: Path) -> Path:
    """Toloka's columns, of which one is the truth."""
    codes = {"cat": 0, "dog": 1, "fish": 2}
    rows = (f"{task},{worker},{codes[label]},2" for task, worker, label in crowd.rows[:60])
    header = "ASSIGNMENT:task_id,ASSIGNMENT:worker_id,OUTPUT:kind,GOLDEN:kind"
    return write_lines(tmp_path / "export.csv", header, *rows)


def test_true_labels_of_an_export_are_offered_and_used_on_demand(conal: Run, export: Path, tmp_path: Path) -> None:
    out = tmp_path / "cleaned.csv"
    offered = conal("aggregate", export, "--out", out)
    assert "20 true labels found: use them with --true-labels export" in offered.err
    assert "known true labels" not in offered.out
    quiet = conal("aggregate", export, "--out", out, "--overwrite", "--quiet")
    assert "true labels found" not in quiet.err
    used = conal("aggregate", export, "--out", out, "--overwrite", "--true-labels", "export")
    assert "20 known true labels" in used.out
    assert "use them with" not in used.err
    with out.open(encoding="utf-8") as file:
        assert {row["label"] for row in csv.DictReader(file)} == {"2"}


def test_an_export_without_true_labels_cannot_supply_them(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    refused = conal(*fit(crowd, tmp_path / "model", "--true-labels", "export")).refusal()
    assert "contains no true labels; pass a table of them, as --true-labels gold.csv" in refused


@pytest.mark.parametrize("name", ["truth", "gold", "ground_truth", "true_label", "target", "expected"])
def test_a_truth_column_of_a_wide_table_is_no_annotator_and_used_on_demand(
    conal: Run, write: Write, tmp_path: Path, name: str
) -> None:
    rows = [(f"t{k}", "xy"[k % 2], "xy"[k % 3 == 0], "xy"[k // 3 % 2], "xy"[k % 2]) for k in range(12)]
    wide, out = write(tmp_path / "wide.csv", ("task", "ann", "bob", "eve", name), rows), tmp_path / "clean.csv"
    done = conal("aggregate", wide, "--out", out, "--json")
    assert done.json()["n_annotators"] == 3
    assert f"{name!r} is no annotator" in done.err
    assert "pass --true-labels export" in done.err
    done = conal("aggregate", wide, "--out", out, "--overwrite", "--true-labels", "export")
    assert "12 known true labels" in done.out
    assert cleaned(tmp_path, "clean.csv") == {row[0]: row[-1] for row in rows}


def said_alike(write: Write, folder: Path, n: int = 240) -> tuple[Path, Path]:
    """Seven judges who say the same, which is right on two thirds of the tasks; and the truth of 60 tasks."""
    rows = [(f"t{k}", f"w{r}", "no" if k % 3 or (k + r) % 11 == 0 else "yes") for k in range(n) for r in range(7)]
    truth = [(f"t{k}", "no" if k % 2 else "yes") for k in range(n)]
    labels = write(folder / "labels.csv", ("task", "worker", "label"), rows)
    return labels, write(folder / "gold.csv", ("task", "label"), truth[::4])


def column(path: Path, name: str) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return [row[name] for row in csv.DictReader(file)]


def test_commands_say_what_is_believed_and_what_was_measured(conal: Run, write: Write, tmp_path: Path) -> None:
    labels, gold = said_alike(write, tmp_path)
    about = ("--out", tmp_path / "c.csv", "--annotators", tmp_path / "a.csv", "--report", tmp_path / "r", "--overwrite")
    believed = conal("aggregate", labels, *about)
    assert "The model believes that" in believed.out
    assert "True labels of fifty tasks measure it" in believed.out
    assert column(tmp_path / "a.csv", "quality_basis") == ["belief"] * 7
    saved, plan = tmp_path / "s", tmp_path / "p.csv"
    asked = ("plan", saved, "--out", plan, "--budget", 5, "--overwrite")
    conal("aggregate", labels, *about, "--save", saved)
    assert "the model believes that 95\xa0% is reached already" in conal(*asked).out
    measured = conal("aggregate", labels, *about, "--save", saved, "--true-labels", gold)
    assert "Measured by 60 true labels:" in measured.out
    assert "is reached already" not in conal(*asked).out
    assert column(tmp_path / "a.csv", "quality_basis") == ["measured"] * 7
