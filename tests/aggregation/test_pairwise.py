"""Scores from preferences: recovery, gradients, intervals, the peer's ranking, and what comparisons cannot tell."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy

from conal.aggregation.pairwise import (
    MODELS,
    AnnotatorBradleyTerry,
    BradleyTerry,
    SharedBiasBradleyTerry,
)
from conal.data.preferences import Preferences
from conal.datasets.pairs import SimulatedPairs, simulate_pairs
from conal.errors import ConvergenceWarning, DataWarning, InputError

CLEAN: dict[str, Any] = {
    "position": 0.0,
    "length": 0.0,
    "tie": None,
    "own_position_spread": 0.0,
    "reliability_spread": 0.0,
}
"""Settings of a crowd without annotators of their own ways."""


@pytest.fixture(scope="module")
def large() -> tuple[SimulatedPairs, SharedBiasBradleyTerry]:
    pairs = simulate_pairs(n_tasks=8000, seed=3)
    return pairs, SharedBiasBradleyTerry().fit(pairs.preferences)


def test_every_parameter_is_recovered(large: Any) -> None:
    truth, model = large
    assert np.abs(model.scores_ - (truth.scores - truth.scores.mean())).max() < 0.25
    assert np.sqrt(np.mean((model.reliability_ - truth.reliability) ** 2)) < 0.1
    assert np.sqrt(np.mean((model.position_bias_ - truth.own_position - 0.5) ** 2)) < 0.15
    assert model.shared_["position"] == pytest.approx(0.5, abs=0.15)
    assert model.shared_["length"] == pytest.approx(0.5, abs=0.05)
    assert model.shared_["tie"] == pytest.approx(-0.5, abs=0.05)
    assert model.converged_


def test_plain_models_recover_plain_crowds() -> None:
    truth = simulate_pairs(**CLEAN, n_tasks=5000)
    model = BradleyTerry().fit(truth.preferences)
    assert np.abs(model.scores_ - (truth.scores - truth.scores.mean())).max() < 0.2
    assert model.shared_ == {}


@pytest.mark.parametrize("name", MODELS)
def test_the_objective_never_falls(name: str) -> None:
    model = MODELS[name]().fit(simulate_pairs(n_tasks=150, reliability_spread=1.0, seed=2).preferences)
    assert len(model.objective_) > 3
    assert np.diff(model.objective_).min() >= 0


def test_reliability_is_one_on_average(large: Any) -> None:
    assert large[1].reliability_.mean() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tie", [None, -0.5])
def test_objective_and_gradient_equal_a_slow_reference(name: str, tie: float | None) -> None:
    truth = simulate_pairs(n_items=4, n_annotators=3, n_tasks=12, per_task=3, tie=tie)
    pairs = truth.preferences
    true = Preferences.from_columns(worker=["x"], left=[pairs.item_ids[0]], right=[pairs.item_ids[1]], winner=["right"])
    model = MODELS[name]().fit(pairs, true)
    problem, rng = model._problem, np.random.default_rng(0)
    vector = problem.mean + 0.3 * rng.standard_normal(problem.size)
    found = problem.gradient(vector)
    for k in range(problem.size):
        step = np.zeros(problem.size)
        step[k] = 1e-5
        up, down = (_slow_objective(model, pairs, vector + sign * step) for sign in (1, -1))
        assert found[k] == pytest.approx((up - down) / 2e-5, abs=1e-6)
    slow = _slow_objective(model, pairs, vector)
    assert problem.objective(vector) == pytest.approx(slow, abs=1e-9)


def _slow_objective(model: BradleyTerry, pairs: Preferences, vector: np.ndarray) -> float:
    """One comparison after the other, and the true winner that item 1 is better than item 0."""
    M, A = len(pairs.item_ids), len(pairs.annotator_ids) if model.individual else 0
    rest = list(vector[M + 2 * A :])
    tie = rest.pop() if pairs.has_ties else -math.inf
    total = 0.0
    for row in range(len(pairs)):
        k, odds = pairs.annotators[row], vector[pairs.left[row]] - vector[pairs.right[row]]
        odds = odds * vector[M + k] + vector[M + A + k] if A else odds
        if model.shared:
            length = pairs.covariates[:, 0]
            odds += rest[0] + rest[1] * length[row] / math.sqrt(np.mean(length**2))
        total += _log_p(odds, tie, pairs.winner[row])
    total += _log_p(4.0 * (vector[0] - vector[1]), tie, -1)
    for k, value in enumerate(vector):
        own = M <= k < M + 2 * A
        last = pairs.has_ties and k == len(vector) - 1
        total -= (4.0 if own else 1e-3 if last else 0.1) / 2 * (value - (M <= k < M + A)) ** 2
    return total


def _log_p(odds: float, tie: float, winner: int) -> float:
    weights = {1: math.exp(odds / 2), -1: math.exp(-odds / 2), 0: math.exp(tie)}
    return math.log(weights[winner] / sum(weights.values()))


def test_information_is_the_mean_of_outer_products() -> None:
    """Expected information equals the sum over outcomes of probability times the outer product of the gradient."""
    pairs = simulate_pairs(n_items=3, n_annotators=2, n_tasks=4, per_task=2).preferences
    pairs = replace(pairs, winner=np.resize(np.array([1, 0, -1], dtype=np.int8), len(pairs)))
    problem = SharedBiasBradleyTerry().fit(pairs)._problem
    vector = problem.mean + 0.2 * np.random.default_rng(1).standard_normal(problem.size)
    expected = np.diag(problem.precision)
    pull = problem.precision * (vector - problem.mean)
    chances = np.exp([[_log_p(odds, vector[-1], y) for y in (1, 0, -1)] for odds in problem.scores(vector)[0]])
    for row in range(len(pairs)):
        for p, y in zip(chances[row], (1, 0, -1), strict=True):
            alone = replace(problem, rows=replace(problem.rows, **_row(problem.rows, row, y)))
            score = alone.gradient(vector) + pull
            expected = expected + p * np.outer(score, score)
    assert np.allclose(problem.information(vector).toarray(), expected, atol=1e-10)


def _row(rows: Any, row: int, winner: int) -> dict[str, Any]:
    found = {name: getattr(rows, name)[[row]] for name in ("left", "right", "annotators", "clusters", "free", "shared")}
    return found | {"winner": np.array([winner], dtype=np.int8)}


def test_dense_and_sparse_solutions_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = simulate_pairs(n_tasks=200).preferences
    dense = SharedBiasBradleyTerry().fit(pairs)
    monkeypatch.setattr("conal.aggregation.pairwise.MOST_DENSE_ITEMS", 0)
    sparse = SharedBiasBradleyTerry().fit(pairs)
    assert np.allclose(dense.scores_, sparse.scores_, atol=1e-6)
    assert np.allclose(dense.ranking()["low"].to_numpy(), sparse.ranking()["low"].to_numpy(), atol=1e-6)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SharedBiasBradleyTerry().fit(simulate_pairs(n_tasks=200).preferences)
    whole = model.ranking()
    monkeypatch.setattr("conal.aggregation.pairwise.CHUNK_COLUMNS", 3)
    monkeypatch.setattr("conal.aggregation.pairwise.CHUNK_ANNOTATORS", 7)
    for name in ("low", "p_above_next"):
        assert np.allclose(whole[name].to_numpy(), model.ranking()[name].to_numpy(), atol=1e-9, equal_nan=True)


def test_intervals_hold_in_forty_crowds() -> None:
    """Of 800 intervals of items and 120 of shared biases; dependence within crowds makes the margins wide."""
    items, shared = [], []
    for seed in range(40):
        truth = simulate_pairs(seed=seed)
        model = SharedBiasBradleyTerry().fit(truth.preferences)
        table = model.ranking()
        centred = dict(zip(model.item_ids_.tolist(), truth.scores - truth.scores.mean(), strict=True))
        items += [row["low"] <= centred[row["item"]] <= row["high"] for row in table.to_pylist()]
        known = {"position": 0.5, "length": 0.5, "tie": -0.5}
        shared += [row["low"] <= known[row["bias"]] <= row["high"] for row in model.shared_biases().to_pylist()]
    assert 0.91 <= np.mean(items) <= 0.98
    assert np.mean(shared) >= 0.9


def test_the_probability_of_an_order_is_that_of_a_normal_difference() -> None:
    pairs = simulate_pairs(n_items=2, n_tasks=40, per_task=1, position=0.0, length=0.0, tie=None).preferences
    row = BradleyTerry().fit(pairs).ranking().to_pylist()[0]
    half = (row["high"] - row["low"]) / 2 / scipy.stats.norm.ppf(0.975)  # of an item against the mean of both
    assert row["p_above_next"] == pytest.approx(scipy.stats.norm.cdf(row["score"] / half), abs=1e-9)


def test_ranks_as_crowd_kit_on_clean_data() -> None:
    pandas, peers = pytest.importorskip("pandas"), pytest.importorskip("crowdkit.aggregation")
    pairs = simulate_pairs(**CLEAN, n_items=12, n_tasks=3000).preferences
    left, right = pairs.item_ids[pairs.left], pairs.item_ids[pairs.right]
    frame = pandas.DataFrame({"worker": pairs.annotators, "left": left, "right": right})
    frame["label"] = np.where(pairs.winner == 1, left, right)
    theirs = peers.BradleyTerry(n_iter=100).fit_predict(frame).sort_values(ascending=False)
    for model in MODELS.values():
        assert model().fit(pairs).ranking()["item"].to_pylist() == theirs.index.tolist()


def test_a_shared_bias_is_no_merit() -> None:
    """Item 0 always stands left: only the model of shared bias, with comparisons in both orders, sees why it wins."""
    rng, n = np.random.default_rng(0), 4000
    left = np.where(rng.random(n) < 0.9, 0, rng.integers(1, 4, n))
    right = (left + rng.integers(1, 4, n)) % 4
    winner = np.where(rng.random(n) < 1 / (1 + np.exp(-1.0)), "left", "right")
    pairs = Preferences.from_columns(worker=rng.integers(10, size=n), left=left, right=right, winner=winner)
    assert BradleyTerry().fit(pairs).scores_[0] > 0.4
    model = SharedBiasBradleyTerry().fit(pairs)
    assert abs(model.scores_[0]) < 0.2
    assert model.shared_["position"] == pytest.approx(1.0, abs=0.2)


def test_held_out_comparisons_are_predicted_better_where_biases_are_shared() -> None:
    pairs = simulate_pairs(n_tasks=2000).preferences
    held = np.random.default_rng(0).random(len(pairs)) < 0.2
    scores = [model().fit(pairs.rows(~held)).score(pairs.rows(held)) for model in MODELS.values()]
    assert scores[0] + 0.01 < scores[1] < scores[2] - 0.01
    assert np.allclose(BradleyTerry().fit(pairs).predict_proba(pairs).sum(1), 1)


def test_many_true_winners_outweigh_a_crowd_that_errs() -> None:
    pairs = Preferences.from_columns(worker=list("abcd") * 3, left=["x"] * 12, right=["y"] * 12, winner=["x"] * 12)
    true = Preferences.from_columns(worker=["expert"] * 30, left=["y"] * 30, right=["x"] * 30, winner=["y"] * 30)
    assert BradleyTerry().fit(pairs).ranking()["item"].to_pylist() == ["x", "y"]
    model = AnnotatorBradleyTerry().fit(pairs, true)
    assert model.ranking()["item"].to_pylist() == ["y", "x"]
    assert model.ranking()["n_comparisons"].to_pylist() == [12, 12]


def test_parts_are_ranked_by_themselves() -> None:
    columns: dict[str, Any] = {"left": ["a", "b", "x"], "right": ["b", "c", "y"], "winner": ["a", "b", "y"]}
    pairs = Preferences.from_columns(worker=["k", "l", "k"], **columns)
    with pytest.warns(DataWarning, match=r"fall apart into 2 parts.*'a', 'b', 'c'; 'x', 'y'"):
        table = BradleyTerry().fit(pairs).ranking().to_pydict()
    assert table["item"] == ["a", "b", "c", "y", "x"]
    assert (table["part"], table["rank"]) == ([1, 1, 1, 2, 2], [1, 2, 3, 1, 2])
    assert [value is None for value in table["p_above_next"]] == [False, False, True, False, True]


def test_a_single_annotator_has_nothing_of_its_own() -> None:
    pairs = simulate_pairs(n_annotators=1, per_task=1, n_tasks=300).preferences
    with pytest.warns(DataWarning, match="a single annotator, 0"):
        model = SharedBiasBradleyTerry().fit(pairs)
    assert model.annotators().column_names == ["worker", "n_comparisons", "tie_share"]
    assert "position" in model.shared_


def test_a_covariate_of_the_items_is_said_to_be_unknowable() -> None:
    pairs = simulate_pairs(n_tasks=100).preferences
    fixed = np.arange(len(pairs.item_ids), dtype=float)
    of_items = replace(pairs, covariates=(fixed[pairs.left] - fixed[pairs.right])[:, None])
    with pytest.warns(DataWarning, match="'length' is a difference of fixed values of the items"):
        SharedBiasBradleyTerry().fit(of_items)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SharedBiasBradleyTerry().fit(pairs)


def test_unknown_items_and_other_covariates_are_errors() -> None:
    pairs = simulate_pairs(n_tasks=100).preferences
    model = SharedBiasBradleyTerry().fit(pairs)
    other = Preferences.from_columns(worker=["a"], left=[0], right=["new"], winner=["left"])
    with pytest.raises(InputError, match="never compared"):
        model.predict_proba(other)
    with pytest.raises(InputError, match="length"):
        model.predict_proba(replace(pairs, covariate_names=("size",)))
    with pytest.raises(InputError, match="prior must be"):
        BradleyTerry(prior=0).fit(pairs)
    with pytest.warns(ConvergenceWarning, match="n_iter"):
        SharedBiasBradleyTerry(n_iter=1).fit(pairs)


def test_unknown_annotators_count_as_average(large: Any) -> None:
    truth, model = large
    pairs = truth.preferences.rows(np.arange(5))
    stranger = replace(pairs, annotator_ids=np.array([f"new {k}" for k in pairs.annotator_ids], dtype=object))
    own = model.predict_proba(stranger)
    shared = model.shared_["position"] + model.shared_["length"] * pairs.covariates[:, 0]
    odds = model.scores_[pairs.left] - model.scores_[pairs.right] + shared
    assert np.allclose(np.log(own[:, 0] / own[:, 2]), odds)
