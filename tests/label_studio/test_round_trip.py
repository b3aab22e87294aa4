"""The guide ``docs/guides/label-studio.md`` against a real Label Studio server, and what a browser then shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import run_line
from report.conftest import browser

from .server import OWNER, PASSWORD, User, running

__all__ = ["browser"]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "label-studio.md"
BLOCK = re.compile(r"^```(python|console|sh)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
CONFIG = """<View>
  <Text name="review" value="$text"/>
  <Choices name="sentiment" toName="review" choice="single"><Choice value="good"/><Choice value="bad"/></Choices>
</View>"""
ANNOTATORS = 4


@dataclass(frozen=True)
class Trip:
    """The project once the guide has been followed, and the folder with the guide's files."""

    owner: User
    project: int
    folder: Path
    before: list[dict[str, Any]]

    def read(self, name: str) -> list[dict[str, Any]]:
        found = json.loads((self.folder / name).read_text(encoding="utf-8"))
        assert isinstance(found, list)
        return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = os.environ.get("LABEL_STUDIO_PROGRAM")
    if program is None:
        pytest.skip("needs a Label Studio server: make test-label-studio")
    with running(Path(program).absolute(), tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def trip(address: str, tmp_path_factory: pytest.TempPathFactory) -> Trip:
    """Follow the guide from top to bottom; its simulated project becomes a project of the server."""
    folder = tmp_path_factory.mktemp("trip")
    (first, *blocks) = sorted(
        BLOCK.findall(PAGE.read_text(encoding="utf-8")), key=lambda block: "completed_by" not in block[1]
    )
    namespace: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(first[1], PAGE.name, "exec"), namespace)  # noqa: S102
        owner = User(address, OWNER)
        project = make_project(owner, json.loads(Path("export.json").read_text(encoding="utf-8")))
        before = owner.tasks(project)
        Path("export.json").unlink()  # the server's own takes its place
        patch.setenv("LABEL_STUDIO", address)
        patch.setenv("PROJECT", str(project))
        patch.setenv("PERSONAL_ACCESS_TOKEN", owner.call("POST", "/api/token/", {})["token"])
        follow(blocks, namespace)
    return Trip(owner, project, folder, before)


def make_project(owner: User, tasks: list[dict[str, Any]]) -> int:
    """A project with these tasks, in which every annotator gave the annotations by own hand."""
    project = int(owner.call("POST", "/api/projects/", {"title": "reviews", "label_config": CONFIG})["id"])
    owner.call("POST", f"/api/projects/{project}/import", [task["data"] for task in tasks])
    numbers = [task["id"] for task in owner.tasks(project)]
    people = [User(owner.address, f"annotator{k}@example.org", new=True) for k in range(ANNOTATORS)]
    for number, task in zip(numbers, tasks, strict=True):
        for person, annotation in zip(people, task["annotations"], strict=False):
            person.call("POST", f"/api/tasks/{number}/annotations/", {"result": annotation["result"]})
    return project


def follow(blocks: list[tuple[str, str]], namespace: dict[str, object]) -> None:
    """Run the blocks of the guide; what its shell defines stays defined."""
    defined = ""
    for language, code in blocks:
        if language == "python":
            exec(compile(code, PAGE.name, "exec"), namespace)  # noqa: S102
        elif language == "console":
            for line in code.splitlines():
                run_line(line.removeprefix("$ "))
        elif code.startswith("access()"):
            defined = code
        else:
            done = subprocess.run(["bash", "-c", defined + code], capture_output=True, text=True, check=False)  # noqa: S607
            assert done.returncode == 0, (code, done.stdout, done.stderr)


def test_the_export_is_that_of_the_server(trip: Trip) -> None:
    tasks = trip.read("export.json")
    assert [task["id"] for task in tasks] == [task["id"] for task in trip.before]
    counts = Counter(len(task["annotations"]) for task in tasks)
    assert counts == {ANNOTATORS: 80, 0: 40}
    assert len({entry["completed_by"] for task in tasks for entry in task["annotations"]}) == ANNOTATORS


