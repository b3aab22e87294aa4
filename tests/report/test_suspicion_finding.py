"""The report names people with care: only if somebody is striking, with tasks, and never against pseudonyms."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.datasets import CrowdSettings, simulate_crowd
from conal.datasets.adversaries import Adversaries
from conal.report.evidence import AnnotatorPrivacy, Evidence
from conal.report.findings import Findings
from conal.report.labels_alone import findings_of_labels
from conal.report.page import render


def evidence(kinds: str, **options: Any) -> tuple[Evidence, Adversaries | None]:
    rng = np.random.default_rng(1)
    z = rng.integers(5, size=300)
    settings: dict[str, Any] = {
        "n_annotators": 15,
        "labels_per_instance": 4,
        "turn_after": 40,
        "adversaries": kinds,
        "seed": 3,
    }
    ann, truth = simulate_crowd(z, np.ones((300, 1)), list("abcde"), CrowdSettings(**(settings | options)))
    found = findings_of_labels(DawidSkene(verbose=False).fit(ann)).evidence
    times = None if truth.adversaries is None else truth.adversaries.time
    return replace(found, times=times), truth.adversaries


def section(found: Evidence) -> Any:
    return Findings(found).report.get("suspicion")


def test_silent_about_honest_people() -> None:
    found, _ = evidence("")
    assert section(found) is None
    assert "suspicion" not in Findings(found).table("annotators.csv").column_names


def test_the_page_lists_whole_tasks() -> None:
    """The list was cut in its middle, inside a word: "Neutral,…utral"."""
    found, _ = evidence("spammers")
    same = found.annotations
    crowd = Annotations(
        same.tasks,
        same.annotators,
        same.labels,
        task_ids=same.task_ids,
        annotator_ids=same.annotator_ids,
        classes=[f"quite a long name of class {name}" for name in "abcde"],
    )
    report: Any = Findings(replace(found, annotations=crowd)).report
    box = render(report).split('id="suspicion"')[1].split("</section>")[0]
    for row in report["suspicion"]["rows"]:
        assert len(row["tasks"]) > 3
        some = [f"{task['task']} ({task['given']}, others {task['others']})" for task in row["tasks"]]
        assert any(
            f'<td class="long">{", ".join(some[:n])} and {len(some) - n} more</td>' in box for n in range(1, len(some))
        )


@pytest.mark.parametrize("kind", ["spammers", "ring", "followers", "copyists", "sleepers"])
def test_who_is_named_and_on_which_tasks(kind: str) -> None:
    found, truth = evidence(kind)
    assert truth is not None
    told, crowd = section(found), found.annotations
    bad = set(np.flatnonzero(truth.kind != "honest").tolist())
    assert {row["annotator"] for row in told["rows"]} == bad
    label = {(i, r): y for i, r, y in zip(crowd.tasks, crowd.annotators, crowd.labels, strict=True)}
    for row in told["rows"]:
        assert row["tasks"]
        for task in row["tasks"]:  # the evidence is what the annotator said
            assert crowd.classes[label[task["task"], row["annotator"]]] == task["given"] != task["others"]
        if kind == "copyists":
            assert row["shared_with"] == [truth.source[row["annotator"]]]
            assert "The answers come after" in row["what"]
            assert all(
                label[task["task"], row["annotator"]] == label[task["task"], row["shared_with"][0]]
                for task in row["tasks"]
            )
        if kind == "ring":
            assert found.detections.rings
            exchange = found.detections.rings[0].exchange
            code = {name: k for k, name in enumerate(crowd.classes.tolist())}
            assert all(exchange[code[task["others"]]] == code[task["given"]] for task in row["tasks"])
            assert " as " in row["what"]
            assert set(row["shared_with"]) == bad - {row["annotator"]}
    table = Findings(found).table("annotators.csv").to_pylist()
    assert {row["worker"] for row in table if row["suspicion"]} >= bad
    page = render(json.loads(json.dumps(Findings(found).report)))
    assert "Suspicious annotators" in page
    assert "Suspicious: <b>" in page


def test_pseudonyms_are_respected() -> None:
    found, _ = evidence("spammers,copyists", adversary_share=0.3)
    told = section(replace(found, privacy=AnnotatorPrivacy(10)))
    assert told["rows"]
    for row in told["rows"]:
        assert not row["tasks"]
        assert "p_value" not in row
        assert row["labels"] % 10 == 0
    assert section(replace(found, privacy=AnnotatorPrivacy(500))) is None  # nobody may be told


def test_names_cannot_break_the_page() -> None:
    found, _ = evidence("ring")
    names = [f"<script>{r}</script>" for r in range(15)]
    crowd = found.annotations.replace(annotator_ids=names, classes=[f"<b>{c}" for c in "abcde"])
    page = render(json.loads(json.dumps(Findings(replace(found, annotations=crowd)).report)))
    assert "<script>1" not in page
    assert "<b>a" not in page


def test_a_model_upside_down_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = evidence("ring")
    assert section(found) is not None
    monkeypatch.setattr("conal.report.sections.suspicion.contradiction", lambda _: {"text": ""})
    assert section(found) is None


def test_a_large_group_may_be_right() -> None:
    small, large = (section(evidence("ring", adversary_share=share)[0]) for share in (0.2, 0.35))
    assert "nobody can say" not in small["text"]
    assert "nobody can say" in large["text"]


def test_labels_that_change_without_an_annotator(tmp_path: Path) -> None:
    found, _ = evidence("")
    table = Findings(found).table("annotators.csv")
    np.testing.assert_array_equal(table["labels_changed_without"].to_numpy(), found.left_out.changes())
    assert found.left_out.changes().sum() > 0
    assert {row["labels_changed_without"] for row in Findings(found).report["annotators"]["rows"]} == set(
        found.left_out.changes().tolist()
    )
