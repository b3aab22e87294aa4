"""All findings about a crowd: what a section of the report is, and the tables and ``report.json`` that they make."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from jinja2 import UndefinedError
from markupsafe import Markup

from conal._registry import Registry
from conal.data.encoding import Names
from conal.errors import InputError
from conal.io.images import Thumbnail
from conal.io.model_folder import ColumnKind, NamesOf, read_results
from conal.report.evidence import Evidence, Plain, Report, is_embedded, plain_names
from conal.report.intervals import CONFIDENCE, Intervals, intervals_of

# What a finding is, and the registry of all findings: one file each, here or in another distribution.

F = TypeVar("F", bound="type[Finding]")

RESERVED = ("format", "format_version", "confidence", "classes", "pictures")
"""Keys of ``report.json`` that frame the sections."""


class Finding(ABC):
    """One kind of result about a crowd: a section of ``report.json``, and optionally a table and sentences.

    Subclass it in a file of its own and decorate the class with :func:`register`. The report, the tables of a model
    folder and the page then include it. A section is plain data, ready for JSON.
    ``CONTRIBUTING.md`` has an example.
    """

    name: ClassVar[str]
    """Key of the section in ``report.json``; set by :func:`register`."""
    rank: ClassVar[float] = 100
    """Sections and headlines are in the order of their ranks. The built-in ones are contradiction 5, next_steps 6,
    crowd 10, common_confusion 20, groups 26, jury 27, annotators 30, tasks 40, suggestions 50, plan 51, and model or
    aggregation 1000."""
    title: ClassVar[str] = ""
    """Heading of the panel on the page."""
    table: ClassVar[str | None] = None
    """File of the model folder that :meth:`columns` makes, or adds to if a finding of lower rank makes it."""
    holds: ClassVar[Mapping[str, ColumnKind]] = {}
    """Columns of the table that contain names ("task", "annotator", "class") or counts ("count"); a loaded model reads
    all other numbers as floats."""

    def applies(self, evidence: Evidence) -> bool:
        """Whether there is anything to say."""
        return True

    @abstractmethod
    def section(self, findings: Findings) -> Plain:
        """The section of ``report.json``, from the evidence, the intervals and other findings."""

    def columns(self, findings: Findings) -> pa.Table:
        """Columns for the table, for findings that name one."""
        raise NotImplementedError(f"finding {self.name!r} names a table and must make its columns")

    def column_kinds(self, classes: Names) -> Mapping[str, ColumnKind]:
        """As :attr:`holds`, for tables whose columns depend on the names of the classes."""
        return self.holds

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Sentences for the list of all findings. Put names into them by ``Markup(...).format``, which escapes them."""
        yield from ()


findings_registry: Registry[Finding] = Registry("finding", "conal.report.sections", makes_instances=True)


def register(name: str) -> Callable[[F], F]:
    """Decorate a :class:`Finding` to add its section to ``report.json`` under ``name``."""
    if name in RESERVED:
        raise ValueError(f"{name!r} is a key of report.json itself; choose another name for the finding")
    return findings_registry.register(name)


def all_findings() -> list[Finding]:
    """Every registered finding, in the order of the report."""
    found = [findings_registry.get(name) for name in findings_registry.names()]
    return sorted(found, key=lambda finding: (finding.rank, finding.name))


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


def read_tables(folder: Path, files: Iterable[str], names: NamesOf, columns: Mapping[str, str]) -> dict[str, pa.Table]:
    """The tables of a model folder, as :class:`conal.report.findings.Findings` made them.

    Names of classes and annotators become what they were; ids of tasks are text unless all of them are numbers.

    Parameters
    ----------
    names : mapping
        Kind of column ("class", "annotator") to the names that it may contain.
    columns : mapping
        What the folder remembers of the user's columns: the tasks in labels.csv may be called so.
    """
    kinds: dict[str, dict[str, ColumnKind]] = {file: {} for file in sorted(files) if file.endswith(".csv")}
    for finding in all_findings():
        if finding.table in kinds:
            kinds[finding.table] |= finding.column_kinds(names["class"])
    called = columns.get("tasks_called", "task")
    if "labels.csv" in kinds:
        kinds["labels.csv"].setdefault(called, "task")
    tables = {file: read_results(folder / file, each, names) for file, each in kinds.items()}
    labels = tables.get("labels.csv")
    if labels is not None and "task" not in labels.column_names:
        tables["labels.csv"] = labels.rename_columns([{called: "task"}.get(name, name) for name in labels.column_names])
    return tables


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
            more = self.columns(name)
            if file == findings_registry.get("annotators").table:  # only annotators who may be listed
                more = self.evidence.privacy.table(more, self.evidence.annotations.labels_per_annotator())
            for column in more.column_names:
                table = table.append_column(column, more[column])
        return table

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
        problem = next(_damage(report), None)
    if problem is not None:
        raise InputError(f"{where}: is damaged, {problem}; fit the model again")
    return report


@contextmanager
def damage_refused(where: str) -> Iterator[None]:
    """Content of a report that does not fit together is an error of the file, whatever failed."""
    try:
        yield
    except (UndefinedError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: is damaged ({error}); fit the model again") from error


def origin_of(report: Report) -> Plain:
    """How the labels were inferred: by a trained model, or from labels alone."""
    origin: Plain = report["model" if "model" in report else "aggregation"]
    return origin


def _damage(report: Report) -> Iterator[str]:
    """What is wrong with the content of a report, as far as a page would not notice it."""
    try:
        json.dumps(report, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:  # JSON can contain half of a surrogate pair, which no page can
        yield f"a name contains an incomplete character ({error.object[error.start]!r})"
    if ("model" in report) == ("aggregation" in report):
        yield "model is missing"
    made = thumbnails(report)
    if not all(is_embedded(picture["uri"]) for picture in made):
        yield "pictures.thumbnails has something else than PNG and JPEG"
    lists = [*report["tasks"].values(), report["suggestions"]]
    rows = [row for found in lists for row in found["rows"]]
    rows += [row for person in report["annotators"]["rows"] for row in person.get("doubtful", [])]
    if not all(0 <= row["picture"] < len(made) for row in rows if "picture" in row):
        yield "rows show pictures that are not in pictures.thumbnails"
