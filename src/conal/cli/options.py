"""Options that several commands share, and ``--set``, which sets everything that has no option of its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from conal.errors import InputError
from conal.parameters import Doc, Parameter, json_or_text, parameters, parameters_of
from conal.parameters.reading import ReadOptions

DATA, LABELS, TRAINING, REPORT, PRIVACY = "Data", "Labels", "Training", "Report", "Privacy"
"""Panels of the help. Options without a panel, which people use first, come before them."""

DEFAULT_METHOD = "xconal"
"""The default method; docs/guides/choosing.md has the reasons."""


def option(declares: type[Any], name: str, *flags: str, panel: str | None = None, **more: Any) -> Any:
    """The option of a declared parameter, with its help."""
    found = parameters_of(declares)[name]
    return typer.Option(*(flags or (found.option.flag,)), rich_help_panel=panel, **({"help": found.help} | more))


def in_panel(panel: str, text: str, **more: Any) -> Any:
    """An option with its panel of the help, and its sentence there."""
    return typer.Option(rich_help_panel=panel, help=text, **more)


def on_off(*flags: str, panel: str | None = None, **more: Any) -> Any:
    """An option without a value, for which the help shows no type."""
    return typer.Option(*flags, metavar="", rich_help_panel=panel, **more)


# ``--set NAME=VALUE``: one way to everything that has no option of its own.

Given = TypeVar("Given")


def settable(*declares: type[Any], also: Sequence[str] = ()) -> dict[str, Parameter]:
    """Parameters of these classes that have no option; ``also`` names those whose option the command does not have."""
    declared = {name: found for each in declares for name, found in parameters_of(each).items()}
    return {
        name: found
        for name, found in declared.items()
        if found.option.parse and (name in also or not found.option.flag)
    }


def set_option(names: Mapping[str, Parameter], more: str = "") -> Any:
    """The option itself; its help lists the names."""
    text = f"Set {', '.join(names)}{more} (docs/cli.md explains them)."
    return typer.Option("--set", metavar="NAME=VALUE", help=text)


def parse_settings(pairs: Sequence[str] | None) -> dict[str, str]:
    """The values of ``NAME=VALUE`` pairs, by name.

    >>> parse_settings(["lam=1e-4", "hidden=[64, 64]"])
    {'lam': '1e-4', 'hidden': '[64, 64]'}
    """
    settings = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set {pair!r}: expected NAME=VALUE, such as --set lam=1e-4")
        settings[name] = text
    return settings


def chosen(declares: type[Any], settings: dict[str, str], **options: Any) -> dict[str, Any]:
    """The values that the user chose for parameters of a class, checked: by options, and those taken out of settings.

    An option that is None or False was not used.

    >>> settings = {"missing": "NA,-1", "lam": "2"}
    >>> chosen(ReadOptions, settings, task="item", classes=None), settings
    ({'task': 'item', 'missing': ['NA', '-1']}, {'lam': '2'})
    """
    found = {}
    for name, declared in parameters_of(declares).items():
        value = options.get(name)
        used = value is not None and value is not False
        if name in settings and declared.option.parse is not None:
            if used:
                raise InputError(f"--set {name}: {declared.option.flag} sets it too; leave out one of the two")
            value, used = settings.pop(name), True
        if used:
            found[name] = declared.option.parse(value) if declared.option.parse and isinstance(value, str) else value
            declared.check(found[name])
    return found


def taken(declares: type[Given], settings: dict[str, str], **options: Any) -> Given:
    """An object of the class with the values that the user chose."""
    return declares(**chosen(declares, settings, **options))


def remaining(settings: Mapping[str, str]) -> dict[str, Any]:
    """Settings that no class took, for a method: values are JSON where possible, and text otherwise."""
    return {name: json_or_text(text) for name, text in settings.items()}


def refuse_unknown(settings: Mapping[str, str], known: Mapping[str, Parameter]) -> None:
    """Reject settings that no class took, where there is no method to take them."""
    for name in settings:
        raise InputError(f"--set {name}: there is no such setting; known are {', '.join(known)}")


READING = ("classes", "ordinal", "encoding", "without", "merge_spelling")
"""How labels are read: what commands without options of these names take by ``--set``."""

# Options that several commands share.

Quiet = Annotated[bool, on_off("--quiet", "-q", help="Print no progress and no summary, only warnings.")]
AsJson = Annotated[bool, on_off("--json", help="Print the result as JSON on standard output, all else on stderr.")]
Overwrite = Annotated[bool, on_off("--overwrite", help="Replace an existing result.")]
Labels = Annotated[
    list[Path],
    typer.Argument(
        help="Crowd labels: CSV, TSV, Parquet, Arrow, Excel, JSON Lines, a .npy matrix, or an export of an annotation "
        "platform. Several files are joined: the same id means the same task."
    ),
]
TaskColumn = Annotated[str | None, option(ReadOptions, "task", panel=DATA)]
WorkerColumn = Annotated[str | None, option(ReadOptions, "worker", panel=DATA)]
LabelColumn = Annotated[str | None, option(ReadOptions, "label", panel=DATA)]
Question = Annotated[str | None, option(ReadOptions, "question", panel=DATA)]
Classes = Annotated[
    str | None,
    option(
        ReadOptions,
        "classes",
        panel=LABELS,
        help="Classes in order, comma-separated (default: those in the file); for .npy, also names of 0, 1, 2, ...",
    ),
]
Ordinal = Annotated[
    bool,
    on_off(
        "--ordinal",
        panel=LABELS,
        help="The classes are a scale, such as grades from 1 to 5: numbers in their own order, others as listed by "
        "--classes, from the lowest to the highest.",
    ),
]
Without = Annotated[
    list[str] | None,
    option(ReadOptions, "without", panel=LABELS, metavar="WORKER", help="Annotator to leave out; can be repeated."),
]
MergeSpelling = Annotated[
    bool, on_off("--merge-spelling", panel=LABELS, help=parameters_of(ReadOptions)["merge_spelling"].help)
]
Encoding = Annotated[str | None, option(ReadOptions, "encoding", panel=DATA)]
AboutAnnotators = Annotated[
    Path | None,
    in_panel(
        LABELS,
        "Table with a row for every annotator: worker, group (human or llm, a family of models, a vendor), cost "
        "(of a label), limit (how many more labels a plan may ask for), and any numbers as features of the annotators.",
    ),
]
Features = Annotated[Path | None, typer.Option(help="Features: .npy, .npz, .parquet or .csv.")]
Text = Annotated[
    Path | None,
    typer.Option(
        help="Texts instead of features: CSV, TSV, Parquet, Arrow, Excel or JSON Lines with a text column and a task "
        "column; can be the file of labels; of several exports, name one to take the texts of all. With --features, "
        "the report shows the texts, and the features are trained on."
    ),
]
NoReport = Annotated[bool, on_off("--no-report", panel=REPORT, help="Do not write report.html.")]


@parameters
class TextOptions:
    """How texts are read."""

    text_column: Annotated[
        str | None, Doc("Column with the texts; by default one that is called text, sentence, content, body or alike.")
    ] = None


# What commands print: names and paths of users cannot move the cursor, hide text or add lines.

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, those that change the direction of text, and halves of characters."""

