"""``conal plan``: a table of tasks for an expert."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.csv as pv

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run


def test_the_plan_is_a_table_for_the_expert(conal: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    run = conal("plan", model, "--experts", 7, "--out", out)
    assert "7 tasks for an expert" in run.out
    assert re.search(r"believes that (about|less than) \d of their 7 labels (is|are) wrong", run.out)
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


def test_a_plan_for_the_common_confusion(conal: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    wanted = ("plan", model, "--for", "common-confusion", "--out", out)
    assert "--experts N" in conal(*wanted).refusal()
    assert "by=group" in conal(*wanted, "--budget", 5, "--set", "by=group").refusal()
    found = conal(*wanted, "--budget", 9, "--json").json()
    rows = pv.read_csv(out).to_pylist()
    assert len(rows) == found["n_labels"] == 9
    assert len({(row["task"], row["ask"]) for row in rows}) == 9
    assert 0 < found["error_after"] < found["error"] < 0.2
    assert "expected error of a cell" in conal(*wanted, "--budget", 9, "--overwrite").out


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


def test_a_budget_is_planned_for_the_crowd(conal: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    run = conal("plan", model, "--budget", 12, "--out", out)
    assert "the model's belief, which is too high where annotators err alike" in run.out
    rows = pv.read_csv(out).to_pylist()
    people = pv.read_csv(model / "annotators.csv")["worker"].to_pylist()
    assert 0 < len(rows) <= 12
    ends = ["total_cost", "expected_accuracy", "accuracy_low", "accuracy_high"]
    assert list(rows[0]) == ["task", "ask", "reason", "expected_gain", "cost", *ends]
    assert {row["ask"] for row in rows} <= set(people)
    assert rows[-1]["total_cost"] == sum(row["cost"] for row in rows) <= 12
    assert all(row["accuracy_low"] <= row["expected_accuracy"] <= row["accuracy_high"] for row in rows)
    again = tmp_path / "again.csv"
    figures = conal("plan", model, "--budget", 12, "--out", again, "--json").json()
    assert again.read_bytes() == out.read_bytes()
    assert figures["n_labels"] == len(rows)
    assert figures["accuracy_low"] <= figures["expected_accuracy"] <= figures["accuracy_high"]


def test_costs_limits_groups_and_experts(conal: Run, model: Path, tmp_path: Path) -> None:
    people = pv.read_csv(model / "annotators.csv")["worker"].to_pylist()
    info = tmp_path / "people.csv"
    lines = [f"{name},{'even' if k % 2 == 0 else 'odd'},{1 + k % 2},1" for k, name in enumerate(people)]
    info.write_text("worker,group,cost,limit\n" + "\n".join(lines) + "\n")
    out = tmp_path / "plan.csv"
    conal("plan", model, "--budget", 20, "--out", out, "--annotator-info", info)
    rows = pv.read_csv(out).to_pylist()
    assert len({row["ask"] for row in rows}) == len(rows) > 1  # everybody once
    costs = {name: 1 + k % 2 for k, name in enumerate(people)}
    assert all(row["cost"] == costs[row["ask"]] for row in rows)
    by_group = ["--set", "by=group", "--annotator-info", info, "--overwrite"]
    conal("plan", model, "--budget", 20, "--out", out, *by_group)
    assert {row["ask"] for row in pv.read_csv(out).to_pylist()} <= {"even", "odd"}
    figures = conal(
        "plan", model, "--budget", 20, "--out", out, "--set", "expert_cost=1", "--overwrite", "--json"
    ).json()
    assert figures["n_expert_labels"] > 0
    assert figures["cost"] <= 20
    assert (
        "no groups" in conal("plan", model, "--budget", 9, "--out", tmp_path / "x.csv", "--set", "by=group").refusal()
    )


def test_a_plan_is_for_an_expert_or_for_the_crowd(conal: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    assert "pass --experts N" in conal("plan", model, "--out", out).refusal()
    assert "pass --experts N" in conal("plan", model, "--experts", 3, "--budget", 9, "--out", out).refusal()
    assert "budget must be" in conal("plan", model, "--budget", -1, "--out", out).refusal()
    unused = conal("plan", model, "--experts", 3, "--set", "expert_cost=2", "--out", out)
    assert "expert_cost needs --budget" in unused.refusal()
    assert not out.exists()


def test_a_saved_aggregator_can_be_planned_for(conal: Run, tmp_path: Path) -> None:
    labels, saved, out = tmp_path / "labels.csv", tmp_path / "saved", tmp_path / "plan.csv"
    given = [(t, w, "ab"[(t + (w == t % 5)) % 2]) for t in range(30) for w in range(5) if (t + w) % 2]
    labels.write_text("task,worker,label\n" + "".join(f"t{t},w{w},{label}\n" for t, w, label in given))
    assert conal("aggregate", labels, "--out", tmp_path / "clean.csv", "--save", saved).code == 0
    assert conal("plan", saved, "--experts", 4, "--out", out, "--json").json()["n_tasks"] == 4
    rows = pv.read_csv(out).to_pylist()
    assert len({row["task"] for row in rows}) == 4
    assert {row["ask"] for row in rows} == {"expert"}
    figures = conal("plan", saved, "--budget", 9, "--out", out, "--overwrite", "--json").json()
    rows = pv.read_csv(out).to_pylist()
    assert figures["n_labels"] == len(rows) <= 9
    assert not {(row["task"], row["ask"]) for row in rows} & {(f"t{t}", f"w{w}") for t, w, _ in given}
    refused = conal("plan", saved, "--budget", 9, "--out", tmp_path / "x.csv", "--set", "by=group").refusal()
    assert "plans ask single annotators" in refused
