"""A new finding is one file: it reaches report.json, the tables and the page, and what it names is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from markupsafe import Markup

import conal
from conal.data.annotations import Annotations
from conal.io.model_folder import where_labelled
from conal.report import findings as base
from conal.report.evidence import Evidence, Plain, Report, plain_names
from conal.report.findings import Finding, Findings, register
from conal.report.page import panel_of, render, write_report
from helpers.models import model_section

HOSTILE = '<img src=x onerror="alert(1)">'
ESCAPED = "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the registry, so that findings of a test end with it."""
    base.findings_registry.discover()
    monkeypatch.setattr(base.findings_registry, "_entries", dict(base.findings_registry._entries))


def register_toy() -> None:
    """All of a finding: section, headline, columns."""

    @register("diligence")
    class Diligence(Finding):
        """How much each annotator did."""

        rank = 45
        title = f"Diligence {HOSTILE}"
        table = "annotators.csv"
        holds = {"rank": "count"}  # noqa: RUF012

        def section(self, findings: Findings) -> Plain:
            crowd = findings.evidence.annotations
            shares = findings.columns(self.name)["share_of_labels"].to_pylist()
            names = plain_names(crowd.annotator_ids)
            rows = [{"annotator": name, "share_of_labels": share} for name, share in zip(names, shares, strict=True)]
            return {"text": f"Most labels come from {names[0]}.", "rows": rows}

        def columns(self, findings: Findings) -> pa.Table:
            crowd = findings.evidence.annotations
            given = crowd.labels_per_annotator()
            order = np.argsort(np.argsort(-given, kind="stable"))
            return pa.table({"share_of_labels": where_labelled(crowd, given / given.sum()), "rank": order})

        def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
            yield Markup("<b>{}</b> is diligent.").format(section["rows"][0]["annotator"])


def crowd_of(names: list[str]) -> Annotations:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=(40, len(names)))
    t, a = np.nonzero(labels >= 0)
    return Annotations(t, a, labels[t, a], task_ids=np.arange(40), annotator_ids=names, classes=["x", "y"])


@pytest.mark.usefixtures("registry")
def test_one_file_is_enough(tmp_path: Path) -> None:
    register_toy()
    crowd = crowd_of([HOSTILE, "ann", "bob"])
    x = np.random.default_rng(1).normal(size=(40, 3))
    clf = conal.CoNAL(epochs=2, verbose=False, seed=1).fit(x, crowd)
    clf.save(tmp_path / "m")
    report = json.loads((tmp_path / "m" / "report.json").read_text(encoding="utf-8"))
    sections = list(report)
    assert sections.index("tasks") < sections.index("diligence") < sections.index("suggestions")  # by rank
    assert report["diligence"]["rows"][0] == {"annotator": HOSTILE, "share_of_labels": pytest.approx(1 / 3)}
    assert "rank" not in report["annotators"]["rows"][0]  # each section holds its own figures
    loaded = conal.load(tmp_path / "m").tables_["annotators.csv"]
    assert loaded.column_names[-2:] == ["share_of_labels", "rank"]
    assert loaded.equals(clf.tables_["annotators.csv"])

    page = write_report(tmp_path / "m").read_text(encoding="utf-8")
    before, library, after = re.split(r"<script>(.*?)</script>", page, maxsplit=1, flags=re.DOTALL)
    assert "vegaEmbed" in library
    assert "<img" not in before + after
    assert f"<b>{ESCAPED}</b> is diligent." in page
    assert f"<h2>Diligence {ESCAPED}</h2>" in page
    assert f'<section id="finding-diligence"><details>\n<summary><h2>Diligence {ESCAPED}</h2>' in page
    assert f"<p>Most labels come from {ESCAPED}.</p>" in page
    assert f"<td>{ESCAPED}</td>" in page
    assert ">share of labels</button>" in page
    assert '<section id="finding-diligence">' in page
    assert page.index('id="disagreement"') < page.index('id="finding-diligence"') < page.index('id="queue"')


@pytest.mark.usefixtures("registry")
def test_a_page_shows_findings_that_are_not_installed_here() -> None:
    report = toy_report()
    report["drift"] = {"rows": [{"day": HOSTILE, "change": 0.25, "labels": 1200}, {"day": "b", "change": None}]}
    report["pace"] = {"seconds_per_label": 2.5, "hasty_share": 0.5714, "checked": True, "parts": [1]}
    report["who"] = {"rows": [{"names": ["ann", "bob"]}, {"names": []}, {"names": [HOSTILE]}]}
    report["late"] = {"rows": [{"late_share": 0.9996, "share": "all"}, {"late_share": None}]}
    page = render(report)
    assert "<h2>Drift</h2>" in page
    assert f"<td>{ESCAPED}</td>" in page
    assert '<td class="number " data-v="0.25">0.25</td>' in page
    assert '<td class="number " data-v="1200">1,200</td>' in page
    assert '<td class="number " data-v="">\u2013</td>' in page
    assert "<td>seconds per label</td>" in page
    assert "<td>ann, bob</td>" in page
    assert "<td>57.1\u00a0%</td>" in page  # shares in percent, as in the built-in tables
    assert '<td class="number " data-v="0.9996">>99.9\u00a0%</td>'.replace(">>", ">&gt;") in page
    assert "<img" not in page.split("<script>")[0]


def toy_report() -> Plain:
    crowd = crowd_of(["ann", "bob"])
    q = np.full((40, 2), 0.5)
    model = model_section() | {"separates_noise": False}  # there is no omega
    found = Findings(Evidence(crowd, q, q, np.eye(2), np.stack([np.eye(2)] * 2), model=model))
    assert list(found.report)[-1] == "model"
    return dict(found.report)


@pytest.mark.usefixtures("registry")
def test_a_long_table_says_where_the_rest_is() -> None:
    page = render(toy_report() | {"many": {"rows": [{"k": k} for k in range(1000)]}})
    assert "Showing 300 of 1,000; <code>report.json</code> has all." in page


def test_a_section_without_rows_is_a_list_of_figures() -> None:
    assert panel_of("x", 3).columns[1][2] == [(3, "3")]
    assert panel_of("x", {"rows": []}) == ("X", "", [], 0, None)


@pytest.mark.usefixtures("registry")
def test_names_that_frame_the_report_are_reserved() -> None:
    with pytest.raises(ValueError, match=r"'classes' is a key of report\.json itself"):
        register("classes")


@pytest.mark.usefixtures("registry")
def test_a_table_without_columns_is_told_to_the_author() -> None:
    @register("broken")
    class Broken(Finding):
        """Names a table and makes none."""

        table = "broken.csv"

        def section(self, findings: Findings) -> Plain:
            return {}

    crowd = crowd_of(["ann"])
    q = np.full((40, 2), 0.5)
    found = Findings(Evidence(crowd, q, q, np.eye(2), np.eye(2)[None]))
    with pytest.raises(NotImplementedError, match="'broken' names a table and must make its columns"):
        _ = found.tables["broken.csv"]
