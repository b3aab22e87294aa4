"""Options of ``conal aggregate`` only: the method, and the files that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conal._registry import names_in_source
from conal.cli.groups import Group
from conal.parameters.showing import ReleaseOptions

__all__ = [
    "DEFAULT",
    "Annotators",
    "Confusion",
    "Method",
    "Out",
    "Plan",
    "Privacy",
    "Report",
    "Save",
    "Settings",
]

DEFAULT = "dawid-skene"
Out = Annotated[
    Path,
    typer.Option(help="Output table of labels: .csv, .tsv, .parquet or .jsonl. With --private, an output folder."),
]
Method = Annotated[str, typer.Option(help=f"Aggregation method: {', '.join(names_in_source('conal.aggregation'))}.")]
Annotators = Annotated[
    Path | None, typer.Option(help="Output table of annotators: number of labels, quality, agreement.")
]
Confusion = Annotated[
    Path | None,
    typer.Option(help="Output table of the annotators' confusion matrices, P(observed label given true label)."),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Output folder of the report about these labels: report.html, which works offline, and its tables.",
    ),
]
Plan = Annotated[
    Path | None, typer.Option(help="With --budget: output table of the labels to ask for next, as by conal plan.")
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Output folder of the labels and all that was learned, to which conal update adds further labels.",
    ),
]
Privacy = Annotated[ReleaseOptions, Group(ReleaseOptions)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter of the aggregator, such as prior=0.1, n_iter=500, n_restarts=5, ties=random. "
        "An unknown name lists all parameters.",
    ),
]
