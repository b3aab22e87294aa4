"""Names that spreadsheets take for formulas. conal never changes a name, so it tells users about them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from conal.data.encoding import Names
from conal.errors import DataWarning, examples, warn

__all__ = ["FORMULA_REMEDY", "formulas_among", "warn_of_formulas"]

_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA_REMEDY = "open CSV files of these names in a spreadsheet by importing the columns as text, or use Parquet"


def formulas_among(names: Names | Iterable[object]) -> list[str]:
    """Names that begin like a formula and are no numbers.

    >>> formulas_among(["=1+1", "-1", "@ann", "a-b"])
    ['=1+1', '@ann']
    """
    if isinstance(names, np.ndarray) and names.dtype != object:
        return []
    texts = (name for name in names if isinstance(name, str) and _FORMULA.match(name) and len(name) > 1)
    return [name for name in texts if not _NUMBER.fullmatch(name)]


def warn_of_formulas(tables: Iterable[pa.Table], where: object) -> None:
    """Warn once if a spreadsheet would calculate some names in CSV or TSV files."""
    found = list(dict.fromkeys(name for table in tables for name in _formulas_in(table)))
    if found:
        warn(
            f"{where}: spreadsheets take {len(found):,} names for formulas: {examples(found)}; {FORMULA_REMEDY}",
            DataWarning,
        )


def _formulas_in(table: pa.Table) -> list[str]:
    import pyarrow.compute as pc

    found = formulas_among(table.column_names)
    for column in table.columns:
        if pa.types.is_string(column.type):
            suspects = column.filter(pc.match_substring_regex(column, f"^{_FORMULA.pattern}"))
            found += formulas_among(suspects.unique().to_pylist())
    return found
