"""Scales and refused answers on the command line: tables, reports, models and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as pv
import pytest

import conal as package
from conal import Annotations
from conal.aggregation import DawidSkene, Ordinal
from helpers.files import write_csv
from helpers.grades import ordinal_crowd

if TYPE_CHECKING:
    from cli.conftest import Run

SCORES = ["mean", "median", "low", "high"]
WORDS = ("poor", "fair", "good", "fine", "best")


@pytest.fixture(scope="module")
def crowd() -> Annotations:
    return ordinal_crowd(n_tasks=60, labels_per_annotator=20, seed=3)[0]


@pytest.fixture
def numbers(crowd: Annotations, tmp_path: Path) -> Path:
    return written(crowd, crowd.classes.astype(str), tmp_path / "numbers.csv")


@pytest.fixture
def words(crowd: Annotations, tmp_path: Path) -> Path:
    return written(crowd, np.array(WORDS), tmp_path / "words.csv")


def written(crowd: Annotations, names: np.ndarray, path: Path) -> Path:
    rows = zip(crowd.tasks, [f"w{k:02}" for k in crowd.annotators], names[crowd.labels], strict=True)
    write_csv(path, ("task", "worker", "label"), rows)
    return path


# -------------------------------------------------------------------- scales


def test_aggregate_writes_the_scores(conal: Run, crowd: Annotations, numbers: Path, tmp_path: Path) -> None:
    run = conal("aggregate", numbers, "--method", "ordinal", "--out", tmp_path / "l.csv")
    assert run.code == 0, run.err
    table = pv.read_csv(tmp_path / "l.csv")
    assert table.column_names[:7] == ["task", "label", "probability", *SCORES]
    wanted = Ordinal().fit(crowd).scores_
    np.testing.assert_allclose(table["mean"].to_numpy(), wanted["mean"].to_numpy(), rtol=1e-9)
    for name in SCORES[1:]:
        assert table[name].to_pylist() == wanted[name].to_pylist()


def test_every_method_writes_them_for_a_scale(conal: Run, crowd: Annotations, numbers: Path, tmp_path: Path) -> None:
    conal("aggregate", numbers, "--out", tmp_path / "plain.csv")
    assert "mean" not in pv.read_csv(tmp_path / "plain.csv").column_names
    assert conal("aggregate", numbers, "--ordinal", "--out", tmp_path / "l.csv").code == 0
    wanted = DawidSkene().fit(crowd).scores_["median"].to_pylist()
    assert pv.read_csv(tmp_path / "l.csv")["median"].to_pylist() == wanted


def test_text_needs_its_order(conal: Run, words: Path, tmp_path: Path) -> None:
    for options in (("--ordinal",), ("--method", "ordinal")):
        message = conal("aggregate", words, "--out", tmp_path / "l.csv", *options).refusal()
        assert "the order of the classes 'best', 'fair', 'fine'" in message
        assert "--ordinal --classes LOWEST,...,HIGHEST" in message
        assert not (tmp_path / "l.csv").exists()
    stated = ("--ordinal", "--classes", ",".join(WORDS), "--method", "ordinal")
    assert conal("aggregate", words, "--out", tmp_path / "l.csv", *stated).code == 0
    table = pv.read_csv(tmp_path / "l.csv")
    assert table.column_names[7:] == [f"proba_{name}" for name in WORDS]
    assert set(table["median"].to_pylist()) <= set(WORDS)
    places = np.column_stack([table[f"proba_{name}"].to_numpy() for name in WORDS]) @ np.arange(1, 6)
    np.testing.assert_allclose(table["mean"].to_numpy(), places)


def test_inspect_measures_agreement_by_distance(conal: Run, numbers: Path, words: Path) -> None:
    by_kind, by_distance = (
        conal("inspect", numbers, "--json", *more).json()["agreement"]["krippendorff_alpha"]["value"]
        for more in ((), ("--ordinal",))
    )
    assert by_distance > by_kind + 0.1
    out = conal("inspect", words, "--ordinal", "--classes", ",".join(WORDS)).out
    assert "Krippendorff's ordinal alpha" in out
    lines = [line.strip().split()[0] for line in out.splitlines() if line.startswith("  ") and "%" in line]
    assert lines == list(WORDS)  # in order, not by frequency


def test_the_report_of_labels_has_them(conal: Run, words: Path, tmp_path: Path) -> None:
    options = ("--ordinal", "--classes", ",".join(WORDS), "--report", tmp_path / "r")
    assert conal("aggregate", words, "--out", tmp_path / "l.csv", *options).code == 0
    assert pv.read_csv(tmp_path / "r" / "labels.csv").column_names[3:7] == SCORES
    assert f"--ordinal --classes {','.join(WORDS)}" in (tmp_path / "r" / "report.json").read_text(encoding="utf-8")


def test_a_model_keeps_the_scale(conal: Run, crowd: Annotations, words: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(60, 4)).astype(np.float32))
    options = ("--features", tmp_path / "x.npy", "--method", "dl-mv", "--epochs", 2, "--no-report", "--quiet")
    scale = ("--ordinal", "--classes", ",".join(WORDS))
    assert conal("fit", words, *options, *scale, "--out", tmp_path / "m").code == 0
    model = package.load(tmp_path / "m")
    assert model.ordinal_
    table = model.tables_["labels.csv"]
    assert table.column_names[3:7] == SCORES
    assert set(table["median"].to_pylist()) <= set(WORDS)
    assert model.results_.report["model"]["command"].count("--ordinal") == 1
    assert conal("predict", tmp_path / "m", tmp_path / "x.npy", "--out", tmp_path / "p.csv").code == 0
    found = pv.read_csv(tmp_path / "p.csv")
    assert found.column_names[3:7] == SCORES
    probas = model.predict_proba(np.load(tmp_path / "x.npy"))
    np.testing.assert_allclose(found["mean"].to_numpy(), probas @ np.arange(1, 6), rtol=1e-5)
    assert conal("fit", words, *options, "--out", tmp_path / "n").code == 0
    assert not package.load(tmp_path / "n").ordinal_
    assert conal("predict", tmp_path / "n", tmp_path / "x.npy", "--out", tmp_path / "q.csv").code == 0
    assert "mean" not in pv.read_csv(tmp_path / "q.csv").column_names


# -------------------------------------------------------------------- refused answers


@pytest.fixture
def declined(tmp_path: Path) -> Path:
    """Ann declines half of what is y; the others answer."""
    rows = []
    for task in range(40):
        truth = "xy"[task % 2]
        rows += [(task, "bob", truth), (task, "eve", truth if task % 5 else "x")]
        rows.append((task, "ann", "no comment" if task % 4 == 1 else truth))
    write_csv(tmp_path / "t.csv", ("task", "worker", "label"), rows)
    return tmp_path / "t.csv"


def test_refused_answers_are_counted_and_observed(conal: Run, declined: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("l.csv", "a.csv", "c.csv")]
    options = ("--set", "abstain=no comment", "--annotators", paths[1], "--confusion", paths[2])
    run = conal("aggregate", declined, "--out", paths[0], *options)
    assert run.code == 0, run.err
    assert "110 labels and 10 refused answers by 3 annotators" in run.out
    labels, annotators, confusion = (pv.read_csv(path) for path in paths)
    assert set(labels["label"].to_pylist()) == {"x", "y"}
    refused = dict(zip(annotators["worker"].to_pylist(), annotators["num_examples_refused"].to_pylist(), strict=True))
    assert refused == {"ann": 10, "bob": 0, "eve": 0}
    cells = {(row["worker"], row["true"], row["observed"]): row["probability"] for row in confusion.to_pylist()}
    assert len(cells) == 3 * 2 * 3
    assert cells["ann", "y", "no comment"] > 0.4 > 0.1 > cells["ann", "x", "no comment"]
    for worker in refused:
        for true in "xy":
            assert sum(cells[worker, true, seen] for seen in ("x", "y", "no comment")) == pytest.approx(1)


def test_inspect_says_who_declines(conal: Run, declined: Path) -> None:
    out = conal("inspect", declined, "--set", "abstain=no comment").out
    assert "refused answers:      10 (8.3 %): ann 10 of 40" in out
    assert conal("inspect", declined, "--json").json()["refused"] is None


def test_words_that_mean_two_things_are_refused(conal: Run, declined: Path, tmp_path: Path) -> None:
    options = ("--set", "abstain=no comment", "--set", "missing=no comment")
    message = conal("aggregate", declined, "--out", tmp_path / "l.csv", *options).refusal()
    assert "'no comment' cannot be both missing and an abstention" in message


def test_the_report_tells_who_declines(conal: Run, declined: Path, tmp_path: Path) -> None:
    options = ("--set", "abstain=no comment", "--report", tmp_path / "r")
    assert conal("aggregate", declined, "--out", tmp_path / "l.csv", *options).code == 0
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "Refused answers" in page
    assert "<b>10 answers</b>" in page
    assert "num_examples_refused" in pv.read_csv(tmp_path / "r" / "annotators.csv").column_names
