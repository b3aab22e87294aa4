"""Measured figures of the documentation are made from tables; a figure that is written by hand defines something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MADE_WHOLE = {"results.md", "performance.md", "cli.md"}
"""Pages that are made as a whole."""
REASONS = "decisions.md"
"""Says at its top that its figures were measured once, by earlier versions."""
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in {*MADE_WHOLE, REASONS}),
]
NUMBER = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|twenty|thirty|fifty|a hundred"
UNIT = r"points|times|s|ms|µs|ns|[kMG]B|seconds?|minutes?|hours?|crowds|juries|seeds"
FIGURE = re.compile(
    rf"""
    [\d,]*\d\.\d+                                                  # 0.5
    | \d[\d,]*\ (?:%|(?:{UNIT})\b)                                 # 5 %, 20 ms, 280 crowds
    | \d{{1,3}}(?:,\d{{3}})+                                       # 20,000
    | \b(?:twice|half\ an?\ (?:hour|minute))\b
    | \b(?:{NUMBER})\ (?:percent|times|points|(?:milli)?seconds|minutes|hours|tenths)\b
    | \b(?:{NUMBER})\ (?:in|of)\ (?:{NUMBER})\b                    # one in twenty
    """,
    flags=re.VERBOSE | re.IGNORECASE,
)
STATED = "a rule or setting of the code"
SHOWN = "an example of names or values"
USAGE = "no figure, a way to put it"
TESTED = "tests/test_docs_statements.py checks it"
DEFINED = {
    "README.md": {
        "Python 3.11 or later": "pyproject.toml states it",
        "1,000 images of digits, 3,051 labels by": TESTED,
        "59.4 % of the labels are right, 69.9 % of the": TESTED,
        "deviation over 5 seeds": TESTED,
        "98.3 ± 0.4 98.3 ± 0.1": TESTED,
        "82.8 ± 1.9 90.6 ± 1.4": TESTED,
        "CoNAL 97.0 ± 0.8 97.0 ± 0.3": TESTED,
        "cross-fitted 98.2 ± 0.3 98.2 ± 0.4": TESTED,
        "50 gold labels 98.2 ± 0.3": TESTED,
        "4 as 9 (30 %), 1 as 7 (30 %), 7 as 1 (27 %), 5 as 6 (25 %), 9 as 4 (25 %)": TESTED,
        "img_0001,0.12,3.4,": SHOWN,
        "img_0002,0.80,1.1,": SHOWN,
        "with 4,000 labelled tasks or more": TESTED,
        "the 1,000 original images": "the size of the data",
        "over 100,000 tasks, 20,000 annotators and 300,000 labels": "what tests/test_memory.py fits",
        "needs less than 1.5 GB": "tests/test_memory.py measures it",
        "takes 1.8 times as long": TESTED,
        "with 59 annotators, and 3.0 times with 20,000.": TESTED,
        "the first ten minutes": USAGE,
    },
    "choosing.md": {"more than twice its share": STATED, "takes five times as long": "five fits of one"},
    "architecture.md": {
        "Above 0.5 % a warning": TESTED,
        "stays below 6 MB": STATED,
        "Version 1, of conal 0.1.0": "a version",
    },
    "deployment.md": {"A difference above 0.00001 is an error": STATED},
    "fifty-gold-labels.md": {"six times as long": TESTED, "more than 20,000 tasks": TESTED},
    "harm.md": {
        "5 %: of copies": TESTED,
        "gave 30 % of the labels or more": TESTED,
        "at 10 to 40 % of the annotators": TESTED,
    },
    "importing.md": {
        "labelled a task twice": USAGE,
        "in memory, up to 1 GB": STATED,
        "3, not 3.0": SHOWN,
        "at most 100 times its size": STATED,
        "64 MB of JSON, 256 MB of tables": STATED,
        "and 1 GB of arrays": STATED,
    },
    "index.md": {"ten minutes": USAGE},
    "juries.md": {"by about 0.3.": TESTED, "on 58 to 84 % of all": TESTED, "gold labels, 20 times each": TESTED},
    "living.md": {"more than 0.5 %: then": TESTED, "then 1,000 new ones": TESTED, "(0.95)": STATED},
    "many-machines.md": {
        "With more than 1,000 annotators": STATED,
        "by 100,000 annotators, 10 classes": "the example; tests/test_speed_statements.py compares it",
    },
    "next-labels.md": {"asked twice": USAGE, "that is 80 % sure": SHOWN},
    "ordinal.md": {"a probability of 95 %": STATED},
    "privacy.md": {
        "7, 7.0 and": SHOWN,
        "in 95 % of releases": STATED,
        "must be 50 times": TESTED,
        "there are 2,547 labels": TESTED,
        " 0.16)": "a version",
    },
    "reading-the-report.md": {
        "brings 80 % of": STATED,
        "stays below 6 MB": STATED,
        "at most 5 % of those who are named": TESTED,
        "correlate by 0.3 or more": STATED,
        "less than three times": STATED,
        "at least 5 % in every": STATED,
        "at least 2 points and 2.5 standard errors": STATED,
        "below 90 %.": STATED,
        "by four points or more": TESTED,
        "asked twice": USAGE,
        "if there are 4,000 labelled tasks": TESTED,
    },
    "reproducing.md": {"the 1,000 original images": "the size of the data"},
    "text.md": {
        "pass it twice": USAGE,
        "keeps the 20,000 terms": TESTED,
        "a standard deviation of 0.1": STATED,
    },
    "tutorial.md": {"Tutorial: ten minutes": USAGE, "for up to 2,500 tasks": TESTED},
}
"""Figures that may be written by hand, by page, with the words around them and the reason."""
LEVEL = "95 % interval"


def by_hand(page: Path) -> str:
    """What of a page is neither made nor code; outputs that the README shows count."""
    text = re.sub(r"<!-- made: .*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if page.name == "README.md":
        text = re.sub(r"```text\n(.*?)```", r"\1", text, flags=re.DOTALL)
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


@pytest.mark.parametrize(
    "words",
    [
        *("is 3.5 better", "5 %", "2 points", "3 times", "4 s", "20 ms", "20 ns", "275 MB", "two minutes", "5 hours"),
        *("on 280 crowds", "1,000 tasks", "twice as long", "three percent", "half an hour", "half a minute"),
        *("one in twenty", "seven of eight", "nine tenths"),
    ],
)
def test_figures_are_found(words: str) -> None:
    assert FIGURE.search(f"It says {words} here.")


@pytest.mark.parametrize("words", ["one in a batch", "some of them", "4 classes", "step 3", "the 2s", "a third of it"])
def test_other_words_are_not(words: str) -> None:
    assert not FIGURE.search(f"It says {words} here.")


def test_reasons_say_that_they_are_old() -> None:
    head = " ".join((ROOT / "docs" / REASONS).read_text(encoding="utf-8").partition("\n## ")[0].split())
    assert "**They were measured once" in head
    assert "when each decision was taken" in head
    assert "may differ from the present tables" in head
