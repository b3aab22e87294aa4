"""``conal measure``: figures, conditions and their exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from conal.aggregation.combiner import Combiner

if TYPE_CHECKING:
    from cli.conftest import Run

Write = Callable[..., Path]


@pytest.fixture
def jury(tmp_path: Path, write: Write) -> tuple[Path, Path]:
    """Labels of four judges, who are right on 95 to 55 % of 200 tasks, and 60 true labels."""
    rng = np.random.default_rng(0)
    truth = rng.choice(["bad", "good"], 200)
    other = {"bad": "good", "good": "bad"}
    rows = [
        (f"t{k}", f"j{r}", label if rng.random() < skill else other[label])
        for k, label in enumerate(truth.tolist())
        for r, skill in enumerate((0.95, 0.65, 0.6, 0.55))
    ]
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    gold = [(f"t{k}", truth[k]) for k in rng.choice(200, 60, replace=False).tolist()]
    return labels, write(tmp_path / "gold.csv", ("task", "label"), gold)


def test_figures_for_people_and_programs(conal: Run, jury: tuple[Path, Path], tmp_path: Path) -> None:
    labels, gold = jury
    out, page = tmp_path / "m.json", tmp_path / "page"
    done = conal("measure", labels, "--true-labels", gold, "--out", out, "--report", page)
    assert done.code == 0
    first, second, third, best, *_ = done.out.splitlines()
    assert first == "measured by 60 random true labels of 200 tasks, with 95 % intervals"
    assert second.startswith("inferred labels: ")
    assert "; the model believed " in second
    assert third.startswith("majority vote: ")
    assert best.startswith("j0: ")
    assert "sensitivity is the share of good that is found, specificity that of bad" in done.out
    assert "\ntrue label bad: " in done.out
    other = conal("measure", labels, "--true-labels", gold, "--positive", "bad")
    assert "sensitivity is the share of bad that is found, specificity that of good" in other.out
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["inferred"]["value"] > figures["vote"]["value"]
    assert (page / "report.html").exists()
    printed = conal("measure", labels, "--true-labels", gold, "--json").json()
    assert printed == figures


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--fail-under", "0.5"), 0, ""),
        (("--fail-under", "0.99", "--method", "majority-vote"), 3, "of the inferred labels are right, below 0.99"),
        (("--fail-if-below", "vote"), 0, ""),
        (("--fail-if-below", "best-judge"), 0, ""),
        (("--fail-if-below", "best-judge", "--method", "majority-vote"), 3, "are worse than judge j0: -"),
    ],
)
def test_conditions(conal: Run, jury: tuple[Path, Path], options: tuple[str, ...], code: int, said: str) -> None:
    labels, gold = jury
    done = conal("measure", labels, "--true-labels", gold, *options)
    assert done.code == code
    assert said in done.err


def test_drift(conal: Run, jury: tuple[Path, Path], tmp_path: Path) -> None:
    labels, gold = jury
    out = tmp_path / "m.json"
    conal("measure", labels, "--true-labels", gold, "--out", out)
    same = conal("measure", labels, "--true-labels", gold, "--baseline", out)
    assert same.code == 0
    assert "no drift: none of 8 figures differs reliably from the baseline" in same.out
    worse = tmp_path / "worse.csv"
    text = labels.read_text(encoding="utf-8")
    swapped = [
        line.replace("good", "?").replace("bad", "good").replace("?", "bad") if ",j0," in line else line
        for line in text.splitlines()
    ]
    worse.write_text("\n".join(swapped) + "\n", encoding="utf-8")
    done = conal("measure", worse, "--true-labels", gold, "--baseline", out)
    assert done.code == 3
    assert "failed: j0 (judge) was 100 %" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fail-under", "95"), "--fail-under"),
        (("--positive", "ugly"), "must be one of two classes; the classes are bad, good"),
        (("--baseline", "labels.csv"), "labels.csv"),
        (("--baseline", "absent.json"), "absent.json"),
        (("--method", "nothing"), "nothing"),
        (("--set", "nothing=1"), "nothing"),
    ],
)
def test_bad_input(
    conal: Run,
    jury: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    labels, gold = jury
    done = conal("measure", labels, "--true-labels", gold, "--out", tmp_path / "m.json", *options)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "m.json").exists()


def test_export_without_true_labels(conal: Run, jury: tuple[Path, Path]) -> None:
    done = conal("measure", jury[0], "--true-labels", "export")
    assert done.code == 2
    assert "contain no true labels" in done.err


def test_too_few_true_labels(conal: Run, jury: tuple[Path, Path], tmp_path: Path, write: Write) -> None:
    few = write(tmp_path / "few.csv", ("task", "label"), [("t0", "bad")])
    done = conal("measure", jury[0], "--true-labels", few)
    assert done.code == 2
    assert "only 1 tasks with labels have a true label; 10 are needed" in done.err


def test_a_combiner_of_a_saved_jury(conal: Run, jury: tuple[Path, Path], tmp_path: Path) -> None:
    labels, gold = jury
    saved, out = tmp_path / "saved", tmp_path / "combiner.json"
    conal("aggregate", labels, "--true-labels", gold, "--out", tmp_path / "c.csv", "--save", saved)
    done = conal("export", saved, "--out", out)
    assert done.code == 0
    assert f"combiner: {out}, of 4 judges and 2 classes" in done.out
    assert Combiner.read(out).combine({"j0": "good", "j1": "bad"})[0] == "good"
    again = conal("export", saved, "--out", out)
    assert again.code == 2
    assert "--overwrite" in again.err
