"""What privacy costs: errors fall with epsilon, and the page shows them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from conal.data.annotations import Annotations
from conal.experiments import Store
from conal.experiments.privacy import EPSILONS, Privacy, _without_noise


def test_errors_fall_with_epsilon_and_intervals_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["conal.experiments.privacy"]
    for name, value in (("PEOPLE", (60,)), ("CLASSES", (3,)), ("LABELS", 8)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "_real", lambda: None)
    experiment = Privacy(seeds=3)
    with Store(":memory:") as store:
        table = experiment.table(store)
    rows = table.to_pylist()
    errors = [np.mean([row["error"] for row in rows if row["epsilon"] == epsilon]) for epsilon in EPSILONS]
    assert errors[0] > 0.2
    assert errors[0] > errors[2] > errors[-1]
    assert errors[-1] < 0.03
    assert np.mean([row["held"] for row in rows]) > 0.88
    page = experiment.page(table)
    assert f"| 60 people | 3 | 10 | {100 * errors[0]:.1f} | {100 * errors[1]:.1f} |" in page


def test_the_matrix_without_noise_is_that_of_the_labels() -> None:
    crowd = Annotations.from_triples([0, 0, 1, 1, 1], list("pqpqr"), ["a", "b", "b", "b", "a"])
    exact = _without_noise(crowd, {0: "a", 1: "b"}, 5)
    np.testing.assert_allclose(exact, [[0.5, 0.5], [1 / 3, 2 / 3]])
