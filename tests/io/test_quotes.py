"""Quotes in text tables: what is not closed is refused, and nothing else is."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conal.errors import InputError
from conal.io import import_file, read_features, read_gold, read_texts
from conal.io.tables import check_quotes, parse_delimited, read_table

OPEN = "begins with a quote that is not closed"
LATE = "after the closing quote of a value comes something else than a delimiter"
HEADER = "task,worker,label,note\n"


def save(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_comments_that_begin_with_a_quote(tmp_path: Path) -> None:
    path = save(tmp_path / "q.csv", HEADER + '1,a,x,"odd\n1,b,x,\n2,a,y,\n2,b,y,"odd\n')
    with pytest.raises(InputError, match=rf"q.csv: line 5: {LATE}.*the value began in line 2.*double the quotes"):
        import_file(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('1,a,x,"odd\n1,b,x,\n', f"line 2: a value {OPEN}"),
        ('1,a,x,\n1,b,x,"odd\r\n2,a,y,\r\n', f"line 3: a value {OPEN}"),
        ('1,a,x,"odd ""\n1,b,x,\n', f"line 2: a value {OPEN}"),
        ('1,a,x,"', f"line 2: a value {OPEN}"),
        ('1,a,x,"odd" \n', f"line 2: {LATE}"),
        ('1,a,x,"say \\"hi\\""\n', f"line 2: {LATE}"),
        ('1,a,"x\n1,b,x",\n', r"line 2: the label 'x\\n1,b,x' contains the end of a line"),
        ('1,a,x,\n1,"b\rc",x,\n', r"line 3: the worker 'b\\rc' contains the end of a line"),
        ('"1\n2",a,x,\n', r"line 2: the task '1\\n2' contains the end of a line"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "tsv", "semicolons", "gz", "utf-16"])
def test_what_is_refused(tmp_path: Path, rows: str, message: str, kind: str) -> None:
    text, path = HEADER + rows, tmp_path / "q.csv"
    if kind == "tsv":
        path, text, message = tmp_path / "q.tsv", text.replace(",", "\t"), message.replace(",b,", r"\\tb\\t")
    if kind == "semicolons":
        text, message = text.replace(",", ";"), message.replace(",b,", ";b;")
    if kind == "gz":
        path = tmp_path / "q.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-16" if kind == "utf-16" else "utf-8", newline="")
    with pytest.raises(InputError, match=message):
        import_file(path)


def test_features_texts_and_true_labels(tmp_path: Path) -> None:
    rows = '1,"0.5\n2,0.5\n3,"0.5\n'
    path = save(tmp_path / "a.csv", "task,x\n" + rows)
    for read in (read_features, read_gold, read_table):
        with pytest.raises(InputError, match=f"line 4: {LATE}"):
            read(path)
    with pytest.raises(InputError, match=f"line 4: {LATE}"):
        read_texts(save(path, "task,text\n" + rows))
    readers: dict[str, Any] = {"x": read_features, "text": read_texts, "label": read_gold}
    for column, reader in readers.items():
        with pytest.raises(InputError, match=r"line 3: the task '2\\n3' contains the end of a line"):
            reader(save(path, f'task,{column}\n1,0\n"2\n3",1\n4,1\n'))
    with pytest.raises(InputError, match=r"line 3: the label '1\\n3,0' contains the end of a line"):
        read_gold(save(path, 'task,label\n1,0\n2,"1\n3,0"\n'))


def test_texts_of_several_lines(tmp_path: Path) -> None:
    texts = ['one\ntwo, "three"\r\nfour', '"quoted"', '6" nails', "", '"', 'a,"b', "\n"]
    with (tmp_path / "t.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([("task", "text"), *enumerate(texts)])
    assert read_texts(tmp_path / "t.csv").texts == tuple(texts)
    path = save(tmp_path / "u.csv", 'task,text\n1,6" nails\n2,say "hi", "x"\n'.replace(", ", " "))
    assert read_texts(path).texts == ('6" nails', 'say "hi" "x"')


@given(st.lists(st.text(st.sampled_from('",\n\ra'), max_size=8), min_size=1), st.integers(1, 9))
def test_what_csv_writes_passes_in_any_blocks(texts: list[str], size: int) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([(text, "x") for text in texts])
    content = file.getvalue().encode()
    blocks = [content[k : k + size] for k in range(0, len(content), size)]
    assert check_quotes(lambda: blocks, ",", "x")


@given(st.text(st.sampled_from('",\na'), max_size=20), st.integers(1, 5))
def test_what_passes_is_read_by_python_strictly(text: str, size: int) -> None:
    """Python's strict reader refuses the same tables."""
    blocks = [text[k : k + size].encode() for k in range(0, len(text), size)]
    found = [_passes(lambda: check_quotes(lambda: blocks, ",", "x"), InputError)]
    found += [_passes(lambda: list(csv.reader(io.StringIO(text, newline=""), strict=True)), csv.Error)]
    assert found[0] == found[1]


def _passes(read: Any, error: type[Exception]) -> bool:
    try:
        read()
    except error:
        return False
    return True


def test_a_table_inside_of_an_archive() -> None:
    with pytest.raises(InputError, match=f"x: line 2: a value {OPEN}"):
        parse_delimited(b'\xef\xbb\xbf"id",label\n1,"x\n', ",", "x")
    assert parse_delimited(b'\xef\xbb\xbf"id",label\n1,"x"\n', ",", "x").num_rows == 1
