"""``conal plan``: which tasks to give to an expert next, or whom of the crowd to ask what."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli import options
from conal.cli.inputs import check_results
from conal.errors import InputError
from conal.parameters import Doc, number, parameters, whole

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.aggregation.base import Aggregator
    from conal.data.encoding import Names
    from conal.estimator import CrowdClassifier
    from conal.planning.crowd_plan import CrowdPlan
    from conal.planning.gains import LabelingProblem


GOAL = 0.95
BELIEVED = "the model's belief, which is too high where annotators err alike; true labels of fifty tasks measure it"
BUDGET = "What further labels of the crowd may cost together; a label costs 1, or as --annotator-info says."


@parameters
class PlanOptions:
    """How labels are planned."""

    random_share: Annotated[
        float,
        number(above=0, at_most=1),
        Doc("With --experts: share of the tasks that are drawn at random; above 0, so that every task can be drawn."),
    ] = 0.25
    seed: Annotated[int, whole(0), Doc("Random seed; the same seed and model give the same plan.")] = 0
    by: Annotated[
        Literal["annotator", "group"], Doc("With --budget: whom to ask, single annotators or anybody of a group.")
    ] = "annotator"
    expert_cost: Annotated[
        float | None,
        number(above=0),
        Doc("With --budget: cost of a true label, if an expert can be asked too; by default, the crowd alone is."),
    ] = None
    per_task: Annotated[int, whole(1, below=6), Doc("With --budget: labels of one task, at most; from 1 to 5.")] = 3


SETTINGS = options.settable(PlanOptions)


def plan(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    out: Annotated[Path, typer.Option(help="Output table: .csv, .tsv, .parquet or .jsonl.")],
    experts: Annotated[
        int | None, typer.Option(metavar="N", help="Plan for an expert: number of tasks that can be labelled.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help=BUDGET)] = None,
    for_: Annotated[
        Literal["accuracy", "common-confusion"],
        typer.Option("--for", help="With --budget: what labels are to improve, right labels or the common confusion."),
    ] = "accuracy",
    annotator_info: options.AboutAnnotators = None,
    settings: Annotated[list[str] | None, options.set_option(SETTINGS)] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
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

    With --for common-confusion, the labels are those that make the common confusion most precise: about rare classes,
    on tasks whose class is sure, by all annotators alike.

    The table also has the text, address or picture's address of a task where the model's report shows it.
    """
    from conal.io.tables import write_table

    given = options.parse_settings(settings)
    wanted = options.taken(PlanOptions, given)
    options.refuse_unknown(given, SETTINGS)
    _check_options(experts, budget, annotator_info, wanted)
    if for_ == "common-confusion" and (budget is None or wanted.expert_cost is not None or wanted.by == "group"):
        raise InputError(
            "--for common-confusion needs --budget, and asks single annotators: leave out expert_cost and by=group"
        )
    check_results(tables=[out], sources=[annotator_info], model=model, overwrite=overwrite)
    fitted = _loaded(model)
    if budget is None:
        table, figures = _for_experts(fitted, experts or 0, wanted)
        summary = _text(figures, out)
    elif for_ == "common-confusion":
        table, figures = _for_common_confusion(fitted, annotator_info, budget, wanted)
        summary = (
            f"{figures['n_labels']:,} labels of {figures['n_tasks']:,} tasks\nexpected error of a cell of the common "
            f"confusion, by chance alone: {figures['error']:.3f} now, {figures['error_after']:.3f} afterwards\n"
            f"plan: {out}"
        )
    else:
        found, figures = _planned_labels(
            *_problem(fitted, annotator_info, wanted),
            fitted.task_ids_,
            budget,
            expert_cost=wanted.expert_cost,
            per_task=wanted.per_task,
            seed=wanted.seed,
        )
        table, summary = found.table, _text_of(figures, out, budget)
    write_table(_with_items(table, fitted), out)
    options.emit({"out": out} | figures, summary, as_json=as_json, quiet=quiet)


def _check_options(experts: int | None, budget: float | None, annotator_info: Path | None, wanted: PlanOptions) -> None:
    """A plan is for an expert or for the crowd; what has no effect is refused."""
    if (experts is None) == (budget is None):
        raise InputError("pass --experts N for true labels by an expert, or --budget B for labels of the crowd")
    unused = {"--annotator-info": annotator_info, "expert_cost": wanted.expert_cost}
    for name, value in unused.items():
        if budget is None and value is not None:
            raise InputError(f"{name} needs --budget; add it, or leave out {name}")
    number(above=0).check("budget", 1.0 if budget is None else budget)


def _loaded(folder: Path) -> CrowdClassifier | Aggregator:
    """A trained model, or what conal aggregate --save wrote."""
    from conal.io.model_folder import AGGREGATOR, ModelFolder

    if ModelFolder(folder).config["format"] == AGGREGATOR:
        from conal.updates import load as load_aggregator

        return load_aggregator(folder)
    from conal.estimator import load

    return load(folder)


