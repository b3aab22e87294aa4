"""Names of annotators, from a table of the platform's users."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

from conal.data.columns import find_annotators
from conal.errors import InputError, examples
from conal.io.refusals import VALUE_ERRORS, refusing
from conal.io.tables import read_table

__all__ = ["read_people"]

NAMES = ("name", "full_name", "display_name", "real_name")
PARTS = ("first_name", "last_name")
ADDRESSES = ("email", "e_mail", "mail", "email_address", "username", "user_name", "login")
"""Used where there is no name."""


def read_people(path: str | PathLike[str]) -> dict[str, str]:
    """Annotator, as text, to name: from a table with the annotators' ids, and their names or e-mail addresses.

    The column of ids is called ``worker``, ``annotator``, ``user``, ``id`` or similar; that of names ``name``,
    ``full_name``, or ``first_name`` and ``last_name``. An annotator without a name is called by e-mail address.
    """
    where = str(path)
    table = read_table(Path(path))
    columns = [str(name) for name in table.column_names]
    own = [name for name in columns if _plain(name) not in map(_plain, (*NAMES, *PARTS, *ADDRESSES))]
    ids = find_annotators(own, where)
    kinds = [name for kind in (NAMES, ADDRESSES) if (name := _column(columns, kind))]
    parts = [name for part in PARTS if (name := _column(columns, (part,)))]
    if ids is None or not (kinds or parts):
        raise InputError(
            f"{where}: expected a column with the annotators' ids (worker, id, ...) and one with their names (name, "
            f"email, ...); it has {examples(columns, 8)}"
        )
    with refusing(VALUE_ERRORS, f"{where}: contains values that cannot be read: {{}}; write names as text"):
        rows = table.select(list(dict.fromkeys([ids, *kinds, *parts]))).to_pylist()
    found: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        called = _name(row, kinds, parts)
        if row[ids] is not None and called and found.setdefault(str(row[ids]), called) != called:
            raise InputError(f"{where}: {row[ids]!r} has two names, the second is in row {number}; keep one")
    return found


def _name(row: dict[str, Any], kinds: list[str], parts: list[str]) -> str:
    joined = " ".join(str(row[part]).strip() for part in parts if row[part] is not None).strip()
    candidates = (str(row[kind]).strip() for kind in kinds if row[kind] is not None)
    return joined or next((name for name in candidates if name), "")


def _column(columns: list[str], names: tuple[str, ...]) -> str | None:
    wanted = [_plain(name) for name in names]
    found = [name for name in columns if _plain(name) in wanted]
    return min(found, key=lambda name: wanted.index(_plain(name)), default=None)


def _plain(name: str) -> str:
    return re.sub(r"[\s._\-]", "", name).casefold()
