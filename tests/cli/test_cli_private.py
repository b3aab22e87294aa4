"""``conal aggregate --private``: what is written, and that nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.csv as pv
import pytest

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Write = Callable[..., Path]


def test_exports_are_refused(conal: Run, gold: Path, tmp_path: Path) -> None:
    """Where everybody's answers decide what a label is, nobody's are hidden."""
    wide = tmp_path / "wide.csv"
    wide.write_text("task,ann,bob\n0,x,y\n1,y,y\n2,x,x\n", encoding="utf-8")
    given = ("--private", 1, "--true-labels", gold, "--out", tmp_path / "rel")
    for more in ((), ("--set", "format=wide")):
        message = conal("aggregate", wide, *given, *more).refusal()
        assert "--private takes tables with one label per row and matrices (csv, tsv, parquet, arrow, xlsx" in message
        assert "write such a table with conal convert" in message


@pytest.fixture
def gold(crowd: Crowd, tmp_path: Path, write: Write) -> Path:
    return write(tmp_path / "gold.csv", ("task", "label"), list(enumerate(crowd.z.tolist())))


def test_a_release_has_its_figures_and_no_name_or_task(
    conal: Run, crowd: Crowd, gold: Path, tmp_path: Path, write: Write
) -> None:
    names = {f"w{k}": f"person-{k}-Olsson" for k in range(6)}
    rows = [(f"item-{task}-x", names[worker], label) for task, worker, label in crowd.rows]
    rows += [("item-0-x", names["w0"], "unheard-of")]  # a duplicate, and a class that only one person uses
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    write(gold, ("task", "label"), [(f"item-{task}-x", label) for task, label in enumerate(crowd.z.tolist())])
    teams = [(name, f"team {k % 2}") for k, name in enumerate(names.values())]
    info = write(tmp_path / "who.csv", ("worker", "group"), teams)
    out = tmp_path / "rel"
    arguments = ("aggregate", labels, "--private", 50, "--set", "max_labels=40", "--true-labels", gold, "--out", out)
    first = conal(*arguments)
    assert (first.code, first.err) == (0, "")
    second = conal(*arguments, "--annotator-info", info, "--overwrite", "--json")
    about = second.json()
    assert (about["epsilon"], about["delta"], about["bounds"]) == (50.0, 0.0, {"max_labels": 40})
    assert about["mechanism"]["scale"] == 0.8
    files = {path.name: path.read_text(encoding="utf-8") for path in out.iterdir()}
    assert set(files) == {
        "private.json",
        "private_common_confusion.csv",
        "private_class_shares.csv",
        "private_group_confusion.csv",
    }
    assert {**json.loads(files["private.json"]), "out": str(out)} == about
    for text in (first.out, second.out, second.err, *files.values()):
        assert not any(word in text for word in ("person", "Olsson", "item-", "unheard"))
    found = pv.read_csv(out / "private_common_confusion.csv").to_pydict()
    given = [(crowd.z[task], label) for task, _, label in crowd.rows if (task, label) != (0, "unheard-of")]
    for true, observed, count, low, high in zip(
        found["true"], found["observed"], found["count"], found["low"], found["high"], strict=True
    ):
        exact = sum(pair == (true, observed) for pair in given)
        assert count == pytest.approx(exact * 40 / 45, abs=12)  # everybody's 45 labels weigh as 40, with some noise
        assert 0 <= low <= high <= 1
    conal(*arguments, "--overwrite")
    assert not (out / "private_group_confusion.csv").exists()  # nothing of another release stays


def test_names_that_look_alike_in_two_files_are_no_error(
    conal: Run, crowd: Crowd, gold: Path, tmp_path: Path, write: Write
) -> None:
    """An error would tell that somebody of this name is in the other file."""
    more = write(tmp_path / "more.csv", ("task", "worker", "label"), [("00", "W0", "cat")])
    files = crowd.labels, more
    done = conal("aggregate", *files, "--private", 1, "--true-labels", gold, "--out", tmp_path / "rel")
    assert (done.code, done.err) == (0, "")
    assert "spelled differently" in conal("aggregate", *files, "--out", tmp_path / "clean.csv").refusal()


def test_noise_is_drawn_anew_every_time(conal: Run, crowd: Crowd, gold: Path, tmp_path: Path) -> None:
    arguments = ("aggregate", crowd.labels, "--private", 0.5, "--true-labels", gold, "--json", "--out")
    first, second = (conal(*arguments, tmp_path / out).json()["counts"] for out in "ab")
    assert (np.array(first) != np.array(second)).all()


def test_what_a_release_withholds_is_refused(conal: Run, crowd: Crowd, gold: Path, tmp_path: Path) -> None:
    out = tmp_path / "rel"
    private = ("aggregate", crowd.labels, "--private", 1, "--out", out)
    reference = ("--true-labels", gold)
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((), "--private needs --true-labels FILE"),
        (("--true-labels", "export"), "may be answers of annotators"),
        ((*reference, "--annotators", tmp_path / "a.csv"), "--annotators cannot be used with --private"),
        ((*reference, "--confusion", tmp_path / "a.csv"), "--confusion cannot be used"),
        ((*reference, "--report", tmp_path / "r"), "--report cannot be used"),
        ((*reference, "--set", "seed=1"), "--set cannot be used with --private"),
        ((*reference, "--method", "glad"), "--method cannot be used"),
        ((*reference, "--set", "prior=1"), "--set cannot be used"),
    ]
    for more, problem in cases:
        assert problem in conal(*private, *more).refusal()
    common = ("aggregate", crowd.labels, "--out", tmp_path / "x.csv")
    assert "--set max_labels needs --private" in conal(*common, "--set", "max_labels=3").refusal()
    assert "--out is a folder" in conal(*common, "--private", 1, *reference).refusal()
    for epsilon in (0, 1e-320):
        assert "a number from 1e-09 to 100" in conal(*common, "--private", epsilon).refusal()
    assert not out.exists()
    out.mkdir()
    (out / "mine.txt").write_text("precious", encoding="utf-8")
    assert "is not an earlier private release" in conal(*private, *reference, "--overwrite").refusal()
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
