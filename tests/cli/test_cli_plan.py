"""``conal plan``: a table of tasks for an expert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.csv as pv

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run


def test_the_plan_is_a_table_for_the_expert(conal: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    run = conal("plan", model, "--experts", 7, "--out", out)
    assert "7 tasks for an expert" in run.out
    assert f"plan: {out}" in run.out
    rows = pv.read_csv(out).to_pylist()
    tasks = pv.read_csv(model / "labels.csv")
    assert len(rows) == 7
    assert {row["task"] for row in rows} <= set(tasks["task"].to_pylist())
    assert {row["ask"] for row in rows} == {"expert"}
    assert "exists already" in conal("plan", model, "--experts", 7, "--out", out).refusal()
    found = conal("plan", model, "--experts", 5, "--out", out, "--overwrite", "--json").json()
    assert found["n_tasks"] == 5
    assert sum(found["reasons"].values()) == 5


def test_texts_are_listed_beside_the_tasks(conal: Run, model: Path, tmp_path: Path) -> None:
    tasks = pv.read_csv(model / "labels.csv")["task"].to_pylist()
    texts = tmp_path / "texts.csv"
    texts.write_text("task,text\n" + "".join(f"{task},about {task}\n" for task in tasks))
    conal("plan", model, "--experts", 6, "--out", tmp_path / "plan.csv", "--text", texts)
    rows = pv.read_csv(tmp_path / "plan.csv").to_pylist()
    assert [row["text"] for row in rows] == [f"about {row['task']}" for row in rows]
    texts.write_text("task,text\nsomewhere else,a text\n")
    others = conal("plan", model, "--experts", 6, "--out", tmp_path / "other.csv", "--text", texts)
    assert "has no text of these tasks; its tasks are 'somewhere else'" in others.refusal()
    assert not (tmp_path / "other.csv").exists()


def test_more_than_there_are_is_refused(conal: Run, model: Path, tmp_path: Path) -> None:
    refusal = conal("plan", model, "--experts", 100_000, "--out", tmp_path / "plan.csv").refusal()
    assert "100,000 tasks are asked for" in refusal
    assert not (tmp_path / "plan.csv").exists()


def test_a_task_with_a_true_label_is_not_asked_about(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    known = range(0, 90, 2)
    gold = tmp_path / "gold.csv"
    gold.write_text("task,label\n" + "".join(f"{task},{crowd.z[task]}\n" for task in known))
    folder, out = tmp_path / "model", tmp_path / "plan.csv"
    fit = ("fit", crowd.labels, "--features", crowd.features, "--out", folder, "--method", "dl-mv", "--epochs", 2)
    assert conal(*fit, "--true-labels", gold, "--quiet").code == 0
    conal("plan", folder, "--experts", 45, "--out", out)
    assert sorted(pv.read_csv(out)["task"].to_pylist()) == list(range(1, 90, 2))
    refusal = conal("plan", folder, "--experts", 46, "--out", out, "--overwrite").refusal()
    assert "46 tasks are asked for, but there are 45 that have no true label" in refusal
