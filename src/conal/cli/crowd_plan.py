"""Plans of further labels on the command line: what ``conal plan --budget`` and ``conal aggregate --plan`` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from conal.data.encoding import Names
    from conal.planning.crowd_plan import CrowdPlan
    from conal.planning.gains import Asking

__all__ = ["Budget", "ExpertCost", "figures_of", "planned_labels", "text_of"]

GOAL = 0.95
BELIEVED = "the model's belief, which is too high where annotators err alike; true labels of fifty tasks measure it"
Budget = Annotated[
    float | None,
    typer.Option(
        help="What further labels of the crowd may cost together; a label costs 1, or as --annotator-info says."
    ),
]
ExpertCost = Annotated[
    float | None,
    typer.Option(help="Cost of a true label, if an expert can be asked too (default: the crowd alone)."),
]


def planned_labels(
    asking: Asking, names: Names, task_ids: Names, budget: float, *, expert_cost: float | None, per_task: int, seed: int
) -> tuple[CrowdPlan, dict[str, Any]]:
    """The plan, and its figures."""
    from conal.planning.crowd_plan import crowd_plan, labels_for
    from conal.report.evidence import BELIEF, MEASURED

    options: dict[str, Any] = {"expert_cost": expert_cost, "per_task": per_task}
    found = crowd_plan(asking, budget, task_ids=task_ids, people=names, seed=seed, **options)
    figures = figures_of(found, labels_for(asking, GOAL, budget, **options))
    return found, figures | {"basis": BELIEF if asking.now is None else MEASURED}


def figures_of(found: CrowdPlan, goal: tuple[int, float] | None) -> dict[str, Any]:
    """What the command prints."""
    table, promised = found.table, found.promise
    ask = table["ask"].to_pylist()
    return {
        "n_labels": table.num_rows,
        "n_tasks": len(set(table["task"].to_pylist())),
        "n_asked": len(set(ask)),
        "n_expert_labels": ask.count("expert"),
        "cost": float(found.planned.cost.sum()),
        "expected_gain": float(sum(table["expected_gain"].to_pylist())),
        "expected_accuracy_now": float(promised.accuracy[0]),
        "expected_accuracy": float(promised.accuracy[-1]),
        "accuracy_low": float(promised.low[-1]),
        "accuracy_high": float(promised.high[-1]),
        "goal": GOAL,
        "labels_for_goal": None if goal is None else goal[0],
        "cost_for_goal": None if goal is None else goal[1],
    }


def text_of(figures: dict[str, Any], out: Path, budget: float) -> str:
    """The summary for people."""
    from conal.planning.crowd_plan import REACH
    from conal.report.section import count, interval, percent

    ends = interval(figures["accuracy_low"], figures["accuracy_high"])
    experts = f", {figures['n_expert_labels']:,} of them by an expert" if figures["n_expert_labels"] else ""
    measured = figures["basis"] == "measured"
    lines = [
        f"{count(figures['n_labels'], 'label', 'labels')} of {count(figures['n_tasks'], 'task', 'tasks')}{experts}, "
        f"for {figures['cost']:,.6g} of {budget:,.6g}",
        f"share of right labels: {percent(figures['expected_accuracy_now'], 1)} now, "
        f"{percent(figures['expected_accuracy'], 1)} afterwards ({ends}); "
        + ("measured by true labels, and what more labels correct is the model's belief" if measured else BELIEVED),
    ]
    goal = percent(figures["goal"])
    if figures["labels_for_goal"] is None:
        lines.append(f"{goal} is not reached with {REACH} times the budget")
    elif figures["labels_for_goal"]:
        needed = count(figures["labels_for_goal"], "label", "labels")
        lines.append(f"{goal} would take about {needed}, for {figures['cost_for_goal']:,.6g}")
    else:
        lines.append(f"{goal} is reached already" if measured else f"the model believes that {goal} is reached already")
    if figures["cost"] < 0.9 * budget:
        lines.append("the rest of the budget is left: no further answer is expected to change a label")
    return "\n".join([*lines, f"plan: {out}"])
