"""What more labels would bring: the expected accuracy against their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np

from conal.findings.asking import Asking
from conal.findings.base import Finding, register
from conal.findings.crowd_plan import plan_labels
from conal.findings.evidence import BELIEF, MEASURED, Evidence
from conal.findings.plan_table import LEAST_GAIN
from conal.findings.promise import promise

if TYPE_CHECKING:
    from conal.findings.collection import Findings

__all__ = ["Plan", "PlanPoint", "PlanSection"]

MOST_LABELS = 2000
DRAWS = 100
GOAL = 0.95


class PlanPoint(TypedDict):
    """The accuracy of all labels after so many more of the plan."""

    labels: int
    accuracy: float
    low: float
    high: float


class PlanSection(TypedDict):
    """The curve, and how many labels reach a goal; None where the plan does not reach it.

    ``basis`` says whether its first point was measured by true labels; what further labels gain is the model's belief.
    """

    tasks: int
    goal: float
    labels_for_goal: int | None
    curve: list[PlanPoint]
    basis: NotRequired[str]


@register("plan")
class Plan(Finding[PlanSection]):
    """Accuracy against further labels, as planned."""

    rank = 51
    title = "What more labels would bring"

    def applies(self, evidence: Evidence) -> bool:
        """Where there are tasks, and people whose answers tell something."""
        crowd = evidence.annotations
        return bool(crowd.n_annotations and crowd.n_classes > 1)

    def section(self, findings: Findings) -> PlanSection:
        """The curve."""
        evidence = findings.evidence
        crowd = evidence.annotations
        active = np.where(crowd.labels_per_annotator() > 0, np.inf, 0.0)
        asking = Asking.by_evidence(evidence, limits=active, costs=np.ones(crowd.n_annotators))
        budget = min(3 * crowd.n_tasks, MOST_LABELS)
        planned = plan_labels(asking, budget, least_gain=LEAST_GAIN, teach=False)  # not promised
        found = promise(asking, planned, seed=findings.seed, draws=DRAWS)
        gained = found.accuracy[0] + np.concatenate([[0.0], np.cumsum(planned.gain)]) / max(crowd.n_tasks, 1)
        reached = np.flatnonzero(gained >= GOAL)
        ends = zip(found.labels, found.accuracy, found.low, found.high, strict=True)
        return {
            "tasks": crowd.n_tasks,
            "goal": GOAL,
            "labels_for_goal": int(reached[0]) if len(reached) else None,
            "basis": BELIEF if asking.now is None else MEASURED,
            "curve": [
                {"labels": int(n), "accuracy": float(a), "low": float(low), "high": float(high)}
                for n, a, low, high in ends
            ],
        }
