"""``conal fit --text`` and ``conal predict`` on texts: from an export to a classifier."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.csv as pv
import pytest

import conal as package
from helpers.files import write_csv as write
from helpers.files import write_json

if TYPE_CHECKING:
    from cli.conftest import Run

CLASSES = ("cat", "dog", "fish")
WORDS = ("purr meow whiskers mouse", "bark fetch leash bone", "swim scales fin water")
N = 90
FILES = {"annotators.csv", "common_confusion.csv", "config.json", "history.csv", "labels.csv", "metrics.json"}
FILES |= {"model.safetensors", "report.html", "report.json", "suggestions.csv", "tasks.json", "text.json"}


class Export:
    """Labels and texts of one small crowd on disk, apart and in one file."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.z = rng.integers(3, size=N)
        self.texts = [" ".join(rng.choice(WORDS[k].split(), size=4)) + ", the animal" for k in self.z]
        rows = [
            (f"t{task}", f"w{worker}", CLASSES[self.z[task] if rng.random() < 0.7 else rng.integers(3)])
            for task in range(N)
            for worker in rng.choice(6, size=3, replace=False)
        ]
        self.labels = write(folder / "labels.csv", ("task", "worker", "label"), rows)
        self.text = write(folder / "texts.csv", ("id", "sentence"), [(f"t{k}", t) for k, t in enumerate(self.texts)])
        whole = [(*row, self.texts[int(row[0][1:])]) for row in rows]
        self.both = write(folder / "both.csv", ("task", "worker", "label", "remark"), whole)


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path)


def fit(labels: Path, *more: object) -> tuple[object, ...]:
    return ("fit", labels, "--out", labels.parent / "m", "--epochs", 20, *more)


def test_from_an_export_to_predictions(conal: Run, export: Export, tmp_path: Path) -> None:
    done = conal(*fit(export.labels, "--text", export.text))
    assert done.code == 0, done.err
    assert done.err == ""
    assert {path.name for path in (tmp_path / "m").iterdir()} == FILES
    cleaned = pv.read_csv(tmp_path / "m" / "labels.csv").to_pydict()
    right = [
        label == CLASSES[export.z[int(task[1:])]] for task, label in zip(cleaned["task"], cleaned["label"], strict=True)
    ]
    assert np.mean(right) > 0.97
    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps({"id": k, "body": f"{w} animal"}) + "\n" for k, w in enumerate(WORDS)))
    done = conal("predict", tmp_path / "m", new, "--out", tmp_path / "p.csv")
    assert done.code == 0, done.err
    table = pv.read_csv(tmp_path / "p.csv")
    assert table["task"].to_pylist() == [0, 1, 2]
    assert table["label"].to_pylist() == list(CLASSES)
    probas = package.load(tmp_path / "m").predict_proba([f"{words} animal" for words in WORDS])
    columns = [table[f"proba_{name}"].to_numpy() for name in CLASSES]
    np.testing.assert_allclose(np.column_stack(columns), probas, rtol=1e-12)


def test_the_seconds_are_those_of_the_command(conal: Run, export: Export) -> None:
    began = time.perf_counter()
    result = conal(*fit(export.labels, "--text", export.text, "--json")).json()
    assert result["seconds"] < result["total_seconds"] < time.perf_counter() - began
    done = conal(*fit(export.labels, "--text", export.text, "--overwrite"))
    (total, training) = map(float, re.findall(r"; ([\d.]+) s, of which ([\d.]+) s for epochs\n", done.out)[0])
    assert training < total


def test_the_command_is_the_library(conal: Run, export: Export, tmp_path: Path) -> None:
    assert conal(*fit(export.labels, "--text", export.text, "--set", "text_components=5")).code == 0
    ids = [f"t{k}" for k in range(N)]
    crowd = package.Annotations.read(export.labels)
    clf = package.CrossCoNAL(epochs=20, text_components=5, verbose=False).fit(export.texts, crowd, task_ids=ids)
    loaded = package.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(export.texts), clf.predict_proba(export.texts))


def test_labels_and_texts_in_one_file(conal: Run, export: Export, tmp_path: Path) -> None:
    assert conal(*fit(export.labels, "--text", export.text)).code == 0
    apart = package.load(tmp_path / "m").probas_
    named = ("--text", export.both, "--set", "text_column=remark", "--overwrite")
    assert conal(*fit(export.both, *named)).code == 0
    np.testing.assert_array_equal(package.load(tmp_path / "m").probas_, apart)


def half_labelled(export: Export, folder: Path) -> Path:
    """Label Studio's export of a project in which every third task has no label yet; only those say "moggy"."""
    by_task: dict[str, list[dict[str, object]]] = {}
    for row in export.labels.read_text().splitlines()[1:]:
        task, worker, label = row.split(",")
        answer = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [label]}}
        by_task.setdefault(task, []).append({"completed_by": {"email": worker}, "result": [answer]})
    tasks = [
        {
            "id": k,
            "data": {"text": text if k % 3 else f"moggy {text}"},
            "annotations": by_task[f"t{k}"] if k % 3 else [],
        }
        for k, text in enumerate(export.texts)
    ]
    return write_json(folder / "export.json", *tasks)


