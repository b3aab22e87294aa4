"""Parameters as class attributes, from which constructors, checks and documentation are made."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, ParamSpec, Self, TypeVar, dataclass_transform

from conal.parameters.constraints import Constraint, anything, json_or_text

__all__ = [
    "FrozenParameters",
    "Parameter",
    "Parameterised",
    "check_parameters",
    "declare",
    "declare_keywords",
    "documented",
    "keyword_fields",
    "keywords_of",
    "parameter",
    "set_parameters",
]


# Parameters as class attributes, from which constructors, checks and documentation are made.


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name, type and default, what it must be, a line of help, and how the command line takes it.

    Attributes
    ----------
    flag : str
        Its option, such as ``--task-column``; empty if it is set by ``--set`` alone.
    parse : callable or None
        Function from the user's text to the value; None if the command line does not take it.
    name, attribute : str
        The name for users, and the attribute with the value; they differ if a method has the same name.
    free_on_resume : bool
        Whether it may change when an interrupted training is resumed.
    for_losses : bool
        Whether only classifiers have it whose method says that it uses it (``CrowdMethod.uses``).
    """

    default: Any
    must_be: Constraint
    help: str
    flag: str = ""
    parse: Callable[[str], Any] | None = json_or_text
    free_on_resume: bool = False
    for_losses: bool = False
    name: str = ""
    attribute: str = ""
    annotation: str = ""

    def check(self, value: Any) -> None:
        """Reject an invalid value."""
        self.must_be.check(self.name, value)


def parameter(
    *,
    default: Any,
    must_be: Constraint,
    help: str,  # noqa: A002
    flag: str = "",
    parse: Callable[[str], Any] | None = json_or_text,
    free_on_resume: bool = False,
    for_losses: bool = False,
    alias: str = "",
) -> Any:
    """Declare a parameter in the body of a class; ``alias`` is its name for users, if it differs from the attribute."""
    return Parameter(default, must_be, help, flag, parse, free_on_resume, for_losses, name=alias)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
class Parameterised:
    """Base of classes whose constructor takes the declared parameters as keywords.

    A subclass inherits the declarations, and changes a default by assigning the new one. As scikit-learn
    requires, the constructor only sets attributes; :func:`check_parameters` checks them.

    Examples
    --------
    >>> from conal.parameters import number
    >>> class Base(Parameterised):
    ...     lr: float = parameter(default=0.1, must_be=number(above=0), help="Learning rate.")
    >>> class Slow(Base):
    ...     lr = 0.01
    >>> Base().lr, Slow().lr, Slow(lr=1.0).lr, inspect.signature(Slow)
    (0.1, 0.01, 1.0, <Signature (*, lr: 'float' = 0.01)>)
    """

    declared: ClassVar[Mapping[str, Parameter]] = {}
    story: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declare(cls)
        if "__init__" not in vars(cls):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Hook for subclasses, called by the constructor when all parameters are set."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some parameters changed."""
        return type(self)(**{name: getattr(self, p.attribute) for name, p in self.declared.items()} | changes)


def declare(cls: Any) -> None:
    """Collect declared and inherited parameters in ``cls.declared``, and document them.

    The original docstring is kept as ``cls.story``. Inherited parameters that ``cls.lacks`` names are left out.
    """
    lacks = vars(cls).get("lacks", ())
    inherited = {name: found for name, found in getattr(cls, "declared", {}).items() if name not in lacks}
    own = {}
    for attribute, value in list(vars(cls).items()):
        if isinstance(value, Parameter):
            kind = value.annotation or str(vars(cls).get("__annotations__", {}).get(attribute, "Any"))
            found = replace(value, name=value.name or attribute, attribute=attribute, annotation=kind)
            own[found.name] = found
            setattr(cls, attribute, value.default)
        elif attribute in inherited:  # another default
            inherited[attribute] = replace(inherited[attribute], default=value)
    cls.declared = own | {name: found for name, found in inherited.items() if name not in own}
    cls.story = vars(cls).get("__doc__") or ""
    if cls.declared and cls.story:
        cls.__doc__ = documented(cls.story, cls.declared)


