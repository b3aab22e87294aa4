"""The first screen in a real browser, and the sections below it: closed, and opened by links, keys and paper."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conal import aggregation
from conal.report.page import render
from helpers.juries import jury

from .conftest import Open, requests
from .crowds import IMAGE, SCRIPT, make_report

WIDTH, HEIGHT = 1400, 900
PARTS = {
    "what is believed or measured": [".verdict h1", ".rates"],
    "what to do next": [".do"],
    "common confusions": [".pairs"],
}
OPEN = "return [...document.querySelectorAll('.sections > section')].filter(x => x.firstChild.open).map(x => x.id)"
GLOSSARY = ("co-direction", "omega", "alpha", "posterior", "entropy", "handicap", "epoch", "consensus", "cleaned")


def measured_jury() -> Any:
    """A jury of which 40 tasks have a true label."""
    crowd, z = jury(names="a judge with a rather long name")
    known = {task: "xyz"[z[task]] for task in range(40)}
    return aggregation.DawidSkene(verbose=False).fit(crowd, true_labels=known).results_.report


def long_names() -> Any:
    report = make_report(classes=["a class with a rather long name", "another such class " * 4, "c"])
    pair = report["common_confusion"]["pairs"][0]
    makers = {"annotators_who_make_it": 9, "annotators_who_met_it": 10, "back_share": None}
    report["next_steps"]["rewrite"] = [pair | makers] * 3
    return report


REPORTS = {"model": make_report, "jury": measured_jury, "long names": long_names}


@pytest.mark.parametrize("name", REPORTS)
def test_the_first_screen_has_the_three_parts(show: Open, name: str) -> None:
    driver = show(REPORTS[name](), WIDTH, opened=False)
    for part, places in PARTS.items():
        for place in places:
            (found,) = driver.find_elements("css selector", place)
            box = found.rect
            assert box["height"] > 30 or place.endswith("h1"), (part, place)
            assert box["y"] + box["height"] <= HEIGHT, (part, place, box)
            assert 0 <= box["x"] <= WIDTH - box["width"], (part, place, box)
    assert 1 <= len(driver.find_elements("css selector", ".do > li")) <= 3
    (first,) = driver.find_elements("css selector", ".sections > section:first-child summary")
    assert first.rect["y"] < HEIGHT  # readers see that there is more


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", REPORTS)
def test_letters_of_the_first_screen_can_be_read(show: Open, name: str, dark: bool) -> None:
    """A contrast of 4.5 to 1 or more, and no letters cut off, also on a telephone."""
    driver = show(REPORTS[name](), 420, dark, opened=False)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 420
    script = """
        const parts = color => color.match(/[\\d.]+/g).map(Number);
        const light = color => parts(color).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
        const ground = element => {
            for (let at = element; at; at = at.parentElement) {
                const color = parts(getComputedStyle(at).backgroundColor);
                if (color.length < 4 || color[3] > 0) return getComputedStyle(at).backgroundColor;
            }
        };
        return [...document.querySelectorAll("header *, main > *, .first *, .sections summary *")]
            .filter(x => [...x.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
            .filter(x => x.checkVisibility())
            .map(x => {
                const [a, b] = [light(getComputedStyle(x).color), light(ground(x))].sort((p, q) => q - p);
                return [x.textContent.trim(), (a + 0.05) / (b + 0.05), x.scrollWidth - x.clientWidth, x.clientWidth];
            });
    """
    found = driver.execute_script(script)
    assert len(found) > 30
    assert [row for row in found if row[1] < 4.5] == []
    assert [row for row in found if row[3] and row[2] > 1] == []


def test_sections_are_closed_and_say_what_is_inside(show: Open) -> None:
    driver = show(make_report(), WIDTH, opened=False)
    assert driver.execute_script(OPEN) == []
    rows = driver.find_elements("css selector", ".sections > section > details > summary")
    assert len(rows) >= 10
    for row in rows:
        title, gist = (row.find_element("css selector", kind).text for kind in ("h2", ".gist"))
        assert title
        assert gist.endswith(".")
        assert not any(word in f"{title} {gist}".lower() for word in GLOSSARY), (title, gist)
    assert not driver.find_element("css selector", "#t-people").is_displayed()
    button = driver.find_element("css selector", "#open-all")
    button.click()
    assert len(driver.execute_script(OPEN)) == len(rows)
    assert driver.find_element("css selector", "#t-people").is_displayed()
    wait(driver, lambda: (button.text, button.get_attribute("aria-expanded")) == ("Close all", "true"))
    button.click()
    assert driver.execute_script(OPEN) == []


def wait(driver: Any, ready: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda _: ready())


def test_a_link_into_a_section_opens_it(show: Open) -> None:
    driver = show(make_report(), WIDTH, opened=False)
    top = "return document.getElementById('{}').getBoundingClientRect().top"
    (link,) = driver.find_elements("css selector", ".note a[href='#confusion']")
    link.click()
    assert driver.execute_script(OPEN) == ["confusion"]
    wait(driver, lambda: abs(driver.execute_script(top.format("confusion"))) < 20)
    driver.execute_script("location.hash = '#t-people'")  # an anchor inside of a section
    wait(driver, lambda: driver.execute_script(OPEN) == ["confusion", "annotators"])
    page = driver.current_url.split("#")[0]
    driver.get("about:blank")
    driver.get(f"{page}#plan")
    wait(driver, lambda: driver.execute_script(OPEN) == ["plan"])
    driver.get("about:blank")
    driver.get(f"{page}#nothing")
    assert driver.execute_script(OPEN) == []
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []


def test_keys_open_a_section(show: Open) -> None:
    driver = show(make_report(), WIDTH, opened=False)
    (row,) = driver.find_elements("css selector", "#annotators summary")
    driver.execute_script("arguments[0].focus()", row)
    row.send_keys("\ue007")  # Enter
    assert driver.execute_script(OPEN) == ["annotators"]
    row.send_keys(" ")
    assert driver.execute_script(OPEN) == []


def test_paper_has_every_section(show: Open) -> None:
    driver = show(make_report(), WIDTH, opened=False)
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert len(driver.execute_script(OPEN)) >= 10
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert driver.execute_script(OPEN) == []
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert driver.execute_script("return document.getElementById('t-people').getBoundingClientRect().height") > 100
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_screen_readers_find_headings_and_states(show: Open) -> None:
    driver = show(make_report(), WIDTH, opened=False)
    nodes = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    found = [(node.get("role", {}).get("value"), node.get("name", {}).get("value", "")) for node in nodes]
    headings = [name for role, name in found if role == "heading"]
    assert any(name.startswith("The model believes that") for name in headings)
    assert {"What to do next", "Common confusions", "Details"} <= set(headings)
    rows = [name for role, name in found if role == "DisclosureTriangle"]
    assert any(name.startswith("Annotators") and "reliably worse" in name for name in rows)


def test_hostile_names_stay_text_on_the_first_screen(show: Open) -> None:
    report = make_report(classes=[IMAGE, SCRIPT, "<b>bold"], names=IMAGE)
    driver = show(report, WIDTH, opened=False)
    text = driver.execute_script("return document.querySelector('.first').innerText")
    assert "<img src=x" in text or "</script>" in text
    assert driver.execute_script("return document.images.length + document.querySelectorAll('.first b b').length") == 0
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests(driver))


def steps(report: Any) -> list[str]:
    """The things to do next as text."""
    (listed,) = re.findall(r'<ol class="do">(.*?)</ol>', render(report), re.DOTALL)
    return [re.sub(r"<[^>]+>", "", item).replace("\xa0", " ").strip() for item in re.findall(r"<li>.*?</li>", listed)]


def test_three_things_to_do_the_most_important_first() -> None:
    report = make_report()
    report["suspicion"] = {"text": "", "label_share": 0.1, "rows": []}
    report["contradiction"] = {"text": "<b>", "against_votes": 0.7, "against_dawid_skene": 0.7}
    found = steps(report)
    assert len(found) == 3
    assert found[0].startswith("Check the labels before you use them. They contradict the votes on 70 % of the tasks.")
    assert found[1].startswith("Label fifty tasks yourself.")
    assert not any("Talk" in step for step in found)


def test_what_concerns_more_labels_comes_first() -> None:
    report = make_report()
    (row, *_) = report["annotators"]["rows"]
    row |= {"num_examples_labeled": 50, "annotator_quality": 0.2}
    row |= {"annotator_quality_low": 0.1, "annotator_quality_high": 0.3, "quality_basis": "belief"}
    person = row | {"place": 0, "guesses": False}
    more = int(50 * (report["crowd"]["expected_label_accuracy"] - 0.2))
    for corrects, first in ((more - 2, "Look at"), (more + 2, "Have 7 tasks labelled once more.")):
        relabel = {"tasks": 7, "corrects": corrects, "queue": 9}
        report["next_steps"] |= {"rewrite": [], "people": [person], "relabel": relabel}
        assert steps(report)[1].startswith(first)


def test_one_label_and_one_other_annotator_are_named() -> None:
    report = make_report()
    rows = report["annotators"]["rows"]
    for row in rows[:2]:
        row |= {"num_examples_labeled": 50, "annotator_quality": 0.2, "annotator_quality_low": 0.1}
        row |= {"annotator_quality_high": 0.3, "quality_basis": "belief"}
    person = rows[0] | {"place": 0, "guesses": False}
    report["next_steps"] |= {"rewrite": [], "people": [person], "relabel": None}
    wrong = report["tasks"]["likely_wrong"]
    wrong["total"] = 1
    _, people, label, *_ = steps(report)
    assert f"{rows[1]['worker']} is reliably worse than the crowd, too." in people
    assert label.startswith("Check the label that overrules the majority vote.")
    assert "Check the task in" in render(report)
    rows[2] |= {name: rows[1][name] for name in rows[1] if name.startswith(("num_", "annotator_quality"))}
    wrong["total"] = 7
    _, people, label, *_ = steps(report)
    assert "2 others are reliably worse than the crowd, too." in people
    assert label.startswith("Check a few of the 7 labels that overrule the majority vote.")
    assert "Check a few of the 7 tasks in" in render(report)


def test_measured_labels_that_are_worse_than_a_judge_are_not_recommended() -> None:
    report = measured_jury()
    found = report["gold_rates"]
    report["next_steps"] |= {"rewrite": [], "people": [], "relabel": None}
    found["annotators"][0]["above"] = {"value": -0.2, "low": -0.3, "high": -0.1, "share": 0.7}
    found["comparison"]["as_good"] = 1
    name = found["annotators"][0]["worker"]
    assert steps(report)[0].startswith(f"Prefer the labels of {name}. They are right more often")
    found["cleaned"] |= {"value": 0.9, "low": 0.54, "high": 0.99}
    found["annotators"][0]["above"]["high"] = 0.1
    assert steps(report)[0].startswith("Label 120 more random tasks yourself.")


def test_where_nothing_is_to_do_the_page_says_so() -> None:
    report = measured_jury()
    report["next_steps"] |= {"rewrite": [], "people": [], "relabel": None}
    report["tasks"]["likely_wrong"] |= {"total": 0, "rows": []}
    report["gold_rates"]["cleaned"] |= {"value": 0.97, "low": 0.94, "high": 0.99}
    for name in ("jury", "suspicion"):
        report.pop(name, None)
    assert steps(report) == ["Use the inferred labels. No figure speaks against it. Where they differ from the votes"]


def test_without_labels_there_is_nothing_to_use() -> None:
    report = make_report(n_annotators=1)
    report["crowd"] |= {"n_annotations": 0, "n_annotators": 0, "expected_label_accuracy": None, "n_tasks_labelled": 0}
    report["annotators"] = {"total": 0, "rows": []}
    report["next_steps"] |= {"rewrite": [], "people": [], "relabel": None}
    assert steps(report)[0].startswith("Collect labels first.")
    assert "<h1>There are no labels yet</h1>" in render(report)
