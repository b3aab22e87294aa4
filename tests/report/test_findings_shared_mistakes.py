"""The section of shared mistakes: figures as the metrics give them, sentences only where there is something to say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.datasets import synthetic
from conal.metrics import co_direction, effective_number
from conal.report import page
from conal.report.evidence import MIN_LABELS_PER_CLASS, AnnotatorPrivacy, Evidence
from conal.report.findings import Findings
from conal.report.sections.shared_mistakes import SharedMistakes, figure_of


def evidence_of(proportion: float, **more: Any) -> Evidence:
    data = synthetic(n_train=800, n_valid=0, n_test=0, labels_per_instance=4, proportion=proportion, seed=1, **more)
    model = DawidSkene().fit(data.annotations)
    return Evidence(data.annotations, model.probas_, model.probas_, model.confusion_.mean(0), model.confusion_)


def headlines(found: Findings) -> list[str]:
    section = SharedMistakes().section(found)
    return [str(line) for line in SharedMistakes().headlines(section, found.report)]


def shown(section: Any) -> str:
    """The part of the page."""
    return str(page.make_parts({"report": {"shared_mistakes": section}})[0])


def test_figures_are_those_of_the_metrics() -> None:
    evidence = evidence_of(0.5)
    section = SharedMistakes().section(Findings(evidence))
    direction = co_direction(
        evidence.annotations,
        evidence.posterior,
        confusion=evidence.individual,
        min_labels_per_class=MIN_LABELS_PER_CLASS,
    )
    number = effective_number(evidence.annotations, evidence.posterior)
    assert list(section["co_direction"].values()) == [*direction.overall, 0]
    assert [each["value"] for each in section["by_class"]] == [
        found.value if np.isfinite(found.value) else None for found in direction.by_class
    ]
    assert section["effective_number"]["at_most"] == number.high
    assert section["effective_number"]["value"] is None
    assert section["effective_number"]["labels_per_task"] == number.n


def test_a_sentence_about_direction_needs_an_interval_above_zero() -> None:
    assert any("Different annotators make the same mistakes" in line for line in headlines(Findings(evidence_of(1.0))))
    assert not any("make the same mistakes" in line for line in headlines(Findings(evidence_of(0.0))))


def test_two_classes_have_a_reason_instead_of_a_value() -> None:
    section = SharedMistakes().section(Findings(evidence_of(0.5, n_classes=2)))
    assert section["co_direction"]["value"] is None
    assert (
        "<td>co-direction of all mistakes</td><td>\u2013</td><td>with two classes there is only one possible mistake"
        in shown(section)
    )


def test_a_reason_that_holds_for_all_classes_is_given_once() -> None:
    """Twelve rows said so of twelve classes."""
    q = np.eye(3)[np.arange(12) % 3]
    crowd = Annotations.from_matrix(np.tile(q.argmax(1)[:, None], 4), classes=range(3))
    section = SharedMistakes().section(Findings(Evidence(crowd, q, q, np.eye(3), np.stack([np.eye(3)] * 4))))
    assert section["co_direction"]["value"] is None
    assert shown(section).count("<td>co-direction") == 1
    assert "<td>independent labels among 4</td>" in shown(section)


def copying_crowd() -> tuple[Annotations, Any]:
    """Three annotators copy a draft; four others err by themselves."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=200)
    draft = np.where(rng.random(200) < 0.7, z, (z + 1) % 3)
    columns = [draft] * 3 + [np.where(rng.random(200) < 0.8, z, (z + 1) % 3) for _ in range(4)]
    names = ["<b>a", "b", "c", "w", "x", "y", "z"]
    return Annotations.from_matrix(np.column_stack(columns), annotator_ids=names, classes=range(3)), np.eye(3)[z]


def test_groups_are_named_and_counted() -> None:
    crowd, q = copying_crowd()
    found = Findings(Evidence(crowd, q, q, np.eye(3), np.stack([np.eye(3)] * 7)))
    section = SharedMistakes().section(found)
    assert section["groups"] == [["<b>a", "b", "c"]]
    assert any("worth at most" in line for line in headlines(found))


@pytest.mark.parametrize("n_true", [29, 60])
def test_true_labels_make_estimates_of_bounds(n_true: int) -> None:
    """Most of the crowd copies a draft. From thirty true labels on, these judge; before, inferred labels do."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=400)
    draft = np.where(rng.random(400) < 0.5, z, (z + 1) % 3)
    columns = [np.where(rng.random(400) < 0.9, draft, z) for _ in range(6)]
    columns += [np.where(rng.random(400) < 0.6, z, (z + 2) % 3) for _ in range(4)]
    crowd = Annotations.from_matrix(np.column_stack(columns), classes=range(3))
    model = DawidSkene().fit(crowd, true_labels={i: int(z[i]) for i in range(n_true)})
    section = SharedMistakes().section(model.results_)
    number, direction = section["effective_number"], section["co_direction"]
    nothing: Any = None  # of the rest of the report, which takes its time
    lines = [str(line) for line in SharedMistakes().headlines(section, nothing)]
    if n_true < 30:
        assert number["value"] is None
        assert (number["true_labels"], direction["true_labels"]) == (0, 0)
        assert "is an upper bound" in shown(section)
    else:
        first = crowd[np.arange(60)]
        by_truth = effective_number(first, np.eye(3)[z[:60]])
        assert [number[key] for key in ("value", "low", "high")] == [by_truth.value, by_truth.low, by_truth.high]
        assert number["at_most"] == effective_number(crowd, model.probas_).high
        assert number["at_most"] > by_truth.value
        assert by_truth.value == pytest.approx(effective_number(crowd, np.eye(3)[z]).value, rel=0.25)
        assert direction == {**figure_of(co_direction(first, np.eye(3)[z[:60]]).overall), "true_labels": 60}
        ends = f"({by_truth.low:.1f} to {by_truth.high:.1f}; by the true labels of 60 tasks)"
        assert any(f"worth <b>{by_truth.value:.1f}</b> independent ones {ends}." in line for line in lines)
        assert "Mistakes are judged by the true labels of 60 tasks.</p>" in shown(section)


def test_hidden_annotators_are_in_no_group() -> None:
    crowd, q = copying_crowd()
    hidden = AnnotatorPrivacy(hide_below=1000)
    found = Findings(Evidence(crowd, q, q, np.eye(3), np.stack([np.eye(3)] * 7), privacy=hidden))
    assert SharedMistakes().section(found)["groups"] == []


@pytest.mark.parametrize("n_tasks", [30, 25_000])
def test_large_crowds_are_sampled(n_tasks: int) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=n_tasks)
    labels = np.where(rng.random((n_tasks, 4)) < 0.6, z[:, None], (z[:, None] + 1) % 3)
    crowd, q = Annotations.from_matrix(labels, classes=range(3)), np.eye(3)[z]
    section = SharedMistakes().section(Findings(Evidence(crowd, q, q, np.eye(3), np.stack([np.eye(3)] * 4))))
    assert section["co_direction"]["value"] == pytest.approx(1.0)
