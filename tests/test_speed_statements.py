"""Sentences about several processes: small tables give these numbers, and the example adds up."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import generated
import speed_statements
from speed_statements import SPEED_STATEMENTS

ROWS = [
    {"case": "dawid-skene", "bytes": 110.0, "model": 100, "ms 1": 40.4, "ms 2": 50.0},
    {"case": "training 59", "bytes": 202.0, "model": 200, "ms 1": 3.0, "ms 2": 6.0},
    {"case": "training 5000", "bytes": 101.5, "model": 100.0, "ms 1": 4.0, "ms 2": 9.0},
]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up times and bytes."""
    place = tmp_path / "processes.json"
    place.write_text(json.dumps({"rows": ROWS}), encoding="utf-8")
    monkeypatch.setattr(speed_statements, "PROCESSES", place)


@pytest.mark.usefixtures("measured")
def test_exchanged() -> None:
    text = speed_statements.exchanged()
    assert "exchanged 1.0 to 10.0 % more than these formulas" in text
    assert "takes 3.0 to 4.0 ms by one process, and 6.0 to 9.0 ms by two." in text


@pytest.mark.usefixtures("measured")
def test_billion() -> None:
    """Twice the measured time is twice the computation; nothing else changes."""
    text = speed_statements.billion()
    assert "at 40 ns per annotation" in text
    assert "10⁹ / 16 · 40 ns = 2.50 s." in text
    assert "all annotations 12 GB" in text
    assert "as codes 0.75 GB; counts and matrices 2 · 8 · 10⁵ · 10² = 160 MB" in text
    assert "its 12.5 million tasks 1 GB." in text
    assert "= 150 MB, which takes 0.12 s at 10 Gbit/s." in text
    assert text.endswith("An iteration takes 2.6 s, 95 % of it computation, and 20 iterations take 52 s.")


def test_the_measured_iteration_is_of_a_million_labels() -> None:
    rows = {row["case"]: row for row in json.loads(speed_statements.PROCESSES.read_text(encoding="utf-8"))["rows"]}
    assert rows[speed_statements.AGGREGATED]["title"].startswith("Dawid-Skene, 10⁶ labels, ")
    assert speed_statements.LABELS == 10**6


def test_every_statement_is_on_one_page() -> None:
    pages = [page.read_text(encoding="utf-8") for page in generated.PAGES]
    for name in SPEED_STATEMENTS:
        assert sum(page.count(f"<!-- made: {name} -->") for page in pages) == 1, name


def test_the_example_is_the_one_that_is_calculated() -> None:
    page = (generated.DOCS / "many-machines.md").read_text(encoding="utf-8")
    said = " ".join(page.split()).partition("An example, calculated and not measured: ")[2].partition(". <!--")[0]
    s = speed_statements
    assert said.startswith(f"a billion annotations of {s.TASKS // 10**6} million tasks by {s.ANNOTATORS:,} annotators,")
    assert re.search(rf"\b{s.CLASSES} classes, on {s.NODES} nodes", said)
    assert s.ANNOTATIONS == 10**9