def test_a_half_labelled_export_with_its_texts(conal: Run, export: Export, tmp_path: Path) -> None:
    path = half_labelled(export, tmp_path)
    done = conal(*fit(path, "--text", path))
    assert (done.code, done.err) == (0, "")
    assert "on 90 tasks, 3 classes\n30 of the tasks have no label; labels.csv has the classifier's\n" in done.out
    table = pv.read_csv(tmp_path / "m" / "labels.csv").to_pydict()
    unlabelled = [k for k, n in zip(table["task"], table["num_annotations"], strict=True) if n == 0]
    assert sorted(unlabelled) == list(range(0, N, 3))
    found = dict(zip(table["task"], table["label"], strict=True))
    assert np.mean([found[k] == CLASSES[export.z[k]] for k in unlabelled]) > 0.9
    terms = json.loads((tmp_path / "m" / "text.json").read_text())
    assert any("moggy" in term for term in _words(terms))


def _words(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _words(part)


def test_a_table_of_texts_in_which_some_rows_have_no_label(conal: Run, export: Export, tmp_path: Path) -> None:
    rows = [line.split(",", 3) for line in export.both.read_text().splitlines()[1:]]
    rows += [[f"new{k}", "", "", words] for k, words in enumerate(WORDS)]
    path = write(tmp_path / "some.csv", ("task", "worker", "label", "text"), rows)
    done = conal(*fit(path, "--text", path))
    assert done.code == 0, done.err
    assert "3 of the tasks have no label" in done.out
    table = pv.read_csv(tmp_path / "m" / "labels.csv").to_pydict()
    found = dict(zip(table["task"], table["label"], strict=True))
    assert [found[f"new{k}"] for k in range(3)] == list(CLASSES)


def test_true_labels_and_texts(conal: Run, export: Export, tmp_path: Path) -> None:
    gold = write(tmp_path / "g.csv", ("task", "truth"), [(f"t{k}", CLASSES[c]) for k, c in enumerate(export.z)])
    assert conal(*fit(gold, "--text", export.text, "--method", "gold")).code == 0


def test_validation_texts_select_the_epoch(conal: Run, export: Export, tmp_path: Path) -> None:
    texts = write(tmp_path / "vt.csv", ("task", "sentence"), [(k, w) for k, w in enumerate(WORDS)])
    labels = write(tmp_path / "vl.csv", ("task", "label"), list(enumerate(CLASSES)))
    options = ("--text", export.text, "--valid", texts, "--valid-labels", labels, "--method", "conal", "--json")
    assert conal(*fit(export.labels, *options)).json()["selection"] == "validation_accuracy"


def test_empty_texts_are_counted(conal: Run, export: Export, tmp_path: Path) -> None:
    rows = [(f"t{k}", "" if k < 2 else text) for k, text in enumerate(export.texts)]
    done = conal(*fit(export.labels, "--text", write(tmp_path / "e.csv", ("id", "text"), rows), "--quiet"))
    assert done.code == 0
    assert done.err.splitlines() == [
        f"warning: {tmp_path / 'e.csv'}: 2 of {N} texts are empty; they carry no information"
    ]


def refusal(conal: Run, export: Export, *options: object) -> str:
    before = set(export.labels.parent.iterdir())
    message = conal(*fit(export.labels, *options)).refusal()
    assert set(export.labels.parent.iterdir()) == before
    return message


def test_what_does_not_go_together(conal: Run, export: Export) -> None:
    text = ("--text", export.text)
    assert "pass either --features or --text" in refusal(conal, export)
    assert "--set text_column needs --text" in refusal(
        conal, export, "--features", export.text, "--set", "text_column=x"
    )
    assert "--valid and --valid-labels go together" in refusal(conal, export, *text, "--valid", export.text)
    assert "no such file" in refusal(conal, export, "--text", "nowhere.csv")


def test_the_columns_are_listed_where_none_is_a_text(conal: Run, export: Export) -> None:
    message = refusal(conal, export, "--text", export.labels)
    assert "no column for the text; it has 'task', 'worker', 'label'" in message
    assert "--set text_column=NAME" in message
    assert "no column 'remark'; it has 'id', 'sentence'" in refusal(
        conal, export, "--text", export.text, "--set", "text_column=remark"
    )


def test_conflicting_texts_name_the_task(conal: Run, export: Export, tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", ("task", "text"), [("t1", "one"), ("t2", "x"), ("t1", "two")])
    assert "task 't1' has different texts, the second is in row 3" in refusal(conal, export, "--text", path)


def test_tasks_without_a_text(conal: Run, export: Export, tmp_path: Path) -> None:
    rows = [(f"t{k}", text) for k, text in enumerate(export.texts) if k != 7]
    path = write(tmp_path / "s.csv", ("task", "text"), [*rows, ("spare", "purr meow unlabelled")])
    assert "1 tasks have no features: 't7'" in refusal(conal, export, "--text", path)
    done = conal(*fit(export.labels, "--text", path, "--set", "allow_missing=true"))
    assert done.code == 0
    assert "dropped: 1 tasks have no features: 't7'" in done.err


def test_models_know_what_they_take(conal: Run, export: Export, tmp_path: Path) -> None:
    assert conal(*fit(export.labels, "--text", export.text)).code == 0
    np.save(tmp_path / "x.npy", np.zeros((3, 5), dtype=np.float32))
    place = ("--out", tmp_path / "p.csv")
    assert "unknown kind of table '.npy'" in conal("predict", tmp_path / "m", tmp_path / "x.npy", *place).refusal()
    assert "no column for the text" in conal("predict", tmp_path / "m", export.labels, *place).refusal()
    features = write(tmp_path / "f.csv", ("task", "f"), [(f"t{k}", k) for k in range(N)])
    assert conal(*fit(export.labels, "--features", features, "--overwrite")).code == 0
    message = conal("predict", tmp_path / "m", features, *place, "--set", "text_column=text").refusal()
    assert "trained on features, not on texts" in message
    assert not (tmp_path / "p.csv").exists()
