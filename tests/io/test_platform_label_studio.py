"""Label Studio: every trap of its exports, in files written by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from conal.errors import DataWarning, InputError
from conal.io import AnnotationFile, import_file, read_annotations
from helpers.crowds import triples
from helpers.files import write_json as write


def choice(*labels: str, control: str = "kind") -> dict[str, Any]:
    return {"from_name": control, "to_name": "text", "type": "choices", "value": {"choices": list(labels)}}


def annotation(who: Any, *results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": 1, "completed_by": who, "result": list(results), "was_cancelled": False, "ground_truth": False} | more


def task(number: int, *annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "data": {"text": f"text {number}"},
        "annotations": list(annotations),
        "predictions": [],
    } | more


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "export.json"


def test_annotators_by_number_or_by_address(path: Path) -> None:
    write(path, task(7, annotation(1, choice("cat")), annotation(2, choice("dog"))))
    assert triples(read_annotations(path)) == [(7, 1, "cat"), (7, 2, "dog")]
    ann, bob = {"id": 1, "email": "ann@x.org", "first_name": "Ann"}, {"id": 2, "email": ""}
    write(path, task(7, annotation(ann, choice("cat"))), task(8, annotation(bob, choice("cat"))))
    assert triples(read_annotations(path)) == [(7, "ann@x.org", "cat"), (8, "2", "cat")]


def test_exports_of_before_version_one(path: Path) -> None:
    old = {"id": 3, "data": {"text": "x"}}
    done = {"completed_by": 1, "result": [choice("cat")]}
    write(path, old | {"completions": [done, done | {"completed_by": 2, "skipped": True}]})
    found = import_file(path)
    assert triples(found.annotations) == [(3, 1, "cat")]
    assert found.dropped == {"skipped by the annotator": 1}


def test_what_is_left_out_is_counted(path: Path) -> None:
    write(
        path,
        task(1, annotation(1, choice("cat")), annotation(2, choice("dog"), was_cancelled=True)),
        task(2, annotation(1), annotation(2, choice("cat", "dog")), annotation(3, choice("dog"))),
        task(3),
        task(4, drafts=[{"result": [choice("cat")]}]),
        task(5, annotation(None, choice("cat"))),
    )
    with pytest.warns(DataWarning) as caught:
        ann = read_annotations(path)
    assert triples(ann) == [(1, 1, "cat"), (2, 3, "dog")]
    (message,) = [str(entry.message) for entry in caught]
    assert message.startswith(f"{path} (Label Studio JSON): left out 2 tasks without a label, ")
    for part in ("1 skipped by the annotator", "1 with several answers", "1 without an answer", "1 drafts"):
        assert part in message
    assert "1 without an annotator" in message


def test_several_controls_need_a_choice(path: Path) -> None:
    both = annotation(1, choice("cat"), choice("happy", control="mood"))
    write(path, task(1, both), task(2, annotation(2, choice("sad", control="mood"))))
    with pytest.raises(InputError, match=r"has several controls: 'kind', 'mood'; choose one with .*--question"):
        read_annotations(path)
    assert triples(read_annotations(path, question="mood")) == [(1, 1, "happy"), (2, 2, "sad")]
    with pytest.warns(DataWarning, match="left out 1 without an answer"):
        assert triples(read_annotations(path, question="kind")) == [(1, 1, "cat")]
    with pytest.raises(InputError, match="there is no control 'colour'; it has 'kind', 'mood'"):
        read_annotations(path, question="colour")
    assert import_file(path, question="mood").question == "mood"


def test_ground_truth_is_gold_and_no_vote(path: Path) -> None:
    write(
        path,
        task(1, annotation(1, choice("cat")), annotation(9, choice("dog"), ground_truth=True)),
        task(2, annotation(1, choice("dog"))),
    )
    found = import_file(path)
    assert found.true_labels == {1: "dog"}
    assert triples(found.annotations) == [(1, 1, "cat"), (2, 1, "dog")]


def test_true_labels_that_contradict_each_other_are_none(path: Path) -> None:
    truths = (annotation(9, choice(label), ground_truth=True) for label in ("cat", "dog"))
    write(path, task(1, annotation(1, choice("cat")), *truths))
    found = import_file(path)
    assert found.true_labels == {}
    assert found.dropped == {"true labels that contradict each other": 1}


@pytest.mark.parametrize(
    ("kind", "value", "label"),
    [
        ("rating", {"rating": 4}, 4),
        ("number", {"number": 2}, 2),
        ("taxonomy", {"taxonomy": [["Food", "Fruit"]]}, "Food / Fruit"),
        ("pairwise", {"selected": "left"}, "left"),
    ],
)
def test_other_controls_with_one_answer(path: Path, kind: str, value: dict[str, Any], label: Any) -> None:
    result = {"from_name": "q", "to_name": "text", "type": kind, "value": value}
    write(path, task(1, annotation(1, result)))
    assert triples(read_annotations(path)) == [(1, 1, label)]


def test_two_paths_of_a_taxonomy_are_several_answers(path: Path) -> None:
    result = {"from_name": "q", "to_name": "text", "type": "taxonomy", "value": {"taxonomy": [["A"], ["B", "C"]]}}
    write(path, task(1, annotation(1, result), annotation(2, choice("x", control="q"))))
    assert import_file(path).dropped == {"with several answers": 1}


def test_boxes_are_no_labels(path: Path) -> None:
    box = {"from_name": "box", "to_name": "image", "type": "rectanglelabels", "value": {"rectanglelabels": ["car"]}}
    write(path, task(1, annotation(1, box)))
    with pytest.raises(InputError, match="its annotations are 'rectanglelabels'; conal reads only choices"):
        read_annotations(path)


def test_choices_about_several_regions_are_several_answers(path: Path) -> None:
    write(path, task(1, annotation(1, choice("cat"), choice("dog")), annotation(2, choice("cat"))))
    found = import_file(path)
    assert triples(found.annotations) == [(1, 2, "cat")]
    assert found.dropped == {"with several answers": 1}


@pytest.mark.parametrize("tasks", [[task(1), task(2)], [task(1, annotation(1)), task(2)]])
def test_a_half_finished_project(path: Path, tasks: list[Any]) -> None:
    write(path, *tasks)
    with pytest.raises(InputError, match="contains 2 tasks and no finished annotation; label some tasks"):
        read_annotations(path)


def test_nothing_but_what_is_left_out(path: Path) -> None:
    write(path, task(1, annotation(1, choice("a", "b")), annotation(2, choice("c", "d"))))
    with pytest.raises(InputError, match=r"contains no usable annotation \(2 with several answers\)"):
        read_annotations(path)


def test_the_last_of_two_labels_is_the_last_in_time(path: Path) -> None:
    new = annotation(1, choice("dog"), updated_at="2026-05-01T10:00:00.250000Z")
    old = annotation(1, choice("cat"), updated_at="2026-05-01T10:00:00Z")
    write(path, task(1, new, old))
    with pytest.warns(DataWarning, match="kept the last"):
        assert triples(read_annotations(path)) == [(1, 1, "dog")]
    with pytest.warns(DataWarning, match="kept the first"):
        assert triples(read_annotations(path, on_duplicate="first")) == [(1, 1, "cat")]
    with pytest.raises(InputError, match="repeat a"):
        read_annotations(path, on_duplicate="error")


def test_tasks_may_be_named_by_their_data(path: Path) -> None:
    write(path, task(1, annotation(1, choice("cat"))), task(2, annotation(1, choice("dog"))))
    assert triples(read_annotations(path, task="text")) == [("text 1", 1, "cat"), ("text 2", 1, "dog")]
    with pytest.raises(InputError, match="the data of task 1 has no 'image'; it has 'text'"):
        read_annotations(path, task="image")


def test_models_are_no_annotators(path: Path) -> None:
    prediction = {"model_version": "m", "score": 0.9, "result": [choice("dog")]}
    write(path, task(1, annotation(1, choice("cat")), predictions=[prediction]))
    assert triples(read_annotations(path)) == [(1, 1, "cat")]


# ---------------------------------------------------------------- JSON_MIN and CSV

OWN = {"annotation_id": 5, "created_at": "2026-05-01T10:00:00Z", "updated_at": "2026-05-01T10:00:00Z", "lead_time": 3.2}


def row(number: int, who: Any, **answers: Any) -> dict[str, Any]:
    return {"text": f"text {number}", "id": number} | answers | {"annotator": who} | OWN


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    """As Label Studio writes it: columns sorted, text in quotes, what is no text as JSON."""
    header = sorted({name for entry in rows for name in entry})
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        for entry in rows:
            writer.writerow({k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in entry.items()})
    return path


def both_ways(folder: Path, rows: list[dict[str, Any]], **options: Any) -> tuple[AnnotationFile, AnnotationFile]:
    return (
        import_file(write(folder / "min.json", *rows), **options),
        import_file(write_csv(folder / "min.csv", rows), **options),
    )


def test_a_row_per_annotation(tmp_path: Path) -> None:
    rows = [row(1, 11, kind="cat"), row(1, 12, kind="dog"), row(2, 12, kind="dog")]
    for found in both_ways(tmp_path, rows):
        assert triples(found.annotations) == [(1, 11, "cat"), (1, 12, "dog"), (2, 12, "dog")]
        assert found.question == "kind"
        assert found.data is not None
        assert found.data.to_pydict() == {"task": [1, 2], "text": ["text 1", "text 2"]}


def test_several_choices_are_json(tmp_path: Path) -> None:
    rows = [row(1, "a", kind={"choices": ["cat", "dog"]}), row(1, "b", kind="dog"), row(2, "a", kind="")]
    for found in both_ways(tmp_path, rows):
        assert triples(found.annotations) == [(1, "b", "dog")]
        assert found.dropped == {"with several answers": 1, "without an answer": 1}


def test_ratings_are_json(tmp_path: Path) -> None:
    for found in both_ways(tmp_path, [row(1, "a", stars=[{"rating": 4}]), row(1, "b", stars=[{"rating": 2}])]):
        assert triples(found.annotations) == [(1, "a", 4), (1, "b", 2)]


def test_several_control_columns_need_a_choice(tmp_path: Path) -> None:
    rows = [row(1, "a", kind="cat", mood="sad"), row(1, "b", kind="dog", mood="fun")]
    choices: list[dict[str, Any]] = [{}, {"question": "colour"}]
    for options in choices:
        with pytest.raises(InputError, match="'kind', 'mood'"):
            both_ways(tmp_path, rows, **options)
        with pytest.raises(InputError, match="'kind', 'mood'"):
            import_file(write_csv(tmp_path / "min.csv", rows), **options)
    for options in ({"question": "mood"}, {"label": "mood"}):
        for found in both_ways(tmp_path, rows, **options):
            assert triples(found.annotations) == [(1, "a", "sad"), (1, "b", "fun")]


def test_data_that_is_called_like_a_control(tmp_path: Path) -> None:
    rows = [row(1, "a", kind="cat") | {"_data_kind": "x"}, row(1, "b", kind="dog") | {"_data_kind": "x"}]
    for found in both_ways(tmp_path, rows):
        assert found.question == "kind"
        assert found.annotations.classes.tolist() == ["cat", "dog"]


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
def test_names_stay_what_they_are(tmp_path: Path) -> None:
    for found in both_ways(tmp_path, [row(1, "007", kind="01"), row(1, "7", kind="1")]):
        assert triples(found.annotations) == [(1, "007", "01"), (1, "7", "1")]


def test_agreement_is_no_control(tmp_path: Path) -> None:
    rows = [row(1, "a", kind="cat") | {"agreement": 0.5}, row(1, "b", kind="dog") | {"agreement": 0.5}]
    for found in both_ways(tmp_path, rows):
        assert found.question == "kind"


@pytest.mark.parametrize("name", [[1], {"a": 1}])
def test_a_true_label_of_a_task_whose_name_is_no_name(name: Any, path: Path) -> None:
    write(path, task(7, annotation(1, choice("cat"), ground_truth=True), id=name, data={}))
    with pytest.raises(InputError, match=r"export\.json: the name of a task is .*; expected text or a number"):
        read_annotations(path)


def test_numbers_beyond_floats(path: Path) -> None:
    """Names stay as they are; a time of four hundred digits is none."""
    write(path, task(10**400, annotation(10**400, choice("cat"), updated_at=10**400)))
    found = read_annotations(path)
    assert (found.task_ids.tolist(), found.annotator_ids.tolist()) == ([10**400], [10**400])
