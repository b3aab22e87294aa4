"""Theorem 1: numbers by hand, sums by loops, and the inequality itself."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from conal import theory as divergence
from conal import theory as noise_model
from conal.errors import InputError
from conal.theory import error_lower_bound, smooth

from .reference import Parameters, divergences, entropy, exact_bayes_error, random_parameters

PI_G = [[0.8, 0.2], [0.4, 0.6]]
PI_R = [[[0.9, 0.1], [0.3, 0.7]]]
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]


def mask(rng: np.random.Generator, N: int, R: int) -> Any:
    return rng.random((N, R)) < 0.7


# -------------------------------------------------------------------- known answers


def test_two_instances_by_hand() -> None:
    """One labelled by the one annotator, one by nobody.

    H = 0.25 log 4 + 0.75 log 4/3 = 0.562335; rows of pi_g: 0.334795 + 0.381908, of pi_r: 0.794160 + 1.032553; so
    KL = 0.25 * 0.75 * (0.716703 + 1.826713) / 2 = 0.238445. The mixture has rows (0.85, 0.15) and (0.35, 0.65):
    KL = 0.1875 * (0.534256 + 0.642564) = 0.220654. All divided by 4 log 2 = 2.772589.
    """
    observed = np.array([[True], [False]])
    bound = error_lower_bound([[0.25, 0.75], [0.5, 0.5]], PI_G, PI_R, [[0.5], [0.5]], observed=observed)
    np.testing.assert_allclose(bound.F, [0.323890, 0.693147], atol=2e-6)
    np.testing.assert_allclose(bound.tight_F, [0.341682, 0.693147], atol=2e-6)
    assert bound.value == bound.raw == pytest.approx(0.323890 / 2.772589, abs=2e-6)
    assert bound.tight_value == pytest.approx(0.341682 / 2.772589, abs=2e-6)
    assert bound.min_instances == pytest.approx(2)
    assert (bound.n_classes, bound.epsilon) == (2, 0.0)


def test_below_zero_the_value_is_zero_and_the_raw_one_is_kept() -> None:
    bound = error_lower_bound([0.25, 0.75], PI_G, PI_R, [[0.5]])
    assert bound.raw == pytest.approx((0.323890 - math.log(2)) / math.log(2), abs=2e-6)
    assert bound.raw < 0
    assert bound.value == bound.tight_value == 0


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("zeros", [False, True])
def test_sums_are_those_of_the_paper(seed: int, zeros: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every instance against explicit loops, in one piece and in pieces of one row."""
    rng = np.random.default_rng(seed)
    N, R, C = (int(k) for k in rng.integers((1, 1, 2), (6, 5, 5)))
    p = random_parameters(rng, N, R, C, noise=0.1, zeros=zeros)
    p.omega[rng.random((N, R)) < 0.3] = rng.integers(2)
    if zeros and rng.random() < 0.5:
        p.rho[:, 0] = 0
        p.rho[:] /= p.rho.sum(1, keepdims=True)
    observed = mask(rng, N, R)
    if seed % 2:
        monkeypatch.setattr(noise_model, "CHUNK_CELLS", 1)
    bound = error_lower_bound(*p, observed=observed)
    expected = np.array([divergences(p, i, observed) for i in range(N)])
    entropies = np.array([entropy(p, i) for i in range(N)])
    np.testing.assert_allclose(bound.divergence, expected[:, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bound.tight_divergence, expected[:, 1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bound.entropy, entropies, rtol=1e-12, atol=1e-12)
    raw = ((entropies - expected[:, 0]).sum() - math.log(2)) / (N**2 * math.log(C))
    assert bound.raw == pytest.approx(raw, rel=1e-12, abs=1e-12)
    assert bound.value == max(bound.raw, 0)


def test_parts_add_up() -> None:
    bound = error_lower_bound(*random_parameters(np.random.default_rng(0), 4, 3, 3))
    np.testing.assert_array_equal(bound.F, bound.entropy - bound.divergence)


# -------------------------------------------------------------------- the inequality


@pytest.mark.parametrize("seed", range(40))
def test_no_rule_beats_the_bound(seed: int) -> None:
    """The plain bound is at most the tight one, and that at most the exact Bayes error."""
    rng = np.random.default_rng(100 + seed)
    N, R, C = (int(k) for k in rng.integers((1, 1, 2), (6, 4, 5)))
    p = random_parameters(rng, N, R, C, noise=10 ** rng.uniform(-2, 1))
    observed = mask(rng, N, R)
    bound = error_lower_bound(*p, observed=observed)
    assert bound.value <= bound.tight_value <= exact_bayes_error(p, observed) + 1e-12


def test_the_inequality_says_something() -> None:
    """Noisy labels of few instances: positive, and close to the truth for one instance of many classes."""
    rng = np.random.default_rng(0)
    values = [error_lower_bound(*random_parameters(rng, 2, 2, 4, noise=3)).value for _ in range(20)]
    assert min(values) > 0.05
    C = 50
    flat = np.full((C, C), 1 / C)
    p = Parameters(flat[:1], flat, flat[None], np.ones((1, 1)))
    exact, bound = exact_bayes_error(p, np.ones((1, 1), dtype=bool)), error_lower_bound(*p).value
    assert exact == pytest.approx(0.98)
    assert bound == pytest.approx(1 - math.log(2) / math.log(50))


def test_the_tight_bound_is_never_below_the_plain_one() -> None:
    """Also where the two are equal but for rounding: with omega 0 or 1 there is nothing to take apart."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        p = random_parameters(rng, 3, 4, 3, noise=0.2)
        p.omega[:] = rng.integers(2, size=p.omega.shape)
        bound = error_lower_bound(*p)
        assert (bound.tight_F >= bound.F).all()
        assert bound.tight_value >= bound.value
        np.testing.assert_allclose(bound.tight_F, bound.F, atol=1e-13)


def test_more_labels_lower_the_bound() -> None:
    p = random_parameters(np.random.default_rng(2), 3, 4, 3)
    raws = []
    for k in range(5):
        observed = np.zeros((3, 4), dtype=bool)
        observed[:, :k] = True
        raws.append(error_lower_bound(*p, observed=observed).raw)
    assert raws == sorted(raws, reverse=True)
    assert len(set(raws)) == 5


# -------------------------------------------------------------------- zeros


def test_zero_entries_make_it_void_unless_smoothed() -> None:
    void = error_lower_bound([0.5, 0.5], IDENTITY, [IDENTITY], [[0.5]])
    assert (void.value, void.tight_value) == (0, 0)
    assert void.raw == -math.inf
    assert void.F.tolist() == [-math.inf]
    assert void.min_instances == math.inf
    smoothed = error_lower_bound([0.5, 0.5], IDENTITY, [IDENTITY], [[0.5]], epsilon=0.5)
    same = error_lower_bound([0.5, 0.5], smooth(IDENTITY, 0.5), [smooth(IDENTITY, 0.5)], [[0.5]])
    assert math.isfinite(smoothed.raw)
    assert smoothed.raw == same.raw
    assert (smoothed.epsilon, same.epsilon) == (0.5, 0.0)


def test_one_infinite_instance_voids_the_sum_but_not_the_others_f() -> None:
    bound = error_lower_bound([0.5, 0.5], IDENTITY, PI_R, [[1.0], [0.0]])
    assert bound.F[0] == -math.inf
    assert math.isfinite(bound.F[1])
    assert bound.value == 0
    assert bound.min_instances == pytest.approx(2 * math.log(2) / bound.F[1])


@pytest.mark.parametrize(("omega", "pi_g", "pi_r"), [(0.0, IDENTITY, PI_R), (1.0, PI_G, [IDENTITY])])
def test_an_infinite_kl_that_never_acts_does_not_count(omega: float, pi_g: Any, pi_r: Any) -> None:
    """Whether omega of 0 or 1 leaves it out, nobody asked, or the class is impossible."""
    acting = pi_r if omega == 0 else [pi_g]
    expected = error_lower_bound([0.5, 0.5], acting[0], acting, [[0.5]])
    bound = error_lower_bound([0.5, 0.5], pi_g, pi_r, [[omega]])
    np.testing.assert_allclose(bound.F, expected.F)
    np.testing.assert_allclose(bound.tight_F, expected.F)
    nobody = error_lower_bound([0.5, 0.5], pi_g, pi_r, [[0.5]], observed=np.zeros((1, 1), dtype=bool))
    np.testing.assert_allclose(nobody.F, math.log(2))
    np.testing.assert_allclose(nobody.tight_F, math.log(2))
    certain = error_lower_bound([1.0, 0.0], pi_g, pi_r, [[0.5]])
    assert certain.F.tolist() == certain.tight_F.tolist() == [0]


def test_a_mixture_may_be_finite_where_its_parts_are_not() -> None:
    bound = error_lower_bound([0.5, 0.5], IDENTITY, [[[0.6, 0.4], [0.5, 0.5]]], [[0.1]])
    assert bound.raw == -math.inf
    assert math.isfinite(bound.tight_F.sum())


def test_a_label_that_no_class_shows_does_no_harm() -> None:
    """A class that the crowd never uses: a zero in every row of its column is no difference between rows."""
    p = Parameters(
        np.full((1, 3), 1 / 3),
        np.array([[1.0, 0, 0], [0, 1, 0], [0.5, 0.5, 0]]),
        np.array([[[0.6, 0.4, 0], [0.5, 0.5, 0], [0.2, 0.8, 0]]]),
        np.array([[0.1]]),
    )
    bound = error_lower_bound(*p)
    separate, mixed = divergences(p, 0, np.ones((1, 1), dtype=bool))
    assert bound.divergence.tolist() == [separate] == [math.inf]
    np.testing.assert_allclose(bound.tight_divergence, mixed, rtol=1e-12)


def test_a_tiny_weight_is_not_zero() -> None:
    """Products may underflow where infinity remains."""
    rho = [1 - 1e-300, 1e-300]
    assert error_lower_bound(rho, IDENTITY, [IDENTITY], [[0.5]]).raw == -math.inf
    assert error_lower_bound(rho, IDENTITY, PI_R, [[1e-320]]).raw == -math.inf


def test_neither_nan_nor_warnings() -> None:
    rng = np.random.default_rng(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            p = random_parameters(rng, 3, 3, 3, noise=0.0, zeros=True)
            p.omega[:] = rng.choice([0.0, 1e-320, 0.5, 1.0], size=p.omega.shape)
            p.rho[:] = rng.choice(2, size=p.rho.shape)
            p.rho[:, 0] += p.rho.sum(1) == 0
            p.rho[:] /= p.rho.sum(1, keepdims=True)
            bound = error_lower_bound(*p)
            figures = (bound.raw, bound.tight_value, bound.min_instances)
            assert not np.isnan([*figures, *bound.F, *bound.tight_F]).any()


def test_divergences_of_equal_rows_are_exactly_zero_or_more() -> None:
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.ones(7), size=200)
    table = divergence.row_divergence(np.repeat(rows[:, None], 7, axis=1))
    assert table.min() >= 0
    assert table.max() < 1e-14
    rho = rng.dirichlet(np.ones(7), size=1)
    for row in rows:
        pi = np.repeat(row[None], 7, axis=0)
        bound = error_lower_bound(rho, pi, pi[None], [[0.5]])
        assert 0 <= bound.tight_divergence[0] <= bound.divergence[0] < 1e-14


# -------------------------------------------------------------------- inputs


def test_unobserved_annotators_are_as_if_dropped() -> None:
    p = random_parameters(np.random.default_rng(5), 4, 5, 3)
    kept = np.array([0, 2, 3])
    observed = np.zeros((4, 5), dtype=bool)
    observed[:, kept] = True
    dropped = error_lower_bound(p.rho, p.pi_g, p.pi_r[kept], p.omega[:, kept])
    masked = error_lower_bound(*p, observed=observed)
    np.testing.assert_allclose(masked.F, dropped.F, rtol=1e-13)
    np.testing.assert_allclose(masked.tight_F, dropped.tight_F, rtol=1e-13)


def test_one_distribution_serves_all_instances() -> None:
    p = random_parameters(np.random.default_rng(6), 3, 2, 3)
    one = error_lower_bound([0.2, 0.3, 0.5], *p[1:])
    each = error_lower_bound([[0.2, 0.3, 0.5]] * 3, *p[1:])
    assert one.raw == each.raw


@pytest.mark.parametrize("k", range(3))
def test_rows_that_were_rounded_are_put_right(k: int) -> None:
    p = random_parameters(np.random.default_rng(9), 3, 2, 3)
    rounded = [array * (1.0008 if k == at else 1) for at, array in enumerate(p)]
    assert error_lower_bound(*rounded).raw == pytest.approx(error_lower_bound(*p).raw, rel=1e-12)


def test_inputs_are_left_alone() -> None:
    p = random_parameters(np.random.default_rng(7), 3, 2, 3)
    before = [array.copy() for array in p]
    error_lower_bound(*p, epsilon=0.1)
    for now, then in zip(p, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_the_corollary() -> None:
    """From N >= 2 log 2 / max F on, alike instances have a falling bound; before, a rising one."""
    pi = [[0.6, 0.4], [0.45, 0.55]]
    by_n = [error_lower_bound([0.5, 0.5], pi, [pi], np.full((n, 1), 0.5)) for n in range(1, 8)]
    threshold = by_n[0].min_instances
    assert threshold == pytest.approx(2 * math.log(2) / by_n[0].F[0])
    assert 2 < threshold < 3
    raws = [bound.raw for bound in by_n]
    assert raws[0] < raws[1]
    assert raws[2:] == sorted(raws[2:], reverse=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rho": [[0.5, 0.4]]}, "rho: row"),
        ({"rho": [0.5, 0.5, 0.0]}, "rho: shape (1, 3)"),
        ({"rho": [[0.5, 0.5]] * 2}, "rho: shape (2, 2) for 1 rows of omega and 2 classes"),
        ({"rho": [[1.5, -0.5]]}, "rho: negative"),
        ({"rho": "half"}, "rho: cannot be read"),
        ({"pi_g": [[0.5, 0.5]]}, "pi_g: expected"),
        ({"pi_g": PI_R}, "pi_g: expected one (C, C) matrix"),
        ({"pi_g": [[1.0]], "pi_r": [[[1.0]]], "rho": [1.0]}, "at least 2 classes"),
        ({"pi_g": [[0.5, 0.4], [0.5, 0.5]]}, "pi_g: row [0] sums to 0.9"),
        ({"pi_g": [[8, 2], [1, 9]]}, "pi_g: row [0] sums to 10"),
        ({"pi_r": PI_R[0]}, "pi_r: expected a (2, 2) matrix per annotator"),
        ({"pi_r": [np.eye(3)]}, "pi_r: expected a (2, 2) matrix per annotator"),
        ({"pi_r": [[[0.5, 0.6], [0.5, 0.5]]]}, "pi_r: row [0, 0] sums to 1.1"),
        ({"omega": [[1.5]]}, "omega: 1.5 at [0, 0]"),
        ({"omega": [[-0.1]]}, "omega: -0.1 at [0, 0]"),
        ({"omega": [[math.nan]]}, "omega: NaN"),
        ({"omega": [0.5]}, "omega: expected instances x 1 annotators"),
        ({"omega": [[0.5, 0.5]]}, "omega: expected instances x 1 annotators"),
        ({"omega": np.empty((0, 1))}, "omega: expected instances"),
        ({"observed": [[1]]}, "observed: expected booleans"),
        ({"observed": [[True, False]]}, "observed: expected booleans of shape (1, 1)"),
        ({"epsilon": 1.5}, "epsilon must be a number from 0 to 1, not 1.5"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"rho": [0.5, 0.5], "pi_g": PI_G, "pi_r": PI_R, "omega": [[0.5]]} | change
    with pytest.raises(InputError) as refused:
        error_lower_bound(**arguments)
    assert words in str(refused.value)


def test_many_instances_need_little_memory() -> None:
    """N x R x C x C would be 9 GB here."""
    rng = np.random.default_rng(8)
    N, R, C = 1500, 200, 60
    pi_r = np.broadcast_to(np.full((C, C), 1 / C), (R, C, C))
    observed = np.zeros((N, R), dtype=bool)
    observed[np.arange(N), rng.integers(R, size=N)] = True
    bound = error_lower_bound(np.full(C, 1 / C), pi_r[0], pi_r, np.full((N, R), 0.5), observed=observed)
    assert bound.raw == pytest.approx(1 / N - math.log(2) / (N**2 * math.log(C)))