def test_the_api_returns_the_predictions(trip: Trip) -> None:
    sent = {entry["task"]: entry for entry in trip.read("predictions.json")}
    unlabelled = [task["id"] for task in trip.read("export.json") if not task["annotations"]]
    assert sorted(sent) == unlabelled
    found = trip.owner.call("GET", f"/api/predictions?project={trip.project}")
    assert sorted(entry["task"] for entry in found) == unlabelled
    for entry in found:
        wanted = sent[entry["task"]]
        assert entry["model_version"] == "conal"
        assert entry["score"] == pytest.approx(wanted["score"], abs=1e-6)
        (result,) = entry["result"]
        assert {name: result[name] for name in ("from_name", "to_name", "type", "value")} == wanted["result"][0]


def test_predictions_are_right(trip: Trip) -> None:
    """The words of a text say its class."""
    texts = {task["id"]: task["data"]["text"] for task in trip.before}
    good = {"lovely", "fine", "great", "happy", "excellent"}
    right = [
        entry["result"][0]["value"]["choices"] == ["good" if good & set(texts[entry["task"]].split()) else "bad"]
        for entry in trip.read("predictions.json")
    ]
    assert sum(right) >= 0.95 * len(right)


def test_no_task_is_doubled(trip: Trip) -> None:
    after = trip.owner.tasks(trip.project)
    assert [(task["id"], task["data"]) for task in after] == [(task["id"], task["data"]) for task in trip.before]
    assert all(task["total_predictions"] == (0 if task["total_annotations"] else 1) for task in after)


def test_the_server_takes_labels_and_work_lists(trip: Trip) -> None:
    """Last of those that ask the API for predictions: these are more of them."""
    first, second, *_ = (task["id"] for task in trip.before)
    rows = f"{second},4,0.2,good,0.5\n{first},3,0.1,bad,0.6\n"
    (trip.folder / "list.csv").write_text(f"task,worker,expected_gain,label,probability\n{rows}")
    export, labels, out = (trip.folder / name for name in ("export.json", "list.csv", "list.json"))
    run_line(f"conal convert {export} --to label-studio --labels {labels} --out {out}")
    wanted = [(second, "conal: ask 4"), (first, "conal: ask 3")]
    assert [(entry["task"], entry["model_version"]) for entry in trip.read("list.json")] == wanted
    for name, count in (("labels.json", len(trip.before)), ("list.json", 2)):
        answer = trip.owner.call("POST", f"/api/projects/{trip.project}/import/predictions", trip.read(name))
        assert answer == {"created": count}
    found = trip.owner.call("GET", f"/api/predictions?project={trip.project}")
    asked = {(entry["task"], entry["model_version"]) for entry in found if entry["model_version"] != "conal"}
    assert asked == set(wanted)


@pytest.mark.parametrize("choice", ["good", "bad"])
def test_a_browser_shows_the_right_choice_ticked(trip: Trip, browser: Any, choice: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    task = next(
        entry["task"] for entry in trip.read("predictions.json") if entry["result"][0]["value"]["choices"] == [choice]
    )
    wait = WebDriverWait(browser, 120)
    log_in(browser, trip.owner.address, wait)
    browser.get(f"{trip.owner.address}/projects/{trip.project}/data?task={task}")
    wait.until(lambda driver: len(ticked(driver)) == 2)  # the page is drawn again while it loads
    assert ticked(browser) == {"good": choice == "good", "bad": choice == "bad"}


def ticked(driver: Any) -> dict[str, bool]:
    """Whether the box of each choice is ticked, in one look at the page; empty until it is drawn."""
    found = driver.execute_script(
        "return [...document.querySelectorAll('input[name=good], input[name=bad]')].map(b => [b.name, b.checked])"
    )
    return dict(found)


def log_in(driver: Any, address: str, wait: Any) -> None:
    driver.get(f"{address}/user/login/")
    if "/user/login" not in driver.current_url:  # logged in already
        return
    driver.find_element("name", "email").send_keys(OWNER)
    driver.find_element("name", "password").send_keys(PASSWORD)
    driver.find_element("css selector", "form button").click()
    wait.until(lambda found: "/user/login" not in found.current_url)


def test_the_guide_says_how_to_run_it() -> None:
    assert "make test-label-studio" in PAGE.read_text(encoding="utf-8")
    makefile = (PAGE.parents[2] / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^test-label-studio:", makefile, flags=re.MULTILINE)
