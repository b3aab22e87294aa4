"""Simulated crowds on a scale: what is drawn is what the truth says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from conal.datasets import ordinal_crowd
from conal.errors import InputError


def test_who_labels_what() -> None:
    crowd, truth = ordinal_crowd(n_tasks=50, labels_per_annotator=8, labels_per_task=3, n_levels=4, seed=2)
    assert crowd.labels_per_task().tolist() == [3] * 50
    assert sorted(crowd.labels_per_annotator().tolist()) == [2] * 3 + [8] * 18
    pairs = set(zip(crowd.tasks.tolist(), crowd.annotators.tolist(), strict=True))
    assert len(pairs) == crowd.n_annotations
    assert crowd.classes.tolist() == [1, 2, 3, 4]
    assert crowd.ordinal
    assert truth.z.shape == (50,)
    assert truth.spread.shape == (21,)


@pytest.mark.parametrize("fall_off", ["discrete", "rounded"])
def test_matrices_are_those_of_the_definition(fall_off: Any) -> None:
    _, truth = ordinal_crowd(n_tasks=40, n_levels=6, guesses=0.1, fall_off=fall_off, seed=3)
    for r in range(0, len(truth.bias), 3):
        for c in range(6):
            at = 2.5 + truth.bias[r] + truth.slope[r] * (c - 2.5)
            if fall_off == "discrete":
                near = norm.pdf(np.arange(6), at, truth.spread[r])
                near /= near.sum()
            else:
                edges = np.array([-np.inf, 0.5, 1.5, 2.5, 3.5, 4.5, np.inf])
                near = np.diff(norm.cdf(edges, at, truth.spread[r]))
            np.testing.assert_allclose(truth.confusion[r, c], 0.9 * near + 0.1 / 6, rtol=1e-9, atol=1e-12)


def test_labels_are_drawn_from_the_matrices() -> None:
    crowd, truth = ordinal_crowd(n_tasks=6000, n_levels=3, labels_per_annotator=6000, labels_per_task=2, seed=4)
    for r in range(2):
        given = np.zeros((3, 3))
        own = crowd.annotators == r
        np.add.at(given, (truth.z[crowd.tasks[own]], crowd.labels[own]), 1)
        shares = given / given.sum(1, keepdims=True)
        np.testing.assert_allclose(shares, truth.confusion[r], atol=4 * np.sqrt(0.25 / 1900))


def test_annotators_vary_as_much_as_is_asked_for() -> None:
    _, truth = ordinal_crowd(n_tasks=4000, labels_per_annotator=1, labels_per_task=1, bias=0.8, slope=0.1, spread=2.0)
    assert truth.bias.std() == pytest.approx(0.8, rel=0.05)
    assert truth.slope.mean() == pytest.approx(1.0, abs=0.01)
    assert np.log(truth.spread).mean() == pytest.approx(np.log(2.0), abs=0.03)
    assert np.log(truth.spread).std() == pytest.approx(0.5, rel=0.05)


def test_the_same_seed_gives_the_same_crowd() -> None:
    assert ordinal_crowd(seed=5)[0] == ordinal_crowd(seed=5)[0] != ordinal_crowd(seed=6)[0]
    with pytest.raises(InputError, match="n_levels must be"):
        ordinal_crowd(n_levels=1)
