"""Options of ``conal fit`` alone: its files, and how the classifier is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conal._support.registry import names_in_source
from conal.cli.groups import Group
from conal.parameters.training import ClassifierParameters

__all__ = [
    "AllowMissing",
    "Anonymise",
    "Features",
    "Method",
    "ModelPlace",
    "NoReport",
    "Resume",
    "Settings",
    "Text",
    "Training",
    "ValidFeatures",
    "ValidLabels",
    "ValidText",
]

Features = Annotated[Path | None, typer.Option(help="Features: .npy, .npz, .parquet or .csv.")]
Text = Annotated[
    Path | None,
    typer.Option(
        help="Texts instead of features: CSV, TSV, Parquet or JSON Lines with a text and a task column; may be the "
        "file of the labels itself."
    ),
]
ModelPlace = Annotated[Path, typer.Option(help="Model folder to write.")]
ValidFeatures = Annotated[Path | None, typer.Option(help="Features of a validation set.")]
ValidText = Annotated[Path | None, typer.Option(help="Texts of a validation set.")]
ValidLabels = Annotated[Path | None, typer.Option(help="Its true labels, which select the epoch.")]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Drop tasks without features and features without a task.")
]
Anonymise = Annotated[
    bool, typer.Option("--anonymise", help="Replace the annotators' names by pseudonyms in all that is written.")
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Do not make the page report.html.")]
Method = Annotated[str, typer.Option(help=f"One of {', '.join(names_in_source('conal.methods'))}.")]
Training = Annotated[dict[str, Any], Group(ClassifierParameters, make=dict)]
"""What the user sets of every classifier's parameters; the method's own defaults hold for the rest."""
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other parameter, such as hidden=[64,32], dropout=0.3, batch_norm=true, lam=1e-4, holdout=0.2, "
        "selection=last; a wrong name lists them all.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an interrupted fit stopped.")]
