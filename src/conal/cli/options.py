"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from conal.cli.groups import Group
from conal.cli.terminal import one_line, say
from conal.errors import InputError
from conal.parameters import number
from conal.parameters.constraints import json_or_text
from conal.parameters.reading import ReadOptions

__all__ = [
    "DEFAULT_METHOD",
    "AboutAnnotators",
    "AsJson",
    "Exports",
    "Handicap",
    "Labels",
    "Overwrite",
    "OwnEncoder",
    "Quiet",
    "Reading",
    "Seed",
    "TextColumn",
    "check_handicap",
    "emit",
    "parse_settings",
    "told",
]

DEFAULT_METHOD = "xconal"
"""The default method; docs/choosing.md has the reasons."""

Seed = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="Random seed; the same seed and data give the same result.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no summary, only warnings.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, all else on standard error.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing result.")]
Labels = Annotated[
    list[Path],
    typer.Argument(
        help="Crowd labels: CSV, TSV, Parquet, Arrow, Excel, JSON Lines, a .npy matrix, or an export of an annotation "
        "platform. "
        "Several files are joined: the same id means the same task."
    ),
]
AboutAnnotators = Annotated[
    Path | None,
    typer.Option(
        help="Table with a row for every annotator: worker, group (human or llm, a family of models, a vendor), cost "
        "(of a label), limit (how many more labels a plan may ask for), and any numbers as features of the annotators."
    ),
]
Handicap = Annotated[
    float | None,
    typer.Option(
        help="With --annotator-info, for the report: handicap of people where it says which models may replace them. "
        "The test's authors take 0.2 for experts, 0.15 for trained people, 0.1 for a crowd.",
        show_default="0.2",
    ),
]
Reading = Annotated[ReadOptions, Group(ReadOptions)]
"""How labels are read: every option that the class declares."""

Exports = Annotated[ReadOptions, Group(ReadOptions, only=("format", "question", "task"))]
"""The same for commands that read tasks, whose labels do not matter."""

TextColumn = Annotated[
    str | None, typer.Option(help="Column with the texts.", show_default="text, sentence, content, body, ...")
]

OwnEncoder = Annotated[
    Path | None, typer.Option(help="Folder of the encoder that the model was fitted with (--encoder of conal fit).")
]


def check_handicap(handicap: float | None, annotator_info: Path | None) -> None:
    """Reject a handicap that is none, or that nothing uses."""
    if handicap is None:
        return
    number(at_least=0, below=1).check("--handicap", handicap)
    if annotator_info is None:
        raise InputError("--handicap is that of people, whom --annotator-info names; pass it too, or leave this out")


def emit(result: dict[str, Any], text: str, *, as_json: bool, quiet: bool) -> None:
    """Print the result for a machine or for a person."""
    if as_json:
        say(_to_json(result))
    elif not quiet:
        say(text)


def _to_json(result: dict[str, Any]) -> str:
    """JSON that the terminal can show: characters that its encoding does not have are escaped."""
    text = json.dumps(result, ensure_ascii=False, default=_plain)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(result, default=_plain)
    return text


def told(files: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each of several files: what it contributes."""
    return [
        f"  {one_line(file['file'])} ({file['title']}): {file['n_annotations']:,} labels by {file['n_annotators']:,} "
        f"annotators on {file['n_tasks']:,} tasks"
        for file in files
    ]


def parse_settings(pairs: list[str] | None) -> dict[str, Any]:
    """``name=value`` pairs; a value is parsed as JSON if possible, and is text otherwise.

    >>> parse_settings(["lam=1e-4", "layer=row-stochastic", "hidden=[64, 64]"])
    {'lam': 0.0001, 'layer': 'row-stochastic', 'hidden': [64, 64]}
    """
    settings = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set {pair!r}: expected NAME=VALUE, such as --set lam=1e-4")
        settings[name] = json_or_text(text)
    return settings


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
