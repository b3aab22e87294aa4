"""What every registered finding promises, on crowds of which parts are missing."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.report.evidence import AnnotatorPrivacy, Evidence
from conal.report.findings import Finding, Findings, all_findings
from conal.report.page import render
from helpers.models import model_section

CROWDS = {
    "tasks without labels": [[0, 1, 2], [1, 1, -1], [-1, -1, -1], [2, 2, 0], [-1, -1, -1]],
    "a class without votes": [[0, 0, 1], [1, 1, 0], [0, -1, 0], [1, 1, 1]],
    "an annotator without labels": [[0, 2, -1], [1, 1, -1], [2, 0, -1]],
    "one label": [[-1, 1, -1]],
}


def findings_of(matrix: list[list[int]]) -> Findings:
    crowd = Annotations.from_matrix(np.array(matrix), classes=range(3))
    rng = np.random.default_rng(0)
    q, f = rng.dirichlet(np.ones(3), size=(2, crowd.n_tasks))
    pi = rng.dirichlet(np.ones(3), size=(crowd.n_annotators, 3))
    return Findings(Evidence(crowd, q, f, pi.mean(0), pi, rng.random(crowd.n_annotations), model=model_section()))


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("finding", all_findings(), ids=lambda finding: finding.name)
def test_sections_and_tables_fit_the_crowd(finding: Finding, crowd: str) -> None:
    found = findings_of(CROWDS[crowd])
    if not finding.applies(found.evidence):
        assert finding.name not in found.report
        return
    section = found.report[finding.name]
    assert json.loads(json.dumps(section, allow_nan=False)) == section  # plain: the same after a file
    assert all(isinstance(sentence, str) for sentence in finding.headlines(section, found.report))
    if finding.table is not None:
        columns = finding.columns(found)
        assert columns.num_rows == found.table(finding.table).num_rows
        kinds = finding.column_kinds(found.evidence.annotations.classes)
        counts = {field.name for field in columns.schema if pa.types.is_integer(field.type)}
        assert counts <= set(kinds)  # floats in a loaded model otherwise


@pytest.mark.parametrize("finding", all_findings(), ids=lambda finding: finding.name)
def test_no_section_names_an_annotator_who_is_hidden(finding: Finding) -> None:
    """Few labels identify people: those with fewer than ``hide_below`` are in no section, headline or table."""
    rng = np.random.default_rng(0)
    given = rng.integers(3, size=(40, 6))
    given[3:, 4:] = -1  # two have three labels each
    names = ["often-1", "often-2", "often-3", "often-4", "rarely-1", "rarely-2"]
    tasks, annotators = np.nonzero(given >= 0)
    labels = given[tasks, annotators]
    crowd = Annotations(tasks, annotators, labels, task_ids=range(40), annotator_ids=names, classes=range(3))
    q = rng.dirichlet(np.ones(3), size=40)
    pi = rng.dirichlet(np.ones(3), size=6)[:, None].repeat(3, axis=1)
    rates = rng.random(crowd.n_annotations)
    privacy = AnnotatorPrivacy(10)
    found = Findings(Evidence(crowd, q, q, pi.mean(0), pi, rates, model=model_section(), privacy=privacy))
    if not finding.applies(found.evidence):
        return
    section = found.section(finding.name)
    headlines = [str(sentence) for sentence in finding.headlines(section, found.report)]
    tables = [] if finding.table is None else [found.table(finding.table).to_pydict()]
    assert "rarely" not in json.dumps([section, headlines])
    assert "rarely" not in str(tables)


@pytest.mark.parametrize("crowd", CROWDS)
def test_the_page_has_every_section(crowd: str) -> None:
    report = findings_of(CROWDS[crowd]).report
    page = render(report)
    assert page.count("<section") >= len(report) - 4
    (footer,) = [line for line in page.splitlines() if line.startswith("<footer>")]
    for file in ("report.json", "labels.csv", "annotators.csv", "common_confusion.csv", "suggestions.csv"):
        assert f"<code>{file}</code>" in footer


@pytest.mark.parametrize("finding", all_findings(), ids=lambda finding: finding.name)
def test_a_section_of_another_type_is_refused(finding: Finding) -> None:
    report = json.loads(json.dumps(findings_of(CROWDS["tasks without labels"]).report))
    report[finding.name] = True
    with pytest.raises(InputError, match="is damaged"):
        render(report)
