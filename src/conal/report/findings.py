"""All findings about a crowd: the tables of a model folder and ``report.json``, each computed once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import UndefinedError

from conal.errors import InputError
from conal.io.images import Thumbnail
from conal.io.results import ColumnKind, NamesOf, read_results
from conal.report.evidence import Evidence, is_embedded, plain_names
from conal.report.intervals import CONFIDENCE, Intervals, intervals_of
from conal.report.section import Finding, Plain, Report, all_findings, findings_registry

# ``report.json``: its format, its version, and what is in it.

REPORT_FORMAT = "conal-report"
REPORT_VERSION = 1
"""Grows when a section changes in a way that earlier versions of conal cannot show."""


def thumbnails(report: Report) -> list[Thumbnail]:
    """All pictures of a report."""
    return report["pictures"]["thumbnails"] if "pictures" in report else []


def checked_report(report: Report, where: str = "report.json") -> Report:
    """The same report; another format, a newer version, or damage is an error."""
    version = report.get("format_version")
    is_known = isinstance(version, int) and version <= REPORT_VERSION
    if report.get("format") != REPORT_FORMAT or not is_known:
        raise InputError(
            f"{where}: is not a report that this version of conal reads; fit the model again, or upgrade conal"
        )
    with damage_refused(where):
        problem = _half_character(report) or _origin_missing(report) or _pictures(report)
    if problem is not None:
        raise InputError(f"{where}: is damaged, {problem}; fit the model again")
    return report


@contextmanager
def damage_refused(where: str) -> Iterator[None]:
    """Content of a report that does not fit together is an error of the file, whatever failed."""
    try:
        yield
    except (UndefinedError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: is damaged ({error}); fit the model again") from error


def origin_of(report: Report) -> Plain:
    """How the labels were inferred: by a trained model, or from labels alone."""
    origin: Plain = report["model" if "model" in report else "aggregation"]
    return origin


def _origin_missing(document: Mapping[str, Any]) -> str | None:
    """A report says how its labels came about, in one of two sections."""
    return "model is missing" if ("model" in document) == ("aggregation" in document) else None


def _pictures(report: Report) -> str | None:
    """Pictures that are none, and rows that show one that is not there."""
    made = thumbnails(report)
    if not all(is_embedded(picture["uri"]) for picture in made):
        return "pictures.thumbnails has something else than PNG and JPEG"
    lists = [*report["tasks"].values(), report["suggestions"]]
    rows = [row for found in lists for row in found["rows"]]
    rows += [row for person in report["annotators"]["rows"] for row in person.get("doubtful", [])]
    if not all(0 <= row["picture"] < len(made) for row in rows if "picture" in row):
        return "rows show pictures that are not in pictures.thumbnails"
    return None


def _half_character(document: Mapping[str, Any]) -> str | None:
    """JSON can contain half of a surrogate pair, which no page can."""
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        return f"a name contains an incomplete character ({error.object[error.start]!r})"
    return None


# Tables of findings: computed when they are looked at, and read back with the types that they were written with.


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


def read_tables(folder: Path, files: Iterable[str], names: NamesOf) -> dict[str, pa.Table]:
    """The tables of a model folder, as :class:`conal.report.findings.Findings` made them.

    Names of classes and annotators become what they were; ids of tasks are text unless all of them are numbers.

    Parameters
    ----------
    names : mapping
        Kind of column ("class", "annotator") to the names that it may contain.
    """
    return {file: _read_table(folder / file, names) for file in sorted(files) if file.endswith(".csv")}


def _read_table(path: Path, names: NamesOf) -> pa.Table:
    kinds: dict[str, ColumnKind] = {}
    for finding in all_findings():
        if finding.table == path.name:
            kinds |= finding.column_kinds(names["class"])
    return read_results(path, kinds, names)


# All findings about a crowd: the tables of a model folder and ``report.json``, each computed once, when needed.


class Findings:
    """Findings about the crowd, its confusion, the annotators and the tasks.

    Parameters
    ----------
    evidence : Evidence
    seed : int
        Seed of the draws behind the intervals; the same seed gives the same intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from conal.data.annotations import Annotations
    >>> crowd = Annotations.from_matrix([[0, 0, 1], [1, 1, 1]])
    >>> q = np.array([[0.8, 0.2], [0.1, 0.9]])
    >>> found = Findings(Evidence(crowd, q, q, np.eye(2), np.stack([np.eye(2)] * 3)))
    >>> found.report["crowd"]["n_annotations"], sorted(found.tables)
    (6, ['annotators.csv', 'common_confusion.csv', 'labels.csv', 'suggestions.csv'])
    """

    def __init__(self, evidence: Evidence, seed: int = 0) -> None:
        self.evidence = evidence
        self.seed = seed
        self._sections: dict[str, Any] = {}
        self._columns: dict[str, pa.Table] = {}

    def with_handicap(self, handicap: float) -> Findings:
        """The same findings with another handicap of people where models are compared with them."""
        return Findings(replace(self.evidence, handicap=handicap), self.seed)

    @cached_property
    def intervals(self) -> Intervals:
        """Intervals of the annotators' quality and of the confusion; the expensive part."""
        return intervals_of(self.evidence, self.seed)

    def section(self, name: str) -> Any:
        """One finding's section of ``report.json``."""
        if name not in self._sections:
            self._sections[name] = findings_registry.get(name).section(self)
        return self._sections[name]

    def columns(self, name: str) -> pa.Table:
        """One finding's own columns, without what others add to its table."""
        if name not in self._columns:
            self._columns[name] = findings_registry.get(name).columns(self)
        return self._columns[name]

    @cached_property
    def tables(self) -> Mapping[str, pa.Table]:
        """File name to table; a table is computed when it is looked at."""
        return Tables(sorted({finding.table for finding in self.applicable if finding.table}), self.table)

    def table(self, file: str) -> pa.Table:
        """A table of the model folder: the columns of every finding that names it, in the order of their ranks."""
        names = [finding.name for finding in self.applicable if finding.table == file]
        table = self.columns(names[0])
        for name in names[1:]:
            more = self._visible(file, self.columns(name))
            for column in more.column_names:
                table = table.append_column(column, more[column])
        return table

    def _visible(self, file: str, columns: pa.Table) -> pa.Table:
        """Columns that another finding adds to the annotators' table, for the annotators who may be listed."""
        if file != findings_registry.get("annotators").table:
            return columns
        return self.evidence.privacy.table(columns, self.evidence.annotations.labels_per_annotator())

    @cached_property
    def report(self) -> Report:
        """The content of ``report.json``."""
        frame = {
            "format": REPORT_FORMAT,
            "format_version": REPORT_VERSION,
            "confidence": CONFIDENCE,
            "classes": plain_names(self.evidence.annotations.classes),
        }
        return frame | {finding.name: self.section(finding.name) for finding in self.applicable}

    @cached_property
    def applicable(self) -> list[Finding]:
        """The findings that this evidence has something for."""
        return [finding for finding in all_findings() if finding.applies(self.evidence)]
