"""Simulated crowds of four kinds: their truth, and what the page says about `auto`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from conal import aggregation
from conal.experiments import Store
from conal.experiments.simulated_labels import KINDS, SimulatedLabels, simulated_labels


@pytest.mark.parametrize("kind", KINDS)
def test_crowds_are_of_the_size_that_their_kind_says(kind: str) -> None:
    crowd, z = simulated_labels(kind, seed=1)
    n_tasks, n_annotators, (least, most), shares, _ = KINDS[kind]
    assert (crowd.n_tasks, crowd.n_annotators, crowd.n_classes) == (n_tasks, n_annotators, len(shares))
    given = crowd.labels_per_task()
    assert (given.min(), given.max()) == (least, most)
    np.testing.assert_allclose(np.bincount(z) / n_tasks, shares, atol=0.06)
    again, others = simulated_labels(kind, seed=1)[0], simulated_labels(kind, seed=2)[0]
    np.testing.assert_array_equal(crowd.labels, again.labels)
    assert not np.array_equal(crowd.labels[:500], others.labels[:500])


def test_members_of_a_family_err_alike() -> None:
    n_annotators, n_classes = 15, 4
    rows = KINDS["three families"].confusion(n_annotators, n_classes, np.random.default_rng(0))
    np.testing.assert_allclose(rows.sum(2), 1)
    family = np.arange(n_annotators) % 3
    apart = np.abs(rows[:, None] - rows[None]).mean((2, 3))
    same = family[:, None] == family
    assert apart[same & ~np.eye(n_annotators, dtype=bool)].max() < apart[~same].min()


def test_one_coin_crowds_have_one_accuracy_per_annotator() -> None:
    rows = KINDS["one number per annotator"].confusion(5, 4, np.random.default_rng(0))
    accuracy = rows[:, 0, 0]
    expected = np.where(np.eye(4, dtype=bool), accuracy[:, None, None], (1 - accuracy[:, None, None]) / 3)
    np.testing.assert_allclose(rows, expected)
    assert 0.35 <= accuracy.min() < accuracy.max() <= 0.9


def test_rows_are_those_of_the_aggregators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation, "names", lambda: ["dawid-skene", "gold-majority-vote", "majority-vote"])
    with Store(":memory:") as store:
        rows = SimulatedLabels(seeds=1).table(store).to_pylist()
    assert [(row["row"], row["method"]) for row in rows] == [
        (kind, name) for kind in KINDS for name in ("dawid-skene", "majority-vote")
    ]
    crowd, z = simulated_labels("three families", 0)
    right = (aggregation.make("majority-vote").fit(crowd).codes_ == z).mean()
    assert rows[5]["accuracy"] == right


def test_the_page_says_what_auto_regains() -> None:
    """Dawid-Skene loses 10, 4 and 1 points to the best; auto regains 8, -1 and 0 of them. 7 of 14 is a half."""
    accuracies = {"auto": (0.88, 0.85, 0.7), "dawid-skene": (0.8, 0.86, 0.7), "mace": (0.9, 0.9, 0.71)}
    rows = [
        {"row": kind, "seed": 0, "method": name, "accuracy": accuracies[name][k], "warning": ""}
        for k, kind in enumerate(("a", "b", "c"))
        for name in accuracies
    ]
    page = SimulatedLabels().page(pa.Table.from_pylist(rows))
    assert "On 2 of 3 crowds, `dawid-skene` is more than 2 points behind the best" in page
    assert "by 14.0 points in all, of which `auto` regains 50 %" in page
    assert "`auto` is at worst 1.0 points behind `dawid-skene`" in page
    assert "| `mace` | 90.0 | 90.0 | 71.0 | 83.7 | 0.0 |" in page
    assert "| `dawid-skene` | 80.0 | 86.0 | 70.0 | 78.7 | 10.0 |" in page
