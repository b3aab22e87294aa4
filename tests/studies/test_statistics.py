"""Differences with intervals, against scipy, statsmodels and closed forms; and what they say about claims."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from studies.statistics import (
    Difference,
    Published,
    above_published,
    bootstrap_difference,
    coverage,
    holm,
    judge,
    paired_difference,
    within,
)


def test_one_crowd_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.random(7), rng.random(7)
    found = paired_difference((ours.tolist(), theirs.tolist()))
    expected = stats.ttest_rel(100 * ours, 100 * theirs)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose(found, [100 * (ours - theirs).mean(), *interval, expected.pvalue, 7], rtol=1e-10)


def test_crowds_are_pooled_with_welch_and_satterthwaite() -> None:
    """As the t-test of two unequal samples, whose mean difference is twice the mean of the one and minus the other."""
    rng = np.random.default_rng(1)
    first, second = rng.random(6), rng.random(4)
    found = paired_difference((first.tolist(), [0.0] * 6), ((-second).tolist(), [0.0] * 4))
    expected = stats.ttest_ind(100 * first, 100 * second, equal_var=False)
    interval = expected.confidence_interval(0.95)
    value = 50 * (first.mean() - second.mean())
    np.testing.assert_allclose(found, [value, interval.low / 2, interval.high / 2, expected.pvalue, 10], rtol=1e-10)


def test_one_crowd_that_makes_all_of_the_variance_leaves_its_own_degrees_of_freedom() -> None:
    steady = ([0.8, 0.8, 0.8, 0.8, 0.8], [0.7, 0.7, 0.7, 0.7, 0.7])
    wild = ([0.9, 0.5, 0.7, 0.8, 0.6], [0.5, 0.5, 0.5, 0.5, 0.5])
    alone, pooled = paired_difference(wild), paired_difference(*[steady] * 9, wild)
    assert pooled.high - pooled.low == pytest.approx((alone.high - alone.low) / 10)


def test_without_any_variance_the_interval_is_a_point_and_a_single_seed_has_none() -> None:
    assert paired_difference(([0.9, 0.9], [0.5, 0.5])) == pytest.approx((40, 40, 40, 0, 2))
    assert paired_difference(([0.5, 0.5], [0.5, 0.5])) == (0, 0, 0, 1, 2)
    found = paired_difference(([0.9], [0.8]))
    assert found.value == pytest.approx(10)
    assert np.isnan(found[1:4]).all()
    assert (str(found), found.sign) == ("+10.0", 0)


def test_a_published_difference_has_an_error_too() -> None:
    """Variances add; the degrees of freedom are those of the seeds, or fewer where the paper errs more."""
    seeds = [0.88, 0.91, 0.87, 0.9, 0.89, 0.92], [0.85, 0.86, 0.88, 0.84, 0.86, 0.87]
    gap = 100 * (np.array(seeds[0]) - np.array(seeds[1]))
    for deviations in ((0.0, 0.0), (0.5, 0.3), (9.0, 0.1)):
        papers = Published(87.0, deviations[0], 3), Published(83.5, deviations[1], 5)
        parts = np.array([gap.var(ddof=1) / 6, deviations[0] ** 2 / 3, deviations[1] ** 2 / 5])
        freedom = min(parts.sum() ** 2 / (parts**2 / [5, 2, 4]).sum(), 5)
        error, value = np.sqrt(parts.sum()), gap.mean() - 3.5
        half = stats.t.ppf(0.975, freedom) * error
        p = 2 * stats.t.sf(abs(value) / error, freedom)
        np.testing.assert_allclose(above_published(seeds, papers), [value, value - half, value + half, p, 6])


def test_holm_rejects_as_his_procedure_does() -> None:
    """Step by step: reject while the k-th smallest of m is below alpha / (m - k + 1). NaN does not count."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        p, alpha = rng.random(9) ** 3, 0.1
        rejected = np.zeros(9, bool)
        for k, place in enumerate(np.argsort(p)):
            if p[place] > alpha / (9 - k):
                break
            rejected[place] = True
        found = holm({k: Difference(1.0, 0.0, 2.0, each) for k, each in enumerate(p)})
        np.testing.assert_array_equal([found[k].p <= alpha for k in range(9)], rejected)
    family = {name: Difference(1.0, 0.0, 2.0, p) for name, p in (("a", 0.01), ("b", np.nan), ("c", 0.9))}
    np.testing.assert_allclose([each.p for each in holm(family).values()], [0.02, np.nan, 0.9])


def test_the_bootstrap_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    theirs = rng.random((3, 400)) < 0.8
    ours = theirs | (rng.random((3, 400)) < 0.2)
    found = bootstrap_difference(ours, theirs)
    gaps = 100 * (ours.mean(0) - theirs.mean(0))
    expected = stats.bootstrap((gaps,), np.mean, method="percentile", n_resamples=20_000, rng=0).confidence_interval
    np.testing.assert_allclose(found[:3], [gaps.mean(), expected.low, expected.high], atol=0.05)
    assert (found.n, found.sign) == (400, 1)
    assert bootstrap_difference(theirs, ours).sign == -1
    assert bootstrap_difference(ours[:1], ours[:1]).sign == 0


def test_its_p_value_is_uniform_where_there_is_no_difference() -> None:
    rng = np.random.default_rng(2)
    p = [bootstrap_difference(rng.random(200) < 0.7, rng.random(200) < 0.7).p for _ in range(60)]
    assert 0.2 < np.mean(np.array(p) < 0.5) < 0.8
    assert np.mean(np.array(p) < 0.05) < 0.15


def test_verdicts() -> None:
    above, below = Difference(2.0, 1.0, 3.0, 0.001), Difference(-2.0, -3.0, -1.0, 0.001)
    none, wide = Difference(0.1, -1.0, 1.2, 0.8), Difference(0.1, -3.0, 3.2, 0.8)
    assert judge([above, above]) == "holds"
    assert judge([above, below]) == "fails"
    assert judge([above, below._replace(p=0.2)]) == "inconclusive"  # not significant after the correction
    assert judge([none]) == "no difference beyond 2 points"
    assert judge([none], margin=1) == judge([above, wide]) == judge([]) == "inconclusive"
    # Not significant here, and significantly less than in the paper.
    assert judge([wide], above_paper=[below]) == "fails"
    assert judge([above], above_paper=[below]) == "holds"
    assert within([none, above], 4.0) == "holds"
    assert within([none, Difference(5.0, 4.5, 5.5, 0.0)], 4.0) == "fails"
    assert within([wide], 2.0) == "inconclusive"


def test_stars_and_signs_follow_corrected_p_values() -> None:
    weak = Difference(1.0, 0.1, 1.9, 0.03)
    judged = holm({"clear": Difference(2.0, 1.0, 3.0, 0.001), "weak": weak, "none": Difference(0.0, -1.0, 1.0, 1.0)})
    assert weak.sign == 1
    assert [each.sign for each in judged.values()] == [1, 0, 0]
    assert [judged[name].starred for name in ("clear", "weak")] == ["+2.0 (+1.0 to +3.0) \\*", "+1.0 (+0.1 to +1.9)"]
    assert (-weak)[:3] == (-1.0, -1.9, -0.1)


def test_coverage_has_the_exact_interval() -> None:
    found = coverage(45, 50)
    expected = stats.beta.ppf([0.025, 0.975], [45, 46], [6, 5])
    np.testing.assert_allclose(found, [0.9, *expected])
