"""What users can set, declared once: constructors, checks, messages, options and documentation follow.

A parameter is ``name: Annotated[type, constraint, Doc("A sentence.")] = default`` in a class that :func:`parameters`
decorates. The constructor is that of a dataclass with keywords alone. Nothing heavy is imported here, so that the
command line can show its help at once.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, dataclass_transform, get_args, get_origin

from typing_extensions import Doc as Doc

from conal.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")
Result = TypeVar("Result")


# Tests for numbers: NumPy's numbers count, booleans do not.


def is_whole(value: Any) -> bool:
    """Whether it is a whole number.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_number(value: Any) -> bool:
    """Whether it is a finite real number.

    >>> is_number(0.5), is_number(float("nan")), is_number("1")
    (True, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


# Values of parameters from text, as a command line gives them.


def json_or_text(text: str) -> Any:
    """The text parsed as JSON if possible, otherwise the text itself.

    >>> json_or_text("[64, 32]"), json_or_text("balanced")
    ([64, 32], 'balanced')
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def comma_separated(text: str) -> list[str]:
    """Names separated by commas, in order.

    >>> comma_separated("cat, dog")
    ['cat', 'dog']
    """
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InputError(f"{text!r}: a name is empty; separate names by single commas")
    return names


def maybe_none(text: str) -> list[str]:
    """Names separated by commas; none if the text is empty.

    >>> maybe_none("NA,-1"), maybe_none("")
    (['NA', '-1'], [])
    """
    return comma_separated(text) if text.strip() else []


# Constraints on parameters: a test, and its description.


@dataclass(frozen=True)
class Constraint:
    """A test of a value, and a description that completes "must be ...".

    >>> whole(1).meaning, whole(1).holds(0), whole(1).holds(3)
    ('a whole number of at least 1', False, True)
    """

    meaning: str
    holds: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    """The allowed words, if there are only a few."""

    def check(self, name: str, value: Any) -> None:
        """Reject a value that fails the test.

        >>> whole(1).check("n_bins", 0)
        Traceback (most recent call last):
        conal.errors.InputError: n_bins must be a whole number of at least 1, not 0
        """
        if not self.holds(value):
            raise InputError(f"{name} must be {self.meaning}, not {value!r}")


def whole(at_least: int, *, below: int | None = None, shown_below: str = "") -> Constraint:
    """Whole numbers of at least ``at_least``, and below ``below`` if given."""
    if below is None:
        return Constraint(f"a whole number of at least {at_least}", lambda v: is_whole(v) and v >= at_least)
    meaning = f"a whole number from {at_least} to below {shown_below or below}"
    return Constraint(meaning, lambda v: is_whole(v) and at_least <= v < below)


def number(
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Constraint:
    """Finite numbers, within bounds if given.

    >>> number(above=0).meaning, number(at_least=0, below=1).meaning, number(at_least=0, at_most=1).meaning
    ('a finite number above 0', 'a number from 0 to below 1', 'a number from 0 to 1')
    """

    def holds(value: Any) -> bool:
        return (
            is_number(value)
            and (at_least is None or value >= at_least)
            and (above is None or value > above)
            and (below is None or value < below)
            and (at_most is None or value <= at_most)
        )

    if at_least is not None and below is not None:
        return Constraint(f"a number from {at_least:g} to below {below:g}", holds)
    if at_least is not None and at_most is not None:
        return Constraint(f"a number from {at_least:g} to {at_most:g}", holds)
    words = {"of at least": at_least, "above": above, "below": below, "of at most": at_most}
    parts = [f"{word} {bound:g}" for word, bound in words.items() if bound is not None]
    return Constraint(" ".join(["a finite number", " and ".join(parts)]).strip(), holds)


def share() -> Constraint:
    """Numbers between 0 and 1, both excluded."""
    return Constraint("a share above 0 and below 1", lambda v: is_number(v) and 0 < v < 1)


def fraction() -> Constraint:
    """Numbers between 0 and 1, both included."""
    return number(at_least=0, at_most=1)


def flag() -> Constraint:
    """True or false."""
    return Constraint("true or false", lambda v: isinstance(v, bool))


def one_of(*values: str) -> Constraint:
    """One of a few words.

    >>> one_of("constant", "cosine").meaning, one_of("a", "b", "c").meaning
    ("'constant' or 'cosine'", "'a', 'b' or 'c'")
    """
    *first, last = (repr(value) for value in values)
    meaning = f"{', '.join(first)} or {last}" if first else last
    return Constraint(meaning, lambda v: isinstance(v, str) and v in values, choices=values)


def several_of(*words: str) -> Constraint:
    """A text of some of these words, each once, separated by commas; an empty text for none.

    >>> several_of("a", "b").holds("b, a"), several_of("a", "b").holds("a,a"), several_of("a", "b").holds("c")
    (True, False, False)
    """

    def holds(value: Any) -> bool:
        found = [word.strip() for word in value.split(",")] if isinstance(value, str) and value.strip() else []
        return isinstance(value, str) and set(found) <= set(words) and len(set(found)) == len(found)

    return Constraint(f"empty, or one or several of {', '.join(words)}, separated by commas", holds)


def only_none() -> Constraint:
    """None alone."""
    return Constraint("None", lambda v: v is None)


def either(*constraints: Constraint) -> Constraint:
    """A value that meets at least one of the constraints."""
    meaning = " or ".join(constraint.meaning for constraint in constraints)
    choices = constraints[0].choices if len(constraints) == 1 else ()
    return Constraint(meaning, lambda v: any(constraint.holds(v) for constraint in constraints), choices)


def anything(meaning: str = "anything") -> Constraint:
    """No constraint here: the value is checked where it is used."""
    return Constraint(meaning, lambda v: True)


def widths() -> Constraint:
    """Layer sizes."""

    def holds(value: Any) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, str) and all(whole(1).holds(v) for v in value)

    return Constraint("a list of whole numbers of at least 1, such as [64, 32]", holds)


