"""Options of ``conal fit`` alone: its files, and how the classifier is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conal._support.registry import names_in_source

__all__ = [
    "AllowMissing",
    "Anonymise",
    "BatchSize",
    "ClassPrior",
    "EnsembleSize",
    "Epochs",
    "Features",
    "LearningRate",
    "Method",
    "ModelPlace",
    "NoReport",
    "Patience",
    "Resume",
    "ScalingName",
    "Settings",
    "Text",
    "ValidFeatures",
    "ValidLabels",
    "ValidText",
]

OWN = "the method's own"

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
ClassPrior = Annotated[
    str | None,
    typer.Option(
        help="What you know about the shares of the classes: balanced, or JSON such as "
        """'{"cat": 0.8, "dog": 0.2}'. A wrong statement costs more than a right one gains."""
    ),
]
EnsembleSize = Annotated[int, typer.Option(min=1, help="So many fits, averaged.")]
LearningRate = Annotated[float | None, typer.Option(help="Learning rate.", show_default=OWN)]
Epochs = Annotated[int, typer.Option(help="Passes over the data.")]
BatchSize = Annotated[int, typer.Option(help="Instances in a batch.")]
Patience = Annotated[int | None, typer.Option(help="Stop after so many epochs without a better score.")]
ScalingName = Annotated[
    str | None,
    typer.Option(
        help="global: one factor; standard: every feature; none; auto chooses; robust also cuts off extremes.",
        show_default=OWN,
    ),
]
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
