"""Multi-choice questions, read one choice at a time: ``--question topics=sport``, in every format that has them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations
from conal.io.platform_files import Prediction, label_studio_predictions, label_studio_tasks
from conal.report.inspection import inspect_file
from helpers.crowds import triples
from helpers.files import write_json, write_json_lines

EXPORTS = Path(__file__).parent / "exports"

ANSWERS = [
    (1, "ann", ["sport"]),
    (1, "bob", ["sport", "money"]),
    (2, "ann", ["art"]),
    (2, "bob", ["art"]),
    (3, "ann", ["money", "art"]),
    (3, "bob", ["sport"]),
]
SPORT = [
    (1, "ann", "yes"),
    (1, "bob", "yes"),
    (2, "ann", "no"),
    (2, "bob", "no"),
    (3, "ann", "no"),
    (3, "bob", "yes"),
]
"""The same answers to the question whether the topic is sport."""

Rows = Iterable[tuple[int, str, list[str]]]


def label_studio(rows: Rows, folder: Path) -> Path:
    tasks: dict[int, dict[str, Any]] = {}
    for task, worker, chosen in rows:
        result = {"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": chosen}}
        entry = tasks.setdefault(task, {"id": task, "data": {"text": f"text {task}"}, "annotations": []})
        entry["annotations"].append({"completed_by": {"email": worker}, "result": [result] if chosen else []})
    return write_json(folder / "export.json", *tasks.values())


def label_studio_min(rows: Rows, folder: Path) -> Path:
    """One choice is text, several are an object; nothing chosen is no field."""
    records = []
    for k, (task, worker, chosen) in enumerate(rows):
        answer = {"choices": chosen} if len(chosen) > 1 else "".join(chosen)
        records.append({"text": "x", "id": task, "topics": answer, "annotator": worker, "annotation_id": k})
    return write_json(folder / "min.json", *records)


def argilla(rows: Rows, folder: Path) -> Path:
    by_task: dict[int, list[Any]] = {}
    for task, worker, chosen in rows:
        by_task.setdefault(task, []).append((worker, chosen))
    records = [
        {
            "id": task,
            "text": "x",
            "topics.responses": [chosen for _, chosen in given],
            "topics.responses.users": [worker for worker, _ in given],
            "topics.responses.status": ["submitted"] * len(given),
        }
        for task, given in by_task.items()
    ]
    return write_json(folder / "argilla.json", *records)


def doccano(rows: Rows, folder: Path) -> Path:
    path, rows = folder / "export.zip", list(rows)
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted({worker for _, worker, _ in rows}):
            lines = [{"id": t, "text": "x", "label": chosen} for t, worker, chosen in rows if worker == name]
            archive.writestr(f"{name}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    return path


def prodigy(rows: Rows, folder: Path) -> Path:
    options = [{"id": name, "text": name} for name in ("sport", "art", "money")]
    lines = (
        {"text": "x", "_input_hash": t, "_annotator_id": w, "options": options, "accept": chosen, "answer": "accept"}
        for t, w, chosen in rows
    )
    return write_json_lines(folder / "prodigy.jsonl", *lines)


def mturk(rows: Rows, folder: Path) -> Path:
    """A true or false column for each choice."""
    choices = ("sport", "art", "money")
    lines = ["HITId,WorkerId,Input.truth," + ",".join(f"Answer.topics.{choice}" for choice in choices)]
    for task, worker, chosen in rows:
        flags = (str(choice in chosen).lower() for choice in choices)
        lines.append(f"{task},{worker},{'sport' if task == 1 else 'art' if task == 2 else ''},{','.join(flags)}")
    path = folder / "batch.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


WRITERS: dict[str, tuple[Callable[[Rows, Path], Path], str]] = {
    "label-studio": (label_studio, "topics"),
    "label-studio-min": (label_studio_min, "topics"),
    "argilla": (argilla, "topics"),
    "doccano": (doccano, "label"),
    "prodigy": (prodigy, "accept"),
    "mturk": (mturk, "topics"),
}
every_format = pytest.mark.parametrize("name", WRITERS)


@every_format
def test_one_choice_is_a_yes_or_no_question(name: str, tmp_path: Path) -> None:
    write, question = WRITERS[name]
    found = import_file(write(ANSWERS, tmp_path), question=f"{question}=sport")
    assert found.format == name
    assert triples(found.annotations) == SPORT
    assert found.annotations.classes.tolist() == ["no", "yes"]
    assert found.dropped == {}
    assert found.question == f"{question}=sport"


@every_format
def test_what_drops_several_choices_names_the_remedy(name: str, tmp_path: Path) -> None:
    write, question = WRITERS[name]
    path = write(ANSWERS, tmp_path)
    with pytest.warns(DataWarning, match="left out 2 with several answers") as caught:
        assert read_annotations(path).n_annotations == 4
    message = str(caught[0].message)
    assert f"ask about one choice at a time, such as --question {question}=" in message
    choice = message.rpartition("=")[2]
    assert choice in ("sport", "art")
    (entry,) = [entry for entry in inspect_file(path)["problems"] if "several answers" in entry["problem"]]
    assert entry["remedy"].endswith(f"--question {question}={choice}")


@every_format
def test_a_file_with_nothing_but_several_choices(name: str, tmp_path: Path) -> None:
    write, question = WRITERS[name]
    path = write([(1, "ann", ["sport", "art"]), (2, "bob", ["sport", "art"])], tmp_path)
    with pytest.raises(InputError, match=rf"\(2 with several answers\); .* --question {question}=sport$"):
        read_annotations(path)


@every_format
def test_an_unknown_choice_lists_the_known_ones(name: str, tmp_path: Path) -> None:
    write, question = WRITERS[name]
    path = write(ANSWERS, tmp_path)
    with pytest.raises(InputError, match=f"nobody chose 'sports' in '{question}'; the choices are ") as error:
        import_file(path, question=f"{question}=sports")
    assert {"'sport'", "'art'", "'money'"} == set(str(error.value).rpartition("choices are ")[2].split(", "))
    with pytest.raises(InputError, match=r"there is no .* 'tropics=sport'"):
        import_file(path, question="tropics=sport")


@every_format
def test_nothing_ticked(name: str, tmp_path: Path) -> None:
    """Prodigy and MTurk's flags say that an annotator chose none; elsewhere that is no answer."""
    write, question = WRITERS[name]
    found = import_file(write([*ANSWERS, (4, "ann", [])], tmp_path), question=f"{question}=sport")
    if name in ("prodigy", "mturk"):
        assert triples(found.annotations) == [*SPORT, (4, "ann", "no")]
    else:
        assert triples(found.annotations) == SPORT
        assert found.dropped == {"without an answer": 1}


