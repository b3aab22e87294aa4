"""Families of annotators: what is simulated, rows of the table, and what the page says about them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from conal.aggregation import GroupConfusion
from conal.experiments import Store
from conal.experiments.families import WAYS, Families, _differ, crowd_of_families


def test_crowds_have_families_and_as_many_labels_as_they_say() -> None:
    crowd, truth = crowd_of_families(40, 3)
    assert truth.groups is not None
    assert np.bincount(truth.groups).tolist() == [5, 5, 5]
    assert crowd.labels_per_annotator().mean() == pytest.approx(40, rel=0.1)
    other, _ = crowd_of_families(40, 4)
    assert other != crowd


def test_rows_are_those_of_the_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.experiments.families.SIZES", (20,))
    with Store(":memory:") as store:
        rows = Families(quick=True, seeds=1).table(store).to_pylist()
    assert [row["method"] for row in rows] == list(WAYS)
    crowd, truth = crowd_of_families(20, 0)
    assert truth.groups is not None
    fitted = GroupConfusion(groups=truth.groups.tolist()).fit(crowd)
    given = next(row for row in rows if row["method"] == "families given")
    assert given["accuracy"] == pytest.approx((fitted.codes_ == truth.z).mean())
    assert given["rand"] == 1.0
    assert rows[0]["rand"] is None


def test_the_page_has_gains_with_intervals() -> None:
    rows = []
    for seed, more in enumerate((0.02, 0.04)):
        for way in WAYS:
            accuracy = 0.8 + (more if way == "families given" else 0.0)
            figures = {"families_differ": True, "accuracy": accuracy, "n_groups": 3, "rand": 0.5 + seed / 2}
            rows.append({"labels": 20, "method": way, "seed": seed} | figures)
    page = Families().page(pa.Table.from_pylist(rows))
    assert "| families given | 83.0 |" in page
    assert "| families given against common + individual | +3.0 (-9.7 to +15.7) |" in page  # 12.706 times 1 either way
    assert "| adjusted Rand index, 3 groups learned | 0.75 |" in page


def test_families_that_nothing_tells_apart_do_not_count_for_the_index() -> None:
    """In the crowd of seed 4, two of the families have the same matrix; in that of seed 0, none."""
    (_, alike), (_, apart) = crowd_of_families(20, 4), crowd_of_families(20, 0)
    assert not _differ(alike)
    assert _differ(apart)
    at = {"labels": 20, "accuracy": 0.8, "n_groups": 3}
    rows = [
        at | {"method": way, "seed": seed, "families_differ": seed == 0, "rand": 1.0 - seed / 2}
        for seed in range(2)
        for way in WAYS
    ]
    page = Families().page(pa.Table.from_pylist(rows))
    assert "In 1 of these crowds two families have the same confusion by chance" in page
    assert "| adjusted Rand index, 3 groups learned | 1.00 |" in page
