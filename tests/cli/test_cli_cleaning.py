"""``--without``, ``--merge-spelling`` and ``--encoding``, and messages that name them as the command takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conal.io import read_annotations
from helpers.files import write_lines

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """Two annotators, one of whom has two spellings, in latin-1."""
    rows = [f"t{k};{'Jörg' if k % 3 else 'JÖRG'};{'groß' if k % 2 else 'klein'}" for k in range(12)]
    rows += [f"t{k};bob;{'groß' if k % 4 else 'klein'}" for k in range(12)]
    path = tmp_path / "labels.csv"
    path.write_bytes("".join(f"{row}\n" for row in ["item;rater;verdict", *rows]).encode("latin-1"))
    return path


CLEANING = ("--encoding", "latin-1", "--merge-spelling", "--without", "bob")


def test_commands_clean_alike(conal: Run, labels: Path, tmp_path: Path) -> None:
    out = tmp_path / "clean.csv"
    found = conal("aggregate", labels, "--out", out, *CLEANING, "--quiet", "--json").json()
    assert (found["n_annotators"], found["n_annotations"], found["n_tasks"]) == (1, 12, 12)
    facts = conal("inspect", labels, *CLEANING, "--json").json()
    assert (facts["n_annotators"], facts["n_annotations"]) == (1, 12)
    assert facts["next"].count("--merge-spelling") == facts["next"].count("--without bob") == 1
    sets = [word for name in ("encoding=latin-1", "merge_spelling=true", "without=bob") for word in ("--set", name)]
    conal("convert", labels, "--to", "csv", "--out", tmp_path / "table.csv", *sets)
    assert read_annotations(tmp_path / "table.csv").annotator_ids.tolist() == ["Jörg"]


def test_advice_names_what_the_command_takes(conal: Run, labels: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "x.csv")
    assert "name it with --encoding latin-1," in conal("aggregate", labels, *out).refusal()
    assert "name it with --set encoding=latin-1," in conal("convert", labels, "--to", "csv", *out).refusal()
    run = conal("convert", labels, "--to", "csv", *out, "--set", "encoding=latin-1")
    assert "or pass --set merge_spelling=true" in run.err


def test_a_fit_without_an_annotator(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    everybody = read_annotations(crowd.labels).annotator_ids.tolist()
    out = tmp_path / "model"
    words = ("--features", crowd.features, "--out", out, "--epochs", "2", "--without", everybody[0], "--json")
    assert conal("fit", crowd.labels, *words).json()["n_annotators"] == len(everybody) - 1
    write_lines(gold := tmp_path / "gold.csv", "task,label", *(f"{k},cat" for k in range(3)))
    with_gold = ("--features", crowd.features, "--out", tmp_path / "gold", "--method", "gold", "--without", "x")
    assert "labels of a crowd" in conal("fit", gold, *with_gold).refusal()


def test_a_private_release_does_not_say_who_is_there(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "x", "--private", "1", "--without", "nobody")
    assert "--without" in conal("aggregate", crowd.labels, *words).refusal()


def test_tables_beside_the_labels_have_their_encoding(conal: Run, labels: Path, tmp_path: Path) -> None:
    gold, info = tmp_path / "gold.csv", tmp_path / "info.csv"
    gold.write_bytes("".join(["item;truth\n", *(f"t{k};groß\n" for k in range(10))]).encode("latin-1"))
    info.write_bytes("rater;group\nJörg;früh\nbob;spät\n".encode("latin-1"))
    words = ("--true-labels", gold, "--annotator-info", info, "--encoding", "latin-1", "--merge-spelling", "--json")
    assert conal("aggregate", labels, "--out", tmp_path / "o.csv", *words).json()["n_true_labels"] == 10
    sets = ("--true-labels", gold, "--set", "encoding=latin-1", "--set", "merge_spelling=true", "--json")
    assert conal("measure", labels, *sets).code == 0
