"""What a finding is, and the registry of all findings: one file each, here or in another distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin

import pyarrow as pa
from markupsafe import Markup

from conal._support.registry import Registry
from conal.data.encoding import Names
from conal.findings.panel import Panel, panel_of
from conal.io.results import ColumnKind

if TYPE_CHECKING:
    from conal.findings.collection import Findings
    from conal.findings.evidence import Evidence
    from conal.findings.report import Report

__all__ = ["Finding", "all_findings", "findings_registry", "register"]

Section = TypeVar("Section")
F = TypeVar("F", bound="type[Finding[Any]]")

RESERVED = ("format", "format_version", "confidence", "classes", "pictures")
"""Keys of ``report.json`` that frame the sections."""


class Finding(ABC, Generic[Section]):
    """One kind of result about a crowd: a section of ``report.json``, and optionally a table, sentences and a panel.

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

    @classmethod
    def section_type(cls) -> Any:
        """The declared type of the section: ``Section`` of ``Finding[Section]``."""
        bases = getattr(cls, "__orig_bases__", ())
        return next((get_args(base)[0] for base in bases if get_origin(base) is Finding), Any)

    def applies(self, evidence: Evidence) -> bool:
        """Whether there is anything to say."""
        return True

    @abstractmethod
    def section(self, findings: Findings) -> Section:
        """The section of ``report.json``, from the evidence, the intervals and other findings."""

    def columns(self, findings: Findings) -> pa.Table:
        """Columns for the table, for findings that name one."""
        raise NotImplementedError(f"finding {self.name!r} names a table and must make its columns")

    def stored_columns(self, section: Section) -> pa.Table | None:
        """The same columns from a stored section, if it contains them all; the file is read otherwise."""
        return None

    def column_kinds(self, classes: Names) -> Mapping[str, ColumnKind]:
        """As :attr:`holds`, for tables whose columns depend on the names of the classes."""
        return self.holds

    def headlines(self, section: Section, report: Report) -> Iterator[Markup]:
        """Sentences for the top of the page. Put names into them by ``Markup(...).format``, which escapes them."""
        yield from ()

    def panel(self, section: Section) -> Panel:
        """What the page shows, for findings without a template of their own."""
        return panel_of(self.name, section, title=self.title, file=self.table)


findings_registry: Registry[Finding[Any]] = Registry("finding", "conal.findings")


def register(name: str) -> Callable[[F], F]:
    """Decorate a :class:`Finding` to add its section to ``report.json`` under ``name``."""
    if name in RESERVED:
        raise ValueError(f"{name!r} is a key of report.json itself; choose another name for the finding")

    def enter(cls: F) -> F:
        cls.name = name
        findings_registry.register(name)(cls())
        return cls

    return enter


def all_findings() -> list[Finding[Any]]:
    """Every registered finding, in the order of the report."""
    found = [findings_registry.get(name) for name in findings_registry.names()]
    return sorted(found, key=lambda finding: (finding.rank, finding.name))
