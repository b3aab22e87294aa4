"""The guides are true: each is gone through from top to bottom, and shows what it says."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import conal
from helpers.pages import commands, run_page

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = sorted((DOCS / "guides").glob("*.md"))
MOST_GUIDES, MOST_WORDS = 12, 900
NEEDS = {"privacy": ("opendp",)}
"""Optional packages that a guide needs as a whole."""


def rows(name: str) -> list[dict[str, str]]:
    with Path(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_clean_labels(names: dict[str, Any]) -> None:
    clf, data = names["clf"], names["data"]
    assert (clf.labels_ == data.y_true).mean() > 0.93
    assert conal.load("better").metrics_["n_true_labels"] == 50
    assert len(rows("clean.csv")) == 1000


def check_jury(names: dict[str, Any]) -> None:
    verdicts = {row["worker"]: row["verdict"] for row in names["document"]["jury"]["judges"]}
    assert "nothing" not in (verdicts["oak-l"], verdicts["elm-l"], verdicts["fir-l"])
    report = json.loads(Path("jury/report.json").read_text(encoding="utf-8"))
    assert report["jury"]["true_labels"] == 50
    assert report["shared_mistakes"]["effective_number"]["value"] < 11
    assert names["verdict"].replaces is False  # of the poor model, which is last


def check_label_studio(names: dict[str, Any]) -> None:
    assert {entry["model_version"] for entry in json.loads(Path("predictions.json").read_text())} == {"conal"}


def check_next_labels(names: dict[str, Any]) -> None:
    assert len(rows("experts.csv")) == 50
    assert {row["ask"] for row in rows("groups.csv")} <= {"staff", "crowd", "expert"}
    assert float(rows("plan.csv")[-1]["total_cost"]) <= 60


def check_texts(names: dict[str, Any]) -> None:
    assert [row["label"] for row in rows("predictions.csv")] == ["pos", "neg"]


def check_updates(names: dict[str, Any]) -> None:
    assert len(rows("model/labels.csv")) == len(rows("clean.csv")) == len(names["clf"].labels_) == 300


def check_privacy(names: dict[str, Any]) -> None:
    assert not (Path("shared") / "data.safetensors").exists()
    assert all(row["worker"].startswith(("annotator-", "several-")) for row in rows("shared/annotators.csv"))
    assert "private.json" in {path.name for path in Path("release").iterdir()}
    assert any(row.get("suspicion") for row in rows("report/annotators.csv"))


def check_report(names: dict[str, Any]) -> None:
    assert "<html" in Path("page.html").read_text(encoding="utf-8")


def check_choosing(names: dict[str, Any]) -> None:
    assert {"mean", "median", "low", "high"} <= set(rows("scores.csv")[0])


def check_paper(names: dict[str, Any]) -> None:
    assert Path("bound/bound.md").is_file()


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    name.removeprefix("check_").replace("_", "-"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:true_labels. .* contradict every vote:conal.errors.DataWarning")
@pytest.mark.parametrize("guide", GUIDES, ids=lambda page: page.stem)
def test_a_guide_from_top_to_bottom(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(guide.stem, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = run_page(guide)
    if guide.stem in CHECKS:
        CHECKS[guide.stem](names)


def test_the_guides_are_few_and_short() -> None:
    assert len(GUIDES) <= MOST_GUIDES
    for guide in GUIDES:
        assert len(guide.read_text(encoding="utf-8").split()) <= MOST_WORDS, guide.name


def test_every_check_is_of_a_guide() -> None:
    assert set(CHECKS) | set(NEEDS) <= {guide.stem for guide in GUIDES}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda page: page.stem)
def test_commands_have_one_line_each(guide: Path) -> None:
    for line in commands(guide):
        assert re.match(r"(conal|torchrun|python -m studies)\b", line), line
        assert not line.endswith("\\"), line
