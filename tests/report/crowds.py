"""Reports of simulated crowds, under whatever names."""

from __future__ import annotations

from typing import Any

import numpy as np

from conal.data.annotations import Annotations
from conal.report.evidence import Evidence
from conal.report.findings import Findings
from helpers.models import model_section

IMAGE, SCRIPT = "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>"


def make_report(
    *, n_tasks: int = 60, n_annotators: int = 25, classes: list[Any] | None = None, seed: int = 0, names: str = "w"
) -> Any:
    """A report of a simulated crowd; ``names`` is how tasks' and annotators' names begin."""
    rng = np.random.default_rng(seed)
    labels = ["cat", "dog", "elk"] if classes is None else classes
    C = len(labels)
    z = rng.integers(C, size=n_tasks)
    given = min(5, n_annotators)
    first = rng.integers(n_annotators, size=n_tasks)
    t, a = np.repeat(np.arange(n_tasks), given), ((first[:, None] + np.arange(given)) % n_annotators).ravel()
    answers = np.where(rng.random(len(t)) < 0.6, z[t], rng.integers(C, size=len(t)))
    crowd = Annotations(
        t,
        a,
        answers,
        task_ids=[f"{names} task {k}" for k in range(n_tasks)],
        annotator_ids=[f"{names} {k}" for k in range(n_annotators)],
        classes=labels,
    )
    q, f = (p / p.sum(1, keepdims=True) for p in (crowd.votes() + 0.2 * rng.random((n_tasks, C)) for _ in range(2)))
    pi = np.full((n_annotators, C, C), 0.4 / max(C - 1, 1)) + (0.6 - 0.4 / max(C - 1, 1)) * np.eye(C)
    report = Findings(Evidence(crowd, q, f, pi.mean(0), pi, rng.random(len(t)))).report
    return report | {"model": model_section()}
