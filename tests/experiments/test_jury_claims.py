"""What the report says about juries, judged by the truth: rows of the table, and the page's shares."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from conal import aggregation
from conal.data.annotations import Annotations
from conal.experiments import Store
from conal.experiments.jury_claims import JuryClaims
from helpers.real import labelled_crowd


def test_rows_say_what_the_report_says_and_what_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, truth = labelled_crowd("emotion")
    module = sys.modules["conal.experiments.jury_claims"]
    monkeypatch.setattr(module, "JUDGES", ("emotion",))
    monkeypatch.setattr(module, "DRAWS", 2)
    with Store(":memory:") as store:
        table = JuryClaims().table(store)
    judged = [row for row in table.to_pylist() if row["verdict"] != "smaller"]
    assert len(judged) == 2 * 12
    crowd = Annotations.of(labels)
    true = truth.reindex(crowd.task_ids).to_numpy()

    def right(some: Annotations) -> float:
        return float((aggregation.DawidSkene(verbose=False).fit(some).labels_ == true).mean())

    place = crowd.annotator_ids.tolist().index("flan-ul2")
    exact = right(crowd.select(crowd.annotators != place)) - right(crowd)
    found = [row for row in judged if row["judge"] == "flan-ul2"]
    assert [row["truth_alone"] for row in found] == pytest.approx([exact, exact])
    assert found[0]["truth"] != found[1]["truth"]  # other true labels


def test_the_page_counts_statements() -> None:
    def row(jury: str, verdict: str, truth: float, size: int = 12) -> dict[str, object]:
        return (
            {"truth_alone": 2 * truth}
            | {
                "row": jury,
                "seed": 0,
                "judge": "a",
                "low": -0.01,
                "high": 0.01,
                "verdict": verdict,
                "truth": truth,
            }
            | {"size": size}
        )

    rows = []
    for jury in sys.modules["conal.experiments.jury_claims"].JUDGES:
        rows += [row(jury, "nothing", 0.001), row(jury, "nothing", -0.006), row(jury, "open", 0.004)]
        rows += [row(jury, "open", 0.02), row(jury, "smaller", -0.02, 5), row(jury, "smaller", 0.0, 6)]
    page = JuryClaims().page(pa.Table.from_pylist(rows))
    assert "| **all** | 50 (25) | 50 (50) | 50 (100) | 75 (50) | 50 (50) | 5.5 of 12 |" in page
    assert page.index("| conv_go_awry |") < page.index("| emotion |") < page.index("| discourse |")