def _for_experts(fitted: CrowdClassifier | Aggregator, n: int, wanted: PlanOptions) -> tuple[pa.Table, dict[str, Any]]:
    """The tasks of an expert, and figures about them."""
    from conal.planning.expert_plan import expert_plan

    found = expert_plan(fitted.tables_["labels.csv"], n, random_share=wanted.random_share, seed=wanted.seed)
    return found, {
        "n_tasks": found.num_rows,
        "reasons": dict(Counter(found["reason"].to_pylist())),
        "expected_gain": sum(found["expected_gain"].to_pylist()),
    }


def _for_common_confusion(
    fitted: CrowdClassifier | Aggregator, annotator_info: Path | None, budget: float, wanted: PlanOptions
) -> tuple[pa.Table, dict[str, Any]]:
    """The labels that make the common confusion most precise, and figures about them."""
    from conal.aggregation.base import Aggregator
    from conal.planning.common_plan import common_plan

    problem, names = _problem(fitted, annotator_info, wanted)
    common = fitted.results_.evidence.common if isinstance(fitted, Aggregator) else fitted.common_confusion_
    asked: dict[str, Any] = {"task_ids": fitted.task_ids_, "people": names, "per_task": wanted.per_task}
    table, error, error_after = common_plan(problem, common, budget, **asked)
    n_tasks = len(set(table["task"].to_pylist()))
    return table, {"n_labels": table.num_rows, "n_tasks": n_tasks, "error": error, "error_after": error_after}


def _text(figures: dict[str, Any], out: Path) -> str:
    reasons = "; ".join(f"{reason}: {n:,}" for reason, n in figures["reasons"].items())
    wrong = round(figures["expected_gain"])
    share = f"{'about' if wrong else 'less than'} {max(wrong, 1):,} of their {figures['n_tasks']:,} labels"
    return (
        f"{figures['n_tasks']:,} tasks for an expert ({reasons})\n"
        f"the model believes that {share} {'are' if wrong > 1 else 'is'} wrong\n"
        f"plan: {out}"
    )


def _problem(
    fitted: CrowdClassifier | Aggregator, annotator_info: Path | None, wanted: PlanOptions
) -> tuple[LabelingProblem, Names]:
    """What the crowd can be asked, and the names of those who can be."""
    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.io.true_labels import read_annotator_info

    if isinstance(fitted, Aggregator):
        if annotator_info is not None or wanted.by == "group":
            raise InputError(
                "--annotator-info and by=group: of labels alone, plans ask single annotators; leave it out"
            )
        return _labels_alone_problem(fitted), fitted.annotator_ids_
    from conal.estimator.kept_data import labeling_problem_of

    info = None
    if annotator_info is not None:
        crowd = Annotations([], [], [], task_ids=[], annotator_ids=fitted.annotator_ids_, classes=fitted.classes_)
        info = read_annotator_info(annotator_info, crowd)
    return labeling_problem_of(fitted, info, by=wanted.by, per_task=wanted.per_task)


def _with_items(table: pa.Table, fitted: CrowdClassifier | Aggregator) -> pa.Table:
    """With texts and addresses of the tasks, where the report has them."""
    from conal.planning.expert_plan import with_exhibits
    from conal.report.exhibits import task_rows

    report = fitted.results_.report  # folders of early versions have none
    return with_exhibits(table, task_rows(report) if report else ())


# Plans of further labels by the crowd.


def _labels_alone_problem(fitted: Aggregator) -> LabelingProblem:
    """What the crowd of an aggregator can be asked."""
    from conal.planning.gains import LabelingProblem

    about = fitted.annotator_info_
    return LabelingProblem.by_evidence(fitted.results_.evidence, limits=None if about is None else about.limits)


def _planned_labels(
    problem: LabelingProblem,
    names: Names,
    task_ids: Names,
    budget: float,
    *,
    expert_cost: float | None = None,
    per_task: int = 3,
    seed: int = 0,
) -> tuple[CrowdPlan, dict[str, Any]]:
    """The plan, and its figures."""
    from conal.planning.crowd_plan import crowd_plan, labels_for
    from conal.report.evidence import BELIEF, MEASURED

    options: dict[str, Any] = {"expert_cost": expert_cost, "per_task": per_task}
    found = crowd_plan(problem, budget, task_ids=task_ids, people=names, seed=seed, **options)
    goal = labels_for(problem, GOAL, budget, **options)
    table, forecast = found.table, found.forecast
    ask = table["ask"].to_pylist()
    return found, {
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
        "basis": BELIEF if problem.now is None else MEASURED,
    }


def _text_of(figures: dict[str, Any], out: Path, budget: float) -> str:
    """The summary for people."""
    from conal.planning.crowd_plan import REACH
    from conal.report.wording import count, interval, percent

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
