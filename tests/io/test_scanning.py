"""Lines of text tables: which no reader takes, and which a problem is in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from conal.errors import InputError
from conal.io import ReadOptions, import_file
from conal.io.scanning import CELLS, NO_JSON, NO_TASK, NO_WORKER, NOT_TEXT, QUOTES, scan
from conal.report.inspection import inspect_file

GOOD = ["t1,ann,yes", "t1,bob,no", "t2,ann,yes", "t2,bob,yes"]


def csv_of(path: Path, *rows: str) -> Path:
    text = "".join(f"{row}\n" for row in ("item,rater,verdict", *rows))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


FAULTY = [
    (CELLS, "t3,ann"),
    (CELLS, "t3,ann,yes,x"),
    (QUOTES, 't3,"ann,yes'),
    (QUOTES, 't3,"ann"x,yes'),
    (NO_TASK, " ,ann,yes"),
    (NO_WORKER, "t3,,yes"),
]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize(("reason", "row"), FAULTY)
def test_a_line_that_no_reader_takes(tmp_path: Path, name: str, reason: str, row: str) -> None:
    path = csv_of(tmp_path / name, *GOOD[:2], row, *GOOD[2:])
    with pytest.raises(InputError):
        import_file(path)
    found = scan(path, ReadOptions())
    assert found is not None
    assert dict(found.faults) == {reason: [4]}
    copy = found.write(tmp_path / "copy")
    assert import_file(copy).annotations.n_annotations == 4


def test_all_of_them_at_once(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", *GOOD, *(row for _, row in FAULTY), *GOOD[2:], "t4,ann,", "t5,Ann,yes")
    facts = inspect_file(path)
    assert (facts["usable"], facts["n_annotations"]) == (False, 5)
    found = {each["problem"].partition(": ")[2]: each.get("lines") for each in facts["problems"]}
    assert found[f"{CELLS}: 2"] == [6, 7]
    assert found[f"{QUOTES}: 2"] == [8, 9]
    assert (found[f"{NO_TASK}: 1"], found[f"{NO_WORKER}: 1"]) == ([10], [11])
    lines = {
        words: lines for problem, lines in found.items() for words in ("repeat", "dropped", "Ann") if words in problem
    }
    assert lines == {"repeat": [12, 13], "dropped": [14], "Ann": [15]}
    assert all(set(each) >= {"problem", "remedy"} for each in facts["problems"])
    assert str(tmp_path / "a.csv") in facts["problems"][0]["problem"]


def test_values_in_quotes_may_have_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = ["item,text,rater,verdict\n", 't1,"a\n""b"",\n c",ann,yes\n', "\n", "t1,x,bob\n", "t2,y,bob,no\n"]
    path.write_text("".join(rows), encoding="utf-8")
    found = scan(path, ReadOptions())
    assert found is not None
    assert dict(found.faults) == {CELLS: [6]}
    assert import_file(found.write(tmp_path / "copy")).annotations.n_annotations == 2


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("item;rater;verdict\nt1;Jörg;groß\nt1;bob;klein\n".encode("latin-1"))
    facts = inspect_file(path)
    assert (facts["usable"], facts["classes"]) == (False, {"groß": 1, "klein": 1})
    assert facts["problems"][0]["problem"] == f"{path}: {NOT_TEXT}: 1"
    assert "--encoding latin-1" in facts["problems"][0]["remedy"]
    assert inspect_file(path, encoding="latin-1")["usable"]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = '{"image_id": "i%d", "judge": "%s", "verdict": "%s"}'
    rows = [row % (1, "gpt", "yes"), row % (1, "human", "no"), "[1]", '{"image_id": "i2",', row % (2, "gpt", ""), ""]
    path.write_text("\n".join([*rows, row % (2, "gpt", "yes"), row % (2, "gpt", "no")]) + "\n", encoding="utf-8")
    facts = inspect_file(path)
    assert (facts["usable"], facts["n_annotations"]) == (False, 3)
    assert facts["problems"][0]["lines"] == [3, 4]
    assert facts["problems"][0]["problem"] == f"{path}: {NO_JSON}: 2"
    by_words = {word: each for each in facts["problems"] for word in ("dropped", "repeat") if word in each["problem"]}
    assert (by_words["dropped"]["lines"], by_words["repeat"]["lines"]) == ([5], [8])


def test_lists_of_lines_are_short(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", *GOOD, *(f"t{k},ann" for k in range(100)))
    problem = inspect_file(path)["problems"][0]
    assert (problem["lines"], problem["n_lines"]) == ([6, 7, 8, 9, 10], 100)


def test_an_option_that_does_not_fit_hides_no_other_problem(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", *GOOD, "t3,ann,maybe", "t4,ann")
    facts = inspect_file(path, classes=["yes", "no"], without=["nobody"])
    problems = [each["problem"] for each in facts["problems"]]
    assert (facts["usable"], facts["n_annotations"]) == (False, 5)
    assert problems[0].endswith(f"{CELLS}: 1")
    assert "'maybe' not among the 2 classes" in problems[1]


def test_what_cannot_be_read_at_all_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item,rater,user,verdict\nt,a,b,c\n", encoding="utf-8")
    with pytest.raises(InputError, match="columns 'rater', 'user' could all be the worker"):
        inspect_file(path)
    path.write_text("item,rater,user,verdict\nt,a,b,c\nt,a\n", encoding="utf-8")
    facts = inspect_file(path)
    assert [each["problem"] for each in facts["problems"]] == [
        f"{path}: {CELLS}: 1",
        f"{path}: columns 'rater', 'user' could all be the worker",
    ]
    assert "format" not in facts
    path = tmp_path / "a.jsonl"
    path.write_text('{"item": 1, "rater": 2, "user": 3, "verdict": 4}\n{\n', encoding="utf-8")
    problems = [each["problem"] for each in inspect_file(path)["problems"]]
    assert problems == [f"{path}: {NO_JSON}: 1", f"{path}: columns 'rater', 'user' could all be the worker"]


def test_several_files(tmp_path: Path) -> None:
    first = csv_of(tmp_path / "a.csv", *GOOD, "t3,ann,")
    (tmp_path / "b").mkdir()
    second = csv_of(tmp_path / "b" / "a.csv", "t9,ann,yes", "t9,zoe,", "t9", "t9,eve,no")
    facts = inspect_file([first, second])
    assert (facts["file"], facts["usable"], facts["n_annotations"]) == (f"{first}, {second}", False, 6)
    assert [each["file"] for each in facts["files"]] == [str(first), str(second)]
    found = {each["problem"]: each["lines"] for each in facts["problems"] if "lines" in each}
    assert found[f"{second}: {CELLS}: 1"] == [4]
    assert {k: v for k, v in found.items() if "without a label" in k} == {
        f"{first}: dropped 1 rows without a label (empty or NaN); 1 tasks have no label left: 't3'": [6],
        f"{second}: dropped 1 rows without a label (empty or NaN)": [3],
    }


def test_other_files_have_no_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"id": 1}]')
    (tmp_path / "folder").mkdir()
    for name in ("a.json", "folder", "none.csv"):
        assert scan(tmp_path / name, ReadOptions()) is None
