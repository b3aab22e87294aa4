"""``report.json``: its format, its version, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast

from conal.errors import InputError
from conal.findings.annotators import AnnotatorSection
from conal.findings.common_confusion import ConfusionSection
from conal.findings.crowd import CrowdSection
from conal.findings.model import ModelSection
from conal.findings.suggestions import SuggestionSection
from conal.findings.tasks import TaskSection

__all__ = ["REPORT_FORMAT", "REPORT_VERSION", "Report", "checked_report"]

REPORT_FORMAT = "conal-report"
REPORT_VERSION = 1
"""Grows when a section changes in a way that earlier versions of conal cannot show."""


class Report(TypedDict):
    """The whole of ``report.json``. Findings of other distributions add sections under their names."""

    format: str
    format_version: int
    confidence: float
    classes: list[Any]
    crowd: CrowdSection
    common_confusion: ConfusionSection
    annotators: AnnotatorSection
    tasks: TaskSection
    suggestions: SuggestionSection
    model: ModelSection


def checked_report(document: Mapping[str, Any], where: str = "report.json") -> Report:
    """A document as a report; another format, or a newer version, is an error."""
    version = document.get("format_version", REPORT_VERSION + 1)
    if document.get("format") != REPORT_FORMAT or version > REPORT_VERSION:
        raise InputError(
            f"{where}: is not a report that this version of conal reads; fit the model again, or upgrade conal"
        )
    return cast(Report, document)
