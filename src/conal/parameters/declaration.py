"""Parameters as dataclass fields, each with a constraint and a sentence, and what is read from them.

A parameter is ``name: Annotated[type, constraint, Doc("A sentence.")] = default`` in a class that :func:`parameters`
decorates. The constructor is that of a dataclass with keywords alone.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, dataclass_transform

from typing_extensions import Doc

from conal.parameters.constraints import Constraint, anything, either, flag, json_or_text, one_of, only_none

__all__ = [
    "Doc",
    "Option",
    "Parameter",
    "check_parameters",
    "frozen_parameters",
    "keyword_fields",
    "keywords_of",
    "narrowed",
    "parameters",
    "parameters_of",
    "set_parameters",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """How the command line takes a parameter.

    Attributes
    ----------
    flag : str
        Its option, such as ``--task-column``; empty if it is set by ``--set`` alone.
    parse : callable or None
        Function from the user's text to the value; None if the command line does not take it.
    """

    flag: str = ""
    parse: Callable[[str], Any] | None = json_or_text


@dataclass(frozen=True)
class Parameter:
    """What is declared about one parameter; ``annotation`` is its type as the source has it."""

    name: str
    annotation: str
    default: Any
    constraint: Constraint
    help: str
    option: Option

    def check(self, value: Any) -> None:
        """Reject an invalid value."""
        self.constraint.check(self.name, value)


# Classes of parameters.


@dataclass_transform(kw_only_default=True)
def parameters(cls: type[T]) -> type[T]:
    """Decorate a class whose annotated attributes are parameters; its docstring lists them.

    A subclass inherits them; one that is decorated may declare more, and change a default by ``name: type = default``.
    As scikit-learn requires, the constructor only sets attributes; :func:`check_parameters` checks them.

    Examples
    --------
    >>> from conal.parameters.training import Settings
    >>> Settings().lr, Settings(lr=1.0).lr, parameters_of(Settings)["lr"].annotation
    (0.01, 1.0, 'float')
    """
    return _declare(dataclass(kw_only=True, eq=False, repr=False)(cls))


@dataclass_transform(kw_only_default=True, frozen_default=True)
def frozen_parameters(cls: type[T]) -> type[T]:
    """As :func:`parameters`, for settings that are compared by value and cannot be changed."""
    return _declare(dataclass(kw_only=True, frozen=True)(cls))


def parameters_of(thing: Any) -> Mapping[str, Parameter]:
    """The declared parameters of a class or an object by name; without any, an empty mapping."""
    return getattr(thing, "__declared__", {})


def check_parameters(thing: Any) -> None:
    """Reject invalid values with the parameter, the value and what it may be."""
    for name, declared in parameters_of(thing).items():
        declared.check(getattr(thing, name))


def set_parameters(thing: Any, given: Mapping[str, Any]) -> None:
    """Set every parameter to the given value, or to its default, for classes with a constructor of their own."""
    declared = parameters_of(thing)
    unknown = [name for name in given if name not in declared]
    if unknown:
        raise TypeError(
            f"{type(thing).__name__}() got an unexpected keyword argument {unknown[0]!r}; "
            f"it takes {', '.join(declared)}"
        )
    for name, found in declared.items():
        setattr(thing, name, given.get(name, found.default))


def narrowed(settings: Any, base: type[T], **changes: Any) -> T:
    """The parameters of a base class, as ``settings`` of a subclass have them, with some changes."""
    return base(**{name: getattr(settings, name) for name in parameters_of(base)} | changes)


def _declare(cls: type[T]) -> type[T]:
    """Collect the parameters, own ones first, and list them in the docstring."""
    known: dict[str, Parameter] = {}
    for base in reversed(cls.__bases__):
        known |= parameters_of(base)
    own = vars(cls).get("__annotations__", {})
    for name in known.keys() & vars(cls).keys() - own.keys():
        raise TypeError(f"{cls.__name__}.{name}: change a default with its type, {name}: type = default")
    read = {field.name: _read(cls, field, known) for field in fields(cls) if field.name in own}  # type: ignore[arg-type]
    found = {name: each for name, each in read.items() if name not in known} | known | read
    cls.__declared__ = found  # type: ignore[attr-defined]
    if "__init__" in vars(cls):
        cls.__init__.__annotations__ = {name: each.annotation for name, each in found.items()} | {"return": "None"}
    cls.__doc__ = documented(vars(cls).get("__doc__") or "", found)
    return cls


def _read(cls: type[Any], field: Any, known: Mapping[str, Parameter]) -> Parameter:
    """What an annotation says of a parameter; one without metadata changes the default of an inherited parameter."""
    if field.name in known and "Annotated" not in str(field.type):
        return replace(known[field.name], default=field.default)
    kind, metadata = _annotation(field.type, vars(sys.modules[cls.__module__]))
    found = {type(each): each for each in metadata}
    if Doc not in found:
        raise TypeError(f"{cls.__name__}.{field.name}: a parameter is Annotated[type, constraint, Doc(...)] = default")
    constraint = _constraint(kind, found.get(Constraint))
    return Parameter(field.name, kind, field.default, constraint, found[Doc].documentation, found.get(Option, Option()))


def _constraint(kind: str, given: Constraint | None) -> Constraint:
    """The stated constraint and what the type says: None, words, true and false need no constraint of their own.

    >>> from conal.parameters import whole
    >>> _constraint("int | Literal['auto']", whole(1)).meaning
    "a whole number of at least 1 or 'auto'"
    """
    parts = kind.split(" | ")
    words = [one_of(*_words(part)) for part in parts if part.startswith("Literal[")]
    none = [only_none()] if "None" in parts else []
    truth = [flag()] if kind == "bool" else []
    if given is None and len(words) + len(none) + len(truth) < len(parts):
        return anything()
    stated = [] if given is None else [given]
    return either(*none, *stated, *truth, *words)


def _words(literal: str) -> tuple[str, ...]:
    """The words of ``Literal[...]``."""
    found = ast.literal_eval(literal.removeprefix("Literal")[1:-1])
    return found if isinstance(found, tuple) else (found,)


def _annotation(annotation: Any, names: dict[str, Any]) -> tuple[str, list[Any]]:
    """The type as in the source, and the metadata, of ``Annotated[type, ...]`` as text or as an object.

    >>> _annotation("Annotated[int | None, Doc('Steps.')]", {"Doc": Doc})
    ('int | None', [Doc('Steps.')])
    """
    if not isinstance(annotation, str):
        metadata = getattr(annotation, "__metadata__", ())
        return inspect.formatannotation(getattr(annotation, "__origin__", annotation)), list(metadata)
    tree = ast.parse(annotation, mode="eval").body
    if not (isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Tuple)):
        return annotation, []
    kind, *metadata = (ast.unparse(part) for part in tree.slice.elts)
    return kind, [eval(text, names) for text in metadata]  # noqa: S307  # source of the class itself


# Documentation and signatures.


def documented(text: str, declared: Mapping[str, Parameter]) -> str:
    """A docstring with a section "Parameters" before the attributes, references or example."""
    lines = inspect.cleandoc(text).splitlines()
    rows = [f"{p.name} : {p.annotation}, default {p.default!r}\n    {p.help}" for p in declared.values()]
    section = ["Parameters", "----------", *"\n".join(rows).splitlines(), ""]
    after = ("Attributes", "References", "Example", "Examples", "Notes")
    at = next((k for k, line in enumerate(lines) if line in after and lines[k + 1 : k + 2] == ["-" * len(line)]), None)
    if at is None:
        return "\n".join([*lines, "", *section])
    return textwrap.dedent("\n".join([*lines[:at], *section, *lines[at:]]))


def keyword_fields(declared: Mapping[str, Parameter]) -> list[inspect.Parameter]:
    """The parameters as keywords of a signature."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=found.default, annotation=found.annotation)
        for name, found in declared.items()
    ]


P = ParamSpec("P")
Settings = TypeVar("Settings")
Result = TypeVar("Result")


def keywords_of(cls: Callable[P, Settings]) -> Callable[[Callable[[Settings], Result]], Callable[P, Result]]:
    """Decorate a function of ``settings`` to take the parameters of their class as keywords.

    Arguments of the function other than ``settings`` stay in front. The keywords are in its signature, and in its
    docstring as a section "Parameters".
    """
    declared = parameters_of(cls)

    def decorate(function: Callable[..., Result]) -> Callable[P, Result]:
        plain = inspect.signature(function)
        first = {name: found for name, found in plain.parameters.items() if name != "settings"}
        signature = plain.replace(parameters=[*first.values(), *keyword_fields(declared)])

        @wraps(function)
        def spelled_out(*args: Any, **keywords: Any) -> Result:
            try:
                given = signature.bind(*args, **keywords).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}(): {error}") from None
            own = {name: given.pop(name) for name in first if name in given}
            return function(**own, settings=cls(**given))  # type: ignore[call-arg]

        spelled_out.__signature__ = signature  # type: ignore[attr-defined]
        spelled_out.__doc__ = documented(function.__doc__ or "", declared)
        return spelled_out

    return decorate
