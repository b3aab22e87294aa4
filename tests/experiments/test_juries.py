"""Juries of language models: rows of the table, intervals, and what the page says about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from conal import aggregation
from conal.data.annotations import Annotations
from conal.datasets.base import CrowdDataset
from conal.experiments import Store
from conal.experiments.juries import ALL, ENDS, STACKED, Juries, _by_seeds, intervals


def small_jury(jury: str = "a") -> CrowdDataset:
    """Sixty texts that say their class, and judges who are right nine, eight, ... times in ten."""
    rng = np.random.default_rng(len(jury))
    z = np.arange(60) % 3
    judges = ["chatgpt", "flan-ul2", "text-ada-001", "flan-t5-xl"]
    rows = []
    for i, truth in enumerate(z.tolist()):
        for judge, skill in zip(judges, (0.9, 0.8, 0.7, 0.6), strict=True):
            rows.append((f"t{i}", judge, "xyz"[truth if rng.random() < skill else rng.integers(3)]))
    crowd = Annotations.from_triples(*map(list, zip(*rows, strict=True)))
    order = [int(name[1:]) for name in crowd.task_ids.tolist()]
    texts = np.array([f"{['red', 'green', 'blue'][z[i]]} thing number {i}" for i in order], dtype=object)
    return CrowdDataset(jury, texts, crowd[np.arange(60)], z[order])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.experiments.juries.llm_jury", small_jury)
    monkeypatch.setattr("conal.experiments.juries.JUDGES", ("a", "bb"))
    monkeypatch.setattr(aggregation, "names", lambda: ["dawid-skene", "gold-majority-vote", "majority-vote"])


@pytest.mark.usefixtures("few")
def test_every_way_is_measured_on_every_jury() -> None:
    with Store(":memory:") as store:
        experiment = Juries(quick=True, seeds=1)
        table = experiment.table(store)
    rows = {(row["row"], row["method"], row["seed"]): row for row in table.to_pylist()}
    ways = list(experiment.ways())
    assert "`gold-majority-vote`" not in ways
    assert len(rows) == len(table) == 3 * len(ways)
    data = small_jury("bb")
    model = aggregation.make("dawid-skene").fit(data.annotations)
    right = (model.codes_ == data.y_true).mean()
    assert rows["bb", "`dawid-skene`", 0]["accuracy"] == pytest.approx(right)
    assert rows["bb", "crowd-kit's Dawid-Skene", 0]["accuracy"] == pytest.approx(right, abs=0.1)
    judges = data.annotations.to_matrix() == data.y_true[:, None]
    assert rows["bb", "best judge, picked by true labels", 0]["accuracy"] == judges.mean(0).max()
    assert rows["bb", "`xconal` with the texts", 0]["accuracy"] > 0.8
    assert rows["bb", STACKED, 0]["accuracy"] > 0.6
    gap = np.mean(
        [rows[name, STACKED, 0]["accuracy"] - rows[name, "`dawid-skene`", 0]["accuracy"] for name in ("a", "bb")]
    )
    assert rows[ALL, STACKED, 0]["gap"] == pytest.approx(gap, abs=0.12)  # it is judged on the other ten tasks
    assert rows[ALL, "`dawid-skene`", 0]["gap"] == rows[ALL, "`dawid-skene`", 0]["items_high"] == 0
    page = experiment.page(table)
    assert "Reduced size" in page
    assert "| `majority-vote` |" in page


def test_no_way_needs_an_order_or_true_labels() -> None:
    """Every aggregator can be fitted to every jury, and seeds that make no difference are not tried."""
    ways = list(Juries().ways())
    assert {"`dawid-skene`", "`group-confusion`, families given", "crowd-kit's Dawid-Skene"} <= set(ways)
    assert not {"`ordinal`", "`gold-majority-vote`"} & set(ways)
    tried: list[int] = []

    def infer(seed: int) -> Any:
        tried.append(seed)
        return np.array([1.0, np.nan])

    assert _by_seeds(infer, range(5)).shape == (5, 2)
    assert tried == [0, 1]
    np.testing.assert_array_equal(_by_seeds(lambda seed: np.array([float(seed)]), range(5))[:, 0], range(5))


def test_intervals_are_those_of_the_two_kinds_of_chance() -> None:
    """Items: the standard error within juries; juries: the spread between them."""
    rng = np.random.default_rng(0)
    ours = [(rng.random(400) < rate).astype(float) for rate in (0.7, 0.7, 0.9, 0.9)]
    theirs = [np.full(400, 0.5) for _ in ours]
    found = intervals(ours, theirs, np.random.default_rng(1))
    means = np.array([each.mean() - 0.5 for each in ours])
    assert found["gap"] == pytest.approx(means.mean())
    error = np.sqrt(sum(each.var() / 400 for each in ours)) / 4
    assert found["items_high"] - found["items_low"] == pytest.approx(2 * 1.96 * error, rel=0.1)
    by_student = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (found["juries_low"], found["juries_high"]) == pytest.approx(tuple(by_student), abs=1e-9)


def test_items_that_were_not_judged_do_not_count() -> None:
    ours, theirs = [np.array([1.0, np.nan, 1.0])] * 2, [np.array([0.0, 0.0, 1.0])] * 2
    assert intervals(ours, theirs, np.random.default_rng(0))["gap"] == 0.5


def test_the_page_has_means_and_differences() -> None:
    def row(name: str, way: str, accuracy: float | None, **figures: Any) -> dict[str, Any]:
        return {"row": name, "method": way, "seed": 0, "accuracy": accuracy, **dict.fromkeys(("gap", *ENDS)), **figures}

    rows = [row(name, way, more) for name in ("a", "b") for way, more in (("`dawid-skene`", 0.5), ("`x`", 0.6))]
    ends = dict(zip(ENDS, (0.05, 0.15, 0.0, 0.2), strict=True))
    rows += [
        row(ALL, "`dawid-skene`", None, gap=0.0, **dict.fromkeys(ENDS, 0.0)),
        row(ALL, "`x`", None, gap=0.1, **ends),
    ]
    page = Juries().page(pa.Table.from_pylist(rows))
    assert "| `x` | 60.0 | 60.0 | 60.0 | +10.0 | +5.0 to +15.0 | +0.0 to +20.0 |" in page
    assert "crowd-kit is not installed" in page
