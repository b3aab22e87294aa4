"""Pictures in a real browser: they are drawn, nothing is fetched, and a page of many of them stays small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import conal
from conal.io.images import Source
from conal.report.exhibits import Exhibits, exhibited, task_rows
from conal.report.page import render, write_report
from helpers.commands import run_line

from .conftest import Open, requests
from .crowds import IMAGE, make_report

SHAPES = ("circle", "square", "bar")
LOADED = (
    "return [...document.images].filter(i => i.src).map(i => [i.naturalWidth, i.width, i.height, i.src.slice(0, 15)])"
)


def picture(shape: str, seed: int) -> Image.Image:
    """A shape on noise, as photographs have it."""
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(90, 160, size=(120, 160, 3)).astype(np.uint8))
    draw, colour = ImageDraw.Draw(image), tuple(rng.integers(0, 80, size=3).tolist())
    if shape == "circle":
        draw.ellipse((50, 30, 110, 90), fill=colour)
    else:
        draw.rectangle((50, 30, 110, 90) if shape == "square" else (20, 50, 140, 70), fill=colour)
    return image


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of a Label Studio project of pictures: some beside the export, some inside, some on a server."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "images").mkdir()
    rng = np.random.default_rng(0)
    tasks, features = [], []
    for number in range(60):
        code = int(rng.integers(3))
        name = f"images/{number}.png"
        picture(SHAPES[code], number).save(folder / name)
        answers = [code if rng.random() < skill else int(rng.integers(3)) for skill in (0.9, 0.8, 0.3)]
        annotations = [
            {
                "completed_by": {"id": who, "email": f"user{who}@example.org", "first_name": f"{IMAGE}{who}"},
                "result": [
                    {"from_name": "shape", "to_name": "i", "type": "choices", "value": {"choices": [SHAPES[answer]]}}
                ],
            }
            for who, answer in enumerate(answers)
        ]
        data = {"image": name if number % 3 else "broken.png", "page": f"https://shop.example.org/item/{number}"}
        data["text"] = f"{IMAGE} item {number}"
        tasks.append({"id": number, "data": data, "annotations": annotations})
        features.append(np.eye(3)[code] + rng.normal(size=3))
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "export.json").write_text(json.dumps(tasks))
    np.save(folder / "features.npy", np.array(features, dtype=np.float32))
    run_line(f"conal fit {folder}/export.json --features {folder}/features.npy --out {folder}/m --epochs 3 -q")
    return folder / "m"


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (420, True)])
def test_the_report_of_a_project_shows_its_pictures(show: Open, project: Path, width: int, dark: bool) -> None:
    driver = show((project / "report.html").read_text(encoding="utf-8"), width, dark)
    asked = requests(driver)
    images = driver.execute_script(LOADED)
    assert len(images) > 20
    assert all(natural > 0 and kind.startswith("data:image/") for natural, _, _, kind in images)
    assert {(across, down) for _, across, down, _ in images} == {(96, 72)}
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    links = driver.execute_script("return [...document.querySelectorAll('a[target]')].map(a => [a.href, a.rel])")
    assert links
    assert all(address.startswith("https://shop.example.org/item/") for address, _ in links)
    assert {rel for _, rel in links} == {"noopener noreferrer"}
    text = driver.execute_script("return document.body.textContent")
    assert f"{IMAGE} item 1" in text
    assert f"{IMAGE}0" in text  # the first name, as the export has it
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []


def test_the_pop_up_shows_doubtful_labels(show: Open, project: Path) -> None:
    report = json.loads((project / "report.json").read_text(encoding="utf-8"))
    driver = show((project / "report.html").read_text(encoding="utf-8"))
    row = report["annotators"]["rows"][0]
    driver.execute_script("document.querySelector('#t-people [data-annotator=\"0\"]').click()")
    items = driver.execute_script("return [...document.querySelectorAll('.doubtful li')].map(li => li.textContent)")
    assert len(items) == len(row["doubtful"]) > 0
    for item, label in zip(items, row["doubtful"], strict=True):
        assert item.startswith(f"{label['task']}: labelled {label['given']}, probably {label['label']} (")
        assert f"{IMAGE} item {label['task']}" in item
    drawn = [label for label in row["doubtful"] if "picture" in label]
    assert len(driver.execute_script("return document.querySelectorAll('.doubtful img')")) == len(drawn)
    assert driver.execute_script("return document.querySelectorAll('.doubtful img:not([data-picture])').length") == 0
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests(driver))
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []


class Photographs:
    """A picture for every task, noisy enough to be as large as a photograph; a few are made, to save time."""

    def __init__(self) -> None:
        self.made = [np.asarray(picture(SHAPES[seed % 3], seed)) for seed in range(20)]

    def of(self, task: Any) -> Source | None:
        return self.made[int(str(task).rsplit(" ", 1)[1]) % len(self.made)]


def test_a_page_of_a_thousand_pictures_stays_small(show: Open) -> None:
    report = make_report(n_tasks=1000, n_annotators=100)
    for found in report["tasks"].values():  # as if every list were full, of different tasks
        row = report["tasks"]["ambiguous"]["rows"][0]
        found["rows"] = [row | {"label": "cat", "majority_vote": "cat"} for _ in range(300)]
    for number, row in enumerate(task_rows(report)):
        row["task"] = f"task {number}"
        row["text"] = "t" * 300
    shown = exhibited(report, Exhibits(pictures=[Photographs()], link=lambda task: f"https://x.org/{task}"))
    page = render(shown)
    assert len(shown["pictures"]["thumbnails"]) >= 1200
    assert len(page.encode()) < 6_000_000
    driver = show(page)
    images = driver.execute_script(LOADED)
    assert len(images) >= 1200
    assert all(natural >= 48 for natural, *_ in images)
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"] == []


def test_digits_are_drawn(show: Open, tmp_path: Path) -> None:
    data = conal.datasets.digits()
    some = np.arange(200)
    clf = conal.make("dl-mv", epochs=15, verbose=False).fit(data.x[some], data.annotations[some])
    clf.save(tmp_path / "m")
    driver = show(write_report(tmp_path / "m").read_text(encoding="utf-8"))
    images = driver.execute_script(LOADED)
    assert len(images) > 20
    assert {tuple(image) for image in images} == {(8, 96, 96, "data:image/png;")}
    sharp = "return getComputedStyle(document.querySelector('img.picture')).imageRendering"
    assert driver.execute_script(sharp) == "pixelated"
