"""Co-direction and the effective number of annotators, against slow loops over pairs."""

from __future__ import annotations

import sys
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from conal import aggregation
from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset, synthetic
from conal.errors import InputError
from conal.metrics import co_direction, effective_number
from conal.metrics.shared_mistakes import _Mistakes
from helpers.real import labelled_crowd


def random_case(seed: int) -> tuple[Annotations, Any]:
    """Forty tasks of three classes by six annotators who are often wrong, and an unsure posterior."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=40)
    towards = (z[:, None] + 1 + np.arange(6) % 2) % 3  # every second annotator errs the other way
    matrix = np.where(rng.random((40, 6)) < 0.4, z[:, None], towards)
    matrix = np.where(rng.random((40, 6)) < 0.1, rng.integers(3, size=(40, 6)), matrix)
    matrix[rng.random(matrix.shape) < 0.3] = -1
    q = rng.dirichlet(np.ones(3), size=40) * 0.3 + 0.7 * np.eye(3)[z]
    return Annotations.from_matrix(matrix, classes=range(3)), q


# -------------------------------------------------------------------- co-direction


def listed_mistakes(crowd: Annotations, q: Any) -> list[tuple[int, int, int, int, float]]:
    """(annotator, task, class, label, weight) of every possible mistake."""
    rows = zip(crowd.annotators, crowd.tasks, crowd.labels, strict=True)
    return [(r, i, c, y, q[i, c]) for r, i, y in rows for c in range(crowd.n_classes) if c != y]


def slow_co_direction(crowd: Annotations, q: Any, classes: Any, without: int | None = None) -> tuple[float, float]:
    """Loops over ordered pairs of mistakes; a pair counts one over the products of both people's mistakes."""
    same, pairs = np.zeros(2), np.zeros(2)
    for c in classes:
        mistakes = [m for m in listed_mistakes(crowd, q) if m[2] == c]
        total = {r: sum(m[4] for m in mistakes if m[0] == r) for r in range(crowd.n_annotators)}
        mistakes = [m for m in mistakes if total[m[0]] >= 2 and m[0] != without]
        for r, i, _, y, weight in mistakes:
            for s, j, _, label, other in mistakes:
                if i == j:
                    continue
                side, value = int(r != s), weight * other / (total[r] * total[s])
                pairs[side] += value
                same[side] += value * (y == label)
    within, between = same / pairs - 1 / (crowd.n_classes - 1)
    return between / within, within


@pytest.mark.parametrize("seed", range(3))
def test_co_direction_is_a_sum_over_pairs_of_mistakes(seed: int) -> None:
    crowd, q = random_case(seed)
    found = _Mistakes(crowd, q[crowd.tasks])
    for classes in ([0, 1, 2], [1]):
        every = np.array(classes)
        np.testing.assert_allclose(found.ratio(every), slow_co_direction(crowd, q, classes), rtol=1e-9)
        without = [slow_co_direction(crowd, q, classes, r) for r in (3, 5)]
        np.testing.assert_allclose(found.ratios_without(every, np.array([3, 5])), without, rtol=1e-9)


def test_the_interval_is_the_jackknife() -> None:
    data = synthetic(n_train=250, n_valid=0, n_test=0, n_annotators=8, proportion=0.5, seed=1)
    crowd, q = data.annotations, np.eye(6)[data.y_true]
    left = [slow_co_direction(crowd, q, range(6), r)[0] for r in range(3)]
    mistakes = _Mistakes(crowd, q[crowd.tasks])
    every = mistakes.ratios_without(np.arange(6), np.arange(8))[:, 0]
    np.testing.assert_allclose(every[:3], left, rtol=1e-9)
    spread = np.sqrt(7 / 8 * ((every - every.mean()) ** 2).sum())
    found = co_direction(crowd, q).overall
    np.testing.assert_allclose(
        [found.low, found.high], [found.value - 2.3646 * spread, found.value + 2.3646 * spread], rtol=1e-4
    )


