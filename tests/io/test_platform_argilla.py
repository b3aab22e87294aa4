"""Argilla: its two layouts, and every trap of them, in files written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations
from conal.report.inspection import inspect_file
from helpers.crowds import triples
from helpers.files import write_json as write

EXPORTS = Path(__file__).parent / "exports"


def nested(name: str, **responses: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        "id": name,
        "fields": {"text": f"text of {name}"},
        "metadata": {"source": "web"},
        "suggestions": {"kind": {"value": "model's", "agent": "m", "score": 0.9}},
        "responses": {q: [{"value": v, "user_id": u} for u, v in given] for q, given in responses.items()},
        "vectors": {},
        "status": "completed",
        "_server_id": "s",
    }


def flat(name: str, values: list[Any], users: list[Any], statuses: list[Any]) -> dict[str, Any]:
    return {
        "id": name,
        "status": "completed",
        "_server_id": "s",
        "text": f"text of {name}",
        "kind.responses": values,
        "kind.responses.users": users,
        "kind.responses.status": statuses,
        "kind.suggestion": "model's",
        "kind.suggestion.score": 0.9,
        "kind.suggestion.agent": "m",
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "argilla.json"


unmarked = pytest.mark.filterwarnings("ignore:.* does not say which of its")
"""Nested exports do not mark drafts."""


def test_nested(path: Path) -> None:
    write(path, nested("a", kind=[("u", "cat"), ("v", "dog")]), nested("b", kind=[("v", "dog")]))
    with pytest.warns(
        DataWarning, match=r"which of its 3 responses are drafts or discarded, so that all count; .*flatten"
    ):
        found = import_file(path)
    assert triples(found.annotations) == [("a", "u", "cat"), ("a", "v", "dog"), ("b", "v", "dog")]
    assert found.question == "kind"
    assert found.data is not None
    assert found.data.to_pydict() == {"task": ["a", "b"], "text": ["text of a", "text of b"]}


def test_inspect_says_that_a_nested_export_does_not_mark_drafts(path: Path) -> None:
    write(path, nested("a", kind=[("u", "cat"), ("v", "dog")]), nested("b", kind=[("u", "dog"), ("v", "dog")]))
    (entry,) = [entry for entry in inspect_file(path)["problems"] if "drafts" in entry["problem"]]
    assert entry["remedy"].startswith("export flat records: records.to_list(flatten=True)")


def test_what_argilla_itself_writes() -> None:
    """Two users, three records, and of the second user's responses one is a draft and one was discarded (2.8)."""
    with pytest.warns(DataWarning, match="which of its 6 responses are drafts or discarded"):
        assert read_annotations(EXPORTS / "argilla_nested.json").n_annotations == 6
    found = import_file(EXPORTS / "argilla_flat.json")
    first, second = (f"00000000-0000-0000-0000-00000000000{k}" for k in (0, 1))
    assert triples(found.annotations) == [
        ("r0", first, "dog"),
        ("r0", second, "cat"),
        ("r1", first, "cat"),
        ("r2", first, "dog"),
    ]
    assert found.dropped == {"draft responses": 1, "discarded responses": 1}


def test_a_nested_export_with_statuses_is_clear(path: Path) -> None:
    record = nested("a", kind=[("u", "cat"), ("v", "dog")])
    for response, status in zip(record["responses"]["kind"], ("submitted", "discarded"), strict=True):
        response["status"] = status
    write(path, record)
    found = import_file(path)
    assert triples(found.annotations) == [("a", "u", "cat")]
    assert found.dropped == {"discarded responses": 1}


@pytest.mark.parametrize("layout", [flat])
@pytest.mark.parametrize("lines", [False, True])
def test_drafts_and_discarded_responses_are_left_out(path: Path, layout: Any, lines: bool) -> None:
    records = [
        layout("a", ["cat", "dog", "cat"], ["u", "v", "w"], ["submitted", "draft", "discarded"]),
        layout("b", ["dog"], ["v"], ["submitted"]),
        layout("c", [], [], []),
    ]
    path.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records), encoding="utf-8")
    found = import_file(path)
    assert triples(found.annotations) == [("a", "u", "cat"), ("b", "v", "dog")]
    assert found.dropped == {"draft responses": 1, "discarded responses": 1, "tasks without a label": 1}
    assert found.data is not None
    assert found.data.to_pydict() == {"task": ["a", "b", "c"], "text": ["text of a", "text of b", "text of c"]}


@pytest.mark.parametrize("layout", [flat])
def test_parquet(tmp_path: Path, layout: Any) -> None:
    records = [layout("a", ["cat"], ["u"], ["submitted"]), layout("b", ["dog"], ["v"], ["submitted"])]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    ann = read_annotations(tmp_path / "a.parquet")
    assert triples(ann) == [("a", "u", "cat"), ("b", "v", "dog")]


def test_a_user_may_be_unknown(path: Path) -> None:
    write(path, flat("a", ["cat", "dog"], [None, "v"], ["submitted", "submitted"]))
    found = import_file(path)
    assert triples(found.annotations) == [("a", "v", "dog")]
    assert found.dropped == {"without an annotator": 1}


def test_nobody_is_known(path: Path) -> None:
    write(path, flat("a", ["cat", "dog"], [None, None], ["submitted", "submitted"]))
    with pytest.raises(InputError, match=r"contains no usable annotation \(2 without an annotator\)"):
        read_annotations(path)


@unmarked
def test_several_labels_and_rankings(path: Path) -> None:
    write(path, nested("a", kind=[("u", ["cat", "dog"]), ("v", ["dog"]), ("w", [{"value": "x", "rank": 1}])]))
    found = import_file(path)
    assert triples(found.annotations) == [("a", "v", "dog")]
    assert found.dropped == {"with several answers": 1, "with an answer that is no single choice": 1}


@unmarked
def test_several_questions_need_a_choice(path: Path) -> None:
    write(path, nested("a", kind=[("u", "cat")], mood=[("u", 3)]))
    with pytest.raises(InputError, match=r"has several questions: 'kind', 'mood'; choose one with .*--question"):
        read_annotations(path)
    assert triples(read_annotations(path, question="mood")) == [("a", "u", 3)]


def test_no_responses_at_all(path: Path) -> None:
    write(path, nested("a"), nested("b"))
    with pytest.raises(InputError, match="contains 2 records and no response; label some"):
        read_annotations(path)


def test_lists_that_do_not_fit(path: Path) -> None:
    write(path, flat("a", ["cat", "dog"], ["u"], ["submitted", "submitted"]))
    with pytest.raises(InputError, match=r"argilla\.json: record 1: question 'kind': 2 responses, 1 users"):
        read_annotations(path)


@unmarked
def test_records_may_be_named_by_a_field(path: Path) -> None:
    write(path, nested("a", kind=[("u", "cat")]))
    assert triples(read_annotations(path, task="text")) == [("text of a", "u", "cat")]


def test_records_whose_responses_are_no_object_have_none(tmp_path: Path) -> None:
    good = {"id": "1", "fields": {"text": "x"}, "responses": {"k": [{"value": "a", "user_id": "u"}]}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([good, {"id": "2", "fields": {}, "responses": ["x"]}]), encoding="utf-8")
    with pytest.warns(DataWarning, match="does not say which of its 1 responses are drafts"):
        assert triples(import_file(path, format="argilla").annotations) == [("1", "u", "a")]
