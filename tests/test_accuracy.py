"""Guard of accuracy: the defaults are as good as those of the last release, up to chance.

``RELEASE`` has mean and standard deviation of the test accuracy over five seeds, by 0.2.0. The mean of two seeds may be
two standard errors below it, and half a point more for other processors. A better method passes; every release brings
a table of its own.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import conal
from conal.datasets import CrowdDataset
from helpers.real import load_or_skip

RELEASE = {
    ("digits", "xconal"): (0.9828, 0.0011),
    ("digits", "conal"): (0.9728, 0.0054),
    ("simulated", "xconal"): (0.9622, 0.0004),
    ("simulated", "conal"): (0.8890, 0.0070),
    ("labelme", "xconal"): (0.9015, 0.0028),
    ("labelme", "conal"): (0.8478, 0.0160),
    ("music", "xconal"): (0.7147, 0.0080),
    ("music", "conal"): (0.6860, 0.0254),
}
SEEDS = (0, 1)
OTHER_PROCESSORS = 0.005


def load(name: str) -> CrowdDataset:
    """A dataset with its test part; the simulated crowd has common noise whose strength is 0.6."""
    if name == "simulated":
        return conal.datasets.synthetic(
            n_train=1000, n_valid=100, n_test=2000, common_strength=0.6, gate="effects", gate_scale="wide", seed=0
        )
    if name == "digits":
        return conal.datasets.digits(gate="interaction", gate_scale="wide")
    return load_or_skip(name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), RELEASE)
def test_defaults_are_as_good_as_those_of_the_last_release(name: str, method: str) -> None:
    data = load(name)
    assert data.test is not None
    found = []
    for seed in SEEDS:
        fitted = conal.make(method, seed=seed, verbose=False).fit(data.x, data.annotations)
        found.append(fitted.score(data.test.x, data.classes[data.test.y]))
    mean, deviation = RELEASE[name, method]
    tolerance = 2 * deviation * sqrt(1 / len(SEEDS) + 1 / 5) + OTHER_PROCESSORS
    assert np.mean(found) >= mean - tolerance, found
