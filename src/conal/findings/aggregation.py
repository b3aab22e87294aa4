"""How labels were inferred without a classifier, and how to reproduce it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from conal.findings.base import Finding, register
from conal.findings.evidence import Evidence
from conal.findings.model import ESTIMATES
from conal.findings.wording import count

if TYPE_CHECKING:
    from conal.findings.collection import Findings

__all__ = ["Aggregation", "AggregationSection", "aggregation_story"]


class AggregationSection(TypedDict):
    """Aggregator, parameters and versions, how it ended, and the command that gives the same labels.

    ``converged`` and ``n_iter`` are None for aggregators that do not iterate.
    """

    method: str
    separates_noise: bool
    converged: bool | None
    n_iter: int | None
    n_true_labels: int
    parameters: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str


@register("aggregation")
class Aggregation(Finding[AggregationSection]):
    """How the labels were inferred; the last section of a report about labels alone."""

    rank = 1000
    title = "Aggregation"

    def applies(self, evidence: Evidence) -> bool:
        """Only evidence of an aggregator has this section."""
        return evidence.aggregation is not None

    def section(self, findings: Findings) -> AggregationSection:
        """The section of the aggregator."""
        assert findings.evidence.aggregation is not None  # noqa: S101 - it applies
        return findings.evidence.aggregation


def aggregation_story(section: AggregationSection) -> list[str]:
    """How the labels were inferred, and what that means for the figures on the page."""
    known = section["n_true_labels"]
    given = count(known, "true label was", "true labels were")
    return [
        "The labels were inferred from the annotations alone, without features and without a classifier."
        + _ending(section),
        *([f"{given} given and taken as certain. {ESTIMATES}"] if known else []),
        "Annotations alone cannot show a mistake that most people make on the same tasks. A classifier also learns "
        "from the features.",
    ]


def _ending(section: AggregationSection) -> str:
    if section["converged"] is None:
        return ""
    iterations = count(section["n_iter"], "iteration", "iterations")
    if section["converged"]:
        return f" The estimate converged after {iterations}."
    return f" The estimate had not converged after {iterations}: figures may change with a higher n_iter."
