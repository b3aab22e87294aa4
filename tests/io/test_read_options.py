"""One object says how labels are read: by keyword, as a whole, and down to the reader of the format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from conal import Annotations
from conal.errors import InputError
from conal.io import AnnotationFile, ReadOptions, import_file, platforms, read_annotations
from conal.parameters import Doc, Option, parameters, parameters_of
from conal.parameters.reading import GeneralOptions
from conal.report.inspection import inspect_file

COLUMNS: dict[str, Any] = {"task": "song", "worker": "who", "label": "genre"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text("song,who,genre\n1,a,rock\n1,b,jazz\n2,a,jazz\n", encoding="utf-8")
    return path


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "batch.csv"
    path.write_text("HITId,WorkerId,Answer.kind\nh1,w1,cat\n", encoding="utf-8")
    return path


def test_keywords_and_an_object_are_the_same(table: Path) -> None:
    options = ReadOptions(**COLUMNS)
    wanted = Annotations.from_triples([1, 1, 2], ["a", "b", "a"], ["rock", "jazz", "jazz"])
    assert read_annotations(table, **COLUMNS) == wanted
    assert read_annotations(table, options) == read_annotations(path=table, options=options) == wanted
    assert Annotations.read(table, **COLUMNS) == import_file(table, options).annotations == wanted
    assert inspect_file(table, options) == inspect_file(table, **COLUMNS)


def test_keywords_change_a_copy(table: Path) -> None:
    options = ReadOptions(task="song", worker="who", label="nothing")
    found = import_file(table, options, label="genre", classes=["rock", "jazz"])
    assert found.annotations.classes.tolist() == ["rock", "jazz"]
    assert options.label == "nothing"


@pytest.mark.parametrize("read", [read_annotations, import_file, Annotations.read, inspect_file])
def test_an_unknown_keyword_lists_the_known_ones(read: Any, table: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'taks'"):
        read(table, taks="song")


def test_values_are_checked(table: Path) -> None:
    with pytest.raises(InputError, match="on_duplicate must be 'last', 'first' or 'error', not 'maybe'"):
        read_annotations(table, on_duplicate="maybe", **COLUMNS)


def test_the_importer_is_given_the_very_object(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importer = platforms.get("mturk")
    seen = []
    read = type(importer).read

    def watched(self: Any, path: Path, options: ReadOptions) -> AnnotationFile:
        seen.append(options)
        return read(self, path, options)

    monkeypatch.setattr(type(importer), "read", watched)
    options = ReadOptions(question="kind")
    import_file(export, options)
    assert [found is options for found in seen] == [True]


def test_importers_take_only_what_is_declared() -> None:
    specific = set(parameters_of(ReadOptions)) - set(parameters_of(GeneralOptions))
    assert specific == {"task", "worker", "label", "question", "keep_rejected"}
    for name in platforms.names():
        assert set(platforms.get(name).takes) <= specific, name


def test_a_new_option_is_declared_and_used_and_nothing_else(export: Path, table: Path) -> None:
    """It is a keyword of its own, refused where it has no meaning, and reaches the reader that takes it."""

    @parameters
    class More(ReadOptions):
        batch: Annotated[str | None, Doc("Batch."), Option("--batch-name")] = None

    with pytest.raises(InputError, match=r"batch= \(--batch-name\) does not apply to MTurk batch CSV; it takes"):
        import_file(export, More(batch="b"))
    with pytest.raises(InputError, match=r"batch= \(--batch-name\) does not apply to a table"):
        import_file(table, More(batch="b", **COLUMNS))


@pytest.mark.parametrize("name", ["matrix.npy", "table.csv"])
def test_plain_files_refuse_options_of_platforms(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".npy":
        np.save(path, [[0, 1], [1, -1]])
    else:
        path.write_text("task,worker,label\nt,w,x\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"question= \(--question\) does not apply to a (matrix|table)"):
        read_annotations(path, question="kind")
    with pytest.raises(InputError, match=r"keep_rejected= \(--set keep_rejected\) does not apply to a (matrix|table)"):
        read_annotations(path, keep_rejected=True)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-le"])
def test_text_in_another_encoding(tmp_path: Path, name: str, encoding: str) -> None:
    rows = [("Tür", "Jörg", "groß"), ("Käse", "Bea", "klein")]
    mark = "\t" if ".tsv" in name else ";"
    lines = [mark.join(row) for row in [("task", "worker", "label"), *rows]]
    if "jsonl" in name:
        records = [dict(zip(("task", "worker", "label"), row, strict=True)) for row in rows]
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
    content = "".join(f"{line}\n" for line in lines).encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(InputError):
        import_file(path)
    crowd = import_file(path, encoding=encoding).annotations
    found = crowd.to_table().to_pydict()
    assert sorted(zip(found["task"], found["worker"], found["label"], strict=True)) == sorted(rows)


def test_a_byte_order_mark_comes_before_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("task,worker,label\nTür,Jörg,groß\n".encode("utf-8-sig"))
    assert import_file(path, encoding="latin-1").annotations.task_ids.tolist() == ["Tür"]


def test_an_unknown_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("task,worker,label\na,b,c\n")
    for name in ("latin-none", "base64"):
        with pytest.raises(InputError, match=f"no encoding called '{name}'"):
            import_file(path, encoding=name)
    path.write_bytes(b"task,worker,label\na,b,gro\xdf\n")
    with pytest.raises(InputError, match="--encoding latin-1"):
        import_file(path)
