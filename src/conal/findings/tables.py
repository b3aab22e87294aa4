"""Tables of findings: computed when they are looked at, and read back with the types that they were written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from conal.errors import ModelFolderError
from conal.findings.base import Finding, all_findings
from conal.findings.report import Report
from conal.io.model_folder import REPORT
from conal.io.results import ColumnKind, NamesOf, read_results

__all__ = ["Tables", "read_tables"]


class Tables(Mapping[str, pa.Table]):
    """File name to table, each made on first use.

    >>> tables = Tables(["a.csv"], lambda name: pa.table({"file": [name]}))
    >>> tables, tables["a.csv"]["file"].to_pylist()
    (Tables(a.csv), ['a.csv'])
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], pa.Table]) -> None:
        self._made: dict[str, pa.Table | None] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> pa.Table:
        table = self._made[name]
        if table is None:
            table = self._made[name] = self._make(name)
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return f"Tables({', '.join(self)})"


def read_tables(folder: Path, files: Iterable[str], report: Report, names: NamesOf) -> dict[str, pa.Table]:
    """The tables of a model folder, as :class:`conal.findings.Findings` made them.

    Names of classes and annotators become what they were; ids of tasks are text unless all of them are numbers.

    Parameters
    ----------
    names : mapping
        Kind of column ("class", "annotator") to the names that it may contain.
    """
    return {file: _read_table(folder / file, report, names) for file in sorted(files) if file.endswith(".csv")}


def _read_table(path: Path, report: Report, names: NamesOf) -> pa.Table:
    owners = [finding for finding in all_findings() if finding.table == path.name]
    kinds: dict[str, ColumnKind] = {}
    for finding in owners:
        kinds |= finding.column_kinds(names["class"])
    table = read_results(path, kinds, names)
    stored = [_stored_columns(finding, report) for finding in owners]
    columns = {name: table[name] for name in table.column_names}
    for found in stored:
        columns |= found
    try:
        return pa.table(columns)
    except pa.ArrowInvalid as error:
        raise ModelFolderError(f"{path}: does not match {REPORT}, so it was changed; fit the model again") from error


def _stored_columns(finding: Finding[Any], report: Report) -> dict[str, pa.ChunkedArray]:
    """Columns for which the report is more exact than the text file."""
    section = cast(dict[str, Any], report).get(finding.name)
    found = None if section is None else finding.stored_columns(section)
    return {} if found is None else {name: found[name] for name in found.column_names}
