"""The most important sentences of all findings."""

from __future__ import annotations

from typing import Any, cast

from markupsafe import Markup

from conal.findings import Report
from conal.findings.base import all_findings

__all__ = ["headlines"]


def headlines(report: Report) -> list[Markup]:
    """The headlines, most important first; findings without a headline are left out."""
    sections = cast(dict[str, Any], report)
    present = [finding for finding in all_findings() if finding.name in sections]
    return [sentence for finding in present for sentence in finding.headlines(sections[finding.name], report)]
