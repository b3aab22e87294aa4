"""Paired differences and Holm's correction, against scipy and the definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from conal.experiments.comparisons import (
    Difference,
    Published,
    beyond_published,
    bootstrap_difference,
    corrected,
    holm,
    paired_difference,
)


def test_one_crowd_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.random(7), rng.random(7)
    found = paired_difference((ours.tolist(), theirs.tolist()))
    expected = stats.ttest_rel(100 * ours, 100 * theirs)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose(found, [100 * (ours - theirs).mean(), *interval, expected.pvalue], rtol=1e-10)


def test_crowds_are_pooled_as_strata() -> None:
    """A crowd far above the others widens nothing: the interval is about these crowds and other seeds."""
    first, second = ([0.80, 0.82, 0.81], [0.80, 0.80, 0.80]), ([0.9, 0.9], [0.5, 0.48])
    found = paired_difference(first, second)
    variances = [np.var([0, 2, 1], ddof=1) / 3, np.var([40, 42], ddof=1) / 2]
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 1)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(sum(variances)) / 2
    np.testing.assert_allclose(found[:3], [21, 21 - half, 21 + half])


def test_one_crowd_that_makes_all_of_the_variance_leaves_its_own_degrees_of_freedom() -> None:
    steady = ([0.8, 0.8, 0.8, 0.8, 0.8], [0.7, 0.7, 0.7, 0.7, 0.7])
    wild = ([0.9, 0.5, 0.7, 0.8, 0.6], [0.5, 0.5, 0.5, 0.5, 0.5])
    alone, pooled = paired_difference(wild), paired_difference(*[steady] * 9, wild)
    assert pooled.high - pooled.low == pytest.approx((alone.high - alone.low) / 10)


def test_without_any_variance_the_interval_is_a_point() -> None:
    assert paired_difference(([0.9, 0.9], [0.5, 0.5])) == pytest.approx((40, 40, 40, 0))
    assert paired_difference(([0.5, 0.5], [0.5, 0.5])) == (0, 0, 0, 1)


def test_a_single_seed_has_no_interval() -> None:
    found = paired_difference(([0.9], [0.8]))
    assert found.value == pytest.approx(10)
    assert np.isnan(found[1:]).all()
    assert str(found) == "+10.0"


def test_a_published_difference_without_an_error_is_subtracted() -> None:
    seeds = [0.88, 0.91, 0.87, 0.9], [0.85, 0.86, 0.88, 0.84]
    papers = Published(87.0, 0.0), Published(83.5, 0.0)
    less = paired_difference((seeds[0], [share + 0.035 for share in seeds[1]]))
    np.testing.assert_allclose(beyond_published(seeds, papers), less, rtol=1e-10)


def test_a_published_difference_has_an_error_too() -> None:
    """Variances add; the degrees of freedom are those of the seeds, or fewer where the paper errs more."""
    seeds = [0.88, 0.91, 0.87, 0.9, 0.89, 0.92], [0.85, 0.86, 0.88, 0.84, 0.86, 0.87]
    gap = 100 * (np.array(seeds[0]) - np.array(seeds[1]))
    for deviations in ((0.5, 0.3), (9.0, 0.1)):
        papers = Published(87.0, deviations[0], 3), Published(83.5, deviations[1], 5)
        parts = np.array([gap.var(ddof=1) / 6, deviations[0] ** 2 / 3, deviations[1] ** 2 / 5])
        freedom = min(parts.sum() ** 2 / (parts**2 / [5, 2, 4]).sum(), 5)
        error, value = np.sqrt(parts.sum()), gap.mean() - 3.5
        half = stats.t.ppf(0.975, freedom) * error
        p = 2 * stats.t.sf(abs(value) / error, freedom)
        np.testing.assert_allclose(beyond_published(seeds, papers), [value, value - half, value + half, p])


def test_an_error_of_the_paper_makes_nothing_surer() -> None:
    seeds = [0.88, 0.91, 0.87, 0.9, 0.89], [0.85, 0.86, 0.88, 0.84, 0.86]
    found = [beyond_published(seeds, (Published(90.0, each), Published(83.0, 0.0))).p for each in (0, 0.3, 0.6, 2, 9)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_holm_rejects_as_his_procedure_does() -> None:
    """Step by step: reject while the k-th smallest of m is below alpha / (m - k + 1)."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        p, alpha = rng.random(9) ** 3, 0.1
        rejected = np.zeros(9, bool)
        for k, place in enumerate(np.argsort(p)):
            if p[place] > alpha / (9 - k):
                break
            rejected[place] = True
        np.testing.assert_array_equal(holm(p) <= alpha, rejected)
    adjusted = holm([0.01, np.nan, 0.9])
    np.testing.assert_allclose(adjusted, [0.02, np.nan, 0.9])


def test_other_units_than_points() -> None:
    found = paired_difference(([1.5, 1.7], [1.0, 1.0]), scale=1)
    assert found.value == pytest.approx(0.6)
    assert found.written(2) == f"+0.60 ({found.low:+.2f} to {found.high:+.2f})"


def test_the_bootstrap_is_about_test_instances() -> None:
    """Against the normal interval of the mean of paired differences, to which it tends; fits are averaged first."""
    rng = np.random.default_rng(0)
    theirs = rng.random((3, 1500)) < 0.8
    ours = theirs | (rng.random((3, 1500)) < 0.2)
    found = bootstrap_difference(ours, theirs)
    gaps = 100 * (ours.mean(0) - theirs.mean(0))
    half = 1.96 * gaps.std() / np.sqrt(len(gaps))
    np.testing.assert_allclose(found[:3], [gaps.mean(), gaps.mean() - half, gaps.mean() + half], atol=0.1)
    assert found.verdict == "above"
    assert bootstrap_difference(theirs, ours).verdict == "below"
    assert bootstrap_difference(ours[:1], ours[:1]).verdict == "level"


def test_its_p_value_is_uniform_where_there_is_no_difference() -> None:
    rng = np.random.default_rng(2)
    p = [bootstrap_difference(rng.random(200) < 0.7, rng.random(200) < 0.7).p for _ in range(60)]
    assert 0.2 < np.mean(np.array(p) < 0.5) < 0.8
    assert np.mean(np.array(p) < 0.05) < 0.15


def test_a_family_is_judged_after_holms_correction() -> None:
    clear, weak = Difference(2.0, 1.0, 3.0, 0.001), Difference(1.0, 0.1, 1.9, 0.03)
    assert weak.verdict == "above"
    judged = corrected({"clear": clear, "weak": weak, "none": Difference(0.0, -1.0, 1.0, 1.0)})
    assert {name: each.verdict for name, each in judged.items()} == {"clear": "above", "weak": "level", "none": "level"}
    assert judged["clear"].starred == "+2.0 (+1.0 to +3.0) \\*"
    assert judged["weak"].starred == "+1.0 (+0.1 to +1.9)"
