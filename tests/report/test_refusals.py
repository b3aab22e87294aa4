"""Refused answers in the report: who declines, how often, and on which classes."""

from __future__ import annotations

import numpy as np

from conal import Annotations
from conal.aggregation import DawidSkene
from conal.aggregation.base import abstention_rates
from conal.report.evidence import AnnotatorPrivacy, Evidence
from conal.report.findings import Findings, all_findings
from conal.report.page import render

NAMES = ["<b>ann</b>", "bob", "eve"]


def declining() -> Annotations:
    """Ann declines what is 1 in two of three cases, Bob one task."""
    z = np.arange(36) % 2
    labels = np.repeat(z[:, None], 3, axis=1).astype(object)
    labels[(z == 1) & (np.arange(36) % 3 > 0), 0] = "?"
    labels[4, 1] = "?"
    return Annotations.from_matrix(labels, annotator_ids=NAMES, abstain="?")


def test_rows_say_who_declines_and_on_which_class() -> None:
    fitted = DawidSkene().fit(declining())
    section = fitted.results_.report["refusals"]
    assert section["total"] == 13
    assert section["refused_share"] == 13 / 108
    first, second = section["rows"]
    rates = abstention_rates(fitted.annotations_, fitted.probas_)
    assert (first["annotator"], first["asked"], first["refused"]) == (NAMES[0], 36, 12)
    assert (first["most_often_on"], first["there_share"]) == (1, rates[0, 1])
    assert first["there_share"] > 0.5
    assert (second["annotator"], second["refused"]) == ("bob", 1)


def test_the_page_escapes_names() -> None:
    page = render(DawidSkene().fit(declining()).results_.report)
    assert "Refused answers" in page
    assert "most by &lt;b&gt;ann&lt;/b&gt;: 12 of 36" in page
    assert NAMES[0] not in page.split("<script")[0]


def test_nothing_is_said_where_nobody_declines() -> None:
    (finding,) = [each for each in all_findings() if each.name == "refusals"]
    fitted = DawidSkene().fit(declining().replace(abstentions=None))
    assert "refusals" not in fitted.results_.report
    assert not finding.applies(fitted.results_.evidence)


def test_few_labels_are_not_told() -> None:
    crowd = declining()
    pi = np.stack([np.eye(2)] * 3)
    evidence = Evidence(crowd, np.eye(2)[np.arange(36) % 2], None, np.eye(2), pi, privacy=AnnotatorPrivacy(30))
    (finding,) = [each for each in all_findings() if each.name == "refusals"]
    (row,) = finding.section(Findings(evidence))["rows"]
    assert (row["annotator"], row["refused"]) == ("bob", 0)
    assert row["there_share"] == round(row["there_share"], 2)
