"""Aggregators on public crowds: rows of the table, and what the page says about them."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from conal import aggregation
from conal.data.annotations import Annotations
from conal.experiments import Store
from conal.experiments.aggregators import Aggregators
from conal.metrics import effective_number
from helpers.real import labelled_crowd


def test_rows_are_those_of_the_aggregators_and_of_true_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, truth = labelled_crowd("semeval_stance")
    module = sys.modules["conal.experiments.aggregators"]
    monkeypatch.setattr(module, "LABEL_SETS", ("semeval_stance",))
    monkeypatch.setattr(module, "DRAWS", 2)
    monkeypatch.setattr(aggregation, "names", lambda: ["dawid-skene", "majority-vote", "one-coin"])
    with Store(":memory:") as store:
        table = Aggregators().table(store)
    rows = {(row["method"], row["seed"]): row for row in table.to_pylist()}
    assert len(rows) == len(table) == 3 + 1 + 2
    model = aggregation.make("dawid-skene").fit(labels)
    right = (truth.reindex(model.task_ids_).to_numpy() == model.labels_).mean()
    assert rows["dawid-skene", 0]["accuracy"] == pytest.approx(right)
    crowd = Annotations.of(labels)
    assert rows["dawid-skene", 0]["effective"] == effective_number(crowd, model.probas_).value
    assert "wins votes, but hardly any task gets it" in rows["one-coin", 0]["warning"]
    assert rows["dawid-skene", 0]["warning"] == ""
    codes = np.searchsorted(crowd.classes.astype(str), truth.reindex(crowd.task_ids).to_numpy().astype(str))
    true = effective_number(crowd, np.eye(3)[codes])
    assert rows["true labels", 0]["effective"] == true.value == pytest.approx(3.4, abs=0.05)
    assert rows["50 true labels", 0]["effective"] != rows["50 true labels", 1]["effective"]
    assert 2 < rows["50 true labels", 0]["effective"] < 5


def row(
    crowd: str, method: str, accuracy: float | None, effective: float, warning: str = "", seed: int = 0
) -> dict[str, object]:
    ends = {"effective": effective, "effective_low": effective - 1, "effective_high": effective + 1}
    return {"row": crowd, "method": method, "seed": seed, "accuracy": accuracy, "warning": warning} | ends


def test_the_page_has_the_worst_cases_and_marks_collapses() -> None:
    rows = []
    for crowd, votes in (("dog", 0.8), ("flute", 0.5)):
        rows += [
            row(crowd, "dawid-skene", 0.7, 9.0),
            row(crowd, "majority-vote", votes, 5.0, "told" if votes < 0.6 else ""),
        ]
        rows += [row(crowd, "true labels", None, 6.0), row(crowd, "50 true labels", None, 6.6)]
        rows += [row(crowd, "50 true labels", None, 4.0, seed=1)]
    page = Aggregators().page(pa.Table.from_pylist(rows))
    assert "| `dawid-skene` | 70.0 | 70.0 | 70.0 | 70.0 | 10.0 | -10.0 |" in page
    assert "| `majority-vote` | 80.0 | 50.0 * | 65.0 | 50.0 | 20.0 | +0.0 |" in page
    assert "| flute | 6.0 (5.0 to 7.0) | 5.3 | 22 % | 50 % | at most 10.0 |" in page
