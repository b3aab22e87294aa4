"""Save and load: identical predictions, no pickle, and clear errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pv
import pytest
from torch import nn

import conal
from conal import methods
from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from conal.errors import InputError, ModelFolderError
from conal.io.model_folder import CONFIG, FORMAT_VERSION, WEIGHTS
from conal.report.page import write_report
from helpers.folders import sign

OF_0_2_0 = Path(__file__).parent / "folders_0_2_0"
"""Folders that version 0.2.0 wrote, each with some of its predictions."""
FAST: dict[str, Any] = {"epochs": 4, "batch_size": 32, "verbose": False}
pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(
        n_train=120, n_valid=20, n_test=50, n_classes=3, n_annotators=6, seed=4, gate="interaction", gate_scale="wide"
    )


def named(data: CrowdDataset) -> Annotations:
    crowd = data.annotations
    names = np.array(["cat", "dög", "elk"])
    return Annotations.from_triples(crowd.tasks, [("w", int(k)) for k in crowd.annotators], names[crowd.labels])


@pytest.mark.parametrize("name", methods.names())
def test_save_load_predict_is_identical(name: str, data: CrowdDataset, tmp_path: Path) -> None:
    gold = methods.get(name).takes == "gold"
    clf = conal.make(name, **FAST).fit(data.x, data.y_true if gold else data.annotations)
    clf.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    assert type(loaded) is type(clf)
    assert loaded.get_params() == clf.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(data.x), clf.predict_proba(data.x))
    np.testing.assert_array_equal(loaded.common_confusion_, clf.common_confusion_)
    np.testing.assert_array_equal(loaded.annotator_confusion_, clf.annotator_confusion_)
    if not gold:
        inferred = loaded.infer(data.x, data.annotations)
        np.testing.assert_array_equal(inferred, clf.infer(data.x, data.annotations))
        if clf.model_.training_posterior() is None:
            np.testing.assert_array_equal(inferred, clf.probas_)
    np.testing.assert_allclose(loaded.probas_, clf.probas_, rtol=1e-12)
    assert loaded.labels_.tolist() == clf.labels_.tolist()
    assert loaded.task_ids_.tolist() == clf.task_ids_.tolist()
    assert loaded.history_ == clf.history_
    assert loaded.metrics_ == clf.metrics_


def test_names_come_back_as_they_were(data: CrowdDataset, tmp_path: Path) -> None:
    clf = conal.CoNAL(**FAST).fit(data.x, named(data))
    clf.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    assert loaded.classes_.tolist() == ["cat", "dög", "elk"]
    assert loaded.annotator_ids_.tolist() == [("w", k) for k in range(6)]
    np.testing.assert_array_equal(loaded.predict(data.x), clf.predict(data.x))


def test_options_that_shape_the_network_are_stored(data: CrowdDataset, tmp_path: Path) -> None:
    options: dict[str, Any] = {"hidden": (16, 8), "batch_norm": True, "scaling": "standard", "omega_scale": "learn"}
    features = np.random.default_rng(0).normal(size=(6, 2))
    clf = conal.CoNAL(**options, **FAST).fit(data.x, data.annotations, annotator_features=features)
    clf.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.x), clf.predict_proba(data.x))
    np.testing.assert_array_equal(loaded.common_noise_rate(data.x), clf.common_noise_rate(data.x))


def test_a_backbone_of_ones_own_is_asked_for(data: CrowdDataset, tmp_path: Path) -> None:
    clf = conal.CoNAL(backbone=nn.Linear(20, 3), **FAST).fit(data.x, data.annotations)
    clf.save(tmp_path / "model")
    with pytest.raises(InputError, match="has a custom backbone"):
        conal.load(tmp_path / "model")
    loaded = conal.load(tmp_path / "model", backbone=nn.Linear(20, 3))
    np.testing.assert_array_equal(loaded.predict_proba(data.x), clf.predict_proba(data.x))
    with pytest.raises(ModelFolderError, match="does not match this version"):
        conal.load(tmp_path / "model", backbone=nn.Linear(20, 4))


def test_the_tables_say_what_the_estimator_says(data: CrowdDataset, tmp_path: Path) -> None:
    clf = conal.CoNAL(**FAST).fit(data.x, data.annotations)
    clf.save(tmp_path / "model")
    labels = pv.read_csv(tmp_path / "model" / "labels.csv").to_pydict()
    assert labels["task"] == clf.task_ids_.tolist()
    assert labels["label"] == clf.labels_.tolist()
    np.testing.assert_allclose(labels["probability"], clf.probas_.max(1))
    people = pv.read_csv(tmp_path / "model" / "annotators.csv").to_pydict()
    crowd = data.annotations
    assert people["worker"] == crowd.annotator_ids.tolist()
    assert people["num_examples_labeled"] == crowd.labels_per_annotator().tolist()
    third = crowd.annotators == 3
    mine, inferred = crowd.labels[third], clf.labels_[crowd.tasks[third]]
    assert people["agreement_with_consensus"][3] == pytest.approx((mine == inferred).mean())
    omega = clf.common_noise_rate(data.x, crowd)[third]
    assert people["common_noise_rate"][3] == pytest.approx(omega.mean())
    right = [
        sum(
            clf.probas_[task, c] * (w * clf.common_confusion_[c, c] + (1 - w) * clf.annotator_confusion_[3, c, c])
            for c in range(3)
        )
        for task, w in zip(crowd.tasks[third], omega, strict=True)
    ]
    assert people["annotator_quality"][3] == pytest.approx(np.mean(right), abs=0.03)  # by draws of the labels
    confusion = pv.read_csv(tmp_path / "model" / "common_confusion.csv").to_pydict()
    np.testing.assert_allclose([confusion[str(k)] for k in range(3)], clf.common_confusion_.T)


def test_a_loaded_model_can_be_saved_again(data: CrowdDataset, tmp_path: Path) -> None:
    conal.CoNAL(**FAST).fit(data.x, data.annotations).save(tmp_path / "one")
    conal.load(tmp_path / "one").save(tmp_path / "two")
    for name in (path.name for path in (tmp_path / "one").iterdir()):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_an_existing_folder_is_not_overwritten_unasked(data: CrowdDataset, tmp_path: Path) -> None:
    clf = conal.CoNAL(**FAST).fit(data.x, data.annotations)
    clf.save(tmp_path / "model")
    with pytest.raises(InputError, match="exists already"):
        clf.save(tmp_path / "model")
    clf.save(tmp_path / "model", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize("change", [{"method": "no-such-method"}, {"instance_shape": [7]}, {"parameters": {}}])
def test_a_config_that_does_not_fit_the_weights(data: CrowdDataset, tmp_path: Path, change: dict[str, Any]) -> None:
    """Even with digests forged to match, nothing but a clear error comes out."""
    conal.CoNAL(**FAST).fit(data.x, data.annotations).save(tmp_path / "model")
    sign(tmp_path / "model", **change)
    with pytest.raises(InputError, match=r"does not match|there is no method"):
        conal.load(tmp_path / "model")


def test_weights_of_a_newer_version_are_refused(data: CrowdDataset, tmp_path: Path) -> None:
    conal.CoNAL(**FAST).fit(data.x, data.annotations).save(tmp_path / "model")
    path = tmp_path / "model" / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": FORMAT_VERSION + 1}))
    with pytest.raises(ModelFolderError, match="newer conal"):
        conal.load(tmp_path / "model")


@pytest.mark.parametrize(("then", "now"), [("gaussian", "lda"), ("none", "none")])
def test_a_folder_with_the_parameters_of_0_2_0_is_read(data: CrowdDataset, tmp_path: Path, then: str, now: str) -> None:
    clf = conal.make("xconal", **{**FAST, "second_classifier": now}).fit(data.x, data.annotations)
    clf.save(tmp_path / "model")
    parameters = json.loads((tmp_path / "model" / CONFIG).read_text())["parameters"]
    del parameters["second_classifier"]
    sign(tmp_path / "model", parameters={**parameters, "witness": then, "n_jobs": 1})
    loaded = conal.load(tmp_path / "model")
    assert loaded.get_params()["second_classifier"] == now
    np.testing.assert_array_equal(loaded.predict_proba(data.x), clf.predict_proba(data.x))


@pytest.mark.parametrize("name", ["conal", "xconal"])
def test_a_folder_that_0_2_0_wrote_predicts_as_it_did_and_can_be_used(name: str, tmp_path: Path) -> None:
    shutil.copytree(OF_0_2_0 / name, tmp_path / "model")
    expected = json.loads((OF_0_2_0 / name / "expected.json").read_text())
    clf = conal.load(tmp_path / "model")
    features = np.array(expected["features"], np.float32)
    np.testing.assert_allclose(clf.predict_proba(features), expected["probabilities"], rtol=0, atol=1e-6)
    assert "conal" in write_report(tmp_path / "model").read_text(encoding="utf-8")
    assert clf.export(tmp_path / "model.pt2", overwrite=True).largest_difference < 1e-5
    assert clf.plan(5).table.num_rows == 5
    more = Annotations.from_triples(clf.task_ids_[:10], ["newcomer"] * 10, clf.labels_[:10])
    clf.update(None, more)
    assert len(clf.learned_from_) == 2
    assert "newcomer" in clf.annotator_ids_.tolist()


def test_the_gate_of_0_2_0_keeps_its_meaning() -> None:
    """Its default was "learn"; the default is "spread" now."""
    assert conal.load(OF_0_2_0 / "conal").get_params()["omega_scale"] == "learn"


def test_no_pickle_is_written(data: CrowdDataset, tmp_path: Path) -> None:
    conal.CoNAL(**FAST).fit(data.x, data.annotations).save(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    tables = ["annotators.csv", "common_confusion.csv", "history.csv", "labels.csv", "suggestions.csv"]
    assert names == sorted([*tables, CONFIG, "metrics.json", "report.json", "tasks.json", WEIGHTS])


def test_a_fit_resumes_only_with_the_same_data_and_parts(data: CrowdDataset, tmp_path: Path) -> None:
    """Annotator features, class names, labels and the weights of a backbone all belong to a run."""
    path = tmp_path / "c"
    features = np.random.default_rng(0).normal(size=(6, 2))
    mine = nn.Linear(20, 3)
    options: dict[str, Any] = {**FAST, "backbone": mine, "hidden": [16]}
    conal.CoNAL(**options).fit(data.x, data.annotations, annotator_features=features, checkpoint=path)
    same = conal.CoNAL(**{**options, "hidden": (16,), "epochs": 5})
    same.fit(data.x, data.annotations, annotator_features=features, checkpoint=path, resume=True)
    assert len(same.history_) == 5
    crowd = data.annotations
    relabelled = Annotations.from_matrix(np.where(crowd.to_matrix() == 1, 2, crowd.to_matrix()), classes=range(3))
    renamed = Annotations.from_matrix(crowd.to_matrix(), annotator_ids=list("abcdef"))
    changes: list[tuple[str, dict[str, Any], Any, Any]] = [
        ("annotator features", {}, crowd, features + 1),
        ("annotations", {}, relabelled, features),
        ("classes or annotators", {}, renamed, features),
        ("backbone", {"backbone": nn.Linear(20, 3)}, crowd, features),
        ("lr", {"lr": 0.5}, crowd, features),
    ]
    for name, change, labels, extra in changes:
        with pytest.raises(InputError, match=f"was written with different .*{name}"):
            conal.CoNAL(**{**options, **change}).fit(
                data.x, labels, annotator_features=extra, checkpoint=path, resume=True
            )
