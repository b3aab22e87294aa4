"""The report in a notebook: the page in a frame of its own, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conal.errors import InputError
from conal.report.notebook import ReportPage
from conal.report.page import render

from .crowds import IMAGE, SCRIPT, make_report

ARRIVED = "return [...document.querySelectorAll('[data-chart]')].every(place => place.querySelector('svg'))"


@pytest.fixture
def inside(browser: Any, tmp_path: Path) -> Any:
    """Open a notebook's page that shows a report, and look into the frame once its charts are drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    def run(report: Any) -> Any:
        notebook = tmp_path / "notebook.html"
        shown = ReportPage(report)._repr_html_()
        notebook.write_text(f"<!DOCTYPE html><title>Notebook</title><p>Out[1]:</p>{shown}", encoding="utf-8")
        browser.get_log("browser")
        browser.get(notebook.as_uri())
        browser.switch_to.frame(browser.find_element("tag name", "iframe"))
        WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(ARRIVED))
        return browser

    yield run
    browser.switch_to.default_content()


def test_the_page_works_inside_a_notebook(inside: Any) -> None:
    report = make_report(classes=[IMAGE, SCRIPT, "<b>bold"], names=f"{IMAGE}{SCRIPT}")
    driver = inside(report)
    assert driver.execute_script("return document.querySelectorAll('[data-chart] svg').length") >= 5
    assert driver.execute_script("return document.images.length") == 0
    assert driver.execute_script("return window.origin") == "null"  # it cannot reach the notebook
    button = driver.find_element("css selector", "[data-annotator]")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
    button.click()
    assert driver.execute_script("return document.getElementById('detail').open")
    driver.find_element("css selector", "#detail .close").click()  # a frame without forms
    assert not driver.execute_script("return document.getElementById('detail').open")
    (link,) = driver.find_elements("css selector", ".first a[href='#confusion']")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", link)
    link.click()
    assert driver.execute_script("return document.querySelector('#confusion details').open")
    from selenium.webdriver.support.ui import WebDriverWait

    top = "return document.getElementById('confusion').getBoundingClientRect().top"
    WebDriverWait(driver, 20).until(lambda d: abs(d.execute_script(top)) < 20)
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []


def test_the_page_is_escaped_and_short_as_text() -> None:
    shown = ReportPage(make_report(names=IMAGE))
    frame = shown._repr_html_()
    assert frame.startswith("<iframe ")
    assert frame.count("<") == 2  # the frame's own; everything else is inside its attribute
    assert 'sandbox="allow-scripts"' in frame
    assert repr(shown) == 'ReportPage(conal: 60 tasks, 25 annotators, 300 labels; .save("report.html") writes it)'


def test_the_page_is_saved_once(tmp_path: Path) -> None:
    report = make_report()
    page = ReportPage(report)
    place = page.save(tmp_path / "report.html")
    assert place.read_text(encoding="utf-8") == render(report)
    place.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="exists already"):
        page.save(place)
    assert place.read_text(encoding="utf-8") == "mine"
    page.save(str(place), overwrite=True)
    assert place.read_text(encoding="utf-8") == render(report)
