"""What every importer owes: what was exported comes back, it knows its own files, and refuses others by name."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.io import import_file, platforms, read_annotations
from conal.io.importing import detect
from helpers.platforms import EXPORTS, VARIANTS, Rows, write_table

CAT, DOG = "cat", "<b>dog</b>, \"the 'other'\""
ROWS: Rows = [
    ("t1", "ann", CAT),
    ("t1", "bob", DOG),
    ("t2", "ann", DOG),
    ("t2", "bob", DOG),
    ("t2", "<i>eve", CAT),
    ("t3", "bob", CAT),
]


PREFIXES = {"inspect-ai": "m/"}
"""What is before the names of tasks: the model whose answer was judged."""


def wanted(name: str, rows: Rows) -> Annotations:
    """What comes back."""
    tasks, workers, labels = zip(*rows, strict=True)
    return Annotations.from_triples([PREFIXES.get(name, "") + task for task in tasks], workers, labels)


def test_every_importer_is_tested_here() -> None:
    assert sorted(EXPORTS) == platforms.names()


# ---------------------------------------------------------------- what was exported comes back


def names(prefix: str, exclude: str = "") -> st.SearchStrategy[str]:
    """Names that begin with a letter, so that no format takes them for numbers, and hold whatever people type."""
    characters = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters=exclude)
    return st.text(characters, max_size=8).map(lambda text: prefix + text)


FILE_NAMES = "/\\:"
"""What cannot be in a doccano user's file name."""


@st.composite
def crowds(draw: st.DrawFn) -> Rows:
    tasks = draw(st.lists(names("t"), min_size=1, max_size=4, unique=True))
    workers = draw(st.lists(names("x", exclude=FILE_NAMES), min_size=1, max_size=4, unique_by=str.casefold))
    labels = draw(
        st.lists(names("y", exclude="#"), min_size=1, max_size=3, unique_by=lambda name: name.strip().casefold())
    )
    pairs = draw(st.lists(st.sampled_from([(t, w) for t in tasks for w in workers]), min_size=1, unique=True))
    return [(t, w, draw(st.sampled_from(labels))) for t, w in pairs]


def untimed(crowd: Annotations) -> Annotations:
    """Without the times that some exports have, and the rows have not."""
    return crowd.replace(times=None)


@pytest.mark.filterwarnings("ignore:.*differ only in")
@pytest.mark.parametrize("name", sorted(EXPORTS))
@given(rows=crowds())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_was_exported_comes_back(name: str, rows: Rows, tmp_path: Path) -> None:
    path = EXPORTS[name](rows, tmp_path)
    if name == "doccano" and {w for _, w, _ in rows} == {"all"}:
        return
    assert untimed(read_annotations(path, format=name)) == wanted(name, rows)


@pytest.mark.filterwarnings("ignore:.*differ only in")
@pytest.mark.parametrize("variant", sorted(VARIANTS))
@given(rows=crowds())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_so_do_other_layouts(variant: str, rows: Rows, tmp_path: Path) -> None:
    name, export = VARIANTS[variant]
    rows = [(t, w, y.replace("#", "_")) for t, w, y in rows]  # which joins labels in doccano's CSV
    options = {"question": "kind"} if variant == "label-studio-csv" else {}
    found = read_annotations(export(rows, tmp_path), **options)  # type: ignore[arg-type]
    assert untimed(found) == Annotations.from_triples(*zip(*rows, strict=True))
    assert detect(tmp_path / export(rows, tmp_path).name)[0] == [platforms.get(name)]


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_each_knows_its_own_files(name: str, tmp_path: Path) -> None:
    path = EXPORTS[name](ROWS, tmp_path)
    assert detect(path)[0] == [platforms.get(name)]
    assert untimed(read_annotations(path)) == wanted(name, ROWS)
    assert import_file(path).format == name


