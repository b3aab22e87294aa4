"""The bound lies below the Bayes-optimal error, and that below every method's, on crowds where the bound bites."""

from __future__ import annotations

import numpy as np
import pytest

from conal import theory
from conal.experiments import Store
from conal.experiments.bounds import METHODS, Bound, _draw, errors_of_methods, random_crowd


@pytest.mark.parametrize("seed", range(20))
def test_bound_then_bayes_then_methods(seed: int) -> None:
    crowd = random_crowd(seed)
    assert min(part.min() for part in (crowd.rho, crowd.pi_g, crowd.pi_r)) > 0
    bound = theory.error_lower_bound(*crowd)
    best = theory.bayes_error(*crowd, n_draws=4000, seed=seed)
    assert 0 < bound.value <= bound.tight_value <= best.value + 3 * best.standard_error
    for name, errors in errors_of_methods(crowd, 40, seed).items():
        noise = np.hypot(errors.std(ddof=1) / len(errors) ** 0.5, best.standard_error)
        assert best.value <= errors.mean() + 3 * noise, name


def test_draws_follow_the_crowd() -> None:
    """Shares of labels given the class, against the mixture of the two confusions."""
    crowd = random_crowd(3)
    rng = np.random.default_rng(0)
    draws = [_draw(crowd, rng) for _ in range(4000)]
    z, labels = (np.array(part) for part in zip(*draws, strict=True))
    C = crowd.rho.shape[1]
    for i, r in ((0, 0), (1, 1)):
        for c in range(C):
            seen = labels[z[:, i] == c, i, r]
            expected = crowd.omega[i, r] * crowd.pi_g[c] + (1 - crowd.omega[i, r]) * crowd.pi_r[r, c]
            np.testing.assert_allclose(np.bincount(seen, minlength=C) / len(seen), expected, atol=0.06)


def test_the_page_has_a_line_for_every_crowd() -> None:
    experiment = Bound(quick=True)
    with Store(":memory:") as store:
        table = experiment.table(store)
    assert len(table) == 5
    page = experiment.page(table)
    assert page.count("\n| ") == 5 + 1
    assert "Reduced size" in page
    assert set(METHODS) <= set(table.column_names)
