"""Accuracy class by class: from which fits it comes, and what the page compares."""

from __future__ import annotations

import numpy as np
import pytest

from conal import Annotations
from conal.experiments import Store
from conal.experiments.classes import Classes, class_gaps, label_entropies
from conal.experiments.real_tables import N_TEST
from conal.experiments.right_answers import packed
from helpers.real import load_or_skip


def test_entropies_are_those_of_the_labels_of_a_class() -> None:
    crowd = Annotations.from_matrix(np.array([[0, 0], [0, 1], [1, 1], [1, -1]]))
    y = np.array([0, 0, 1, 1])
    expected = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert label_entropies(crowd, y) == [pytest.approx(expected), 0.0]


def test_labelme_has_the_papers_entropies() -> None:
    data = load_or_skip("labelme")
    found = dict(zip(data.classes.tolist(), label_entropies(data.annotations, data.y_true), strict=True))
    for name, entropy in {"forest": 0.660, "opencountry": 1.287, "insidecity": 1.116, "mountain": 0.192}.items():
        assert found[name] == pytest.approx(entropy, abs=0.0015)


def test_the_table_is_of_the_chosen_fits() -> None:
    data = load_or_skip("labelme")
    load_or_skip("music")
    assert data.test is not None
    experiment = Classes(seeds=3)
    country = data.test.y == data.classes.tolist().index("opencountry")
    with Store(":memory:") as store:
        for run in experiment.runs():
            best = run.parameters["lr"] == 0.01
            right = np.arange(N_TEST[run.dataset]) % 10 < (8 if best else 5)
            if run.dataset == "labelme" and run.method == "max-mig":
                right = right & ~(country & (np.arange(len(country)) % 10 < 2 + run.seed % 2))
            figures = {"test_accuracy": 0.8, "label_accuracy": 0.9, "best_score": float(best), "seconds": 1.0}
            store.add(run, figures | {"right": packed(right)})
        table = experiment.table(store)
    rows = [row for row in table.to_pylist() if (row["dataset"], row["row"]) == ("labelme", "conal")]
    assert len(rows) == 8 * 3
    assert sum(row["instances"] * row["accuracy"] for row in rows) / (3 * 1188) == pytest.approx(0.8, abs=0.002)
    gaps = class_gaps([row for row in table.to_pylist() if row["dataset"] == "labelme"])
    assert {name for name, gap in gaps.items() if gap.value != 0} == {"opencountry"}
    assert gaps["opencountry"].value > 15
    page = experiment.page(table)
    assert "| entropy |" in page
    assert "1.287 (paper 1.287)" in page
    assert "`conal` 67.21, `max-mig` 54.19" in page
