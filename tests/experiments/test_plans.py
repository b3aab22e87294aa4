"""Replays of plans: only hidden labels are revealed, budgets are spent, and pages say what the rows say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal.datasets import synthetic
from conal.experiments.plans import Plans
from conal.experiments.replays import STRATEGIES, Replay, replay


@pytest.mark.parametrize("strategy", ["random", "plan"])
def test_each_batch_reveals_as_many_labels_as_it_may(strategy: str) -> None:
    data = synthetic(n_train=80, n_valid=0, n_test=40, n_annotators=8, labels_per_instance=4, n_features=4)
    rows = replay(data, strategy, 3, rounds=2, batch=20)
    assert [row["labels"] for row in rows] == [40, 60, 80]
    assert [row["promised_low"] is not None for row in rows] == [False, *[strategy == "plan"] * 2]
    assert all(0 < row["label_accuracy"] <= 1 for row in rows)
    assert replay(data, strategy, 3, rounds=1, batch=20)[1] == rows[1]  # the seed decides everything


def test_hidden_labels_are_chosen_once() -> None:
    data = synthetic(n_train=60, n_valid=0, n_test=20, n_annotators=6, labels_per_instance=3, n_features=4)
    here = Replay(data, 0)
    found = here.reading()
    for name in ("random", "plan"):
        chosen, _ = STRATEGIES[name](here, found, 30)
        assert len(set(chosen.tolist())) == 30
        assert not here.revealed[chosen].any()
    np.testing.assert_allclose(found.posterior.sum(1), 1)
    np.testing.assert_allclose(found.confusion.sum(2), 1)


def test_the_page_compares_areas_and_counts_promises_that_hold() -> None:
    rows: list[dict[str, Any]] = []
    gain = {"random": 0.0, "ActiveLab": 0.01, "plan": 0.03}
    for seed, (strategy, more), k in [(s, g, k) for s in range(3) for g in gain.items() for k in range(3)]:
        right = 0.7 + more + 0.01 * k + 0.001 * seed * (strategy == "plan")
        ends = (right, right - 0.1, right + (0.1 if k == 1 else -0.05)) if strategy == "plan" and k else (None,) * 3
        row = {"dataset": "LabelMe", "strategy": strategy, "seed": seed, "round": k, "labels": 50 + k}
        row |= {"label_accuracy": right, "test_accuracy": right, "claimed": right}
        rows.append(row | dict(zip(("promised_accuracy", "promised_low", "promised_high"), ends, strict=True)))
    table = pa.Table.from_pylist(rows)
    page = Plans().page(table)
    assert (
        "| LabelMe | 71.50 ± 0.00 | 72.50 ± 0.00 | 74.60 ± 0.10 | +3.1 (+2.9 to +3.3) | +2.1 (+1.9 to +2.3) |" in page
    )
    assert "| all | 50 % of 6 | 0 % of 3 | +0.0 |" in page
    assert set(Plans().charts(table)) == {"plans"}
