"""Annotations from files and back, and what is said about files that cannot be used."""

from __future__ import annotations

import gzip
import json
import re
import struct
import warnings
import zlib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conal.data.annotations import Annotations
from conal.data.cleaning import MISSING_WORDS, missing_rule
from conal.errors import DataWarning, InputError
from conal.io import read_annotations, read_features, read_table, write_annotations, write_table
from conal.io.tables import UNTYPED, blank_to_null, coerce_classes, file_kind, write_tables
from helpers.crowds import triples
from helpers.files import write_lines as write_text

ENDINGS = ["csv", "tsv", "tab", "parquet", "pq", "jsonl", "ndjson"]
ROWS = [("t2", "bob", "dog"), ("t1", "eve", "cat"), ("t3", "ann", "cat"), ("t1", "ann", "dog"), ("t2", "ann", "cow")]


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(dict(zip(("task", "worker", "label"), map(list, zip(*rows, strict=True)), strict=True)))


def expected() -> Annotations:
    return Annotations.from_triples(*zip(*ROWS, strict=True))


def write_rows(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    write_table(table_of(rows), path)
    return path


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = b"".join(b"\0" + bytes(range(30)) for _ in range(10))
    header = struct.pack(">IIBBBBB", 10, 10, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_the_same(tmp_path: Path, ending: str) -> None:
    ann = Annotations.read(write_rows(tmp_path / f"a.{ending}", ROWS))
    assert ann == expected()
    assert ann.to_matrix().tolist() == [[2, -1, 0], [1, 2, -1], [0, -1, -1]]
    assert not ann.by_position


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_order_of_the_rows_does_not_matter(tmp_path: Path, ending: str) -> None:
    assert Annotations.read(write_rows(tmp_path / f"a.{ending}", ROWS[::-1])) == expected()


def test_the_path_may_be_text_and_the_ending_in_capitals(tmp_path: Path) -> None:
    assert read_annotations(str(write_rows(tmp_path / "a.CSV", ROWS))) == expected()


@pytest.mark.parametrize(
    "content",
    [
        "task,worker,label\nt,w,x\nu,w,y\n",
        "task,worker,label\r\nt,w,x\r\nu,w,y\r\n",
        "\ufefftask,worker,label\nt,w,x\nu,w,y\n",
        "task,worker,label\nt,w,x\nu,w,y",
        '"task","worker","label"\n"t","w","x"\n"u","w","y"\n',
        "Item ID,WorkerId,comment,Answer\nt,w,?,x\nu,w,!,y\n",
        "label,worker,task\nx,w,t\ny,w,u\n",
    ],
)
def test_dialects_of_csv(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    assert read_annotations(path) == Annotations.from_triples(["t", "u"], ["w", "w"], ["x", "y"])


def test_format_overrides_the_ending(tmp_path: Path) -> None:
    path = write_text(tmp_path / "export.txt", "task\tworker\tlabel", "t\tw\tx")
    assert read_annotations(path, format="tsv").classes.tolist() == ["x"]
    path = write_rows(tmp_path / "b.jsonl", ROWS).rename(tmp_path / "b.csv")
    assert read_annotations(path, format="jsonl") == expected()


def test_columns_by_name(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "song,who,label,genre", "s,w,1,rock")
    ann = read_annotations(path, task="song", worker="who", label="genre")
    assert (ann.task_ids.tolist(), ann.annotator_ids.tolist(), ann.classes.tolist()) == (["s"], ["w"], ["rock"])


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["3", "1", "2"], [1, 2, 3]),
        (["3.0", "1", "2.0"], ["1", "2.0", "3.0"]),
        (["0.5", "1", "2"], [0.5, 1.0, 2.0]),
        (["-2", "0", " 1"], [" 1", "-2", "0"]),
        (["b", "1", "a"], ["1", "a", "b"]),
        (["true", "false"], ["false", "true"]),
        (["2024-01-02", "2024-01-01"], ["2024-01-01", "2024-01-02"]),
        (["12:00", "09:30"], ["09:30", "12:00"]),
        (["007", "7"], ["007", "7"]),
        (["1e3", "5"], ["1e3", "5"]),
        (["18446744073709551615", "18446744073709551614"], ["18446744073709551614", "18446744073709551615"]),
        (["1234567890123456789", "5"], ["1234567890123456789", "5"]),
        (["123456789012345678", "5"], [5, 123456789012345678]),
    ],
)
def test_types_in_csv(tmp_path: Path, texts: list[str], names: list[Any]) -> None:
    lines = [f"{text},{text},{text}" for text in texts]
    path = write_text(tmp_path / "a.csv", "task,worker,label", *lines)
    renamed = write_text(tmp_path / "b.csv", "song,who,genre", *lines)
    for ann in (read_annotations(path), read_annotations(renamed, task="song", worker="who", label="genre")):
        for found in (ann.task_ids, ann.annotator_ids, ann.classes):
            assert found.tolist() == names
            assert [type(name) for name in found.tolist()] == [type(name) for name in names]


