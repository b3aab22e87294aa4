"""``conal plan``: which tasks to give to an expert next, or whom of the crowd to ask what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from conal.cli.inputs import check_results
from conal.cli.options import AboutAnnotators, AsJson, Overwrite, Quiet, Seed, emit
from conal.errors import InputError, examples
from conal.parameters import number

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.data.encoding import Names
    from conal.estimator import CrowdClassifier
    from conal.planning.crowd_plan import CrowdPlan
    from conal.planning.gains import LabelingProblem
    from conal.report.findings import Report

__all__ = ["Budget", "ExpertCost", "figures_of", "plan", "planned_labels", "text_of"]


# Plans of further labels on the command line: what ``conal plan --budget`` and ``conal aggregate --plan`` share.

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
    problem: LabelingProblem,
    names: Names,
    task_ids: Names,
    budget: float,
    *,
    expert_cost: float | None,
    per_task: int,
    seed: int,
) -> tuple[CrowdPlan, dict[str, Any]]:
    """The plan, and its figures."""
    from conal.planning.crowd_plan import crowd_plan, labels_for
    from conal.report.evidence import BELIEF, MEASURED

    options: dict[str, Any] = {"expert_cost": expert_cost, "per_task": per_task}
    found = crowd_plan(problem, budget, task_ids=task_ids, people=names, seed=seed, **options)
    figures = figures_of(found, labels_for(problem, GOAL, budget, **options))
    return found, figures | {"basis": BELIEF if problem.now is None else MEASURED}


def figures_of(found: CrowdPlan, goal: tuple[int, float] | None) -> dict[str, Any]:
    """What the command prints."""
    table, forecast = found.table, found.forecast
    ask = table["ask"].to_pylist()
    return {
        "n_labels": table.num_rows,
        "n_tasks": len(set(table["task"].to_pylist())),
        "n_asked": len(set(ask)),
        "n_expert_labels": ask.count("expert"),
        "cost": float(found.planned.cost.sum()),
        "expected_gain": float(sum(table["expected_gain"].to_pylist())),
        "expected_accuracy_now": float(forecast.accuracy[0]),
        "expected_accuracy": float(forecast.accuracy[-1]),
        "accuracy_low": float(forecast.low[-1]),
        "accuracy_high": float(forecast.high[-1]),
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


# ``conal plan``: which tasks to give to an expert next, or whom of the crowd to ask what.


class By(StrEnum):
    """Whom to ask."""

    annotator = "annotator"
    group = "group"


def plan(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    experts: Annotated[
        int | None, typer.Option(metavar="N", help="Plan for an expert: number of tasks that can be labelled.")
    ] = None,
    budget: Budget = None,
    out: Annotated[Path, typer.Option(help="Output table: .csv, .tsv, .parquet or .jsonl.")],
    annotator_info: AboutAnnotators = None,
    by: Annotated[By, typer.Option(help="With --budget: whom to ask, single annotators or anybody of a group.")] = (
        By.annotator
    ),
    expert_cost: ExpertCost = None,
    per_task: Annotated[int, typer.Option(min=1, max=5, help="With --budget: labels of one task, at most.")] = 3,
    curve: Annotated[
        Path | None, typer.Option(help="With --budget: output table of the expected accuracy against the budget.")
    ] = None,
    random_share: Annotated[
        float,
        typer.Option(help="Share of the tasks that are drawn at random; above 0: every task can be drawn."),
    ] = 0.25,
    text: Annotated[
        Path | None,
        typer.Option(help="Texts of the tasks, which the plan then lists: a table with a text and a task column."),
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Plan the next labels: true labels by an expert (--experts), or labels of the crowd (--budget).

    --experts chooses the tasks whose true labels would teach most. Most are tasks on which the crowd and the classifier
    contradict each other, or whose label is uncertain; the rest are drawn at random. A task whose true label the model
    was trained with is not asked about again. Add a column "label" with the expert's answers and pass the table to
    conal fit --true-labels: its column inclusion_probability says how likely each task was to be drawn, so that the
    report can tell from these few labels how many of all labels are right.

    --budget chooses tasks and annotators together: the answers that are expected to turn most labels right for their
    cost. Nobody is asked twice about a task. Costs and limits are columns of --annotator-info; those that the model was
    fitted with are remembered. The table says what each label is expected to gain, and how many labels are then right,
    with an interval.

    The table also has the text, address or picture's address of a task where the model's report shows it, and the
    texts of all tasks with --text.
    """
    from conal.estimator import load
    from conal.io.tables import write_tables

    _check_options(experts, budget, annotator_info=annotator_info, expert_cost=expert_cost, curve=curve)
    check_results(tables=[out, curve], sources=[annotator_info, text], model=model, overwrite=overwrite)
    fitted = load(model)
    texts = [] if text is None else list(_texts(text))
    if budget is None:
        planned = _for_experts(fitted, experts or 0, random_share, seed, out)
    else:
        crowd = CrowdOptions(budget, annotator_info, by, expert_cost, per_task, seed)
        planned = _for_crowd(fitted, crowd, out, with_curve=curve is not None)
    tables = {out: _with_items(planned.table, fitted, texts, text)}
    if curve is not None and planned.curve is not None:
        tables[curve] = planned.curve
    write_tables(tables)
    emit({"out": out, "curve": curve} | planned.figures, planned.summary, as_json=as_json, quiet=quiet)


