"""Pictures, texts and addresses of tasks, and names of annotators, from files."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from conal.errors import DataWarning, InputError
from conal.io.images import FromUri, NamedPictures, PictureFolder, is_link, items_of, link_maker


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_a_picture_is_called_like_its_task(tmp_path: Path) -> None:
    fill(tmp_path, "7.png", "cat.1.JPG", "a/deep.webp", "notes.txt", "b/x.png", "c/x.png", "x.jpeg", "8.png", "8.gif")
    folder = PictureFolder.open(tmp_path)
    found = {task: folder.of(task) for task in (7, "7", "7.png", "cat.1", "deep", "a/deep", "b/x", "x", "notes", "9")}
    assert found == {
        7: tmp_path / "7.png",
        "7": tmp_path / "7.png",
        "7.png": tmp_path / "7.png",
        "cat.1": tmp_path / "cat.1.JPG",
        "deep": tmp_path / "a/deep.webp",
        "a/deep": tmp_path / "a/deep.webp",
        "b/x": tmp_path / "b/x.png",
        "x": tmp_path / "x.jpeg",  # in the folder itself, before those further inside
        "notes": None,
        "9": None,
    }
    assert folder.of(8) is None
    with pytest.warns(DataWarning, match="several files are called like 1 tasks, which are shown without a picture: 8"):
        folder.warn_of_ambiguous([7, 8, 9])


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "notes.txt")
    with pytest.raises(InputError, match="contains no picture"):
        PictureFolder.open(tmp_path)
    with pytest.raises(InputError, match="is no folder"):
        PictureFolder.open(tmp_path / "notes.txt")


def test_an_export_names_no_files_elsewhere(tmp_path: Path) -> None:
    """An export can come from anybody, and a report is shared: no picture from elsewhere on the disk is in it."""
    home, project = tmp_path / "home", tmp_path / "project"
    fill(home, "private.jpg")
    fill(project, "in/a.png", "b.jpg")
    os.symlink(home / "private.jpg", project / "link.jpg")
    values = {
        "1": "in/a.png",
        "2": f"{project}/b.jpg",
        "3": f"file://{project}/b.jpg",
        "4": "in\\a.png",
        "5": str(home / "private.jpg"),
        "6": "../home/private.jpg",
        "7": f"file://{home}/private.jpg",
        "8": "link.jpg",
        "9": "https://x.org/b.jpg",
        "10": "data:image/png;base64,AAAA",
        "11": "in/missing.png",
        "12": "x\0y.png",
    }
    named = NamedPictures(values, project)
    a, b = (project / "in/a.png").resolve(), (project / "b.jpg").resolve()
    expected = {"1": a, "2": b, "3": b, "4": a, "10": FromUri(values["10"])}
    assert {task: named.of(task) for task in values} == dict.fromkeys(values) | expected
    assert named.of("unknown") is None


def test_names_of_uploads_are_looked_up_in_the_users_folder(tmp_path: Path) -> None:
    fill(tmp_path, "media/ab12-cat.jpg")
    named = NamedPictures({"1": "/data/upload/3/ab12-cat.jpg"}, tmp_path / "other", PictureFolder.open(tmp_path))
    assert named.of(1) == tmp_path / "media/ab12-cat.jpg"


def test_columns_of_an_export_are_told_by_their_values() -> None:
    table = pa.table(
        {
            "task": [1, 2, 3],
            "image": ["https://x.org/view?id=1", "https://x.org/view?id=2", None],
            "file": ["a/1.png", "data:image/png;base64,AA", "a cat"],
            "page": ["https://x.org/1", "javascript:alert(1)", "https://x.org/3"],
            "note": ["see https://x.org", "b", "c"],
            "Text": ["one", None, "three"],
            "shots": ['["https://x.org/1.jpg", "https://x.org/2.jpg"]', None, None],
            "size": [1, 2, 3],
        }
    )
    found = items_of(table)
    assert found.texts == {"1": "one", "3": "three"}
    assert found.pictures == {"1": "a/1.png", "2": "data:image/png;base64,AA"}
    assert found.picture_links == {"1": "https://x.org/view?id=1", "2": "https://x.org/view?id=2"}
    assert found.links == {"1": "https://x.org/1", "3": "https://x.org/3"}
    assert items_of(table, "note").texts == {"1": "see https://x.org", "2": "b", "3": "c"}
    assert items_of(None).texts == {}


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)//https://x.org",
        "\x01javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "ftp://x.org/1",
        "//x.org/1",
        "/task/1",
        "https:alert(1)",
        "https://",
        "https:///x",
        'https://x.org/" onclick="alert(1)',
        "https://x.org/<b>",
        "https://x.org/a b",
        "https://[x.org/",
        "https://x.org/" + "a" * 3000,
    ],
)
def test_only_addresses_of_http_become_links(address: str) -> None:
    assert not is_link(address)
    assert is_link("http://x.org:8080/a/1?b=c&d=%20#e")


def test_the_address_of_a_task_is_made_from_its_id() -> None:
    make = link_maker("https://x.org/projects/1/data?task={task}&view=2")
    assert make(17) == "https://x.org/projects/1/data?task=17&view=2"
    assert make('a b/"<&') == "https://x.org/projects/1/data?task=a%20b%2F%22%3C%26&view=2"
    for wrong in ("https://x.org/1", "javascript:alert('{task}')", "{task}", "file:///{task}"):
        with pytest.raises(InputError, match=r"expected an address of http or https in which \{task\}"):
            link_maker(wrong)


def test_texts_that_are_all_numbers() -> None:
    """A column of text whose values are all numbers is read as numbers."""
    table = pa.table({"task": ["a", "b"], "text": [12, None], "page": [1, 2]})
    assert items_of(table).texts == {"a": "12"}
    assert items_of(table, text="page").texts == {"a": "1", "b": "2"}
