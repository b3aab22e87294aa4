"""Functions whose keywords are the parameters of a class of settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from conal.parameters.declaration import documented, keyword_fields

__all__ = ["keywords_of"]

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