def declare_keywords(cls: Any) -> None:
    """Also declare the keyword-only arguments of a class's own constructor, without a check or help."""
    if "__init__" not in vars(cls):
        return
    for name, found in inspect.signature(cls.__init__).parameters.items():
        if found.kind is found.KEYWORD_ONLY and name not in cls.declared:
            kind = "Any" if found.annotation is found.empty else str(found.annotation)
            made = Parameter(found.default, anything(), "", name=name, annotation=kind)
            cls.declared = {name: made, **cls.declared}


def set_parameters(thing: Any, given: Mapping[str, Any]) -> None:
    """Set every declared parameter to the given value, or to its default."""
    unknown = [name for name in given if name not in thing.declared]
    if unknown:
        raise TypeError(
            f"{type(thing).__name__}() got an unexpected keyword argument {unknown[0]!r}; "
            f"it takes {', '.join(thing.declared)}"
        )
    for name, found in thing.declared.items():
        if found.attribute:  # an own constructor sets the attributes of its keywords
            setattr(thing, found.attribute, given.get(name, found.default))


def check_parameters(thing: Any) -> None:
    """Reject invalid values with the parameter, the value and what it may be."""
    for found in (each for each in thing.declared.values() if each.attribute):
        found.check(getattr(thing, found.attribute))


def _constructor(cls: Any) -> Callable[..., None]:
    def __init__(self: Any, **given: Any) -> None:  # noqa: N807
        set_parameters(self, given)
        self.__post_init__()

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([this, *keyword_fields(cls.declared)])  # type: ignore[attr-defined]
    return __init__


def keyword_fields(declared: Mapping[str, Parameter]) -> list[inspect.Parameter]:
    """The parameters as keywords of a signature."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=found.default, annotation=found.annotation)
        for name, found in declared.items()
    ]


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


# Immutable parameters: checked when created, and compared by value.

Base = TypeVar("Base", bound="FrozenParameters")


class FrozenParameters(Parameterised):
    """Base of settings that are checked when created, and cannot be changed afterwards.

    Examples
    --------
    >>> from conal.parameters import parameter, whole
    >>> class Size(FrozenParameters):
    ...     rows: int = parameter(default=1, must_be=whole(1), help="Rows.")
    >>> Size(rows=2), Size() == Size(rows=1)
    (Size(rows=2), True)
    >>> Size(rows=0)
    Traceback (most recent call last):
    conal.errors.InputError: rows must be a whole number of at least 1, not 0
    """

    def __post_init__(self) -> None:
        check_parameters(self)

    def narrowed(self, base: type[Base], **changes: Any) -> Base:
        """The parameters of a base class, with some changes."""
        return base(**{name: getattr(self, found.attribute) for name, found in base.declared.items()} | changes)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise AttributeError(f"{type(self).__name__} cannot be changed; replace({name}=...) makes a copy")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


# Functions whose keywords are the parameters of a class of settings.

P = ParamSpec("P")
Settings = TypeVar("Settings")
Result = TypeVar("Result")


def keywords_of(cls: Callable[P, Settings]) -> Callable[[Callable[[Settings], Result]], Callable[P, Result]]:
    """Decorate a function of ``settings`` to take the parameters of their class as keywords.

    Arguments of the function other than ``settings`` stay in front. The keywords are in its signature, and in its
    docstring as a section "Parameters".

    Examples
    --------
    >>> from conal.parameters import Parameterised, parameter, whole
    >>> class Size(Parameterised):
    ...     rows: int = parameter(default=1, must_be=whole(1), help="Rows.")
    >>> @keywords_of(Size)
    ... def double(settings: Size) -> int:
    ...     return 2 * settings.rows
    >>> double(rows=3), inspect.signature(double)
    (6, <Signature (*, rows: 'int' = 1) -> 'int'>)
    """
    declared = cls.declared  # type: ignore[attr-defined]

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
