"""Names of tasks, annotators and classes as JSON values, and back."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from conal.data.encoding import Names, as_names
from conal.errors import InputError

__all__ = ["name_to_json", "names_from_json", "names_to_json"]


def names_to_json(names: Names) -> list[Any]:
    """Names as JSON values; dates and tuples are marked so that they can be restored."""
    return [name_to_json(name) for name in names.tolist()]


def names_from_json(values: list[Any]) -> Names:
    """The inverse of :func:`names_to_json`."""
    return as_names([_from_json(value) for value in values])


def name_to_json(name: Any) -> Any:
    """A name as a JSON value; what cannot be restored is refused."""
    if isinstance(name, str | bool | int | float):
        return name
    if isinstance(name, tuple):
        return {"tuple": [name_to_json(part) for part in name]}
    if isinstance(name, date):  # and datetime, which is one
        return {"datetime" if isinstance(name, datetime) else "date": name.isoformat()}
    raise InputError(f"names of type {type(name).__name__}, such as {name!r}, cannot be saved; use text or numbers")


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_from_json(part) for part in content)
    return {"date": date, "datetime": datetime}[kind].fromisoformat(content)
