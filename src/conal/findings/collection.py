"""All findings about a crowd: the tables of a model folder and ``report.json``, each computed once, when needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import pyarrow as pa

from conal.findings.base import Finding, all_findings, findings_registry
from conal.findings.evidence import Evidence, plain_names
from conal.findings.intervals import CONFIDENCE, Intervals, intervals_of
from conal.findings.report import REPORT_FORMAT, REPORT_VERSION, Report
from conal.findings.tables import Tables

__all__ = ["Findings"]


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
            more = self._discreet(file, self.columns(name))
            for column in more.column_names:
                table = table.append_column(column, more[column])
        return table

    def _discreet(self, file: str, columns: pa.Table) -> pa.Table:
        """Columns that another finding adds to the annotators' table, for the annotators who may be listed."""
        discretion, crowd = self.evidence.discretion, self.evidence.annotations
        if discretion is None or file != findings_registry.get("annotators").table:
            return columns
        return discretion.table(columns, crowd.labels_per_annotator())

    @cached_property
    def report(self) -> Report:
        """The content of ``report.json``."""
        frame = {
            "format": REPORT_FORMAT,
            "format_version": REPORT_VERSION,
            "confidence": CONFIDENCE,
            "classes": plain_names(self.evidence.annotations.classes),
        }
        return cast(Report, frame | {finding.name: self.section(finding.name) for finding in self.applicable})

    @cached_property
    def applicable(self) -> list[Finding[Any]]:
        """The findings that this evidence has something for."""
        return [finding for finding in all_findings() if finding.applies(self.evidence)]
