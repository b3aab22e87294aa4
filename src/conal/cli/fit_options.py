"""Options of ``conal fit`` only: its files, and how the classifier is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conal._registry import names_in_source
from conal.cli.groups import Group
from conal.parameters.showing import PrivacyOptions
from conal.parameters.training import ClassifierParameters

__all__ = [
    "AllowMissing",
    "Features",
    "KeepData",
    "Method",
    "ModelPlace",
    "NoReport",
    "NotPrivate",
    "Privacy",
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
        help="Texts instead of features: CSV, TSV, Parquet, Arrow, Excel or JSON Lines with a text column and a task "
        "column; can be the file of labels; of several such files, name one to take the texts of all. With --features, "
        "the report shows the texts, and the features are trained on."
    ),
]
ModelPlace = Annotated[Path, typer.Option(help="Output model folder.")]
ValidFeatures = Annotated[Path | None, typer.Option(help="Validation features, used with --valid-labels.")]
ValidText = Annotated[Path | None, typer.Option(help="Validation texts, used with --valid-labels.")]
ValidLabels = Annotated[Path | None, typer.Option(help="True validation labels, used to pick the epoch.")]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Drop tasks that have labels, but no features or text.")
]
Privacy = Annotated[PrivacyOptions, Group(PrivacyOptions)]
"""Whether and how annotators' names are hidden."""
NotPrivate = Annotated[
    str | None, typer.Option("--private", metavar="EPSILON", hidden=True, help="Refused; see conal aggregate.")
]
"""Of `conal aggregate`; `conal fit` says why it cannot do it."""
NoReport = Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")]
Method = Annotated[str, typer.Option(help=f"Method: {', '.join(names_in_source('conal.methods'))}.")]
Training = Annotated[dict[str, Any], Group(ClassifierParameters, make=dict)]
"""The training parameters that the user sets; the rest have the method's defaults."""
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set any other parameter, such as hidden=[64,32], dropout=0.3, batch_norm=true, lam=1e-4, "
        "holdout=0.2, selection=last. An unknown name lists all parameters.",
    ),
]
KeepData = Annotated[
    bool,
    typer.Option(
        "--keep-data",
        help="Keep labels and features in the model folder, so that conal update can add further labels. Do not share "
        "such a folder with people who must not see them.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")]
