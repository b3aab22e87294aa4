"""What a report shows beside its figures: every picture once, within its budget, and names where they are known."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conal.errors import DataWarning, InputError
from conal.io.images import Source
from conal.report import exhibits
from conal.report.exhibits import Exhibits, exhibited, people_rows, task_rows
from conal.report.findings import checked_report
from conal.report.page import render
from report.crowds import make_report as simulated


@cache
def simulated_once() -> Any:
    return simulated()


def make_report() -> Any:
    """A report of a simulated crowd, to do with as one likes."""
    return copy.deepcopy(simulated_once())


class Drawn:
    """A picture for every task but some, a grey one that is told apart by its brightness."""

    def __init__(self, *without: str) -> None:
        self.without = without

    def of(self, task: Any) -> Source | None:
        if task in self.without:
            return None
        return np.full((8, 8), sum(str(task).encode()) % 256, np.uint8)


def test_every_picture_is_there_once() -> None:
    report = make_report()
    shown = exhibited(report, Exhibits(pictures=[Drawn("w task 3")]))
    rows = list(task_rows(shown))
    tasks = {row["task"] for row in rows} - {"w task 3"}
    assert len(shown["pictures"]["thumbnails"]) == len(tasks)
    pairs = {(row["task"], row.get("picture")) for row in rows}
    assert len(pairs) == len(tasks) + 1  # the same picture in every list
    assert ("w task 3", None) in pairs
    assert "pictures" not in report  # a copy
    assert checked_report(shown) is shown


def test_a_first_source_counts_and_pictures_that_are_there_stay(tmp_path: Path) -> None:
    class One:
        def of(self, task: Any) -> Source | None:
            return tmp_path / "one.png" if task == "w task 5" else None

    Image.new("L", (20, 10), 77).save(tmp_path / "one.png")
    first = exhibited(make_report(), Exhibits(pictures=[Drawn()]))
    both = exhibited(first, Exhibits(pictures=[One()]))
    old = {row["task"]: first["pictures"]["thumbnails"][row["picture"]] for row in task_rows(first)}
    new = {row["task"]: both["pictures"]["thumbnails"][row["picture"]] for row in task_rows(both)}
    assert {task for task in old if old[task] != new[task]} == {"w task 5"}
    assert (new["w task 5"]["width"], new["w task 5"]["height"]) == (80, 40)


def test_pictures_that_cannot_be_read_are_counted_and_told() -> None:
    class Broken:
        def of(self, task: Any) -> Source | None:
            return Path("/nonexistent") if task in ("w task 1", "w task 2") else np.zeros((8, 8), np.uint8)

    with pytest.warns(
        DataWarning, match=r"2 of \d+ pictures are not shown in the report, such as that of task 'w task"
    ):
        shown = exhibited(make_report(), Exhibits(pictures=[Broken()]))
    assert shown["pictures"]["unreadable"] == 2
    assert "2 pictures could not be read." in render(shown)


def test_all_pictures_together_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noise:
        def of(self, task: Any) -> Source | None:
            rng = np.random.default_rng(sum(str(task).encode()))
            return rng.integers(0, 256, size=(200, 200, 3)).astype(np.uint8)

    monkeypatch.setattr(exhibits, "MAX_CHARACTERS", 120_000)
    shown = exhibited(make_report(), Exhibits(pictures=[Noise()]))
    sizes = [len(picture["uri"]) for picture in shown["pictures"]["thumbnails"]]
    assert len(sizes) > 40
    assert sum(sizes) <= 120_000
    monkeypatch.setattr(exhibits, "MAX_PICTURES", 10)
    few = exhibited(make_report(), Exhibits(pictures=[Noise()]))
    assert len(few["pictures"]["thumbnails"]) == 10
    heads = [few["tasks"]["disagreements"]["rows"][0], few["tasks"]["ambiguous"]["rows"][0]]
    assert all("picture" in row for row in [*heads, few["suggestions"]["rows"][0]])  # not ten of one list


def test_texts_addresses_and_names() -> None:
    task, worker = "w task 4", "w 7"
    shown = exhibited(
        make_report(),
        Exhibits(
            texts={task: "t" * 500},
            picture_links={task: "https://x.org/4.png"},
            links={task: "https://x.org/4"},
            names={worker: "Ann <b>Lee"},
        ),
    )
    rows = [row for row in task_rows(shown) if row["task"] == task]
    assert rows
    for row in rows:
        assert row["text"] == "t" * 300 + "…"
        assert (row["link"], row["picture_link"]) == ("https://x.org/4", "https://x.org/4.png")
    assert {row.get("name") for row in people_rows(shown) if row["worker"] == worker} == {"Ann <b>Lee"}
    page = render(shown)
    assert '<a href="https://x.org/4" target="_blank" rel="noopener noreferrer">w task 4</a>' in page
    assert '<a href="https://x.org/4.png" target="_blank" rel="noopener noreferrer">open the picture</a>' in page
    assert "Ann &lt;b&gt;Lee" in page
    assert "Ann <b>Lee" not in page


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", 'https://x.org/"onclick="x', "file:///x"]
)
def test_a_report_of_a_stranger_makes_no_other_links(address: str) -> None:
    report = make_report()
    for row in task_rows(report):
        row["link"] = row["picture_link"] = address
    page = render(report).split("<script>")[0]
    assert 'href="' + address[:8] not in page
    assert 'target="_blank"' not in page
    assert address not in page


@pytest.mark.parametrize(
    ("uri", "picture", "message"),
    [
        ("data:image/svg+xml;base64,PHN2Zz4=", 0, "pictures.thumbnails has something else than PNG and JPEG"),
        ("https://x.org/1.png", 0, "pictures.thumbnails has something else than PNG and JPEG"),
        ('data:image/png;base64,AA" onerror="alert(1)', 0, "pictures.thumbnails has something else"),
        ("data:image/png;base64,AAAA", 1, "rows show pictures that are not in pictures.thumbnails"),
        ("data:image/png;base64,AAAA", -1, "rows show pictures that are not in pictures.thumbnails"),
    ],
)
def test_a_report_with_other_pictures_is_refused(uri: str, picture: int, message: str) -> None:
    report = make_report()
    report["pictures"] = {"thumbnails": [{"uri": uri, "width": 8, "height": 8}], "unreadable": 0}
    report["tasks"]["ambiguous"]["rows"][0]["picture"] = picture
    with pytest.raises(InputError, match=message):
        render(report)
    del report["pictures"]
    with pytest.raises(InputError, match="rows show pictures that are not in"):
        render(report)
