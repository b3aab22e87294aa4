"""The page in a real browser: it opens offline, sorts, searches, shows matrices, and never runs a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conal import aggregation
from helpers.juries import jury

from .conftest import Open, requests
from .crowds import IMAGE, SCRIPT, make_report

CELLS = "return Array.from(document.querySelectorAll('#{} tbody tr:not([hidden])'), row => row.cells[{}].{})"


def test_it_opens_without_errors_and_asks_nobody(show: Open) -> None:
    driver = show(make_report())
    asked = requests(driver)
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []
    assert any(url.startswith("file:") for url in asked)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)
    assert driver.execute_script("return document.querySelectorAll('[data-chart] svg').length") >= 5


def test_hostile_names_are_never_run(show: Open) -> None:
    report = make_report(classes=[IMAGE, SCRIPT, "<b>bold"], names=f"{IMAGE}{SCRIPT}")
    driver = show(report)
    driver.execute_script("document.querySelector('[data-annotator]').click()")
    title = driver.execute_script("return document.getElementById('detail-name').textContent")
    assert title.startswith("Annotator <img src=x")
    chart = "return document.querySelector('#detail-chart').textContent"
    wait_for(driver, lambda: IMAGE[:10] in driver.execute_script(chart))
    assert (
        driver.execute_script("return document.images.length + document.querySelectorAll('b b, td b > *').length") == 0
    )
    assert driver.execute_script("return document.scripts.length") == 3
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests(driver))
    text = driver.execute_script("return document.body.innerText")
    assert "<img src=x onerror=alert(1)>" in text
    assert "</script><script>alert(1)</script>" in text


def click(driver: Any, element: Any) -> None:
    """A click of the mouse, after scrolling there at once."""
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()


def wait_for(driver: Any, ready: Callable[[], bool]) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda _: ready())


def test_tables_are_sorted_by_a_click_on_the_head(show: Open) -> None:
    report = make_report()
    driver = show(report)
    heads = driver.find_elements("css selector", "#t-people thead button")
    quality = [row["annotator_quality"] for row in report["annotators"]["rows"]]
    click(driver, heads[2])
    found = [float(text) for text in driver.execute_script(CELLS.format("t-people", 2, "dataset.v"))]
    assert found == sorted(quality, reverse=True)[: len(found)]
    click(driver, heads[2])
    found = [float(text) for text in driver.execute_script(CELLS.format("t-people", 2, "dataset.v"))]
    assert found == sorted(quality)[: len(found)]
    click(driver, heads[0])  # names in the order of their numbers: w 2 before w 10
    names = driver.execute_script(CELLS.format("t-people", 0, "textContent"))
    assert names == [f"w {k}" for k in range(len(names))]
    assert driver.execute_script("return document.querySelector('#t-people th').ariaSort") == "ascending"


def test_tables_are_searched(show: Open) -> None:
    report = make_report()
    driver = show(report)
    box = driver.find_element("css selector", "input[data-for=t-people]")
    box.send_keys("W 23")
    assert driver.execute_script(CELLS.format("t-people", 0, "textContent")) == ["w 23"]
    box.clear()
    box.send_keys("no such name")
    assert driver.execute_script(CELLS.format("t-people", 0, "textContent")) == []


def test_a_long_table_shows_its_beginning_until_asked(show: Open) -> None:
    report = make_report()
    driver = show(report)
    shown = driver.execute_script(CELLS.format("t-people", 0, "textContent"))
    assert shown == [row["worker"] for row in report["annotators"]["rows"][:12]]
    (more,) = driver.find_elements("css selector", "#annotators .more")
    assert more.text == "Show all 25"
    click(driver, more)
    assert len(driver.execute_script(CELLS.format("t-people", 0, "textContent"))) == 25


def test_a_click_on_an_annotator_shows_the_matrix(show: Open) -> None:
    report = make_report()
    matrix = [[0.5, 0.3, 0.2], [0.11, 0.77, 0.12], [0.0, 0.04, 0.96]]
    report["annotators"]["rows"][2]["matrix"] = matrix
    driver = show(report)
    name = report["annotators"]["rows"][2]["worker"]
    (button,) = driver.find_elements("css selector", "[data-annotator='2']")
    click(driver, button)
    assert driver.execute_script("return document.getElementById('detail').open")
    assert driver.execute_script("return document.getElementById('detail-name').textContent") == f"Annotator {name}"
    numbers = "return [...document.querySelectorAll('#detail-chart .mark-text.role-mark text')].map(x => x.textContent)"
    wait_for(driver, lambda: len(driver.execute_script(numbers)) == 9)
    expected = [str(round(100 * value)) for row in matrix for value in row]
    assert sorted(driver.execute_script(numbers)) == sorted(expected)
    facts = driver.execute_script("return document.getElementById('detail-facts').textContent")
    assert f"labels {report['annotators']['rows'][2]['num_examples_labeled']}" in facts


def test_without_a_matrix_the_page_says_where_it_is(show: Open) -> None:
    report = make_report()
    for row in report["annotators"]["rows"][1:]:
        del row["matrix"], row["classes_met"]
    driver = show(report)
    driver.execute_script("document.querySelector('[data-annotator=\"1\"]').click()")
    assert "annotator_confusion_" in driver.execute_script("return document.getElementById('detail-note').textContent")
    assert driver.execute_script("return document.querySelector('#detail-chart').children.length") == 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_the_screen_and_the_hour(show: Open, width: int, dark: bool) -> None:
    driver = show(make_report(classes=["a class with a rather long name", "b", "c"]), width, dark)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in paper[4:-1].split(",")) / 3
    assert (brightness < 60) == dark
    ink = "return getComputedStyle(document.querySelector('.chart .role-axis-label text')).fill"
    letters = sum(int(part) for part in driver.execute_script(ink)[4:-1].split(",")) / 3
    assert abs(letters - brightness) > 120  # the charts' letters change with the page


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_jury_is_drawn_and_its_names_are_text(show: Open, width: int, dark: bool) -> None:
    crowd, z = jury(names=IMAGE)
    known = {task: "xyz"[z[task]] for task in range(40)}
    report: Any = aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=known).results_.report
    driver = show(report, width, dark)
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []
    assert driver.execute_script("return document.images.length") == 0
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    cells = "return document.querySelectorAll('[data-chart=errors] .mark-rect.role-mark path').length"
    assert driver.execute_script(cells) == 7 * 6
    shown = "return [...document.querySelectorAll('[data-chart=errors] .role-axis-label text')].map(x => x.textContent)"
    assert len([name for name in driver.execute_script(shown) if name.startswith("<img src=x")]) == 14
    names = driver.execute_script(CELLS.format("t-jury", 0, "textContent"))
    assert names == [row["worker"] for row in report["jury"]["judges"]]
    assert IMAGE in driver.execute_script("return document.getElementById('jury').innerText")
    (head, *_) = driver.find_elements("css selector", "#t-jury thead button")
    click(driver, head)
    assert driver.execute_script(CELLS.format("t-jury", 0, "textContent")) == sorted(names)


PROPERTIES = ["constructor", "toString", "__proto__", "valueOf", "hasOwnProperty", "__defineGetter__"]
"""What every JavaScript object has: looked up in a plain object, these names are found although nobody put them in."""
ODD = ["a.b", "a[0]", "a\\.b", 'a["b"]', "datum.share", "null", "undefined", "NaN", "true", "0"]
"""Names that a path of fields, an expression or a conversion could take for something else."""


@pytest.mark.parametrize("names", [PROPERTIES, ODD], ids=["properties", "odd"])
def test_names_that_javascript_knows_are_drawn(show: Open, names: list[str]) -> None:
    report = make_report(classes=names, n_annotators=len(names), n_tasks=400)
    for row, name in zip(report["annotators"]["rows"], names, strict=True):
        row |= {"worker": name, "co_direction": 0.5}
    driver = show(report)
    shown = "return [...document.querySelectorAll('[data-chart={}] .role-axis-label text')].map(x => x.textContent)"
    assert set(names) <= set(driver.execute_script(shown.format("common")))
    assert set(names) <= set(driver.execute_script(shown.format("people")))
    cells = "return document.querySelectorAll('{} .mark-rect.role-mark path').length"
    assert driver.execute_script(cells.format("[data-chart=common]")) == len(names) ** 2
    marks = "return document.querySelectorAll('[data-chart={}] .mark-symbol.role-mark path').length"
    assert driver.execute_script(marks.format("people")) == len(names)
    assert driver.execute_script(marks.format("mistakes")) == len(report["annotators"]["rows"])
    assert driver.execute_script(marks.format("pairs")) == len(report["common_confusion"]["pairs"])
    driver.execute_script("document.querySelector('[data-annotator]').click()")
    wait_for(driver, lambda: driver.execute_script(cells.format("#detail-chart")) == len(names) ** 2)
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []


@pytest.mark.parametrize("width", [360, 1280])
def test_long_texts_of_a_table_keep_their_width(show: Open, width: int) -> None:
    """On a telephone, a list of tasks had one word in a line."""
    report = make_report()
    report["drift"] = {"rows": [{"day": "Monday", "what": "the same answers as somebody else " * 4, "labels": 12}]}
    driver = show(report, width)
    (cell,) = driver.find_elements("css selector", "#t-finding-drift td.long")
    assert cell.size["width"] >= 230
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "beside"), [(360, False), (1280, True)])
def test_advice_about_people_stands_beside_the_rest(show: Open, width: int, beside: bool) -> None:
    """However long it is, it leaves no gap below the others."""
    driver = show(make_report(), width)
    boxes = [box.rect for box in driver.find_elements("css selector", ".steps > li")]
    assert len(boxes) == 4
    people, others = boxes[1], [boxes[0], *boxes[2:]]
    assert all((box["x"] + box["width"] <= people["x"]) == beside for box in others)
    ends = [box["y"] + box["height"] for box in others]
    assert all(start["y"] - end < 20 for start, end in zip(others[1:], ends, strict=False)) or not beside
