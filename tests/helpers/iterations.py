"""One iteration of an EM aggregator beside the same in slow loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from conal.aggregation.counts import Votes
from conal.aggregation.em import EMAggregator
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING

__all__ = ["assert_iteration"]


def assert_iteration(
    model: EMAggregator[Any],
    crowd: Annotations,
    start: tuple[Any, Any],
    expected: Any,
    posterior: Any,
    objective: float,
) -> None:
    """From a posterior and parameters (``start``), the M-step gives the expected parameters, the E-step the rest."""
    q, old = start
    engine = model.engine(Votes(crowd), np.full(crowd.n_tasks, MISSING))
    parameters = model._m_step(engine.votes, engine.start(q.copy()), old)
    expectation, found = model._e_step(engine, parameters)
    for ours, theirs in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(expectation.posterior, posterior, atol=1e-10)
    np.testing.assert_allclose(found, objective, rtol=1e-10)
