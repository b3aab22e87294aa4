"""``fit(..., true_labels=...)``: what is certain, what is told, and what is recorded."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import conal
from conal import methods
from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from conal.errors import DataWarning, InputError
from conal.methods.cross_conal import CrossCoNALMethod

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")

CROWD_METHODS = [name for name in methods.names() if methods.get(name).takes == "crowd"]


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=80, n_classes=3, seed=1)


@pytest.fixture(scope="module")
def truth(data: CrowdDataset) -> dict[Any, Any]:
    """Of twelve tasks."""
    tasks = data.annotations.task_ids[:12].tolist()
    return dict(zip(tasks, data.classes[data.y_true[:12]].tolist(), strict=True))


def fitted(data: CrowdDataset, true_labels: Any, name: str = "dl-mv", **options: Any) -> conal.CrowdClassifier:
    clf = conal.make(name, epochs=2, verbose=False, **options)
    return clf.fit(data.x, data.annotations, true_labels=true_labels)


@pytest.mark.parametrize("name", CROWD_METHODS)
def test_every_method_takes_them_as_certain(name: str, data: CrowdDataset, truth: dict[Any, Any]) -> None:
    clf, without = fitted(data, truth, name), fitted(data, None, name)
    np.testing.assert_array_equal(clf.probas_[:12], np.eye(3)[data.y_true[:12]])
    assert clf.metrics_["n_true_labels"] == 12
    assert "n_true_labels" not in without.metrics_
    assert not np.array_equal(clf.predict_proba(data.x), without.predict_proba(data.x))


def test_any_accepted_type_gives_the_same(data: CrowdDataset, truth: dict[Any, Any]) -> None:
    import pandas as pd
    import polars as pl

    frame = pd.DataFrame({"item": list(truth), "gold": list(truth.values())})
    row = [truth.get(task) for task in range(80)]
    expected = fitted(data, truth)
    for given in (frame, pl.DataFrame(frame), pd.Series(truth), row, np.array(row, dtype=object)):
        clf = fitted(data, given)
        np.testing.assert_array_equal(clf.probas_, expected.probas_)
        assert clf.metrics_["true_labels_sha256"] == expected.metrics_["true_labels_sha256"]


def test_rows_in_another_order_are_joined_by_id(data: CrowdDataset, truth: dict[Any, Any]) -> None:
    ids = np.arange(80)[::-1]
    clf = conal.make("dl-mv", epochs=2, verbose=False)
    clf.fit(data.x[ids], data.annotations, task_ids=ids, true_labels=[truth.get(int(task)) for task in ids])
    where = {task: k for k, task in enumerate(clf.task_ids_.tolist())}
    assert [clf.labels_[where[task]] for task in truth] == list(truth.values())
    assert clf.metrics_["n_true_labels"] == 12


def test_a_task_without_annotations_can_have_one(data: CrowdDataset) -> None:
    some = data.annotations.select(data.annotations.tasks >= 5)
    clf = conal.make("conal", epochs=2, verbose=False, selection="last")
    clf.fit(data.x, some, true_labels={0: data.classes[data.y_true[0]]})
    assert clf.metrics_["n_tasks_trained_on"] == clf.metrics_["n_tasks_labelled"] == 76
    assert clf.labels_[clf.task_ids_.tolist().index(0)] == data.classes[data.y_true[0]]


def test_tasks_of_known_truth_are_not_held_out(data: CrowdDataset) -> None:
    known = {task: data.classes[data.y_true[task]] for task in range(70)}
    clf = fitted(data, known, "conal", holdout=0.9)
    assert clf.metrics_["n_tasks_labelled"] - clf.metrics_["n_tasks_trained_on"] == 9
    with pytest.warns(DataWarning, match="only one task without a true label has labels"):
        fitted(data, {task: data.classes[data.y_true[task]] for task in range(79)}, "conal")


def test_labels_against_every_vote_are_told() -> None:
    votes = [["cat", "cat"], ["cat", "dog"], ["dog", "dog"], ["dog", "dog"]]
    crowd = Annotations.from_matrix(votes)
    with pytest.warns(DataWarning, match=r"1 of 2 contradict every vote of their task: 2 \('cat', votes for 'dog'\)"):
        conal.make("dl-mv", epochs=1, verbose=False).fit(np.eye(4), crowd, true_labels={0: "cat", 2: "cat"})


def test_an_unknown_class_is_refused() -> None:
    crowd = Annotations.from_matrix([[0, 0], [1, 1], [0, 0], [1, 1]], classes=[0, 1, 2])
    with pytest.raises(InputError, match=r"'fish' are not among the classes 0, 1, 2; .*list all classes"):
        conal.make("dl-mv", epochs=1).fit(np.eye(4), crowd, true_labels={0: "fish"})


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("gold", {0: 1}, "true_labels: the method 'gold' takes the true labels of all rows as y"),
        ("dl-mv", [0, 1], "true_labels: 2 for 80 rows of features; pass one for each"),
        ("dl-mv", "gold.csv", "true_labels must map task ids to labels"),
        ("dl-mv", {1000: 1}, "true_labels: no task of the 1 true labels has annotations; the tasks are 1000"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, given: Any, message: str, data: CrowdDataset) -> None:
    target = data.classes[data.y_true] if name == "gold" else data.annotations
    with pytest.raises(InputError, match=message):
        conal.make(name, epochs=1).fit(data.x, target, true_labels=given)


def test_two_labels_of_one_task_are_refused_by_name(data: CrowdDataset) -> None:
    import pandas as pd

    frame = pd.DataFrame({"task": [3, 4, 3], "label": [0, 1, 2]})
    with pytest.raises(InputError, match=r"a task occurs more than once: 3; the labels of 3 are 0, 2\. Pass one label"):
        fitted(data, frame)


@pytest.mark.parametrize("second", ["none", "lda"])
def test_a_saved_model_infers_the_same(second: str, data: CrowdDataset, truth: dict[Any, Any], tmp_path: Path) -> None:
    clf = conal.make("xconal", epochs=6, verbose=False, second_classifier=second)
    clf.fit(data.x, data.annotations, true_labels=truth)
    assert isinstance(clf.model_, CrossCoNALMethod)
    assert clf.model_.correction is not None
    assert float(clf.model_.correction.weight.abs().max()) > 0
    clf.save(tmp_path / "model")
    again = conal.load(tmp_path / "model")
    expected = clf.infer(data.x, data.annotations)
    np.testing.assert_array_equal(again.infer(data.x, data.annotations), expected)
    np.testing.assert_array_equal(again.predict_proba(data.x), clf.predict_proba(data.x))
    by_torch = clf.to_torch()(torch.from_numpy(np.asarray(data.x, dtype=np.float32))).numpy()
    np.testing.assert_allclose(by_torch, clf.predict_proba(data.x), atol=1e-6)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["n_true_labels"] == 12
    assert again.metrics_["true_labels_sha256"] == clf.metrics_["true_labels_sha256"]
    report = json.loads((tmp_path / "model" / "report.json").read_text())
    assert "--true-labels TRUE_LABELS" in report["model"]["command"]


def test_a_checkpoint_with_other_true_labels_is_not_continued(
    data: CrowdDataset, truth: dict[Any, Any], tmp_path: Path
) -> None:
    place = tmp_path / "checkpoint"

    def fit(true_labels: Any, resume: bool) -> None:
        clf = conal.make("dl-mv", epochs=2, verbose=False)
        clf.fit(data.x, data.annotations, true_labels=true_labels, checkpoint=place, resume=resume)

    fit(truth, resume=False)
    fit(truth, resume=True)
    other = truth | {0: data.classes[(data.y_true[0] + 1) % 3]}
    for changed in (other, None):
        with pytest.raises(InputError, match="was written with different true labels"):
            fit(changed, resume=True)


def test_the_report_says_what_was_supplied(data: CrowdDataset, truth: dict[Any, Any]) -> None:
    from conal.report.page import template

    def story(truth: Any) -> list[str]:
        section = fitted(data, truth, "xconal").results_.report["model"]
        return [line.strip() for line in str(template("stories.html").module.training(section)).split("</p>")]

    told = story(truth)
    assert told[0].endswith("Nothing was selected by results. No true label selected it.")
    assert told[1].startswith(
        "<p>12 true labels were supplied, trained on and taken as certain. Figures that they measure"
    )
    plain = story(None)
    assert plain[0].endswith("No true label was used.")
    assert plain[1].startswith("<p>Qualities, probabilities and gains are the model's beliefs.")
    assert plain[-2].endswith("The paper's two kinds of confusion infer the first labels only.")


def test_fits_without_true_labels_warn_of_nothing(data: CrowdDataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        first, second = fitted(data, None), fitted(data, {})
    np.testing.assert_array_equal(first.probas_, second.probas_)
