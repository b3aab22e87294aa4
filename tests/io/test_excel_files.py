"""Excel files: names and numbers as people see them, which sheet is read, and what is refused."""

from __future__ import annotations

import datetime as dt
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from conal import Annotations
from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations, read_gold, read_table, read_texts

openpyxl = pytest.importorskip("openpyxl", reason="Excel files need openpyxl")

HEADER = ("task", "worker", "label")
ROWS = [(1, "ann", "cat"), (1, "bob", "dog"), (2, "ann", "dog")]


def book(path: Path, **sheets: list[tuple[Any, ...]]) -> Path:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def test_a_file_of_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=list(HEADER))
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    found = import_file(tmp_path / "a.xlsx")
    assert (found.format, found.annotations) == ("xlsx", Annotations.of(frame))


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
def test_numbers_are_written_as_people_see_them(tmp_path: Path) -> None:
    """Excel has only floats: 3.0 is 3, beside gaps and beside text."""
    rows = [(3.0, 7, 1.0), (4.0, "ann", 2.0), (None, None, None), ("x", "007", None)]
    path = book(tmp_path / "a.xlsx", Sheet=[HEADER, *rows])
    with pytest.warns(DataWarning, match="dropped 1 rows without a label"):
        crowd = read_annotations(path)
    assert crowd.to_table().to_pydict() == {"task": ["3", "4"], "worker": ["7", "ann"], "label": [1, 2]}
    assert crowd.task_ids.tolist() == ["3", "4", "x"]


def test_types_of_cells(tmp_path: Path) -> None:
    day, moment = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4)
    path = book(
        tmp_path / "a.xlsx", S=[("a", "b", "c", "d", "e"), (day, True, 10**15, 0.5, 1), (moment, False, 1, 2, "NA")]
    )
    table = read_table(path)
    assert table.to_pydict() == {
        "a": ["2026-01-02", "2026-01-02 03:04:00"],
        "b": [True, False],
        "c": [10**15, 1],
        "d": [0.5, 2.0],
        "e": ["1", "NA"],
    }
    assert table.schema.field("c").type == pa.int64()


def test_numbers_that_excel_rounds_are_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", S=[HEADER, (12345678901234567, "ann", "cat"), (2, "ann", "dog")])
    with pytest.raises(InputError, match="too many digits"):
        read_annotations(path)


def test_missing_labels_by_the_one_rule(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", S=[HEADER, *ROWS, (3, "ann", "NA"), (3, "bob", " ")])
    with pytest.warns(DataWarning, match=r"dropped 2 rows without a label \(1 'NA', 1 empty or NaN\)"):
        assert read_annotations(path).n_annotations == 3


def test_the_only_sheet_with_the_columns_is_read(tmp_path: Path) -> None:
    notes = [("about", "this"), ("x", "y")]
    path = book(tmp_path / "a.xlsx", Notes=notes, Labels=[HEADER, *ROWS], Empty=[])
    assert read_annotations(path) == Annotations.from_triples(*zip(*ROWS, strict=True))
    path = book(tmp_path / "b.xlsx", Notes=notes, One=[HEADER, *ROWS], Two=[HEADER, *ROWS])
    with pytest.raises(
        InputError, match=r"several of its sheets fit: 'Notes' with 'about', 'this'; 'One' with 'task', "
    ):
        read_annotations(path)
    path = book(tmp_path / "c.xlsx", Notes=notes, More=notes)
    with pytest.raises(InputError, match="none of its sheets has the columns: 'Notes'"):
        read_annotations(path)


def test_exports_that_were_saved_as_excel(tmp_path: Path) -> None:
    """A platform's table, and a wide one."""
    header = ("HITId", "WorkerId", "Input.text", "Answer.kind")
    path = book(tmp_path / "a.xlsx", S=[header, ("h1", "w1", "meow", "cat"), ("h1", "w2", "meow", "dog")])
    found = import_file(path)
    assert (found.format, found.annotations.classes.tolist()) == ("mturk", ["cat", "dog"])
    wide = book(tmp_path / "w.xlsx", S=[("task", "ann", "bob"), ("t1", 1, None), ("t2", 0, 1), ("t3", 1, 1)])
    crowd = read_annotations(wide)
    assert list(zip(*crowd.to_table().to_pydict().values(), strict=True)) == [
        *(("t1", "ann", 1), ("t2", "ann", 0), ("t2", "bob", 1), ("t3", "ann", 1), ("t3", "bob", 1)),
    ]


def test_texts_and_true_labels(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", S=[("task", "text", "label"), (1, "meow", "cat"), (2, "woof", "dog")])
    assert read_texts(path).texts == ("meow", "woof")
    assert read_gold(path).labels.tolist() == ["cat", "dog"]


def test_cells_without_a_column_are_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", S=[HEADER, (), (1, "ann", "cat", "oops")])
    with pytest.raises(InputError, match="sheet 'S', row 3 has cells without a column name"):
        read_annotations(path)


# ---------------------------------------------------------------- limits and damage


def repacked(path: Path, member: str, content: bytes) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, old in members.items():
            archive.writestr(name, content if name == member else old)
    return path


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.limits.TABLE_BYTES", 2**21)
    path = book(tmp_path / "a.xlsx", S=[HEADER, *ROWS])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", b" " * (2**21 + 1))
    with pytest.raises(InputError, match="unpacks to more than 2 MB"):
        read_annotations(path)


def test_a_cell_far_away_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen thousand empty cells before each."""
    monkeypatch.setattr("conal.io.limits.TABLE_BYTES", 2**21)
    cells = "".join(f'<row r="{k}"><c r="XFD{k}"><v>1</v></c></row>' for k in range(1, 501))
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    sheet = f'<worksheet xmlns="{space}"><sheetData>{cells}</sheetData></worksheet>'.encode()
    path = repacked(book(tmp_path / "a.xlsx", S=[HEADER, *ROWS]), "xl/worksheets/sheet1.xml", sheet)
    with pytest.raises(InputError, match="unpacks to more than"):
        read_annotations(path)


def test_entities_are_refused(tmp_path: Path) -> None:
    laugh = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">]><worksheet/>'
    path = repacked(book(tmp_path / "a.xlsx", S=[HEADER, *ROWS]), "xl/worksheets/sheet1.xml", laugh)
    with pytest.raises(InputError, match=r"sheet1.xml declares a document type"):
        read_annotations(path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", S=[HEADER, *ROWS])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"a.xlsx"):
        read_annotations(path)
    path.write_bytes(content)
    repacked(path, "xl/worksheets/sheet1.xml", b"<worksheet><sheetData><row>")
    with pytest.raises(InputError, match="cannot be read as an Excel file"):
        read_annotations(path)


def test_truth_values_are_spelled_alike_in_all_columns(tmp_path: Path) -> None:
    """A column of truth values, and one in which somebody wrote a word."""
    path = book(tmp_path / "a.xlsx", S=[("task", "ann", "bob"), (1, True, True), (2, False, "maybe")])
    assert read_annotations(path, format="wide").classes.tolist() == ["False", "True", "maybe"]