BOTH_WAYS = re.compile(r"\b[a-z_]+=(?:'[^']*'|\w*) \((--[a-z][^()]*)\)")
"""A keyword with its option, such as ``overwrite=True (--overwrite)``."""


def say(text: str, *, err: bool = False) -> None:
    """Print a line or several; all that conal prints goes through here."""
    typer.echo(visible(text), err=err)


def visible(text: str) -> str:
    r"""Text with its control characters spelled out, so that terminals do not obey them; JSON stays the same JSON.

    >>> visible("red \x1b[31m alert")
    'red \\u001b[31m alert'
    """
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: object) -> str:
    """Text without line ends and surplus spaces.

    >>> one_line("a\\n  b")
    'a b'
    """
    return " ".join(str(text).split())


def class_name(name: object) -> str:
    """The name of a class in one line; quoted if blanks around it would hide that it is another class.

    >>> class_name("cat"), class_name("cat "), class_name(3)
    ('cat', "'cat '", '3')
    """
    text = str(name)
    return one_line(text) if text == text.strip() else repr(text)


def with_flags(message: str) -> str:
    """A message of the library, which names both ways to set a parameter, with the way of the command line only.

    >>> with_flags("a.csv: exists already; pass overwrite=True (--overwrite), or pass missing='' (--set missing=)")
    'a.csv: exists already; pass --overwrite, or pass --set missing='
    """
    return BOTH_WAYS.sub(r"\1", message)


def with_settings(message: str, flags: Collection[str]) -> str:
    """A message in which options of reading that a command does not have are written as ``--set`` takes them.

    >>> with_settings("name it with --encoding latin-1, or pass --merge-spelling", ["--encoding"])
    'name it with --encoding latin-1, or pass --set merge_spelling=true'
    >>> with_settings("name it with --encoding latin-1", [])
    'name it with --set encoding=latin-1'
    """
    for name in READING:
        found = parameters_of(ReadOptions)[name]
        if found.option.flag not in flags:
            value, before_value = ("true", "") if found.default is False else ("", "(?: (?=latin-1|[A-Z']))?")
            message = re.sub(rf"{found.option.flag}(?![\w-]){before_value}", f"--set {name}={value}", message)
    return message


def emit(result: dict[str, Any], text: str, *, as_json: bool, quiet: bool) -> None:
    """Print the result for a machine or for a person."""
    if as_json:
        is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")  # others cannot show every character
        say(json.dumps(result, ensure_ascii=not is_unicode, default=_plain))
    elif not quiet:
        say(text)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def file_summaries(files: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each of several files: what it contributes."""
    return [
        f"  {one_line(file['file'])} ({file['title']}): {file['n_annotations']:,} labels by {file['n_annotators']:,} "
        f"annotators on {file['n_tasks']:,} tasks"
        for file in files
    ]