def test_types_of_arrow_in_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "task": pa.array([b"t", b"u"], pa.binary()),  # text as some writers store it
            "worker": pa.array(["w", "v"], pa.large_string()),
            "label": pa.array(["y", "x"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_annotations(tmp_path / "a.parquet") == Annotations.from_triples(["t", "u"], ["w", "v"], ["y", "x"])


@pytest.mark.parametrize(
    ("labels", "given", "names", "codes"),
    [
        ("xyx", ["y", "x", "z"], ["y", "x", "z"], [1, 0, 1]),
        ("121", ["2", "1"], [2, 1], [1, 0, 1]),  # a command line has only text
        ("121", [2, 1], [2, 1], [1, 0, 1]),
        ("121", np.array([2, 1]), [2, 1], [1, 0, 1]),
        ("xyx", np.array(["y", "x"]), ["y", "x"], [1, 0, 1]),
        (["true", "false", "true"], ["true", "false"], ["true", "false"], [0, 1, 0]),
        (["0.5", "1", "0.5"], ["1", "0.5"], [1.0, 0.5], [1, 0, 1]),
    ],
)
def test_class_order(tmp_path: Path, labels: Any, given: Any, names: list[Any], codes: list[int]) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", *(f"{k},w,{label}" for k, label in enumerate(labels)))
    ann = read_annotations(path, classes=given)
    assert ann.classes.tolist() == names
    assert ann.labels.tolist() == codes


def test_classes_given_as_text_for_truth_values(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.parquet", [("t", "w", True), ("u", "w", False)])
    ann = read_annotations(path, classes=["True", "false"])
    assert ann.classes.tolist() == [True, False]
    assert ann.labels.tolist() == [0, 1]


def test_classes_of_another_type(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", "t,w,1")
    with pytest.raises(InputError, match=r"classes 'one', 'two' do not have the type of the labels \(int64\)"):
        read_annotations(path, classes=["one", "two"])
    with pytest.raises(InputError, match="do not have the type of the labels"):
        coerce_classes(["yes", "no"], np.array([True]))


def test_unknown_label_names_file_row_and_nearest_class(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", "t,w,cat", "u,w,dgo")
    message = re.escape(f"{path}: row 2: 'dgo' not among the 2 classes; did you mean 'dog'?")
    with pytest.raises(InputError, match=f"^{message}"):
        read_annotations(path, classes=["cat", "dog"])


def test_matrix_from_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "answers.npy", np.array([[0, -1], [2, 0], [-1, -1]]))
    ann = Annotations.read(tmp_path / "answers.npy", classes=[0, 1, 2])
    assert ann == Annotations.from_matrix([[0, -1], [2, 0], [-1, -1]], classes=[0, 1, 2])
    assert ann.to_matrix().tolist() == [[0, -1], [2, 0], [-1, -1]]
    assert ann.by_position


@pytest.mark.parametrize("matrix", [np.array([[0, np.nan], [1, 0]]), np.array([[0, -1], [1, 0]], dtype=np.int8)])
def test_kinds_of_npy(tmp_path: Path, matrix: Any) -> None:
    np.save(tmp_path / "answers.npy", matrix)
    path = (tmp_path / "answers.npy").rename(tmp_path / "answers.bin")
    ann = read_annotations(path, format="npy")
    assert ann.to_matrix().tolist() == [[0, -1], [1, 0]]
    assert ann.classes.tolist() == [0, 1]


# ---------------------------------------------------------------- there and back


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [(1, 10, 0), (2, 10, 1), (1, 20, 1)],
        [(0.5, "w", 1.5), (1.5, "w", 2.0)],
        [("007", "12:00", "true"), ("7", "nine", "false")],
        [("a,b", 'say "hi"', "x\ty"), ("line feed", "é ü 漢", " padded ")],
        [("None", "None", "None"), ("x", "NaN", "y")],
    ],
)
def test_there_and_back(tmp_path: Path, ending: str, rows: list[tuple[Any, ...]]) -> None:
    ann = Annotations.from_triples(*zip(*rows, strict=True))
    write_annotations(ann, tmp_path / f"a.{ending}")
    again = read_annotations(tmp_path / f"a.{ending}")
    assert again == ann
    assert (again.task_ids.dtype, again.classes.dtype) == (ann.task_ids.dtype, ann.classes.dtype)
    assert [entry.name for entry in tmp_path.iterdir()] == [f"a.{ending}"]


def test_dates_and_truth_values_there_and_back(tmp_path: Path) -> None:
    ann = Annotations.from_triples([date(2024, 1, 2), date(2024, 1, 1)], ["w", "w"], [True, False])
    write_annotations(ann, tmp_path / "a.parquet")
    assert read_annotations(tmp_path / "a.parquet") == ann


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_dates_and_truth_values_are_text_in_csv(tmp_path: Path, ending: str) -> None:
    ann = Annotations.from_triples([date(2024, 1, 2), date(2024, 1, 1)], ["w", "w"], [True, False])
    write_annotations(ann, tmp_path / f"a.{ending}")
    again = read_annotations(tmp_path / f"a.{ending}")
    assert again.task_ids.tolist() == ["2024-01-01", "2024-01-02"]
    assert again.classes.tolist() == ["False", "True"]
    assert again.to_matrix().tolist() == ann.to_matrix().tolist()


def test_dates_in_json_lines_are_text(tmp_path: Path) -> None:
    write_annotations(Annotations.from_triples([date(2024, 1, 2)], ["w"], [0]), tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {"task": "2024-01-02", "worker": "w", "label": 0}


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=5)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
@given(data=st.data())
def test_any_text_there_and_back(tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject) -> None:
    cells = data.draw(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 2), min_size=1))
    # A letter in front, so that no name is a number, a date or a word for "missing", and none looks like another.
    text = LINE if ending in UNTYPED else TEXT
    tasks, workers, classes = ([f"{letter}{k}~{data.draw(text)}" for k in range(4)] for letter in "twc")
    ann = Annotations.from_triples(
        [tasks[i] for i, _ in cells], [workers[r] for _, r in cells], [classes[label] for label in cells.values()]
    )
    path = tmp_path_factory.mktemp("any") / f"a.{ending}"
    write_annotations(ann, path)
    assert read_annotations(path) == ann


