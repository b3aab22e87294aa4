"""``report.json``: its format, its version, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast

from conal._support.shapes import mismatch
from conal.errors import InputError
from conal.findings.aggregation import AggregationSection
from conal.findings.annotators import AnnotatorSection
from conal.findings.base import all_findings
from conal.findings.common_confusion import ConfusionSection
from conal.findings.crowd import CrowdSection
from conal.findings.gold_rates import GoldRatesSection
from conal.findings.groups import GroupsSection
from conal.findings.jury import JurySection
from conal.findings.model import ModelSection
from conal.findings.next_steps import NextStepsSection
from conal.findings.plan import PlanSection
from conal.findings.rows import PictureSection, is_embedded
from conal.findings.suggestions import SuggestionSection
from conal.findings.tasks import TaskSection
from conal.io.images import Thumbnail

__all__ = ["REPORT_FORMAT", "REPORT_VERSION", "Report", "checked_report", "origin_of", "thumbnails"]

REPORT_FORMAT = "conal-report"
REPORT_VERSION = 1
"""Grows when a section changes in a way that earlier versions of conal cannot show."""


class Report(TypedDict):
    """The whole of ``report.json``. Findings of other distributions add sections under their names.

    ``model`` says how a classifier was trained, and ``aggregation`` how labels alone were aggregated; a report has one
    of them.
    """

    format: str
    format_version: int
    confidence: float
    classes: list[Any]
    crowd: CrowdSection
    common_confusion: ConfusionSection
    annotators: AnnotatorSection
    tasks: TaskSection
    suggestions: SuggestionSection
    model: NotRequired[ModelSection]
    aggregation: NotRequired[AggregationSection]
    gold_rates: NotRequired[GoldRatesSection]
    groups: NotRequired[GroupsSection]
    jury: NotRequired[JurySection]
    next_steps: NotRequired[NextStepsSection]
    plan: NotRequired[PlanSection]
    pictures: NotRequired[PictureSection]


def thumbnails(report: Report) -> list[Thumbnail]:
    """All pictures of a report."""
    return report["pictures"]["thumbnails"] if "pictures" in report else []


def checked_report(document: Mapping[str, Any], where: str = "report.json") -> Report:
    """A document as a report; another format, a newer version, or content of other types is an error."""
    version = document.get("format_version")
    is_known = isinstance(version, int) and version <= REPORT_VERSION
    if document.get("format") != REPORT_FORMAT or not is_known:
        raise InputError(
            f"{where}: is not a report that this version of conal reads; fit the model again, or upgrade conal"
        )
    report = cast(Report, document)
    problem = _half_character(document) or _origin_missing(document)
    problem = problem or mismatch(document, Report) or _of_findings(document) or _disagreement(report)
    if problem is not None:
        raise InputError(f"{where}: is damaged, {problem}; fit the model again")
    return report


def _of_findings(document: Mapping[str, Any]) -> str | None:
    """What differs from the declared type of a finding's section; findings of other distributions check themselves."""
    own = [finding for finding in all_findings() if type(finding).__module__.startswith(f"{__package__}.")]
    found = (mismatch(document[each.name], each.section_type(), each.name) for each in own if each.name in document)
    return next((problem for problem in found if problem is not None), None)


def origin_of(report: Report) -> ModelSection | AggregationSection:
    """How the labels were inferred: by a trained model, or from labels alone."""
    return report["model"] if "model" in report else report["aggregation"]


def _origin_missing(document: Mapping[str, Any]) -> str | None:
    """A report says how its labels came about, in one of two sections."""
    return "model is missing" if ("model" in document) == ("aggregation" in document) else None


def _disagreement(report: Report) -> str | None:
    """What does not fit together: classes that matrices show and do not exist, and matrices of another size."""
    n_classes, confusion = len(report["classes"]), report["common_confusion"]
    if not all(0 <= k < n_classes for k in confusion["classes_shown"]):
        return f"common_confusion.classes_shown has other numbers than those of the {n_classes} classes"
    size, people = len(confusion["classes_shown"]), report["annotators"]["rows"]
    grouped = report["groups"]["rows"] if "groups" in report else []
    matrices = {f"annotators.rows[{k}].matrix": row["matrix"] for k, row in enumerate(people) if "matrix" in row}
    matrices |= {f"groups.rows[{k}].matrix": row["matrix"] for k, row in enumerate(grouped)}
    for place, matrix in ({"common_confusion.matrix": confusion["matrix"]} | matrices).items():
        if len(matrix) < size or any(len(row) < size for row in matrix):
            return f"{place} has fewer rows or columns than the {size} classes that are shown"
    if any(("matrix" in row) != ("classes_met" in row) for row in people):
        return "annotators.rows has matrices without classes_met"
    votes = [vote for found in cast(Any, report["tasks"]).values() for row in found["rows"] for vote in row["votes"]]
    if not all(len(vote) == 2 and type(vote[1]) is int for vote in votes):
        return "votes in tasks are not pairs of a class and a number"
    if "plan" in report and not report["plan"]["curve"]:
        return "plan.curve is empty"
    advised = report["next_steps"]["people"] if "next_steps" in report else []
    if not all(0 <= person["place"] < len(people) for person in advised):
        return "next_steps.people has annotators who are not in annotators.rows"
    smaller = report["jury"]["smaller"] if "jury" in report else None
    if smaller and smaller["chosen"] is not None and not 0 <= smaller["chosen"] < len(smaller["rows"]):
        return "jury.smaller.chosen is no row of jury.smaller.rows"
    return _pictures(report)


def _pictures(report: Report) -> str | None:
    """Pictures that are none, and rows that show one that is not there."""
    made = thumbnails(report)
    if not all(is_embedded(picture["uri"]) for picture in made):
        return "pictures.thumbnails has something else than PNG and JPEG"
    lists = [*cast(Any, report["tasks"]).values(), report["suggestions"]]
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
