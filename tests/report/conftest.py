"""A browser to look at reports with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conal.report.page import render

Open = Callable[..., Any]

BROWSER, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with a fresh profile, which keeps a log of what it prints and what it asks for."""
    if not (BROWSER.exists() and DRIVER.exists()):
        pytest.skip(f"needs {BROWSER} and {DRIVER}")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Open:
    """Write the page of a report, or a page, open it from the file, and wait until its charts are drawn.

    Its sections are opened, unless ``opened`` is False.
    """

    def run(report: dict[str, Any] | str, width: int = 1280, dark: bool = False, opened: bool = True) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        page = tmp_path / "report.html"
        page.write_text(render(report) if isinstance(report, dict) else report, encoding="utf-8")
        for kind in ("browser", "performance"):
            browser.get_log(kind)  # what earlier pages left
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get(page.as_uri())
        drawn = "return [...document.querySelectorAll('[data-chart]')].every(place => place.querySelector('svg'))"
        WebDriverWait(browser, 30).until(lambda driver: driver.execute_script(drawn))
        if opened:
            browser.execute_script("const all = document.getElementById('open-all'); if (all) all.click()")
        return browser

    return run


def requests(driver: Any) -> list[str]:
    """What the page asked for; not what the browser's own first page does while it is left."""
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [request["request"]["url"] for request in sent if not request["documentURL"].startswith("chrome:")]
