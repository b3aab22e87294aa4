"""Options that several commands share, worded once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from conal._support.registry import names_in_source
from conal.errors import InputError

__all__ = [
    "DEFAULT_METHOD",
    "AsJson",
    "Classes",
    "FileFormat",
    "KeepRejected",
    "LabelColumn",
    "Labels",
    "OnDuplicate",
    "Overwrite",
    "Question",
    "Quiet",
    "Seed",
    "TaskColumn",
    "TextColumn",
    "WorkerColumn",
    "emit",
    "parse_settings",
    "split_classes",
]

DEFAULT_METHOD = "xconal"
"""What is trained if no method is named; docs/methods.md says why."""

PLAIN_FORMATS = ("csv", "tsv", "parquet", "jsonl", "npy")
"""Formats that are no platform's: a row per annotation, or a matrix."""

Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Same seed, same data, same result.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary; warnings stay.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, everything else on standard error.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result at this place.")]
Labels = Annotated[
    Path,
    typer.Argument(
        help="Crowd labels: CSV, TSV, Parquet, JSON Lines, a .npy matrix, or an export of an annotation platform."
    ),
]
Classes = Annotated[str | None, typer.Option(help="Classes in order, separated by commas.")]
TaskColumn = Annotated[
    str | None, typer.Option(help="Column of the task ids, in whichever file has an unusual name for it.")
]
TextColumn = Annotated[
    str | None, typer.Option(help="Column of the texts.", show_default="text, sentence, content, body, ...")
]
WorkerColumn = Annotated[str | None, typer.Option(help="Column of the workers.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column of the labels.")]
FileFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"If it is not recognised: {', '.join((*PLAIN_FORMATS, *names_in_source('conal.io.platforms')))}.",
    ),
]
Question = Annotated[
    str | None, typer.Option(help="Control, question or answer that holds the labels, if an export has several.")
]
KeepRejected = Annotated[
    bool, typer.Option("--keep-rejected", help="Keep work that was rejected (MTurk, Toloka, FigureEight).")
]
OnDuplicate = Annotated[Literal["last", "first", "error"], typer.Option(help="If a worker labelled a task twice.")]


def emit(result: dict[str, Any], text: str, *, as_json: bool, quiet: bool) -> None:
    """Print the result for a machine or for a person."""
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, default=_plain))
    elif not quiet:
        typer.echo(text)


def parse_settings(pairs: list[str] | None) -> dict[str, Any]:
    """``name=value`` pairs; values are JSON where they can be read as such, text otherwise.

    >>> parse_settings(["lam=1e-4", "layer=row-stochastic", "hidden=[64, 64]"])
    {'lam': 0.0001, 'layer': 'row-stochastic', 'hidden': [64, 64]}
    """
    settings = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set {pair!r}: expected NAME=VALUE, such as --set lam=1e-4")
        try:
            settings[name] = json.loads(text)
        except ValueError:
            settings[name] = text
    return settings


def split_classes(text: str | None) -> list[str] | None:
    """Comma-separated class names, in order."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InputError(f"--classes {text!r}: a name is empty; separate names by single commas")
    return names


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
