"""Immutable parameters: checked when created, and compared by value."""

from __future__ import annotations

from typing import Any, TypeVar

from conal.parameters.declaration import Parameterised, check_parameters

__all__ = ["FrozenParameters"]

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
