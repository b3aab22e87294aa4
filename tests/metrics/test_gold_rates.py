"""Rates from a few true labels: against the formulas, prediction-powered inference, and the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from conal.aggregation import DawidSkene
from conal.datasets import synthetic
from conal.errors import InputError
from conal.metrics import gold_rate, gold_rates
from conal.metrics.rates import UNSEEN


def crowd(n: int, share: float, sharpness: float, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Truth, and predictions that know something of it."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < share
    score = sharpness * np.where(truth, 1.0, -1.0) + rng.normal(size=n)
    return truth, 1 / (1 + np.exp(-score))


def test_it_is_what_prediction_powered_inference_gives_on_a_large_set() -> None:
    """ppi-python 0.2.3 on the same data: ppi_mean_pointestimate and ppi_mean_ci(alpha=0.05), lambda tuned by both."""
    truth, predicted = crowd(100_000, 0.4, 1.0)
    found = gold_rate(predicted, np.arange(2000), truth[:2000])
    assert found.value == pytest.approx(0.39799349, abs=2e-4)
    assert (found.low, found.high) == pytest.approx((0.38268169, 0.41330528), abs=7e-4)
    assert found.high - found.low < 0.71 * (2 * 1.96 * np.sqrt(0.4 * 0.6 / 2000))  # of the 2,000 labels alone


def test_it_follows_the_formulas() -> None:
    truth, predicted = crowd(300, 0.3, 0.7)
    rng = np.random.default_rng(0)
    predicted = np.where(predicted > 0.5, 0.6 + predicted / 3, predicted / 4)  # too sure, so that lambda is below 1
    pi = 0.1 + 0.7 * rng.random(300)
    rows = np.flatnonzero(rng.random(300) < pi)
    found = gold_rate(predicted, rows, truth[rows], inclusion=pi[rows], confidence=0.9)
    w = [1 / pi[i] for i in rows]
    v = [(1 - pi[i]) / pi[i] ** 2 for i in rows]
    y, f = truth[rows].astype(float), predicted[rows]
    centre = sum(a * b for a, b in zip(v, f, strict=True)) / sum(v)
    lam = sum(a * (b - centre) * c for a, b, c in zip(v, f, y, strict=True))
    lam /= sum(a * (b - centre) ** 2 for a, b in zip(v, f, strict=True))
    assert 0 < lam < 1
    e = y - lam * f
    value = lam * predicted.mean() + sum(a * b for a, b in zip(w, e, strict=True)) / sum(w)
    assert found.value == pytest.approx(value, abs=1e-12)

    def variance(values: np.ndarray) -> float:
        mean = sum(a * b for a, b in zip(w, values, strict=True)) / sum(w)
        return float(sum(a**2 * (b - mean) ** 2 for a, b in zip(w, values, strict=True)) / sum(a**2 for a in w))

    alone, left = variance(y), variance(e) * len(y) / (len(y) - 2)
    kish = sum(w) ** 2 / sum(a**2 for a in w)
    drawn = sum(v) / sum(a**2 for a in w)
    n = kish * alone / (left + UNSEEN * (1 - left / alone) / kish) / drawn
    assert found.n_effective == pytest.approx(n, rel=1e-10)
    z = student.ppf(0.95, kish - 1)
    ends = np.roots([1 + z**2 / n, -(2 * value + z**2 / n), value**2])  # Wilson: (p - x)^2 = z^2 x (1 - x) / n
    assert [found.low, found.high] == pytest.approx(sorted(ends.real), abs=1e-10)


def test_useless_predictions_cost_nothing_and_fifty_right_ones_are_no_certainty() -> None:
    rng = np.random.default_rng(1)
    truth = np.zeros(1000, bool)
    rows = rng.choice(1000, 50, replace=False)
    found = gold_rate(rng.random(1000), rows, truth[rows])
    assert found.value == 0
    assert found.n_effective == pytest.approx(50 / 0.95)
    assert 0.06 < found.high < 0.08


def test_all_tasks_known_leave_no_doubt() -> None:
    truth, predicted = crowd(40, 0.5, 1.0)
    found = gold_rate(predicted, np.arange(40), truth)
    assert (found.low, found.high) == pytest.approx((truth.mean(), truth.mean()), abs=1e-3)


@pytest.mark.parametrize(("share", "sharpness"), [(0.02, 2.0), (0.1, 1.0), (0.5, 2.0), (0.97, 1.0)])
@pytest.mark.parametrize("planned", [False, True])
def test_intervals_hold_the_truth_and_are_narrower(share: float, sharpness: float, planned: bool) -> None:
    truth, predicted = crowd(1000, share, sharpness)
    rng = np.random.default_rng(2)
    doubt = predicted * (1 - predicted)
    pi = np.clip(50 * (0.25 / 1000 + 0.75 * doubt / doubt.sum()), 0, 1) if planned else np.full(1000, 0.05)
    held, width, alone = [], [], []
    for _ in range(300):
        rows = np.flatnonzero(rng.random(1000) < pi) if planned else rng.choice(1000, 50, replace=False)
        found = gold_rate(predicted, rows, truth[rows], inclusion=pi[rows])
        held.append(found.low <= truth.mean() <= found.high)
        width.append(found.high - found.low)
        by_itself = gold_rate(np.full(1000, 0.5), rows, truth[rows], inclusion=pi[rows])
        alone.append(by_itself.high - by_itself.low)
    assert np.mean(held) > 0.91
    assert np.mean(width) <= np.mean(alone) + 1e-9


def test_rates_of_a_crowd_hold_the_truth() -> None:
    data = synthetic(n_train=800, n_classes=4, n_annotators=12, seed=3)
    found = DawidSkene().fit(data.annotations)
    crowd, truth = data.annotations, data.y_true
    right = crowd.labels == truth[crowd.tasks]
    wanted = {
        **{f"class {c}": float((truth == c).mean()) for c in range(4)},
        "cleaned": float((found.codes_ == truth).mean()),
        "crowd": float(right.mean()),
        **{f"annotator {r}": float(right[crowd.annotators == r].mean()) for r in range(12)},
    }
    rng = np.random.default_rng(4)
    held = []
    for _ in range(40):
        rows = rng.choice(800, 60, replace=False)
        rates = gold_rates(crowd, found.probas_, dict(zip(rows.tolist(), data.classes[truth[rows]], strict=True)))
        each = [*rates.classes, rates.cleaned, rates.crowd, *rates.annotators]
        assert rates.cleaned.n_gold == 60
        held.append([rate.low <= value <= rate.high for rate, value in zip(each, wanted.values(), strict=True)])
    assert 0.92 < np.mean(held) < 0.995
    assert np.mean(held, axis=0)[:6].min() > 0.85


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="predicted must be shares between 0 and 1"):
        gold_rate([0.5, 1.5], [0], [1])
    with pytest.raises(InputError, match="different tasks between 0 and 1"):
        gold_rate([0.5, 0.5], [0, 0], [1, 1])
    with pytest.raises(InputError, match="a probability above 0"):
        gold_rate([0.5, 0.5], [0], [1], inclusion=[0.0])
    assert np.isnan(gold_rate([0.5, 0.5], [], []).value)


def test_cleaned_labels_are_compared_with_votes_and_annotators_on_the_same_tasks() -> None:
    """Differences are those of the rates, and their intervals hold together in about 95 of 100 samples."""
    held, n_samples = 0, 60
    for seed in range(n_samples):
        data = synthetic(n_train=300, n_classes=3, n_annotators=6, labels_per_instance=4, seed=seed % 6)
        crowd, truth = data.annotations, data.y_true
        found = DawidSkene(verbose=False).fit(crowd)
        rows = np.random.default_rng(seed).choice(300, 60, replace=False)
        gold = dict(zip(rows.tolist(), data.classes[truth[rows]], strict=True))
        rates = gold_rates(crowd, found.probas_, gold)
        assert rates.above_majority.value == pytest.approx(rates.cleaned.value - rates.majority.value)
        right = found.codes_ == truth
        votes = crowd.votes()
        won = votes == votes.max(1, keepdims=True)
        vote = won[np.arange(300), truth] / won.sum(1)
        pairs = [(rates.above_majority, right.mean() - vote.mean())]
        for r, above in enumerate(rates.above_annotators):
            own = crowd.annotators == r
            tasks = crowd.tasks[own]
            pairs.append((above, right[tasks].mean() - (crowd.labels[own] == truth[tasks]).mean()))
            assert above.share - above.value == pytest.approx(rates.annotators[r].value)
        held += all(above.low <= difference <= above.high for above, difference in pairs)
    assert held >= 0.88 * n_samples


def test_few_true_labels_compare_nobody_and_equal_labels_are_not_certain() -> None:
    same = np.tile(np.arange(40)[:, None] % 2, 3)
    q = np.eye(2)[np.arange(40) % 2]
    few = gold_rates(same, q, {k: k % 2 for k in range(9)})
    assert np.isnan([above.value for above in few.above_annotators]).all()
    found = gold_rates(same, q, {k: k % 2 for k in range(12)})
    assert found.above_annotators[0].value == 0
    assert found.above_annotators[0].low < -0.05 < 0.05 < found.above_annotators[0].high
    everything = gold_rates(same, q, {k: k % 2 for k in range(40)})
    assert everything.above_majority[:3] == pytest.approx((0, 0, 0), abs=1e-4)


def test_without_predictions_true_labels_measure_the_crowd_alone() -> None:
    votes = [[0, 0, 1], [0, 1, 1], [1, 0, -1], [0, 0, 0]] * 5
    found = gold_rates(votes, None, dict.fromkeys(range(16), 0))
    assert np.isnan([found.cleaned.value, found.above_majority.value]).all()
    assert found.majority.value == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    assert found.annotators[0].value == pytest.approx(0.75)