@pytest.mark.parametrize(("proportion", "value"), [(0.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("inferred", [False, True])
def test_co_direction_finds_the_ends(proportion: float, value: float, inferred: bool) -> None:
    """Nobody's mistakes are common, or all are; with true labels, and with labels by Dawid-Skene."""
    data = synthetic(n_train=1500, n_valid=0, n_test=0, proportion=proportion, labels_per_instance=4, seed=2)
    crowd = data.annotations
    model = aggregation.make("dawid-skene").fit(crowd)
    q = model.probas_ if inferred else np.eye(6)[data.y_true]
    found = co_direction(crowd, q, confusion=model.confusion_ if inferred else None).overall
    assert found.value == pytest.approx(value, abs=0.03)
    assert found.low <= value + 0.01
    assert found.high >= value - 0.01
    assert found.high - found.low < 0.3


def test_a_prolific_annotator_does_not_count_more() -> None:
    """One of them labels everything; without any common confusion, co-direction stays at 0."""
    data = synthetic(n_train=1500, n_valid=0, n_test=0, proportion=0.0, seed=3)
    crowd, z = data.annotations, data.y_true
    rng = np.random.default_rng(0)
    matrix = crowd.to_matrix()
    target = (np.arange(6) + 2) % 6
    matrix[:, 0] = np.where(rng.random(1500) < 0.7, z, target[z])
    found = co_direction(Annotations.from_matrix(matrix, classes=range(6)), np.eye(6)[z])
    assert abs(found.overall.value) < 0.05
    assert abs(found.by_annotator[0]) < 0.15


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_classes": 2}, "with two classes there is only one possible mistake"),
        ({"common_strength": 0.0, "individual_strength": 0.0}, "too few annotators made mistakes"),
    ],
)
def test_co_direction_says_why_it_has_no_value(change: dict[str, Any], reason: str) -> None:
    data = synthetic(n_train=200, n_valid=0, n_test=0, **change)
    found = co_direction(data.annotations, np.eye(data.annotations.n_classes)[data.y_true])
    assert np.isnan(found.overall.value)
    assert found.overall.reason == reason
    assert np.isnan(found.by_annotator).all()


def test_guesses_have_no_direction() -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(5, size=400)
    matrix = np.where(rng.random((400, 8)) < 0.5, z[:, None], rng.integers(5, size=(400, 8)))
    found = co_direction(Annotations.from_matrix(matrix, classes=range(5)), np.eye(5)[z]).overall
    assert found.reason == "single annotators have no clear direction either"


def test_too_few_labels_per_annotator() -> None:
    data = synthetic(n_train=300, n_valid=0, n_test=0, n_annotators=100)
    found = co_direction(data.annotations, np.eye(6)[data.y_true], min_labels_per_class=6).overall
    assert found.reason == "most annotators gave too few labels"


# -------------------------------------------------------------------- effective number


def slow_correlation(crowd: Annotations, q: Any, r: int, s: int) -> float:
    """Errors of two annotators on common tasks, each minus its mean by annotator and class, by their variances."""
    matrix, C = crowd.to_matrix(), crowd.n_classes
    rate = np.zeros((crowd.n_annotators, C))
    for a in range(crowd.n_annotators):
        for c in range(C):
            mine = [i for i in range(crowd.n_tasks) if matrix[i, a] >= 0]
            met = sum(q[i, c] for i in mine)
            rate[a, c] = sum(q[i, c] * (matrix[i, a] != c) for i in mine) / met if met else 0.0
    both = one = two = 0.0
    for i in range(crowd.n_tasks):
        if matrix[i, r] < 0 or matrix[i, s] < 0:
            continue
        for c in range(C):
            e, f = (matrix[i, r] != c) - rate[r, c], (matrix[i, s] != c) - rate[s, c]
            both += q[i, c] * e * f
            one, two = (v + q[i, c] * rate[a, c] * (1 - rate[a, c]) for v, a in ((one, r), (two, s)))
    return float(both / np.sqrt(one * two))


@pytest.mark.parametrize("seed", range(3))
def test_the_effective_number_is_a_mean_over_pairs(seed: int) -> None:
    crowd, q = random_case(seed)
    found = effective_number(crowd, q)
    slow = {(r, s): slow_correlation(crowd, q, r, s) for r, s in combinations(range(6), 2)}
    for (r, s), value in slow.items():
        np.testing.assert_allclose(found.correlation[r, s], value, rtol=1e-9)
        np.testing.assert_allclose(found.correlation[s, r], value, rtol=1e-9)
    rho, n = np.mean(list(slow.values())), crowd.n_annotations / (crowd.labels_per_task() > 0).sum()
    assert found.rho == pytest.approx(rho)
    assert found.value == pytest.approx(n / (1 + (n - 1) * max(rho, 0)))
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("inferred", [False, True])
def test_annotators_who_err_independently_form_no_groups(inferred: bool) -> None:
    """By 0.3 alone, dozens of pairs with twenty common tasks did."""
    rng = np.random.default_rng(0)
    n, R, C = 800, 40, 3
    z, t = rng.integers(C, size=n), np.repeat(np.arange(n), 8)
    a = np.concatenate([rng.choice(R, 8, replace=False) for _ in range(n)])
    right = rng.uniform(0.6, 0.98, R)
    labels = np.where(rng.random(len(t)) < right[a], z[t], rng.integers(C, size=len(t)))
    crowd = Annotations(t, a, labels, task_ids=np.arange(n), annotator_ids=np.arange(R), classes=range(C))
    q = aggregation.DawidSkene(verbose=False).fit(crowd).probas_ if inferred else np.eye(C)[z]
    assert effective_number(crowd, q).groups == []


def test_few_common_tasks_do_not_bias_the_effective_number() -> None:
    """200 independent annotators, of whom two share five tasks: a mean of plain correlations gives 6.1."""
    data = synthetic(
        n_train=2000, n_valid=0, n_test=0, n_annotators=200, labels_per_instance=10, common_strength=0.8, proportion=1.0
    )
    found = effective_number(data.annotations, np.eye(6)[data.y_true])
    assert found.value > 0.9 * found.n


def generated_number(data: CrowdDataset) -> float:
    """The effective number by the generator: how the probabilities of an error vary together over instances."""
    assert data.truth is not None
    z, omega = data.y_true, data.truth.omega_matrix()
    common, own = np.diag(data.truth.pi_g)[z][:, None], np.diagonal(data.truth.pi_r, axis1=1, axis2=2)[:, z].T
    wrong = 1 - omega * common - (1 - omega) * own
    both, variance = 0.0, 0.0
    for c in np.unique(z):
        p = wrong[z == c]
        both = both + (p - p.mean(0)).T @ (p - p.mean(0))
        variance = variance + len(p) * p.mean(0) * (1 - p.mean(0))
    rho = (both / np.sqrt(np.outer(variance, variance)))[np.triu_indices(wrong.shape[1], 1)].mean()
    n = data.annotations.n_annotations / data.annotations.n_tasks
    return float(n / (1 + (n - 1) * rho))


@pytest.mark.parametrize("inferred", [False, True])
def test_tasks_that_are_difficult_for_all_lower_the_effective_number(inferred: bool) -> None:
    """Ten labels per task are worth 7.5, if omega differs widely between instances, as Equation 3 has it."""
    data = synthetic(
        n_train=2000,
        n_valid=0,
        n_test=0,
        n_annotators=12,
        labels_per_instance=10,
        common_strength=0.8,
        gate_scale="wide",
        seed=1,
    )
    crowd = data.annotations
    q = aggregation.make("dawid-skene").fit(crowd).probas_ if inferred else np.eye(6)[data.y_true]
    found, expected = effective_number(crowd, q), generated_number(data)
    assert expected < 8
    assert found.value == pytest.approx(expected, rel=0.15)
    assert found.low < expected < found.high


JURIES = {"conv_go_awry": 9.0, "discourse": 5.8, "emotion": 3.6, "semeval_stance": 3.4}


@pytest.mark.parametrize(("name", "value"), JURIES.items())
def test_juries_of_language_models(name: str, value: float) -> None:
    """True labels, fifty of them, and labels by Dawid-Skene, which give an upper bound."""
    labels, truth = labelled_crowd(name)
    crowd = Annotations.of(labels)
    where = {str(c): k for k, c in enumerate(crowd.classes.tolist())}
    known = np.array([where.get(truth.get(str(task), ""), -1) for task in crowd.task_ids.tolist()])
    q = np.where(known[:, None] >= 0, np.eye(crowd.n_classes)[np.maximum(known, 0)], 0.0)
    assert effective_number(crowd, q).value == pytest.approx(value, abs=0.06)
    inferred = aggregation.make("dawid-skene", guard="off").fit(crowd).probas_
    assert effective_number(crowd, inferred).value > value
    few = []
    for seed in range(5):
        some = np.zeros_like(q)
        chosen = np.random.default_rng(seed).choice(np.flatnonzero(known >= 0), 50, replace=False)
        some[chosen] = q[chosen]
        few.append(effective_number(crowd, some).value)
    assert np.mean(few) == pytest.approx(value, rel=0.25)


def test_groups_who_err_together() -> None:
    """Two families copy their own drafts; a lone annotator errs alone."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=300)

    def draft() -> Any:
        return np.where(rng.random(300) < 0.7, z, (z + 1 + rng.integers(2, size=300)) % 3)

    families = [draft(), draft()]
    columns = [np.where(rng.random(300) < 0.85, families[k], draft()) for k in (0, 0, 0, 1, 1)] + [draft()]
    crowd = Annotations.from_matrix(np.column_stack(columns), annotator_ids=list("abcxyz"), classes=range(3))
    found = effective_number(crowd, np.eye(3)[z])
    assert [group.tolist() for group in found.groups] == [["a", "b", "c"], ["x", "y"]]
    assert 2.0 < found.value < 4.5


def test_a_posterior_of_another_size_is_refused() -> None:
    crowd, q = random_case(0)
    for statistic in (co_direction, effective_number):
        with pytest.raises(InputError, match=r"posterior has shape \(39, 3\), expected \(40, 3\)"):
            statistic(crowd, q[:-1])


def test_without_common_tasks_there_is_no_number() -> None:
    crowd = Annotations.from_matrix(np.where(np.eye(6) > 0, 0, -1), classes=range(3))
    found = effective_number(crowd, np.eye(3)[np.zeros(6, dtype=int)])
    assert np.isnan(found.value)
    assert found.groups == []


def test_of_a_large_crowd_those_with_most_labels_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["conal.metrics.shared_mistakes"]  # the function has the same name
    monkeypatch.setattr(module, "MAX_ANNOTATORS", 4)
    crowd, q = random_case(0)
    most = np.sort(np.argsort(-crowd.labels_per_annotator(), kind="stable")[:4])
    found = effective_number(crowd, q)
    assert found.annotators.tolist() == crowd.annotator_ids[most].tolist()
    assert found.n == pytest.approx(crowd.n_annotations / (crowd.labels_per_task() > 0).sum())  # of everybody
    pairs = combinations(range(4), 2)
    slow = [slow_correlation(crowd, q, int(most[r]), int(most[s])) for r, s in pairs]
    assert found.rho == pytest.approx(np.mean(slow))
