"""Groups of options: one argument of a command stands for all parameters of a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_origin

import typer

from conal.errors import InputError
from conal.parameters import Parameter, Parameterised

__all__ = ["Group", "with_groups"]

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
