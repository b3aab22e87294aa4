"""doccano: zips and folders, and what is refused in them."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations
from conal.io.platforms import files
from helpers.crowds import triples


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def doc(number: int, *labels: Any) -> dict[str, Any]:
    return {"id": number, "text": f"text {number}", "label": list(labels), "Comments": []}


def write_zip(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


ANN, BOB = lines(doc(1, "cat"), doc(2, "dog")), lines(doc(1, "cat"), doc(2, "cat"))
WANTED = [(1, "ann", "cat"), (1, "bob", "cat"), (2, "ann", "dog"), (2, "bob", "cat")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "export.zip"


def test_a_zip_and_the_folder_it_unpacks_to(path: Path, tmp_path: Path) -> None:
    write_zip(path, **{"ann.jsonl": ANN, "bob.jsonl": BOB})
    assert triples(read_annotations(path)) == WANTED
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / "ann.jsonl").write_text(ANN)
    (folder / "bob.jsonl").write_text(BOB)
    (folder / ".DS_Store").write_text("junk")
    assert triples(read_annotations(folder)) == WANTED


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"config.json": '{"epochs": 3}', "labels.csv": "task,label\n1,cat\n"}, "'config.json', 'labels.csv'"),
        ({"labels.csv": "task,worker,label\n1,a,cat\n"}, "'labels.csv'"),
        ({"notes.txt": "hello"}, "'notes.txt'"),
    ],
)
def test_not_every_folder_is_an_export(tmp_path: Path, members: dict[str, str], found: str) -> None:
    for name, content in members.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=f"has no known format, found a folder with {found}"):
        read_annotations(tmp_path)


def test_an_annotator_called_answers(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text(json.dumps([doc(1, "cat")]))
    (tmp_path / "bob.json").write_text(json.dumps([doc(1, "dog")]))
    assert triples(read_annotations(tmp_path)) == [(1, "answers", "cat"), (1, "bob", "dog")]


def test_json_and_csv(path: Path) -> None:
    write_zip(path, **{"ann.json": json.dumps([doc(1, "cat"), doc(2, "dog")]), "bob.json": json.dumps([doc(1, "cat")])})
    assert triples(read_annotations(path)) == [row for row in WANTED if row != (2, "bob", "cat")]
    header = "id,text,label,Comments\n"
    write_zip(
        path, **{"ann.csv": header + '1,"a ""b"", c",cat,\n2,x,dog,\n', "bob.csv": header + "1,x,cat,\n2,y,cat,\n"}
    )
    assert triples(read_annotations(path)) == WANTED


def test_several_labels_and_none(path: Path) -> None:
    write_zip(
        path, **{"ann.jsonl": lines(doc(1, "cat", "dog"), doc(2), doc(3, "cat")), "bob.jsonl": lines(doc(3, "dog"))}
    )
    found = import_file(path)
    assert triples(found.annotations) == [(3, "ann", "cat"), (3, "bob", "dog")]
    assert found.dropped == {"with several answers": 1, "without an answer": 1}
    write_zip(path, **{"ann.csv": "id,text,label\n1,x,cat#dog\n2,y,\n3,z,cat\n"})
    found = import_file(path)
    assert triples(found.annotations) == [(3, "ann", "cat")]
    assert found.dropped == {"with several answers": 1, "without an answer": 1}


def test_intents_are_in_cats(path: Path) -> None:
    record = {"id": 1, "text": "x", "cats": ["book"], "entities": [[0, 1, "LOC"]]}
    write_zip(path, **{"ann.jsonl": lines(record)})
    assert triples(read_annotations(path)) == [(1, "ann", "book")]


def test_spans_are_no_labels_of_documents(path: Path) -> None:
    write_zip(path, **{"ann.jsonl": lines(doc(1, [0, 5, "PER"]))})
    with pytest.raises(InputError, match="1 with an answer that is no single choice"):
        read_annotations(path)


def test_a_collaborative_project_does_not_say_who_it_was(path: Path, tmp_path: Path) -> None:
    write_zip(path, **{"all.jsonl": ANN})
    with pytest.raises(InputError, match=r"collaborative project, 'all\.jsonl', which does not say who gave"):
        read_annotations(path)
    for name in ("all.jsonl", "admin.jsonl"):
        (tmp_path / name).write_text(ANN)
        with pytest.raises(InputError, match=r"one file of a doccano export.*pass the zip, or the folder"):
            read_annotations(tmp_path / name)


def test_a_user_may_be_called_all(path: Path) -> None:
    write_zip(path, **{"all.jsonl": ANN, "bob.jsonl": BOB})
    assert read_annotations(path).annotator_ids.tolist() == ["all", "bob"]


def test_folders_in_a_zip_and_files_of_the_operating_system(path: Path) -> None:
    junk = {"__MACOSX/._ann.jsonl": "junk", "project/.DS_Store": "junk", "project/readme.txt": "hello"}
    write_zip(path, **{"project/ann.jsonl": ANN, "project/bob.jsonl": BOB} | junk)
    assert triples(read_annotations(path)) == WANTED


def test_an_annotator_who_has_not_begun(path: Path) -> None:
    write_zip(path, **{"ann.jsonl": ANN, "bob.jsonl": ""})
    with pytest.warns(DataWarning, match="left out 1 files without a document"):
        assert read_annotations(path).annotator_ids.tolist() == ["ann"]


@pytest.mark.parametrize(
    "name", ["../ann.jsonl", "/etc/ann.jsonl", "a/../../b.jsonl", "..\\ann.jsonl", "C:\\ann.jsonl"]
)
def test_unsafe_names_are_refused(path: Path, tmp_path: Path, name: str) -> None:
    write_zip(path, **{name: ANN})
    with pytest.raises(InputError, match="contains a file with the unsafe name"):
        read_annotations(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["export.zip"]


def test_one_name_twice(path: Path) -> None:
    write_zip(path, **{"a/ann.jsonl": ANN, "b/ann.jsonl": BOB})
    with pytest.raises(InputError, match=r"contains two files called 'ann\.jsonl'"):
        read_annotations(path)


def test_a_zip_bomb_is_not_unpacked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "JSON_BYTES", 2**20)
    write_zip(path, **{"ann.jsonl": ANN, "bob.jsonl": " " * 2**21})
    with pytest.raises(
        InputError,
        match=r"unpacks to more than 1 MB, over 100 times its size; .* unpack it yourself and pass what is inside",
    ):
        read_annotations(path)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")  # the last file's entry in the directory, which then lies about its size
    content[at + 24 : at + 28] = struct.pack("<I", 10)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"export\.zip"):
        read_annotations(path)


def test_a_damaged_zip(path: Path) -> None:
    write_zip(path, **{"ann.jsonl": ANN, "bob.jsonl": BOB})
    path.write_bytes(path.read_bytes()[:-30])
    for options in ({}, {"format": "doccano"}):
        with pytest.raises(InputError, match=r"export\.zip: .* damaged zip"):
            read_annotations(path, **options)  # type: ignore[arg-type]


def test_another_zip(path: Path) -> None:
    write_zip(path, **{"readme.txt": "hello"})
    with pytest.raises(InputError, match=r"has no known format, found a zip with 'readme\.txt'"):
        read_annotations(path)
    with pytest.raises(InputError, match="is not doccano: expected a zip or folder with one"):
        read_annotations(path, format="doccano")
    write_zip(path, **{"ann.jsonl": '{"a": 1}'})
    with pytest.raises(InputError, match=r"ann\.jsonl: is not doccano: .* found a record with 'a'"):
        read_annotations(path)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no known format, found a folder with nothing"):
        read_annotations(tmp_path)