@pytest.mark.parametrize("name", sorted(set(EXPORTS) - {"peerannot", "wide", "mlflow"}))
def test_what_the_tasks_show_is_kept(name: str, tmp_path: Path) -> None:
    data = import_file(EXPORTS[name](ROWS, tmp_path)).data
    assert data is not None
    assert data.column_names[0] == "task"
    texts = dict(zip(data["task"].to_pylist(), data["text"].to_pylist(), strict=True))
    assert texts == {f"{PREFIXES.get(name, '')}t{k}": f"text of t{k}" for k in (1, 2, 3)}


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_a_byte_order_mark_changes_nothing(name: str, tmp_path: Path) -> None:
    path = EXPORTS[name](ROWS, tmp_path)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = {entry: archive.read(entry) for entry in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for entry, content in members.items():
                archive.writestr(entry, b"\xef\xbb\xbf" + content)
    else:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert untimed(read_annotations(path)) == wanted(name, ROWS)


@pytest.mark.parametrize("name", sorted(set(EXPORTS) - {"doccano"}))
def test_utf_16_changes_nothing(name: str, tmp_path: Path) -> None:
    path = EXPORTS[name](ROWS, tmp_path)
    path.write_bytes(path.read_bytes().decode().encode("utf-16"))
    assert detect(path)[0] == [platforms.get(name)]
    assert untimed(read_annotations(path)) == wanted(name, ROWS)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("other", sorted(EXPORTS))
def test_a_file_of_another_platform_is_refused_by_name(other: str, tmp_path: Path) -> None:
    path = EXPORTS[other](ROWS, tmp_path)
    for name in sorted(EXPORTS.keys() - {other}):
        with pytest.raises(InputError) as refused:
            read_annotations(path, format=name)
        message, asked = str(refused.value), platforms.get(name)
        assert message.startswith(f"{path}: is not {asked.title}: expected {asked.expects}, found")
        assert platforms.get(other).title in message


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_a_plain_table_is_none_of_them(name: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.csv", ["task", "worker", "label"], ROWS)
    assert detect(path)[0] == []
    if name == "wide":
        return  # to which the user may well force any table
    with pytest.raises(InputError, match="expected"):
        read_annotations(path, format=name)


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_bytes_of_another_encoding_are_refused(name: str, tmp_path: Path) -> None:
    path = EXPORTS[name]([("t1", "ann", "chat"), ("t1", "bob", "chien"), ("t2", "ann", "chien")], tmp_path)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("ann.jsonl", '{"id": 1, "text": "caf\xe9", "label": ["x"]}\n'.encode("latin-1"))
    else:
        path.write_bytes(path.read_bytes().replace(b"chien", "ch\xeeen".encode("latin-1")))
    with pytest.raises(InputError, match="UTF-8"):
        read_annotations(path, format=name)


@pytest.mark.parametrize("name", ["argilla", "label-studio", "label-studio-min", "peerannot", "prodigy"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_file_that_was_cut_off_is_refused(name: str, share: float, tmp_path: Path) -> None:
    path = EXPORTS[name](ROWS, tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"is not complete JSON .* export it again"):
        read_annotations(path, format=name)


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_a_label_of_ten_thousand_characters(name: str, tmp_path: Path) -> None:
    long = "x" * 10_000
    rows = [*ROWS, ("t3", "ann", long)]
    assert long in read_annotations(EXPORTS[name](rows, tmp_path), format=name).classes


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_an_option_without_meaning_is_refused(name: str, tmp_path: Path) -> None:
    importer = platforms.get(name)
    path = EXPORTS[name](ROWS, tmp_path)
    for option, value in {"question": "kind", "worker": "w", "label": "kind", "keep_rejected": True}.items():
        if option not in importer.takes:
            with pytest.raises(InputError, match=f"{option}= .* does not apply to"):
                read_annotations(path, **{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b'[{"id": 1, "data": {"te', r"a\.json: is not complete JSON .* cut off"),
        ("a.json", b"[", "is not complete JSON"),
        ("a.json", b"[]", "has no known format, found other JSON"),
        ("a.json", b"[1, 2]", "has no known format, found other JSON"),
        ("a.json", b'{"a": [1, 2]}', "has no known format, found JSON objects with 'a'"),
        ("a.json", "[{}]".encode("utf-16"), "has no known format, found JSON objects with nothing"),
        ("a.json", b"[" * 10_000, "has lists and objects more than 100 deep inside each other"),
        ("a.json", b"", "is empty"),
        ("a.zip", b"PK\x03\x04 and then nothing", "has no known format, found a damaged zip file"),
    ],
)
def test_what_is_no_export_at_all(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_annotations(tmp_path / name)


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_each_says_what_it_is(name: str) -> None:
    importer = platforms.get(name)
    assert importer.name == name
    assert importer.title
    assert importer.expects
    assert type(importer).__doc__


def test_a_file_that_could_be_two_things_needs_a_choice(tmp_path: Path) -> None:
    header = ["HITId", "WorkerId", "Answer.kind", "OUTPUT:kind", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id"]
    path = write_table(tmp_path / "odd.csv", header, [["h", "w", "a", "b", "t", "v"]])
    with pytest.raises(InputError, match=r"could be MTurk batch CSV or Toloka TSV; choose one with .*: mturk, toloka"):
        read_annotations(path)
    assert read_annotations(path, format="mturk").classes.tolist() == ["a"]
    assert read_annotations(path, format="toloka").classes.tolist() == ["b"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("answers.json", '{"\\udce9": {"w": "a"}}'),
        ("batch.csv", 'HITId,WorkerId,Answer.taskAnswers\nh,w,"[{""k"": {""label"": ""\\udce9""}}]"\n'),
    ],
)
def test_half_characters_in_exports_are_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="a name contains an incomplete character"):
        import_file(path, format="peerannot" if name == "answers.json" else "mturk")
