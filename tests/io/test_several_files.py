"""Several files read as one: what is joined, what is told, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal import Annotations
from conal.data.joining import join_annotations
from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations
from conal.report.inspection import inspect_file


def table(path: Path, *rows: str, header: str = "task,worker,label") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def project(path: Path, tasks: dict[Any, dict[str, str]], texts: dict[Any, str], gold: Any = None) -> Path:
    """An export of Label Studio."""

    def result(label: str) -> list[dict[str, Any]]:
        return [{"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [label]}}]

    found = [
        {
            "id": task,
            "data": {"text": texts[task]},
            "annotations": [{"completed_by": {"email": who}, "result": result(y)} for who, y in votes.items()],
        }
        for task, votes in tasks.items()
    ]
    for task, label in (gold or {}).items():
        extra = {"completed_by": 1, "ground_truth": True, "result": result(label)}
        next(entry for entry in found if entry["id"] == task)["annotations"].append(extra)
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def rows_of(crowd: Annotations) -> list[tuple[Any, Any, Any]]:
    return list(zip(*crowd.to_table().to_pydict().values(), strict=True))


def test_the_same_id_means_the_same_task(tmp_path: Path) -> None:
    one = table(tmp_path / "a.csv", "1,ann,cat", "2,ann,dog")
    two = table(tmp_path / "b.csv", "2,bob,dog", "3,bob,cat")
    wanted = Annotations.from_triples([1, 2, 2, 3], ["ann", "ann", "bob", "bob"], ["cat", "dog", "dog", "cat"])
    assert read_annotations([one, two]) == Annotations.read([str(one), two]) == wanted
    assert read_annotations([one]) == read_annotations(one)


def test_numbers_of_one_file_are_the_text_of_another(tmp_path: Path) -> None:
    one = table(tmp_path / "a.csv", "7,ann,1", "8,ann,0")
    two = tmp_path / "b.jsonl"
    two.write_text('{"task": "7", "worker": "bob", "label": "1"}\n{"task": "x", "worker": "bob", "label": "maybe"}\n')
    crowd = read_annotations([one, two])
    assert rows_of(crowd) == [("7", "ann", "1"), ("7", "bob", "1"), ("8", "ann", "0"), ("x", "bob", "maybe")]
    two.write_text(two.read_text().replace("maybe", "0"))
    assert read_annotations([one, two], classes=["1", "0"]).classes.tolist() == ["1", "0"]


def test_different_formats_and_options_that_one_of_them_takes(tmp_path: Path) -> None:
    one = project(tmp_path / "a.json", {1: {"ann": "cat"}, 2: {"ann": "dog"}}, {1: "meow", 2: "woof"})
    two = table(tmp_path / "b.csv", "1,bob,cat", header="nr,worker,answer")
    two.write_text(two.read_text().replace("nr", "id"))
    found = import_file([one, two], question="kind")
    assert rows_of(found.annotations) == [(1, "ann", "cat"), (1, "bob", "cat"), (2, "ann", "dog")]
    assert (found.format, found.question, found.where) == ("label-studio, csv", "kind", f"{one}, {two}")
    assert found.data is not None
    assert found.data.to_pydict() == {"task": [1, 2], "text": ["meow", "woof"]}
    with pytest.raises(InputError, match=r"keep_rejected= .* does not apply to any of these files; it takes question="):
        import_file([one, two], keep_rejected=True)


@pytest.mark.parametrize(("rule", "label"), [("last", "dog"), ("first", "cat")])
def test_the_rule_for_duplicates_holds_across_files(tmp_path: Path, rule: Any, label: str) -> None:
    one, two = table(tmp_path / "a.csv", "1,ann,cat"), table(tmp_path / "b.csv", "1,ann,dog", "1,bob,dog")
    with pytest.warns(DataWarning, match=rf"b.csv: 1 rows repeat a \(task, worker\) pair, .*; kept the {rule} of each"):
        crowd = read_annotations([one, two], on_duplicate=rule)
    assert rows_of(crowd) == [(1, "ann", label), (1, "bob", "dog")]
    with pytest.raises(InputError, match="rows repeat"):
        read_annotations([one, two], on_duplicate="error")


def test_tasks_without_labels_stay(tmp_path: Path) -> None:
    one = table(tmp_path / "a.csv", "1,ann,cat", "2,ann,")
    two = table(tmp_path / "b.csv", "3,bob,dog")
    with pytest.warns(DataWarning, match="dropped 1 rows without a label"):
        crowd = read_annotations([one, two])
    assert crowd.task_ids.tolist() == [1, 2, 3]
    assert crowd.labels_per_task().tolist() == [1, 0, 1]


def test_texts_that_differ_are_told(tmp_path: Path) -> None:
    texts = {1: "a", 2: "b", 3: "c"}
    one = project(tmp_path / "a.json", {k: {"ann": "x"} for k in texts}, texts)
    two = project(tmp_path / "b.json", {k: {"bob": "y"} for k in texts}, texts | {2: "other"})
    with pytest.warns(
        DataWarning, match=r"'text' of task 2 is 'b' in one file and 'other' in the other; so it is for "
    ):
        found = import_file([one, two])
    assert found.data is not None
    assert found.data["text"].to_pylist() == ["a", "b", "c"]


def test_the_same_numbers_of_two_projects_are_refused(tmp_path: Path) -> None:
    texts = {1: "a", 2: "b", 3: "c"}
    one = project(tmp_path / "a.json", {k: {"ann": "x"} for k in texts}, texts)
    two = project(tmp_path / "b.json", {k: {"bob": "y"} for k in texts}, {1: "p", 2: "q", 3: "c"})
    with pytest.raises(InputError, match=r"for 2 of 3 tasks that both have. The same id means different tasks"):
        import_file([one, two])
    assert rows_of(import_file([one, two], task="text").annotations) == [
        *(("a", "ann", "x"), ("b", "ann", "x"), ("c", "ann", "x")),
        *(("c", "bob", "y"), ("p", "bob", "y"), ("q", "bob", "y")),
    ]


def test_true_labels_that_contradict_each_other_are_left_out(tmp_path: Path) -> None:
    texts = {1: "a", 2: "b"}
    one = project(tmp_path / "a.json", {k: {"ann": "x"} for k in texts}, texts, gold={1: "x", 2: "x"})
    two = project(tmp_path / "b.json", {k: {"bob": "y"} for k in texts}, texts, gold={1: "y", 2: "x"})
    with pytest.warns(DataWarning, match="left out the true labels of 1 tasks"):
        assert import_file([one, two]).true_labels == {2: "x"}


def test_what_each_file_contributes_is_told(tmp_path: Path) -> None:
    one, two = table(tmp_path / "a.csv", "1,ann,cat", "2,ann,dog"), table(tmp_path / "b.csv", "1,bob,cat")
    facts = inspect_file([one, two])
    assert (facts["file"], facts["n_annotations"], facts["n_annotators"]) == (f"{one}, {two}", 3, 2)
    assert [(each["file"], each["n_annotations"], each["n_tasks"]) for each in facts["files"]] == [
        (str(one), 2, 2),
        (str(two), 1, 1),
    ]
    assert inspect_file(one)["files"] == []


def test_what_cannot_be_joined_is_refused(tmp_path: Path) -> None:
    one = table(tmp_path / "a.csv", "1,ann,cat")
    np.save(tmp_path / "m.npy", np.array([[0, 1]]))
    lines = ['{"annotators": ["bob"], "labels": ["cat"]}'] * 2
    (tmp_path / "l.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "w.csv").write_text("ann,bob\n0,1\n1,1\n")
    for name, options in {"m.npy": {}, "l.jsonl": {}, "w.csv": {"format": "wide"}}.items():
        files = [tmp_path / name, one] if not options else [tmp_path / name, table(tmp_path / "v.csv", "1,0,1")]
        with pytest.raises(InputError, match=rf"{name}: has no names for its tasks, so that it cannot be joined"):
            read_annotations(files, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"a.csv: is given twice"):
        read_annotations([one, one])
    with pytest.raises(InputError, match="pass at least one"):
        read_annotations([])


def test_exports_of_one_project_keep_its_control(tmp_path: Path) -> None:
    one = project(tmp_path / "a.json", {1: {"ann": "x"}}, {1: "a"})
    two = project(tmp_path / "b.json", {2: {"bob": "y"}}, {2: "b"})
    control = import_file([one, two]).control
    assert control is not None
    assert (control.from_name, control.tasks) == ("kind", {"1": [1], "2": [2]})
    assert import_file([one, table(tmp_path / "c.csv", "1,eve,x")]).control is None


def test_joined_codes_follow_the_names() -> None:
    """Against the same rows in one list."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 40, 200), rng.integers(0, 9, 200), rng.integers(0, 4, 200)], axis=1)
    rows = rows[np.unique(rows[:, 0] * 10 + rows[:, 1], return_index=True)[1]]
    rng.shuffle(rows)
    parts = [Annotations.from_triples(*part.T) for part in np.split(rows, [20, 90])]
    assert join_annotations(parts) == Annotations.from_triples(*rows.T)