# Parameters as dataclass fields.


@dataclass(frozen=True)
class Option:
    """How the command line takes a parameter.

    Attributes
    ----------
    flag : str
        Its option, such as ``--task-column``; empty if it is set by ``--set`` alone.
    parse : callable or None
        Function from the user's text to the value, which is JSON where the type is not text; None if the command line
        does not take it.
    """

    flag: str = ""
    parse: Callable[[str], Any] | None = json_or_text


@dataclass(frozen=True)
class Parameter:
    """What is declared about one parameter; ``annotation`` is its type as text."""

    name: str
    annotation: str
    default: Any
    constraint: Constraint
    help: str
    option: Option

    def check(self, value: Any) -> None:
        """Reject an invalid value."""
        self.constraint.check(self.name, value)


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


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
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


def keywords_of(cls: Callable[P, T]) -> Callable[[Callable[[T], Result]], Callable[P, Result]]:
    """Decorate a function of settings to take what their constructor takes; its docstring lists the parameters."""

    def decorate(function: Callable[[T], Result]) -> Callable[P, Result]:
        @wraps(cls, assigned=())  # so that the signature is the constructor's
        def made(*args: P.args, **keywords: P.kwargs) -> Result:
            return function(cls(*args, **keywords))

        made.__module__, made.__name__, made.__qualname__ = function.__module__, function.__name__, function.__name__
        made.__doc__ = documented(function.__doc__ or "", parameters_of(cls))
        return made

    return decorate


def _declare(cls: type[T]) -> type[T]:
    """Collect the parameters, own ones first, and list them in the docstring."""
    known: dict[str, Parameter] = {}
    for base in reversed(cls.__bases__):
        known |= parameters_of(base)
    own = inspect.get_annotations(cls, eval_str=True, locals={})
    for name in known.keys() & vars(cls).keys() - own.keys():
        raise TypeError(f"{cls.__name__}.{name}: change a default with its type, {name}: type = default")
    read = {
        each.name: _read(f"{cls.__name__}.{each.name}", own[each.name], each, known.get(each.name))
        for each in fields(cls)  # type: ignore[arg-type]
        if each.name in own
    }
    found = {name: each for name, each in read.items() if name not in known} | known | read
    cls.__declared__ = found  # type: ignore[attr-defined]
    if "__init__" in vars(cls):  # whose help has types alone; the docstring has the sentences
        cls.__init__.__annotations__.update({name: each.annotation for name, each in found.items()})
    cls.__doc__ = documented(vars(cls).get("__doc__") or "", found)
    return cls


def _read(where: str, annotation: Any, found: Any, known: Parameter | None) -> Parameter:
    """What an annotation says of a parameter; one without metadata changes the default of an inherited parameter."""
    metadata = {type(each): each for each in getattr(annotation, "__metadata__", ())}
    if known is not None and not metadata:
        return replace(known, default=found.default)
    if Doc not in metadata:
        raise TypeError(f"{where}: a parameter is Annotated[type, constraint, Doc(...)] = default")
    kind = annotation.__origin__
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    shown = " | ".join("None" if part is NoneType else inspect.formatannotation(part) for part in parts)
    constraint = _constraint(parts, metadata.get(Constraint))
    option = metadata.get(Option, Option())
    if option.parse is json_or_text and all(part in (str, NoneType) or get_origin(part) is Literal for part in parts):
        option = replace(option, parse=str)
    return Parameter(
        found.name, _MODULES.sub("", shown), found.default, constraint, metadata[Doc].documentation, option
    )


_MODULES = re.compile(r"\b(?:typing|collections\.abc)\.")


def _constraint(parts: Sequence[Any], given: Constraint | None) -> Constraint:
    """The stated constraint and what the type says: None, words, true and false need no constraint of their own.

    >>> _constraint((int, Literal["auto"]), whole(1)).meaning
    "a whole number of at least 1 or 'auto'"
    """
    words = [one_of(*get_args(part)) for part in parts if get_origin(part) is Literal]
    none = [only_none()] if NoneType in parts else []
    truth = [flag()] if bool in parts else []
    if given is None and len(words) + len(none) + len(truth) < len(parts):
        return anything()
    stated = [] if given is None else [given]
    return either(*none, *stated, *truth, *words)


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
