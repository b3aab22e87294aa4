"""What every importer owes: what was exported comes back, it knows its own files, and refuses others by name."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.io import import_file, platforms, read_annotations
from conal.io.importing import detect

Rows = list[tuple[Any, str, str]]
"""Task, worker and label of every annotation."""


# ---------------------------------------------------------------- exports as the platforms write them


def by_task(rows: Rows) -> dict[Any, Rows]:
    found: dict[Any, Rows] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def write_table(path: Path, header: list[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def label_studio(rows: Rows, folder: Path) -> Path:
    def annotation(worker: str, label: str) -> dict[str, Any]:
        result = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [label]}}
        return {"completed_by": {"id": 1, "email": worker}, "result": [result], "was_cancelled": False}

    tasks = [
        {"id": task, "data": {"text": f"text of {task}"}, "annotations": [annotation(w, y) for _, w, y in group]}
        for task, group in by_task(rows).items()
    ]
    return write_json(folder / "export.json", tasks)


def label_studio_min(rows: Rows, folder: Path) -> Path:
    header = ["text", "id", "kind", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"]
    time = "2026-01-01T10:00:00.000000Z"
    values = ([f"text of {t}", t, y, w, k, time, time, 1.5] for k, (t, w, y) in enumerate(rows))
    return write_json(folder / "min.json", [dict(zip(header, row, strict=True)) for row in values])


def argilla(rows: Rows, folder: Path) -> Path:
    records = [
        {
            "id": task,
            "status": "completed",
            "_server_id": f"server {task}",
            "text": f"text of {task}",
            "kind.responses": [y for _, _, y in group],
            "kind.responses.users": [w for _, w, _ in group],
            "kind.responses.status": ["submitted"] * len(group),
        }
        for task, group in by_task(rows).items()
    ]
    return write_json(folder / "argilla.json", records)


def doccano(rows: Rows, folder: Path) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for worker in sorted({w for _, w, _ in rows}):
            lines = [{"id": t, "text": f"text of {t}", "label": [y], "Comments": []} for t, w, y in rows if w == worker]
            archive.writestr(f"{worker}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    return path


def prodigy(rows: Rows, folder: Path) -> Path:
    options = [{"id": y, "text": y} for y in sorted({y for _, _, y in rows})]
    return write_lines(
        folder / "prodigy.jsonl",
        (
            {
                "text": f"text of {t}",
                "_input_hash": t,
                "_task_hash": k,
                "options": options,
                "_view_id": "choice",
                "accept": [y],
                "answer": "accept",
                "_timestamp": 1_700_000_000 + k,
                "_annotator_id": w,
                "_session_id": w,
            }
            for k, (t, w, y) in enumerate(rows)
        ),
    )


def mturk(rows: Rows, folder: Path) -> Path:
    header = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "Input.text", "Answer.kind.label", "Approve"]
    values = ([t, k, w, "Approved", f"text of {t}", y, ""] for k, (t, w, y) in enumerate(rows))
    return write_table(folder / "batch.csv", header, values)


def toloka(rows: Rows, folder: Path) -> Path:
    header = ["INPUT:text", "OUTPUT:kind", "GOLDEN:kind", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id"]
    values = ([f"text of {t}", y, "", t, w, "APPROVED"] for t, w, y in rows)
    return write_table(folder / "assignments.tsv", [*header, "ASSIGNMENT:status"], values, "\t")


def peerannot(rows: Rows, folder: Path) -> Path:
    return write_json(folder / "answers.json", {t: {w: y for _, w, y in group} for t, group in by_task(rows).items()})


def wide(rows: Rows, folder: Path) -> Path:
    workers = sorted({w for _, w, _ in rows})
    cells = {(t, w): y for t, w, y in rows}
    tasks = list(by_task(rows))
    return write_table(
        folder / "wide.csv", ["", *workers], ([t, *(cells.get((t, w), "") for w in workers)] for t in tasks)
    )


def lists(rows: Rows, folder: Path) -> Path:
    return write_lines(
        folder / "lists.jsonl",
        (
            {
                "id": task,
                "text": f"text of {task}",
                "annotators": [w for _, w, _ in group],
                "labels": [y for *_, y in group],
            }
            for task, group in by_task(rows).items()
        ),
    )


def inspect_ai(rows: Rows, folder: Path) -> Path:
    samples = [
        {"id": t, "epoch": 1, "input": f"text of {t}", "scores": {w: {"value": y} for _, w, y in group}}
        for t, group in by_task(rows).items()
    ]
    return write_json(
        folder / "log.json", {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": samples}
    )


def mlflow(rows: Rows, folder: Path) -> Path:
    def assessment(worker: str, label: str) -> dict[str, Any]:
        source = {"source_type": "HUMAN", "source_id": worker}
        return {"assessment_name": "kind", "source": source, "feedback": {"value": label}, "valid": True}

    traces = [
        {"trace_id": t, "assessments": [assessment(w, y) for _, w, y in group], "request": "x"}
        for t, group in by_task(rows).items()
    ]
    return write_json(folder / "traces.json", traces)


def zooniverse(rows: Rows, folder: Path) -> Path:
    header = ["classification_id", "user_name", "user_id", "workflow_id", "created_at"]
    values = (
        [
            *(k, w, "", 10, f"2026-01-01 10:{k // 60:02}:{k % 60:02} UTC"),
            *(json.dumps([{"task": "T0", "value": y}]), json.dumps({t: {"retired": None, "text": f"text of {t}"}}), t),
        ]
        for k, (t, w, y) in enumerate(rows)
    )
    return write_table(folder / "classes.csv", [*header, "annotations", "subject_data", "subject_ids"], values)


EXPORTS: dict[str, Callable[[Rows, Path], Path]] = {
    "argilla": argilla,
    "doccano": doccano,
    "inspect-ai": inspect_ai,
    "label-studio": label_studio,
    "label-studio-min": label_studio_min,
    "lists": lists,
    "mlflow": mlflow,
    "mturk": mturk,
    "peerannot": peerannot,
    "prodigy": prodigy,
    "toloka": toloka,
    "wide": wide,
    "zooniverse": zooniverse,
}


def label_studio_csv(rows: Rows, folder: Path) -> Path:
    header = ["annotation_id", "annotator", "created_at", "id", "kind", "lead_time", "text", "updated_at"]
    values = ([k, w, "2026-01-01", t, y, 1.5, "text", "2026-01-01T10:00:00Z"] for k, (t, w, y) in enumerate(rows))
    return write_table(folder / "min.csv", header, values)


def argilla_flat(rows: Rows, folder: Path) -> Path:
    return write_lines(
        folder / "flat.jsonl",
        (
            {
                "id": task,
                "text": "text",
                "kind.responses": [y for _, _, y in group],
                "kind.responses.users": [w for _, w, _ in group],
                "kind.responses.status": ["submitted"] * len(group),
            }
            for task, group in by_task(rows).items()
        ),
    )


def argilla_first(rows: Rows, folder: Path) -> Path:
    def column(group: Rows) -> dict[str, Any]:
        users, values = ([row[k] for row in group] for k in (1, 2))
        return {"user_id": users, "value": values, "status": ["submitted"] * len(group)}

    records = ({"text": "x", "kind": column(group), "external_id": t} for t, group in by_task(rows).items())
    return write_json(folder / "first.json", list(records))


def doccano_csv(rows: Rows, folder: Path) -> Path:
    path = folder / "csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for worker in sorted({w for _, w, _ in rows}):
            text = io.StringIO(newline="")
            own = [(t, "text", y.replace("#", "_")) for t, w, y in rows if w == worker]
            csv.writer(text).writerows([("id", "text", "label"), *own])
            archive.writestr(f"{worker}.csv", text.getvalue())
    return path


def toloka_csv(rows: Rows, folder: Path) -> Path:
    header = ["INPUT:text", "OUTPUT:kind", "ASSIGNMENT:link", "ASSIGNMENT:worker_id"]
    return write_table(folder / "toloka.csv", header, ([t, y, "http", w] for t, w, y in rows))


def mturk_json(rows: Rows, folder: Path) -> Path:
    values = ([t, w, json.dumps([{"kind": {"label": y}}])] for t, w, y in rows)
    return write_table(folder / "json.csv", ["HITId", "WorkerId", "Answer.taskAnswers"], values)


VARIANTS: dict[str, tuple[str, Callable[[Rows, Path], Path]]] = {
    "label-studio-csv": ("label-studio-min", label_studio_csv),
    "argilla-flat": ("argilla", argilla_flat),
    "argilla-first": ("argilla", argilla_first),
    "doccano-csv": ("doccano", doccano_csv),
    "toloka-csv": ("toloka", toloka_csv),
    "mturk-json": ("mturk", mturk_json),
}
"""Other layouts of the same platforms."""

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


@pytest.mark.parametrize("name", sorted(EXPORTS))
@pytest.mark.parametrize("other", sorted(EXPORTS))
def test_a_file_of_another_platform_is_refused_by_name(name: str, other: str, tmp_path: Path) -> None:
    if name == other:
        return
    path = EXPORTS[other](ROWS, tmp_path)
    with pytest.raises(InputError) as refused:
        read_annotations(path, format=name)
    message = str(refused.value)
    assert message.startswith(
        f"{path}: is not {platforms.get(name).title}: expected {platforms.get(name).expects}, found"
    )
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
