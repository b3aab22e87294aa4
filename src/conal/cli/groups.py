"""Groups of options: one argument of a command stands for everything that a class declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from conal.parameters import Parameter, Parameterised

__all__ = ["Group", "with_groups"]

_TYPES: dict[str, Any] = {"int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class Group:
    """Marks an argument of a command: ``Annotated[ReadOptions, Group(ReadOptions)]``.

    Parameters
    ----------
    declares : type
        The class whose parameters with an :class:`~conal.parameters.Option` become options.
    make : callable, optional
        What the command is given, made from the options that the user set; by default an object of the class.
    only : sequence of str, optional
        Names of the parameters to show, if not all.
    """

    declares: type[Parameterised]
    make: Callable[..., Any] | None = None
    only: tuple[str, ...] = ()

    def shown(self) -> dict[str, Parameter]:
        """The parameters that the command line shows."""
        declared = self.declares.declared
        return {name: declared[name] for name in self.only or declared if declared[name].option is not None}

    def pack(self, given: dict[str, Any]) -> Any:
        """What the command is given: values that the user set, parsed."""
        values = {name: _parsed(found, given.pop(name)) for name, found in self.shown().items()}
        chosen = {name: value for name, value in values.items() if value is not None}
        return (self.make or self.declares)(**chosen)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer in which every argument that is marked by a :class:`Group` is spelled out as options."""
    signature = inspect.signature(command, eval_str=True)
    groups = {name: found for name, p in signature.parameters.items() if (found := _group(p.annotation)) is not None}

    @wraps(command)
    def spelled_out(**given: Any) -> None:
        packed = {name: group.pack(given) for name, group in groups.items()}
        command(**packed, **given)

    fields = []
    for name, p in signature.parameters.items():
        found = groups.get(name)
        fields += [p] if found is None else [_field(each) for each in found.shown().values()]
    plain = [p.replace(kind=p.KEYWORD_ONLY) for p in fields]
    spelled_out.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    spelled_out.__annotations__ = {p.name: p.annotation for p in plain}
    return spelled_out


def _group(annotation: Any) -> Group | None:
    if get_origin(annotation) is not Annotated:
        return None
    return next((mark for mark in get_args(annotation)[1:] if isinstance(mark, Group)), None)


def _field(found: Parameter) -> inspect.Parameter:
    """A parameter as Typer wants it; what the user leaves out is None, so that others may decide."""
    assert found.option is not None  # noqa: S101 - only those are shown
    flag = found.option.flag or f"--{found.name.replace('_', '-')}"
    kind = _kind(found)
    text = found.option.help or found.help
    if kind is bool:
        mark, default = typer.Option(flag, help=text), found.default
    else:
        usual = "" if found.default is None else str(found.default)
        shown: Any = found.option.shown_default or usual or False
        kind, mark, default = kind | None, typer.Option(flag, help=text, show_default=shown), None
    return inspect.Parameter(
        found.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, mark]
    )


def _kind(found: Parameter) -> Any:
    if found.must_be.choices:
        return Literal.__getitem__(found.must_be.choices)
    return _TYPES.get(found.annotation.removesuffix(" | None"), str)


def _parsed(found: Parameter, value: Any) -> Any:
    parse = found.option.parse if found.option is not None else None
    return parse(value) if parse is not None and value is not None else value
