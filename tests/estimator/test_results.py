"""Tables and report: the same after ``fit`` and after ``load``, computed once, and only if somebody looks."""

from __future__ import annotations

import ast
import json
import pickle
import re
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import conal
from conal import estimator
from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from conal.errors import ConalWarning
from conal.estimator import CrowdClassifier
from conal.io.model_folder import read_results
from conal.report import findings as collection
from conal.report.intervals import intervals_of

FAST: dict[str, Any] = {"epochs": 3, "batch_size": 32, "verbose": False}
FILES = ["annotators.csv", "common_confusion.csv", "history.csv", "labels.csv", "suggestions.csv"]
WORDS = np.array(["sun rain", "dog cat", "bus car"])
pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=90, n_valid=20, n_test=10, n_classes=3, n_annotators=6, seed=4)


def renamed(data: CrowdDataset, tasks: Any = None, annotators: Any = None, classes: Any = None) -> Annotations:
    """The crowd with other names; one annotator more, who never answers."""
    crowd = data.annotations
    return Annotations(
        crowd.tasks,
        crowd.annotators,
        crowd.labels,
        task_ids=crowd.task_ids if tasks is None else tasks,
        annotator_ids=[*range(6), 99] if annotators is None else annotators,
        classes=crowd.classes if classes is None else classes,
    )


def on_integers(data: CrowdDataset) -> CrowdClassifier:
    return conal.CoNAL(**FAST).fit(data.x, renamed(data))


def on_named_features(data: CrowdDataset) -> CrowdClassifier:
    ids = [f"t{k}" for k in range(90)]
    frame = pd.DataFrame(data.x, columns=[f"f{k}" for k in range(data.x.shape[1])]).assign(task=ids)
    return conal.CrossCoNAL(**FAST).fit(frame, renamed(data, ids, [f"0{k}" for k in range(7)], ["1", "02", "cat, dog"]))


def on_tuples(data: CrowdDataset) -> CrowdClassifier:
    ids = [("t", k) for k in range(90)]
    crowd = renamed(data, ids, [("w", k) for k in range(7)], [("a", 1), ("a", 2), ("b", 1)])
    return conal.CoNAL(**FAST).fit(data.x, crowd, task_ids=ids)


def on_dates(data: CrowdDataset) -> CrowdClassifier:
    crowd = data.annotations
    days = [date(2024, 1, 1 + k) for k in crowd.annotators]
    return conal.CoNAL(**FAST).fit(data.x, Annotations.from_triples(crowd.tasks, days, crowd.labels == 1))


def on_column_names(data: CrowdDataset) -> CrowdClassifier:
    """Classes that are called like columns of the tables."""
    return conal.make("dl-mv", **FAST).fit(data.x, renamed(data, classes=["true", "task", "worker"]))


def on_pseudonyms(data: CrowdDataset) -> CrowdClassifier:
    named = renamed(data, annotators=[f"Person {k}" for k in range(7)])
    return conal.CoNAL(**FAST).fit(data.x, named.anonymised(hide_below=5))


def on_texts(data: CrowdDataset) -> CrowdClassifier:
    texts = [f"{WORDS[z]} number {i}" for i, z in enumerate(data.y_true)]
    return conal.CoNAL(**FAST, text_components=8).fit(texts, data.annotations)


def on_gold(data: CrowdDataset) -> CrowdClassifier:
    """Labels that are certain: probabilities of 0 and 1."""
    assert data.valid is not None
    return conal.make("gold", **FAST).fit(data.x, data.y_true, validation=(data.valid.x, data.valid.y))


def as_ensemble(data: CrowdDataset) -> CrowdClassifier:
    return conal.CoNAL(**FAST, ensemble=2).fit(data.x, data.annotations)


FITS = [
    on_integers,
    on_named_features,
    on_tuples,
    on_dates,
    on_column_names,
    on_pseudonyms,
    on_texts,
    on_gold,
    as_ensemble,
]


@pytest.mark.parametrize("fit", FITS)
def test_fitted_and_loaded_have_the_same_results(
    fit: Callable[[CrowdDataset], CrowdClassifier], data: CrowdDataset, tmp_path: Path
) -> None:
    fitted = fit(data)
    before = {name: fitted.tables_[name] for name in FILES}
    fitted.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    assert list(fitted.tables_) == list(loaded.tables_) == FILES
    for name in FILES:
        assert loaded.tables_[name].schema == before[name].schema, name
        assert loaded.tables_[name].equals(before[name]), name
        assert fitted.tables_[name] is before[name]
    stored = json.loads((tmp_path / "model" / "report.json").read_text(encoding="utf-8"))
    assert loaded.results_.report == stored
    assert json.loads(json.dumps(fitted.results_.report)) == stored
    assert loaded.probas_.dtype == fitted.probas_.dtype
    np.testing.assert_array_equal(loaded.probas_, fitted.probas_)
    assert list(getattr(loaded, "feature_names_in_", ())) == list(getattr(fitted, "feature_names_in_", ()))


