"""The Bayes-optimal error: enumeration, Monte Carlo, and aggregators that cannot beat it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from conal import Annotations, theory
from conal import theory as noise_model
from conal.aggregation import DawidSkene, MajorityVote
from conal.datasets import CrowdSettings, simulate_crowd
from conal.errors import InputError
from conal.theory import bayes_error, posterior

from .reference import Parameters, exact_bayes_error, mixture, random_parameters

IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
COIN = [[0.5, 0.5], [0.5, 0.5]]


def draw_labels(p: Parameters, observed: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """True classes and (N, R) labels, one by one: first the coin, then the label."""
    N, R = p.omega.shape
    C = len(p.pi_g)
    z = np.array([rng.choice(C, p=row) for row in p.rho])
    labels = np.full((N, R), -1)
    for i, r in np.argwhere(observed):
        row = (p.pi_g if rng.random() < p.omega[i, r] else p.pi_r[r])[z[i]]
        labels[i, r] = rng.choice(C, p=row)
    return z, labels


def test_by_hand() -> None:
    """Mixture rows (0.85, 0.15), (0.35, 0.65) and rho (0.25, 0.75): wrong 0.25 * 0.85 + 0.25 * 0.15; else a coin."""
    p = [[0.25, 0.75], [0.5, 0.5]], [[0.8, 0.2], [0.4, 0.6]], [[[0.9, 0.1], [0.3, 0.7]]], [[0.5], [0.5]]
    observed = np.array([[True], [False]])
    assert exact_bayes_error(Parameters(*map(np.asarray, p)), observed) == pytest.approx(0.375)
    value, error = bayes_error(*p, observed=observed, n_draws=20_000)
    assert abs(value - 0.375) < 4 * error
    assert 0 < error < 0.002


@pytest.mark.parametrize("seed", range(12))
def test_monte_carlo_agrees_with_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N, R, C = (int(k) for k in rng.integers((1, 1, 2), (6, 5, 5)))
    p = random_parameters(rng, N, R, C, noise=0.1, zeros=bool(seed % 2))
    observed = rng.random((N, R)) < 0.8
    observed[0, 0] = True
    value, error = bayes_error(*p, observed=observed, n_draws=4000, seed=seed)
    assert error > 0
    assert abs(value - exact_bayes_error(p, observed)) < 4 * error


def test_the_standard_error_is_that_of_repeated_estimates() -> None:
    p = random_parameters(np.random.default_rng(1), 4, 3, 3, noise=0.1)
    estimates = [bayes_error(*p, n_draws=50, seed=seed) for seed in range(300)]
    spread = np.std([value for value, _ in estimates], ddof=1)
    assert np.mean([error for _, error in estimates]) == pytest.approx(spread, rel=0.15)


def test_the_posterior_varies_less_than_counted_mistakes() -> None:
    p = random_parameters(np.random.default_rng(2), 5, 4, 3, noise=0.1)
    value, error = bayes_error(*p, n_draws=1000)
    assert error < np.sqrt(value * (1 - value) / 5000)


@pytest.mark.parametrize("cells", [1, 50, 10_000])
def test_pieces_change_no_more_than_the_draws(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    p = random_parameters(np.random.default_rng(3), 6, 3, 3, noise=0.1)
    monkeypatch.setattr(noise_model, "CHUNK_CELLS", cells)
    value, error = bayes_error(*p, n_draws=2000)
    assert abs(value - exact_bayes_error(p, np.ones((6, 3), dtype=bool))) < 4 * error


def test_same_seed_same_estimate() -> None:
    p = random_parameters(np.random.default_rng(4), 3, 3, 3)
    assert bayes_error(*p, seed=1) == bayes_error(*p, seed=1)
    assert bayes_error(*p, seed=1) != bayes_error(*p, seed=2)


def test_certainty_and_ignorance() -> None:
    """Perfect labels leave no error, no labels the prior's, and there is nothing to estimate about either."""
    assert bayes_error([0.5, 0.5], IDENTITY, [IDENTITY], [[0.5]]) == (0, 0)
    assert bayes_error([0.3, 0.7], COIN, [COIN], [[0.5]]) == pytest.approx((0.3, 0))
    nobody = np.zeros((1, 1), dtype=bool)
    assert bayes_error([0.3, 0.7], IDENTITY, [IDENTITY], [[0.5]], observed=nobody) == pytest.approx((0.3, 0))
    assert bayes_error([1.0, 0.0], COIN, [COIN], [[0.5]]) == (0, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_draws": 1}, "n_draws"),
        ({"n_draws": 10.0}, "n_draws"),
        ({"seed": -1}, "seed"),
        ({"omega": [[2.0]]}, "omega: 2 at"),
        ({"observed": [[0]]}, "observed"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"rho": [0.5, 0.5], "pi_g": COIN, "pi_r": [COIN], "omega": [[0.5]]} | change
    with pytest.raises(InputError, match=words):
        bayes_error(**arguments)


# -------------------------------------------------------------------- posterior


def test_posterior_is_bayes_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    p = random_parameters(rng, 6, 4, 3)
    _, labels = draw_labels(p, rng.random((6, 4)) < 0.7, rng)
    expected = p.rho.copy()
    for i, r in np.argwhere(labels >= 0):
        expected[i] *= mixture(p, i, r)[:, labels[i, r]]
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(posterior(labels, *p), expected, rtol=1e-12)
    monkeypatch.setattr(noise_model, "CHUNK_CELLS", 1)
    np.testing.assert_allclose(posterior(labels, *p), expected, rtol=1e-12)


def test_a_thousand_labels_do_not_underflow() -> None:
    pi = np.array([[0.6, 0.4], [0.4, 0.6]])
    R = 4000
    labels = np.arange(R)[None] % 2
    both = posterior(labels, [0.3, 0.7], pi, np.broadcast_to(pi, (R, 2, 2)), np.full((1, R), 0.5))
    np.testing.assert_allclose(both, [[0.3, 0.7]], rtol=1e-9)


def test_labels_that_cannot_happen_are_refused() -> None:
    with pytest.raises(InputError, match="are impossible under every class, first in row 1"):
        posterior([[0, 0], [0, 1]], [0.5, 0.5], IDENTITY, [IDENTITY] * 2, np.full((2, 2), 0.5))
    np.testing.assert_array_equal(posterior([[0]], [0.5, 0.5], IDENTITY, [IDENTITY], [[0.5]]), [[1, 0]])


@pytest.mark.parametrize("labels", [[[2]], [[-2]], [[0, 1]], [[0.0]], [["a"]], [0]])
def test_labels_must_be_codes(labels: Any) -> None:
    with pytest.raises(InputError, match="labels: expected"):
        posterior(labels, [0.5, 0.5], COIN, [COIN], [[0.5]])


# -------------------------------------------------------------------- real rules


def test_the_best_decision_on_the_papers_generator_has_the_bayes_error() -> None:
    """The generator tosses its coins one by one and knows nothing of mixtures."""
    N, C = 6000, 4
    rng = np.random.default_rng(6)
    z = rng.integers(C, size=N)
    ann, truth = simulate_crowd(z, rng.normal(size=(N, 3)), range(C), CrowdSettings(n_annotators=8, seed=1))
    p = np.full(C, 1 / C), truth.pi_g, truth.pi_r, truth.omega_matrix()
    labels = ann.to_matrix()
    wrong = (posterior(labels, *p).argmax(1) != z).mean()
    value, error = bayes_error(*p, observed=labels >= 0, n_draws=20)
    assert 0.02 < value < 0.5
    assert abs(wrong - value) < 4 * np.hypot(error, np.sqrt(value * (1 - value) / N))


@pytest.mark.parametrize("rule", [MajorityVote, DawidSkene])
@pytest.mark.parametrize("seed", range(3))
def test_no_aggregator_beats_the_bayes_error(rule: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    N, R, C = 60, 5, 3
    p = random_parameters(rng, N, R, C, noise=0.0)
    sharp = 0.6 * np.eye(C)
    p = p._replace(pi_g=0.4 * p.pi_g + sharp, pi_r=0.4 * p.pi_r + sharp)
    observed = np.ones((N, R), dtype=bool)
    errors = []
    for _ in range(15):
        z, labels = draw_labels(p, observed, rng)
        errors.append((rule().fit(Annotations.from_matrix(labels, classes=range(C))).labels_ != z).mean())
    value, error = bayes_error(*p)
    slack = 3 * np.hypot(error, np.std(errors, ddof=1) / np.sqrt(len(errors)))
    assert np.mean(errors) > value - slack
    assert theory.error_lower_bound(*p).tight_value <= value


def test_nothing_heavy_is_imported() -> None:
    heavy = ("torch", "sklearn", "pandas", "polars", "lightning_fabric")
    script = f"import sys, conal.theory; print([name for name in {heavy!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
