"""Measured figures of the documentation are made from tables; a figure that is written by hand defines something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scipy.stats import binomtest

ROOT = Path(__file__).parents[1]
MADE_WHOLE = {"results.md", "performance.md", "cli.md"}
"""Pages that are made as a whole."""
REASONS = "decisions.md"
"""Says at its top that its figures were measured once, by earlier versions."""
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in {*MADE_WHOLE, REASONS}),
]
FIGURE = re.compile(r"[\d,]*\d\.\d+|\d+ %|\d+ points|\d+ times")
DEFINED = {
    "README.md": {"Python 3.11 or later", "needs less than 1.5 GB"},
    "choosing.md": {"are 7 to 10 points behind"},  # test_choice compares it with the benchmark
    "architecture.md": {"Above 0.5 % a warning", "Version 1, of conal 0.1.0"},
    "deployment.md": {"A difference above 0.00001 is an error"},
    "harm.md": {"5 %: of copies", "at 10 to 40 % of the annotators"},
    "importing.md": {"3, not 3.0", "at most 100 times its size"},
    "juries.md": {"by about 0.3.", "on 58 to 84 % of all", "gold labels, 20 times each"},
    "living.md": {"more than 0.5 %: then", "(0.95)"},
    "many-machines.md": {"as codes 0.75 GB", "its 12.5 million", "= 1.25 s", "takes 0.12 s", "about 1.4 s"},
    "next-labels.md": {"that is 80 % sure"},
    "privacy.md": {"7, 7.0 and", "in 95 % of releases", "must be 50 times", " 0.16)"},
    "ordinal.md": {"a probability of 95 %"},
    "reading-the-report.md": {
        "brings 80 % of",
        "correlate by 0.3 or more",
        "at least 5 % in every",
        "at least 2 points and 2.5 standard errors",
        "below 90 %.",
    },
    "text.md": {"a standard deviation of 0.1"},
}
"""Rules, settings, versions and sums that are shown; by page, with the words around them."""
LEVEL = "95 % interval"


def by_hand(page: Path) -> str:
    """What of a page is neither made nor code."""
    text = re.sub(r"<!-- made: .*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", text)).split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_written_by_hand_define_something(page: Path) -> None:
    text = by_hand(page).replace(LEVEL, "")
    for words in DEFINED.get(page.name, ()):
        text = text.replace(words, "")
    assert FIGURE.findall(text) == []


@pytest.mark.parametrize("page", DEFINED)
def test_no_exception_is_left_behind(page: str) -> None:
    (place,) = (each for each in PAGES if each.name == page)
    text = by_hand(place)
    assert {words for words in DEFINED[page] if words not in text} == set()


def test_reasons_say_that_they_are_old() -> None:
    assert "**They were measured once" in (ROOT / "docs" / REASONS).read_text(encoding="utf-8")


def test_what_fifty_labels_say_of_a_judge() -> None:
    assert "right on 36 of 50 items" in (ROOT / "docs" / "juries.md").read_text(encoding="utf-8")
    low, high = binomtest(36, 50).proportion_ci(method="exact")
    assert (round(100 * low), round(100 * high)) == (58, 84)
