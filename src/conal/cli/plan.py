"""``conal plan``: which tasks to give to an expert next."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from conal.cli.options import AsJson, Overwrite, Quiet, Seed, emit
from conal.cli.places import check_results

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
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Choose the tasks whose true labels would teach most, and write them as a table for an expert.

    Most are tasks on which the crowd and the classifier contradict each other, or whose label is uncertain; the rest
    are drawn at random. Add a column "label" with the expert's answers and pass the table to conal fit --true-labels:
    its column inclusion_probability says how likely each task was to be drawn, so that the report can tell from these
    few labels how many of all labels are right.
    """
    from conal.estimator import load
    from conal.findings.expert_plan import expert_plan
    from conal.io.tables import write_tables

    check_results(tables=[out], model=model, overwrite=overwrite)
    found = expert_plan(load(model).tables_["labels.csv"], experts, random_share=random_share, seed=seed)
    write_tables({out: found})
    figures: dict[str, Any] = {
        "out": out,
        "n_tasks": found.num_rows,
        "reasons": dict(Counter(found["reason"].to_pylist())),
        "expected_gain": sum(found["expected_gain"].to_pylist()),
    }
    emit(figures, _text(figures), as_json=as_json, quiet=quiet)


def _text(figures: dict[str, Any]) -> str:
    reasons = "; ".join(f"{reason}: {n:,}" for reason, n in figures["reasons"].items())
    return (
        f"{figures['n_tasks']:,} tasks for an expert ({reasons})\n"
        f"by the model's own account, {figures['expected_gain']:.1f} of their labels are wrong\n"
        f"plan: {figures['out']}"
    )