class CrowdOptions(NamedTuple):
    """What ``--budget`` goes with: whom to ask, and at what cost."""

    budget: float
    annotator_info: Path | None
    by: By
    expert_cost: float | None
    per_task: int
    seed: int


class Planned(NamedTuple):
    """A plan: its table, figures about it, a summary, and the expected accuracy against the budget."""

    table: pa.Table
    figures: dict[str, Any]
    summary: str
    curve: pa.Table | None = None


def _check_options(experts: int | None, budget: float | None, **only_budget: Any) -> None:
    """A plan is for an expert or for the crowd; what has no effect is refused."""
    if (experts is None) == (budget is None):
        raise InputError("pass --experts N for true labels by an expert, or --budget B for labels of the crowd")
    unused = [name for name, value in only_budget.items() if value is not None]
    if budget is None and unused:
        raise InputError(f"--{unused[0].replace('_', '-')} needs --budget; add it, or remove the option")
    number(above=0).check("budget", 1.0 if budget is None else budget)


def _for_experts(fitted: CrowdClassifier, n: int, random_share: float, seed: int, out: Path) -> Planned:
    """The tasks of an expert."""
    from conal.planning.expert_plan import expert_plan

    found = expert_plan(fitted.tables_["labels.csv"], n, random_share=random_share, seed=seed)
    figures: dict[str, Any] = {
        "out": out,
        "n_tasks": found.num_rows,
        "reasons": dict(Counter(found["reason"].to_pylist())),
        "expected_gain": sum(found["expected_gain"].to_pylist()),
    }
    return Planned(found, figures, _text(figures))


def _for_crowd(fitted: CrowdClassifier, options: CrowdOptions, out: Path, *, with_curve: bool) -> Planned:
    """The labels to ask of the crowd."""
    from conal.planning.crowd_plan import curve_table

    found, figures = planned_labels(
        *_asking(fitted, options),
        fitted.task_ids_,
        options.budget,
        expert_cost=options.expert_cost,
        per_task=options.per_task,
        seed=options.seed,
    )
    curve = curve_table(found.forecast) if with_curve else None
    return Planned(found.table, figures, text_of(figures, out, options.budget), curve)


def _asking(fitted: CrowdClassifier, options: CrowdOptions) -> tuple[LabelingProblem, Names]:
    from conal.data.annotations import Annotations
    from conal.estimator.kept_data import labeling_problem_of
    from conal.io.results import read_annotator_info

    info = None
    if options.annotator_info is not None:
        crowd = Annotations([], [], [], task_ids=[], annotator_ids=fitted.annotator_ids_, classes=fitted.classes_)
        info = read_annotator_info(options.annotator_info, crowd)
    return labeling_problem_of(fitted, info, by=options.by.value, per_task=options.per_task)


def _with_items(
    table: pa.Table, fitted: CrowdClassifier, texts: Sequence[dict[str, Any]], where: Path | None
) -> pa.Table:
    """With texts and addresses of the tasks; a file of texts that has none of them is refused."""
    from conal.planning.expert_plan import with_exhibits

    found = with_exhibits(table, chain(_shown(fitted.results_.report), texts))
    if texts and "text" not in found.column_names:
        raise InputError(
            f"{where}: has no text of these tasks; its tasks are {examples(row['task'] for row in texts)}, those of "
            f"the model {examples(fitted.task_ids_)}"
        )
    return found


def _shown(report: Report) -> Iterator[Any]:
    """The rows about tasks in a report; folders of early versions have none."""
    from conal.report.exhibits import task_rows

    return task_rows(report) if report else iter(())


def _texts(path: Path) -> Iterator[dict[str, Any]]:
    from conal.io import read_texts

    table = read_texts(path, fallback_to_aliases=True)
    tasks = range(len(table)) if table.ids is None else table.ids.tolist()
    return ({"task": task, "text": text} for task, text in zip(tasks, table.texts, strict=True))


def _text(figures: dict[str, Any]) -> str:
    reasons = "; ".join(f"{reason}: {n:,}" for reason, n in figures["reasons"].items())
    return (
        f"{figures['n_tasks']:,} tasks for an expert ({reasons})\n"
        f"the model believes that {figures['expected_gain']:.1f} of their labels are wrong\n"
        f"plan: {figures['out']}"
    )
