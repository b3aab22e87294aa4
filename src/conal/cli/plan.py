"""``conal plan``: which tasks to give to an expert next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli.options import AsJson, Overwrite, Quiet, Seed, emit
from conal.cli.places import check_results
from conal.errors import InputError, examples

if TYPE_CHECKING:
    from conal.findings.report import Report

__all__ = ["plan"]


def plan(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    experts: Annotated[int, typer.Option(metavar="N", help="Number of tasks that an expert can label.")],
    out: Annotated[Path, typer.Option(help="Output table: .csv, .tsv, .parquet or .jsonl.")],
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
    """Choose the tasks whose true labels would teach most, and write them as a table for an expert.

    Most are tasks on which the crowd and the classifier contradict each other, or whose label is uncertain; the rest
    are drawn at random. A task whose true label the model was trained with is not asked about again. Add a column
    "label" with the expert's answers and pass the table to conal fit --true-labels: its column inclusion_probability
    says how likely each task was to be drawn, so that the report can tell from these few labels how many of all labels
    are right. The table also has the text, address or picture's address of a task where the model's report shows it,
    and the texts of all tasks with --text.
    """
    from conal.estimator import load
    from conal.findings.expert_plan import expert_plan, with_exhibits
    from conal.io.tables import write_tables

    check_results(tables=[out], model=model, overwrite=overwrite)
    fitted = load(model)
    texts = [] if text is None else list(_texts(text))
    drawn = expert_plan(fitted.tables_["labels.csv"], experts, random_share=random_share, seed=seed)
    found = with_exhibits(drawn, chain(_shown(fitted.results_.report), texts))
    if texts and "text" not in found.column_names:
        raise InputError(
            f"{text}: has no text of these tasks; its tasks are {examples(row['task'] for row in texts)}, those of the "
            f"model {examples(fitted.task_ids_)}"
        )
    write_tables({out: found})
    figures: dict[str, Any] = {
        "out": out,
        "n_tasks": found.num_rows,
        "reasons": dict(Counter(found["reason"].to_pylist())),
        "expected_gain": sum(found["expected_gain"].to_pylist()),
    }
    emit(figures, _text(figures), as_json=as_json, quiet=quiet)


def _shown(report: Report) -> Iterator[Any]:
    """The rows about tasks in a report; folders of early versions have none."""
    from conal.findings.exhibits import task_rows

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
        f"by the model's own account, {figures['expected_gain']:.1f} of their labels are wrong\n"
        f"plan: {figures['out']}"
    )