def test_what_argilla_itself_writes() -> None:
    """Five records with a multi-label question; nobody has answered the last (2.8)."""
    path = EXPORTS / "argilla_topics.json"
    first, second = (f"00000000-0000-0000-0000-00000000000{k}" for k in (0, 1))
    found = import_file(path, question="topics=money")
    assert triples(found.annotations) == [
        ("r0", first, "no"),
        ("r0", second, "yes"),
        ("r1", first, "no"),
        ("r1", second, "no"),
        ("r2", first, "yes"),
        ("r2", second, "no"),
        ("r3", first, "yes"),
    ]
    assert found.dropped == {"tasks without a label": 1}


LABEL_STUDIO = [
    (21, 1, "yes"),
    (21, 2, "yes"),
    (22, 1, "no"),
    (22, 2, "no"),
    (23, 1, "no"),
    (23, 2, "yes"),
    (24, 1, "no"),
]


@pytest.mark.parametrize(
    "name", ["label_studio_topics.json", "label_studio_topics_min.json", "label_studio_topics.csv"]
)
def test_what_label_studio_itself_writes(name: str) -> None:
    """Five tasks; of the fourth, the second annotator ticked nothing, and nobody has labelled the fifth (1.23)."""
    found = import_file(EXPORTS / name, question="topics=sport")
    assert triples(found.annotations) == LABEL_STUDIO
    assert found.dropped == {"without an answer": 1, "tasks without a label": 1}
    with pytest.warns(DataWarning, match=r"left out 2 with several answers, .* --question topics=(sport|art|money)$"):
        assert read_annotations(EXPORTS / name).n_annotations == 5


def test_true_labels_are_answers_to_the_same_question(tmp_path: Path) -> None:
    found = import_file(mturk(ANSWERS, tmp_path), question="topics=sport")
    assert found.true_labels == {1: "yes", 2: "no"}
    path = label_studio(ANSWERS, tmp_path)
    tasks = json.loads(path.read_text())
    truth = {"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": ["art", "sport"]}}
    tasks[1]["annotations"].append({"completed_by": {"email": "boss"}, "ground_truth": True, "result": [truth]})
    write_json(path, *tasks)
    assert import_file(path, question="topics=sport").true_labels == {2: "yes"}
    assert import_file(path, question="topics=art").true_labels == {2: "yes"}
    assert import_file(path, question="topics=money").true_labels == {2: "no"}


def test_predictions_tick_the_choice_or_nothing(tmp_path: Path) -> None:
    file = import_file(label_studio(ANSWERS, tmp_path), question="topics=sport")
    yes, no = label_studio_predictions(file, {1: Prediction("yes", 0.9), 2: Prediction("no", 0.8)})
    assert yes["result"] == [
        {"from_name": "topics", "to_name": "text", "type": "choices", "value": {"choices": ["sport"]}}
    ]
    assert (no["task"], no["result"], no["score"]) == (2, [], 0.8)


def test_new_tasks_have_a_yes_or_no_question(tmp_path: Path) -> None:
    file = import_file(label_studio(ANSWERS, tmp_path), question="topics=sport")
    tasks = list(label_studio_tasks(file, {}, with_annotations=True))
    again = import_file(write_json(tmp_path / "again.json", *tasks))
    assert triples(again.annotations) == SPORT
    assert again.question == "topics=sport"
    assert again.control is not None
    assert again.control.to_name == "text"


def test_a_question_whose_name_contains_an_equals_sign(tmp_path: Path) -> None:
    path = argilla(ANSWERS, tmp_path)
    path.write_text(path.read_text().replace("topics.", "a=b."))
    with pytest.warns(DataWarning, match="--question a=b=sport"):
        assert read_annotations(path, question="a=b").n_annotations == 4
    assert triples(read_annotations(path, question="a=b=sport")) == SPORT


def test_ratings_and_taxonomies_have_choices_too() -> None:
    path = EXPORTS / "label_studio.json"
    found = import_file(path, question="topic=Food / Fruit / Veg")
    assert set(found.annotations.classes.tolist()) == {"no", "yes"}
    assert found.control is not None
    assert found.control.answer("yes") == [["Food", "Fruit / Veg"]]
    stars = import_file(path, question="stars=1")
    assert stars.control is not None
    assert stars.control.answer("yes") == 1


def test_items_of_a_hit(tmp_path: Path) -> None:
    path = tmp_path / "batch.csv"
    answers = [{"q1": {"cat": True, "dog": True}, "q2": {"cat": False, "dog": True}}]
    cell = json.dumps(answers).replace('"', '""')
    path.write_text(f'HITId,WorkerId,Answer.taskAnswers\nh,ann,"{cell}"\n')
    assert triples(read_annotations(path, question="q*=cat")) == [("h/1", "ann", "yes"), ("h/2", "ann", "no")]
