"""Prodigy: choices, accepted and rejected labels, and sessions, in lines written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations
from helpers.crowds import triples
from helpers.files import write_json_lines as write


def line(task: int, who: str | None, answer: str = "accept", **more: Any) -> dict[str, Any]:
    own = {"_input_hash": task, "_task_hash": 5, "_annotator_id": who, "_session_id": who}
    return {"text": f"text {task}", "answer": answer} | own | more


def choice(task: int, who: str | None, *accept: Any, **more: Any) -> dict[str, Any]:
    options = [{"id": "cat", "text": "A cat"}, {"id": "dog", "text": "A dog"}]
    return line(task, who, options=options, accept=list(accept), _view_id="choice") | more


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "annotations.jsonl"


def test_choices(path: Path) -> None:
    write(path, choice(-7, "ds-ann", "cat"), choice(-7, "ds-bob", "dog"), choice(8, "ds-bob", "dog"))
    found = import_file(path)
    assert triples(found.annotations) == [(-7, "ds-ann", "cat"), (-7, "ds-bob", "dog"), (8, "ds-bob", "dog")]
    assert found.data is not None
    assert found.data.to_pydict() == {"task": [-7, 8], "text": ["text -7", "text 8"]}


def test_what_is_left_out_is_counted(path: Path) -> None:
    write(
        path,
        choice(1, "a", "cat"),
        choice(2, "a", "cat", answer="ignore"),
        choice(3, "a", "cat", answer="reject"),
        choice(4, "a"),
        choice(5, "a", "cat", "dog"),
        choice(6, None, "cat"),
        line(7, "a"),
    )
    found = import_file(path)
    assert triples(found.annotations) == [(1, "a", "cat")]
    assert found.dropped == {
        "ignored by the annotator": 1,
        "rejected by the annotator": 1,
        "without an answer": 1,
        "with several answers": 1,
        "without an annotator": 1,
        "with neither options nor a label": 1,
    }


def test_accepted_and_rejected_labels(path: Path) -> None:
    write(
        path,
        line(1, "a", label="SPAM", _view_id="classification"),
        line(1, "b", "reject", label="SPAM"),
        line(2, "a", "ignore", label="SPAM"),
    )
    with pytest.warns(DataWarning, match="left out 1 ignored by the annotator"):
        assert triples(read_annotations(path)) == [(1, "a", "SPAM"), (1, "b", "not SPAM")]


def test_each_label_is_a_question_of_its_own(path: Path) -> None:
    write(path, line(1, "a", label="SPAM"), line(1, "a", "reject", label="RUDE"), line(2, "a", label="RUDE"))
    with pytest.raises(InputError, match=r"has several labels: 'SPAM', 'RUDE'; choose one with .*--question"):
        read_annotations(path)
    found = import_file(path, question="RUDE")
    assert triples(found.annotations) == [(1, "a", "not RUDE"), (2, "a", "RUDE")]
    assert found.dropped == {"about another label": 1}


def test_sessions_stand_in_for_annotators(path: Path) -> None:
    write(path, choice(1, None, "cat", _session_id="ds-ann"), choice(1, None, "dog", _session_id="ds-bob"))
    assert triples(read_annotations(path)) == [(1, "ds-ann", "cat"), (1, "ds-bob", "dog")]


def test_nobody_is_named(path: Path) -> None:
    write(path, choice(1, None, "cat"), choice(2, None, "dog"))
    with pytest.raises(InputError, match=r"\(2 without an annotator\)"):
        read_annotations(path)


def test_the_last_of_two_is_the_last_in_time(path: Path) -> None:
    write(path, choice(1, "a", "dog", _timestamp=20), choice(1, "a", "cat", _timestamp=10))
    with pytest.warns(DataWarning, match="kept the last"):
        assert triples(read_annotations(path)) == [(1, "a", "dog")]


def test_a_line_that_was_cut_off(path: Path) -> None:
    write(path, choice(1, "a", "cat"), choice(2, "a", "dog"))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match=r"annotations\.jsonl: line 2: is not complete JSON"):
        read_annotations(path)