def test_findings_are_computed_once_and_only_if_somebody_looks(
    data: CrowdDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    compute = intervals_of

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return compute(*arguments)

    monkeypatch.setattr(collection, "intervals_of", counted)
    clf = conal.CoNAL(**FAST).fit(data.x, data.annotations)
    assert clf.labels_.tolist() == clf.tables_["labels.csv"]["label"].to_pylist()
    assert len(clf.tables_["history.csv"]) == 3
    assert not calls  # neither labels nor history have intervals
    assert "annotator_quality_low" in clf.tables_["annotators.csv"].column_names
    clf.save(tmp_path / "one")
    clf.save(tmp_path / "two")
    assert len(calls) == 1
    assert clf.results_.report["crowd"]["n_tasks"] == 90


def test_an_estimator_with_results_can_be_pickled(data: CrowdDataset) -> None:
    clf = conal.CoNAL(**FAST).fit(data.x, data.annotations)
    table = clf.tables_["annotators.csv"]
    again = pickle.loads(pickle.dumps(clf))  # noqa: S301 - our own
    assert again.tables_["annotators.csv"].equals(table)
    assert again.results_.report == clf.results_.report


def test_before_fit_there_are_no_tables() -> None:
    assert not hasattr(conal.CoNAL(), "tables_")


def test_a_loaded_model_needs_its_folder_no_more(data: CrowdDataset, tmp_path: Path) -> None:
    conal.CoNAL(**FAST).fit(data.x, data.annotations).save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    assert len(loaded.tables_["labels.csv"]) == 90
    assert loaded.results_.report["crowd"]["n_annotators"] == 6


def test_text_that_is_no_known_name_stays_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label,size\na,1\nstranger,2\n", encoding="utf-8")
    table = read_results(tmp_path / "t.csv", {"label": "class"}, {"class": np.array(["a", "b"], dtype=object)})
    assert table.to_pydict() == {"label": ["a", "stranger"], "size": [1.0, 2.0]}
    assert table.schema.types == [pa.string(), pa.float64()]


def test_modules_of_the_estimator_leave_each_others_private_parts_alone() -> None:
    (folder,) = estimator.__path__
    for path in Path(folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and re.match(
                "_(?!_|replace$)", node.attr
            ):  # _replace of tuples is public
                owner = node.value.id if isinstance(node.value, ast.Name) else ast.dump(node.value)
                assert owner in ("self", "cls"), (path.name, owner, node.attr)


@pytest.mark.parametrize(
    "options", [{}, {"ensemble": 2}, {"second_classifier": "none"}], ids=["default", "ensemble", "networks"]
)
def test_the_classifier_of_labels_csv_was_not_trained_on_the_task(options: dict[str, Any]) -> None:
    """Noise as features and random labels: who was trained on a task repeats its label, and nobody else can."""
    rng = np.random.default_rng(0)
    x, label = rng.normal(size=(240, 60)), rng.integers(2, size=200)
    crowd = conal.Annotations.from_triples(np.arange(200).repeat(3), np.tile(["a", "b", "c"], 200), label.repeat(3))
    clf = conal.make("xconal", epochs=40, hidden=(64,), input_dropout=0.0, dropout=0.0, verbose=False, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        clf.fit(x, crowd)
    table = clf.tables_["labels.csv"]
    said = np.array(table["classifier_label"].to_pylist())
    sure = np.array(table["classifier_probability"].to_pylist())
    assert (clf.predict(x)[:200] == label).mean() > 0.8  # by all networks: most were trained on the task
    assert (said[:200] == label).mean() < 0.7
    np.testing.assert_array_equal(said[200:], clf.predict(x)[200:])  # tasks without labels, which nobody was trained on
    np.testing.assert_allclose(sure[200:], clf.predict_proba(x)[200:].max(1), atol=1e-6)
    assert clf.results_.report["tasks"]["disagreements"]["held_out"]


def test_other_methods_say_that_their_classifier_was(data: CrowdDataset) -> None:
    clf = conal.make("conal", epochs=2, verbose=False).fit(data.x, data.annotations)
    assert not clf.results_.report["tasks"]["disagreements"]["held_out"]
    assert clf.tables_["labels.csv"]["classifier_label"].to_pylist() == clf.predict(data.x).tolist()
