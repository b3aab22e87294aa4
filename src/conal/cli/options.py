"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from conal.cli.terminal import one_line, say
from conal.errors import InputError
from conal.parameters import Parameter, Parameterised, number
from conal.parameters.constraints import json_or_text
from conal.parameters.reading import ReadOptions

__all__ = [
    "DEFAULT_METHOD",
    "AboutAnnotators",
    "AsJson",
    "Exports",
    "Group",
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
    "file_summaries",
    "parse_settings",
    "with_groups",
]


# Groups of options: one argument of a command stands for all parameters of a class.

_TYPES: dict[str, Any] = {"int": int, "float": float, "bool": bool}
"""Types of options in Typer; all other types are text, which the declaration may parse."""


@dataclass(frozen=True)
class Group:
    """Marks an argument of a command: ``Annotated[ReadOptions, Group(ReadOptions)]``.

    Parameters
    ----------
    declares : type
        The class whose parameters with an :class:`~conal.parameters.Option` become options of the command.
    make : callable, optional
        Makes the command's argument from the options that the user set, and only those: an object of the class by
        default; ``dict`` if the defaults are decided elsewhere.
    only : tuple of str
        The parameters to show (default: all).
    """

    declares: type[Parameterised]
    make: Callable[..., Any] | None = None
    only: tuple[str, ...] = ()

    def shown(self) -> dict[str, Parameter]:
        """The parameters that the command line shows."""
        names = self.only or tuple(self.declares.declared)
        declared = {name: self.declares.declared[name] for name in names}
        return {name: found for name, found in declared.items() if found.option is not None}

    def pack(self, context: typer.Context, given: Mapping[str, Any]) -> Any:
        """The command's argument: the values that the user set, parsed and checked."""
        chosen = {name: found for name, found in self.shown().items() if _was_set(context, name)}
        return (self.make or self.declares)(
            **{name: _value(context, found, given[name]) for name, found in chosen.items()}
        )


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer in which every argument that is marked by a :class:`Group` is spelled out as options."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups = {p.name: group for p in parameters if (group := _group(p.annotation)) is not None}
    own = [p.name for p in parameters if p.name not in groups]

    @wraps(command)
    def spelled_out(context: typer.Context, **given: Any) -> None:
        packed = {name: group.pack(context, given) for name, group in groups.items()}
        command(**packed, **{name: given[name] for name in own})

    fields = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for p in parameters:
        group = groups.get(p.name)
        fields += [p.replace(kind=p.KEYWORD_ONLY)] if group is None else map(_field, group.shown().values())
    fields = [field.replace(annotation=_without_type_of_flag(field.annotation)) for field in fields]
    spelled_out.__signature__ = inspect.Signature(fields)  # type: ignore[attr-defined]
    spelled_out.__annotations__ = {field.name: field.annotation for field in fields}
    return spelled_out


def _group(annotation: Any) -> Group | None:
    if get_origin(annotation) is not Annotated:
        return None
    return next((mark for mark in get_args(annotation)[1:] if isinstance(mark, Group)), None)


def _without_type_of_flag(annotation: Any) -> Any:
    """A flag takes no value, so the help shows no type for it."""
    if get_origin(annotation) is not Annotated or get_args(annotation)[0] is not bool:
        return annotation
    marks = [copy(mark) for mark in get_args(annotation)[1:]]
    for mark in marks:
        mark.metavar = ""
    return Annotated[bool, *marks]


def _field(found: Parameter) -> inspect.Parameter:
    """A parameter as Typer expects it, with the default that the help shows."""
    assert found.option is not None  # noqa: S101 - only those are shown
    kind = _TYPES.get(found.annotation.removesuffix(" | None"), str)
    text, shown = found.option.help or found.help, found.option.shown_default
    choices = "|".join(found.must_be.choices)  # checked by the declaration, as from Python
    metavar = found.option.metavar or (f"<{choices}>" if choices else None)
    mark = typer.Option(found.flag, help=text, show_default=shown or kind is not bool, metavar=metavar)
    return inspect.Parameter(
        found.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if shown else found.default,
        annotation=Annotated[kind if kind is bool else kind | None, mark],
    )


def _was_set(context: typer.Context, name: str) -> bool:
    """Whether the user set an option, even if to its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _value(context: typer.Context, found: Parameter, given: Any) -> Any:
    """The user's value, parsed; an invalid value is an error that names the option."""
    parse = found.option.parse if found.option is not None else None
    try:
        value = given if parse is None else parse(given)
        found.check(value)
    except InputError as error:
        raise typer.BadParameter(str(error), ctx=context, param_hint=repr(found.flag)) from error
    return value


# Options that several commands share.

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


def file_summaries(files: Sequence[dict[str, Any]]) -> list[str]:
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