def test_csv_has_quotes_only_where_they_are_needed(tmp_path: Path) -> None:
    assert write_rows(tmp_path / "a.csv", ROWS[:2]).read_bytes() == b"task,worker,label\nt2,bob,dog\nt1,eve,cat\n"


def test_tasks_without_labels_do_not_survive_a_long_table(tmp_path: Path) -> None:
    ann = expected().reindex(["t1", "t9"])
    write_annotations(ann, tmp_path / "a.csv")
    assert read_annotations(tmp_path / "a.csv").task_ids.tolist() == ["t1"]


def test_writing_replaces_a_file_or_leaves_it(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.csv", [("old", "w", "x")])
    with pytest.raises(InputError, match=r"a\.csv: this table cannot be written as csv: .*list"):
        write_table(pa.table({"task": [[1, 2], [3, 4]]}), path)
    assert read_annotations(path).task_ids.tolist() == ["old"]
    write_annotations(expected(), path)
    assert read_annotations(path) == expected()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


def test_names_without_a_type_in_tables_are_written_as_text(tmp_path: Path) -> None:
    """As in the tables of results."""
    path = tmp_path / "a.csv"
    write_annotations(Annotations.from_triples([(1, 2), (3, 4)], ["w", 7], ["x", "y"]), path)
    found = read_annotations(path)
    assert found.task_ids.tolist() == ["(1, 2)", "(3, 4)"]
    assert found.annotator_ids.tolist() == ["7", "w"]


def test_writing_needs_a_known_ending(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.xlsx: unknown kind of table '\.xlsx'; use \.csv, "):
        write_annotations(expected(), tmp_path / "a.xlsx")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- missing values


def test_missing_tokens_in_text_labels(tmp_path: Path) -> None:
    tokens = ["", " ", *MISSING_WORDS, *map(str.upper, MISSING_WORDS), " NaN ", '"NAN"', "None", "none!", "x"]
    path = write_text(tmp_path / "a.csv", "task,worker,label", *(f"t,w{k},{token}" for k, token in enumerate(tokens)))
    message = f"{path}: dropped {2 * len(MISSING_WORDS) + 4} rows without a label ("
    with pytest.warns(DataWarning, match=f"^{re.escape(message)}.*, 2 empty or NaN\\); if .* pass missing='' "):
        ann = read_annotations(path)
    assert ann.classes.tolist() == ["None", "none!", "x"]
    assert ann.n_annotations == 3


@pytest.mark.parametrize(
    ("labels", "classes", "dropped"),
    [
        (["2", "", "3"], [2, 3], 1),
        (["2", "NaN", "3", "nan", "NA"], [2, 3], 3),
        (["2.5", "", "nan", "3"], [2.5, 3.0], 2),
        (["true", "", "false"], ["false", "true"], 1),
    ],
)
def test_missing_tokens_in_other_labels(tmp_path: Path, labels: list[str], classes: list[Any], dropped: int) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", *(f"t,w{k},{label}" for k, label in enumerate(labels)))
    with pytest.warns(DataWarning, match=f"dropped {dropped} rows without a label"):
        ann = read_annotations(path)
    assert ann.classes.tolist() == classes
    assert [type(name) for name in ann.classes.tolist()] == [type(name) for name in classes]


def test_a_token_that_is_a_class_is_kept(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", "t,w,NA", "u,w,EU", "v,w,")
    for classes in (["NA", "EU"], np.array(["NA", "EU"])):
        with pytest.warns(DataWarning, match="dropped 1 rows"):
            assert read_annotations(path, classes=classes).labels.tolist() == [0, 1]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_nulls(tmp_path: Path, ending: str) -> None:
    path = write_rows(tmp_path / f"a.{ending}", [("t", "w", None), ("u", "w", "x"), ("v", "w", "")])
    with pytest.warns(DataWarning, match="dropped 2 rows"):
        ann = read_annotations(path)
    assert ann.task_ids.tolist() == ["t", "u", "v"]
    assert ann.labels_per_task().tolist() == [0, 1, 0]


def test_keys_that_some_lines_lack(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.jsonl", '{"task":1,"worker":1}', '{"task":1,"worker":2,"label":3,"more":[]}')
    with pytest.warns(DataWarning, match="dropped 1 rows"):
        assert read_annotations(path).to_matrix().tolist() == [[-1, 0]]


@pytest.mark.parametrize("labels", [["", ""], ["NaN", "nan"], ["", "null"]])
def test_all_labels_missing(tmp_path: Path, labels: list[str]) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", *(f"t,w{k},{label}" for k, label in enumerate(labels)))
    with pytest.raises(InputError, match=rf"{re.escape(str(path))}: every label is missing"):
        read_annotations(path)


@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.parametrize(("role", "line"), [("task", ",{0},x"), ("worker", "{0},,x")])
def test_missing_ids(tmp_path: Path, role: str, line: str, kind: str) -> None:
    name = "a" if kind == "text" else "1"
    lines = [f"{name},{name},x", line.format(name), line.format(name)]
    path = write_text(tmp_path / "a.csv", "task,worker,label", *lines)
    with pytest.raises(InputError, match=rf"a\.csv: 2 rows have no {role}, the first is row 2; fill in the {role}"):
        read_annotations(path)


def test_words_that_mean_missing_are_fine_as_ids(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", "NA,null,x", "b,c,y")
    ann = read_annotations(path)
    assert ann.task_ids.tolist() == ["NA", "b"]
    assert ann.annotator_ids.tolist() == ["c", "null"]


def test_blank_to_null_leaves_other_types_alone() -> None:
    numbers = pa.chunked_array([[1, None]])
    assert blank_to_null(numbers) is numbers
    text = pa.chunked_array([["a", "", "  ", "NA"]])
    assert blank_to_null(text).to_pylist() == ["a", None, None, "NA"]
    assert blank_to_null(text, missing_rule()).to_pylist() == ["a", None, None, None]
    assert blank_to_null(text, missing_rule(classes=["NA"])).to_pylist() == ["a", None, None, "NA"]


# ---------------------------------------------------------------- repeated pairs, lookalikes


@pytest.mark.parametrize(("rule", "kept"), [("last", "z"), ("first", "x")])
def test_repeated_pairs(tmp_path: Path, rule: Any, kept: str) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", "t,w,x", "t,w,y", "t,w,z")
    message = rf"a\.csv: 2 rows repeat .* task 't', worker 'w'; kept the {rule} of each"
    with pytest.warns(DataWarning, match=message):
        ann = read_annotations(path, on_duplicate=rule)
    assert ann.classes[ann.labels].tolist() == [kept]


def test_repeated_pairs_as_an_error(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", "t,w,x", "t,w,y")
    with pytest.raises(InputError, match=r"a\.csv: 1 rows repeat .* task 't', worker 'w'; remove them"):
        read_annotations(path, on_duplicate="error")


def test_classes_that_look_alike(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label", "t,w,Cat", "u,w,cat ")
    with pytest.warns(
        DataWarning, match=r"a\.csv: classes 'Cat' and 'cat ' differ only in case, spaces or the form of letters"
    ):
        assert read_annotations(path).n_classes == 2


# ---------------------------------------------------------------- files that cannot be used


@pytest.mark.parametrize("ending", [*ENDINGS, "npy"])
def test_missing_empty_and_folder(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    with pytest.raises(InputError, match=rf"a\.{ending}: no such file"):
        read_annotations(path)
    path.touch()
    with pytest.raises(InputError, match=rf"a\.{ending}: is empty"):
        read_annotations(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=rf"a\.{ending}: is a folder, expected a file"):
        read_annotations(path)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_header_only(tmp_path: Path, ending: str) -> None:
    schema = pa.schema([("task", pa.string()), ("worker", pa.string()), ("label", pa.string())])
    write_table(schema.empty_table(), tmp_path / f"a.{ending}")
    with pytest.raises(InputError, match=rf"a\.{ending}: has a header \('task', 'worker', 'label'\) but no rows"):
        read_annotations(tmp_path / f"a.{ending}")


def test_blank_lines_only(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.jsonl: .* no rows"):
        read_annotations(write_text(tmp_path / "a.jsonl", "", ""))


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("csv", png()),
        ("tsv", b"a\tb\n1\n"),
        ("parquet", png()),
        ("parquet", b"task,worker,label\n1,2,3\n"),
        ("parquet", b"PAR1 and then nothing"),
        ("jsonl", png()),
        ("jsonl", bytes(range(256))),
        ("jsonl", b"task,worker,label\n1,2,3\n"),
        ("jsonl", b'{"task": 1, "worker": 2, "label": "x"}\n{"task": 1, "wor'),
        ("jsonl", b'{"task": 1, "worker": 2, "label": "x"}\n{"task": 1, "worker": 3, "label": 4}\n'),
        ("csv", b"task,worker,label,caf\xe9\n1,2,3,4\n"),
    ],
)
def test_the_wrong_kind_of_file(tmp_path: Path, ending: str, content: bytes) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(content)
    message = rf"^{re.escape(str(path))}: cannot be read as {ending}: .*Check the file, or set its format with format="
    with pytest.raises(InputError, match=message) as caught:
        read_annotations(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [png(), b"PK\x03\x04 junk", b"1,2,3\n", b"\x93NUMPY"])
def test_the_wrong_kind_of_npy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npy: cannot be read as NumPy numbers or text"):
        read_annotations(tmp_path / "a.npy")


def test_pickled_npy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([["x", None]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"a\.npy: cannot be read as NumPy numbers or text: .*Python objects"):
        read_annotations(tmp_path / "a.npy")


def test_an_archive_named_npy(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"a\.npy: cannot be read as NumPy"):
        read_annotations((tmp_path / "a.npz").rename(tmp_path / "a.npy"))


def test_npy_of_another_shape(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(InputError, match=r"a\.npy: expected tasks x annotators, got an array of shape \(3,\)"):
        read_annotations(tmp_path / "a.npy")


def test_text_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"task,worker,label\nt,w,caf\xe9\n")
    with pytest.raises(InputError, match=r"a\.csv: cannot be read as csv: .*UTF8.*--encoding latin-1.*"):
        read_annotations(tmp_path / "a.csv")
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [b"caf\xe9"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: column 'label' is not UTF-8 text"):
        read_annotations(tmp_path / "a.parquet")


def test_other_columns_may_hold_anything(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"task,worker,label,comment\nt,w,x,caf\xe9\n")
    assert read_annotations(tmp_path / "a.csv").classes.tolist() == ["x"]


def test_columns_called_the_same(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task,worker,label,label", "t,w,x,y")
    with pytest.raises(InputError, match=r"a\.csv: several columns have the name 'label'; rename them"):
        read_annotations(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("task,worker,emotion", "no column for the label; it has 'task', 'worker', 'emotion'"),
        ("picture,worker,label", "no column for the task; it has 'picture', 'worker', 'label'"),
        ("task,user,rater,label", "columns 'user', 'rater' could all be the worker; choose one with worker="),
    ],
)
def test_columns_that_are_not_there_or_not_clear(tmp_path: Path, header: str, message: str) -> None:
    path = write_text(tmp_path / "a.csv", header, ",".join("x" * len(header.split(","))))
    with pytest.raises(InputError, match=rf"a\.csv: {message}"):
        read_annotations(path)


@pytest.mark.parametrize("column", ["task", "worker", "label"])
def test_lists_are_no_names(tmp_path: Path, column: str) -> None:
    row: dict[str, Any] = {"task": 1, "worker": 1, "label": 1, column: ["x", "y"]}
    path = write_text(tmp_path / "a.jsonl", json.dumps(row))
    with pytest.raises(InputError, match=rf"a\.jsonl: {column}: \['x', 'y'\] cannot be a name, it is a list"):
        read_annotations(path)


def test_ids_with_more_digits_than_a_number_holds(tmp_path: Path) -> None:
    lines = [f'{{"task": {task}, "worker": 1, "label": 1}}' for task in (18446744073709551615, 18446744073709551614)]
    path = write_text(tmp_path / "a.jsonl", *lines)
    with pytest.raises(InputError, match=r"a\.jsonl: task: numbers such as 18446744073709551616 have too many digits"):
        read_annotations(path)


@pytest.mark.parametrize(
    ("name", "mark", "advice"),
    [
        ("a.tsv", ";", "columns are separated by ';', which is not tsv; call it .csv"),
        ("a.csv", "\t", r"columns are separated by '\\t', which is not csv; call it .tsv, or say format='tsv'"),
        ("a.tsv", ",", "columns are separated by ',', which is not tsv; call it .csv"),
    ],
)
def test_another_delimiter(tmp_path: Path, name: str, mark: str, advice: str) -> None:
    path = write_text(tmp_path / name, mark.join(["task", "worker", "label"]), mark.join("twx"))
    with pytest.raises(InputError, match=f"{name}: {advice}"):
        read_annotations(path)


def test_columns_separated_by_semicolons(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "task;worker;label", '1;ann;"cat; or, dog"', "007;bob;1,5")
    assert triples(read_annotations(path)) == [("007", "bob", "1,5"), ("1", "ann", "cat; or, dog")]
    table = read_table(path)
    assert (table.column_names, table.num_rows) == (["task", "worker", "label"], 2)
    features = read_features(write_text(tmp_path / "x.csv", "task;width", "7;0.5", "8;1.5"))
    assert features.ids is not None
    assert (features.ids.tolist(), features.values.tolist()) == ([7, 8], [[0.5], [1.5]])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
def test_tables_in_utf_16(tmp_path: Path, encoding: str, ending: str, mark: str) -> None:
    lines = [mark.join(row) for row in (("task", "worker", "label"), ("1", "Bär", "ж"), ("1", "eve", "x"))]
    start = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / f"a.{ending}").write_bytes((start + "\r\n".join(lines) + "\r\n").encode(encoding))
    assert triples(read_annotations(tmp_path / f"a.{ending}")) == [(1, "Bär", "ж"), (1, "eve", "x")]


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_classes_name_the_numbers_of_a_matrix(tmp_path: Path, kind: Any) -> None:
    np.save(tmp_path / "a.npy", np.array([[0, 2], [-1, 1]], dtype=kind))
    found = read_annotations(tmp_path / "a.npy", classes=["cat", "dog", "elk"])
    assert found.classes.tolist() == ["cat", "dog", "elk"]
    assert triples(found) == [(0, 0, "cat"), (0, 1, "elk"), (1, 1, "dog")]
    with pytest.raises(InputError, match=r"a\.npy: row 1: 2 not among the 2 classes"):
        read_annotations(tmp_path / "a.npy", classes=["cat", "dog"])
    assert read_annotations(tmp_path / "a.npy", classes=["2", "1", "0"]).classes.tolist() == [2, 1, 0]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_compressed_text(tmp_path: Path, ending: str) -> None:
    content = write_rows(tmp_path / f"a.{ending}", ROWS).read_bytes()
    (tmp_path / f"b.{ending}.gz").write_bytes(gzip.compress(content))
    assert read_annotations(tmp_path / f"b.{ending}.gz") == expected()


def test_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"a\.ods: unknown kind of table '\.ods'; use \.arrow, \.csv, \.feather, \.jsonl"
    ):
        read_table(tmp_path / "a.ods")
    with pytest.raises(InputError, match="unknown kind of table 'excel'"):
        file_kind(tmp_path / "a.csv", "excel")


# ---------------------------------------------------------------- large files, several files


@pytest.mark.parametrize(("written", "name"), [("last", "last"), ('"last"', "last"), ('"la""st"', 'la"st')])
def test_quotes_far_down_in_a_file(tmp_path: Path, written: str, name: str) -> None:
    lines = [f"task-{k:06},w,x" for k in range(120_000)]
    path = write_text(tmp_path / "a.csv", "task,worker,label", *lines, f"{written},w,x")
    ann = read_annotations(path)
    assert (ann.n_tasks, ann.task_ids[0]) == (120_001, name)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_annotations(packed) == ann


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        ("", "7", np.int64),
        ("NA", "7.5", np.float64),
        ("7", "x", object),
        ("7", "7.5", np.float64),
        ("x", "7", object),
        ("7", "8", np.int64),
    ],
)
def test_types_are_those_of_all_rows(tmp_path: Path, first: str, last: str, kind: type) -> None:
    lines = [f"{k},w,{first}" for k in range(1500)] + [f"{k},w,{last}" for k in range(1500, 1600)]
    path = write_text(tmp_path / "a.csv", "task,worker,label", *lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        ann = read_annotations(path)
    assert ann.classes.dtype == kind
    assert ann.task_ids.dtype == np.int64


def test_tables_that_belong_together(tmp_path: Path) -> None:
    tables = {tmp_path / f"{name}.csv": pa.table({"x": [k]}) for k, name in enumerate("ab")}
    write_tables(tables)
    assert [path.read_text() for path in tables] == ["x\n0\n", "x\n1\n"]
    (tmp_path / "a.csv").write_text("old")
    (tmp_path / "b.csv").unlink()
    unwritable = pa.table({"x": [[1, 2]]})
    with pytest.raises(InputError, match=r"b\.csv: this table cannot be written as csv"):
        write_tables({tmp_path / "a.csv": pa.table({"x": [1]}), tmp_path / "b.csv": unwritable})
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"
    with pytest.raises(InputError, match="unknown kind of table"):
        write_tables({tmp_path / "c.csv": pa.table({"x": [1]}), tmp_path / "d.xlsx": pa.table({"x": [1]})})
    assert not (tmp_path / "c.csv").exists()


def test_many_lines_of_json(tmp_path: Path) -> None:
    write_table(pa.table({"k": range(25_000)}), tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["k"] for line in lines] == list(range(25_000))


def test_blanks_after_every_delimiter_belong_to_names(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("task,worker,label\nt1, ann, cat\nt1, bob, dog\n")
    assert read_annotations(path).classes.tolist() == [" cat", " dog"]
