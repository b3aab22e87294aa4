"""Abstentions: who declines how often, and on which classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from conal._arrays import FloatArray
from conal.aggregation.base import abstention_rates
from conal.report.evidence import Evidence, plain_names
from conal.report.section import Finding, Plain, Report, count, percent, register, short

if TYPE_CHECKING:
    from conal.report.findings import Findings

MAX_SHOWN = 300


@register("refusals")
class Refusals(Finding):
    """How often annotators decline to answer, and on which classes; only where refused answers were listed.

    *RefusalRow*: An annotator who declined, and the class on whose tasks most often, with the rate there. Keys:
    ``annotator``, ``asked``, ``refused``, ``refused_share``, ``most_often_on``, ``there_share``.

    *RefusalSection*: How many answers were refused, in all and by whom. Keys: ``total``, ``refused_share``, ``text``,
    ``rows``.
    """

    title = "Refused answers"
    rank = 36

    def applies(self, evidence: Evidence) -> bool:
        """Whether somebody declined."""
        refused = evidence.annotations.abstentions
        return refused is not None and refused.n_annotations > 0

    def section(self, findings: Findings) -> Plain:
        """One row per annotator who declined and may be listed, the most frequent first."""
        evidence = findings.evidence
        crowd = evidence.annotations
        if crowd.abstentions is None:
            return {"total": 0, "refused_share": 0.0, "text": "", "rows": []}
        declined = crowd.abstentions.labels_per_annotator()
        asked = declined + crowd.labels_per_annotator()
        listed = np.flatnonzero((declined > 0) & evidence.visible_annotators)
        order = listed[np.argsort(-declined[listed], kind="stable")][:MAX_SHOWN]
        rates = abstention_rates(crowd, evidence.posterior)
        rows = [_row(evidence, r, (declined[r], asked[r]), rates[r]) for r in order.tolist()]
        total = int(declined.sum())
        text = (
            "Rates by class are drawn to the annotator's overall rate where the annotator met few tasks of a class. "
            "Who declines some classes more often than others says something about the truth by declining; aggregators "
            "that infer probabilities use that, classifiers do not."
        )
        return {"total": total, "refused_share": total / max(int(asked.sum()), 1), "text": text, "rows": rows}

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """How many answers were refused, and by whom most often."""
        most = Markup("").join(
            Markup(", most by <b>{}</b>: {} of {}").format(
                short(row["annotator"]), count(row["refused"]), count(row["asked"])
            )
            for row in section["rows"][:1]
        )
        verb = "was" if section["total"] == 1 else "were"
        yield Markup("<b>{}</b> ({}) {} refused{}.").format(
            count(section["total"], "answer", "answers"), percent(section["refused_share"], 1), verb, most
        )


def _row(evidence: Evidence, r: int, counts: tuple[int, int], rates: FloatArray) -> Plain:
    """What is shown of an annotator, from the numbers of tasks declined and asked about, and rates by class (C,)."""
    crowd, privacy, most = evidence.annotations, evidence.privacy, int(rates.argmax())
    refused, asked = privacy.counts(np.array(counts)).tolist()
    return {
        "annotator": plain_names(crowd.annotator_ids[[r]])[0],
        "asked": asked,
        "refused": refused,
        "refused_share": refused / max(asked, 1),
        "most_often_on": plain_names(crowd.classes[[most]])[0],
        "there_share": float(privacy.shares(rates[most])),
    }
