"""Charts and matrices have the classes in the order of the scale: 9 before 10, poor before fair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conal import Annotations
from conal.aggregation import DawidSkene
from conal.report import charts

WORDS = ["poor", "fair", "good", "best"]


def crowd_of(names: list[Any]) -> Annotations:
    """Every class in every task, so that the most frequent, the first and the alphabetical one differ."""
    rng = np.random.default_rng(0)
    z = rng.choice(len(names), size=80, p=[0.1, 0.2, 0.3, 0.4])
    labels = np.where(rng.random((80, 4)) < 0.7, z[:, None], rng.integers(len(names), size=(80, 4)))
    return Annotations.from_matrix(np.array(names, dtype=object)[labels])


@pytest.mark.parametrize("names", [[8, 9, 10, 11], WORDS])
def test_charts_keep_the_order(names: list[Any]) -> None:
    stated = names if isinstance(names[0], str) else None
    fitted = DawidSkene().fit(crowd_of(names).as_ordinal(stated))
    report = fitted.results_.report
    assert report["classes"] == names
    for chart in (fitted.plots.common_confusion(), fitted.plots.annotator(0)):
        encodings = chart.to_dict()["layer"][0]["encoding"]
        for axis in ("x", "y"):
            assert encodings[axis]["scale"]["domain"] == [str(name) for name in names]
            assert encodings[axis]["sort"] is None
    confusion = fitted.tables_["common_confusion.csv"]
    assert list(dict.fromkeys(confusion["true"].to_pylist())) == names


def test_text_of_numbers_is_not_sorted_as_text() -> None:
    rows = [{"true": "9", "observed": "10", "share": 0.5}, {"true": "10", "observed": "9", "share": 0.5}]
    encodings = charts.heat_map(rows).to_dict()["layer"][0]["encoding"]
    assert encodings["x"]["scale"]["domain"] == ["9", "10"]
