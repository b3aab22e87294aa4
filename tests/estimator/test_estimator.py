"""The estimator: what it takes, what it gives, and what it says about the crowd."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import conal
from conal.data.annotations import Annotations
from conal.data.pseudonyms import anonymised
from conal.datasets import CrowdDataset
from conal.errors import DataWarning, InputError, NetworkWarning
from conal.estimator import CrowdClassifier
from conal.networks import VGG16

FAST: dict[str, Any] = {"epochs": 15, "batch_size": 32, "verbose": False}


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=240, n_valid=60, n_test=200, n_classes=3, n_annotators=8, seed=2)


@pytest.fixture(scope="module")
def fitted(data: CrowdDataset) -> CrowdClassifier:
    return conal.CoNAL(**FAST).fit(data.x, data.annotations)


def named(data: CrowdDataset) -> Annotations:
    """The same crowd with text for names."""
    crowd = data.annotations
    return Annotations.from_triples(
        [f"t{k:03}" for k in crowd.tasks],
        [f"w{k}" for k in crowd.annotators],
        np.array(["cat", "dog", "elk"])[crowd.labels],
    )


def test_it_learns_without_gold(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    assert data.test is not None
    assert fitted.score(data.test.x, data.test.y) > 0.85
    assert fitted.metrics_["selection"] == "holdout_log_likelihood"
    assert len(fitted.history_) == 15


def test_shapes_and_stochastic_rows(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    assert data.test is not None
    probas = fitted.predict_proba(data.test.x)
    assert probas.shape == (200, 3)
    np.testing.assert_allclose(probas.sum(1), np.ones(200), atol=1e-12)
    assert fitted.common_confusion_.shape == (3, 3)
    assert fitted.annotator_confusion_.shape == (8, 3, 3)
    np.testing.assert_allclose(fitted.annotator_confusion_.sum(-1), np.ones((8, 3)), atol=1e-6)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_features_in_ == 20


def test_cleaned_labels_beat_the_majority(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    votes = conal.aggregation.MajorityVote().fit(data.annotations).codes_
    cleaned = (fitted.labels_ == data.y_true).mean()
    assert cleaned > (votes == data.y_true).mean() + 0.05


def test_infer_uses_the_annotations(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    np.testing.assert_allclose(fitted.infer(data.x, data.annotations), fitted.probas_)
    assert not np.allclose(fitted.predict_proba(data.x), fitted.probas_, atol=0.05)
    nobody = data.annotations.select(np.zeros(data.annotations.n_annotations, dtype=bool))
    np.testing.assert_allclose(fitted.infer(data.x, nobody), fitted.predict_proba(data.x), atol=1e-6)


def test_every_way_to_pass_the_same_data_gives_the_same_model(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    assert data.test is not None
    crowd = data.annotations
    long = pd.DataFrame({"task": crowd.tasks, "worker": crowd.annotators, "label": crowd.labels})
    matrix = crowd.to_matrix().astype(float)
    matrix[matrix < 0] = np.nan
    frame = pd.DataFrame(data.x).add_prefix("f")
    ways: list[tuple[Any, Any, dict[str, Any]]] = [
        (data.x, crowd.to_matrix(), {}),
        (data.x, matrix, {}),
        (data.x, long.sample(frac=1, random_state=0), {}),
        (data.x, pl.from_pandas(long), {}),
        (data.x, pd.DataFrame(matrix), {}),
        (torch.from_numpy(data.x), crowd, {}),
        (frame, crowd, {}),
        (TensorDataset(torch.from_numpy(data.x)), crowd, {}),
    ]
    expected = fitted.predict_proba(data.test.x)
    for X, y, options in ways:
        clf = conal.CoNAL(**FAST).fit(X, y, **options)
        np.testing.assert_array_equal(clf.predict_proba(data.test.x), expected)


def test_features_are_joined_by_id(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    """Feature rows in any order, with ids in a column or beside them, give the same model."""
    assert data.test is not None
    crowd = named(data)
    order = np.random.default_rng(0).permutation(len(data.x))
    ids = [f"t{k:03}" for k in order]
    frame = pd.DataFrame(data.x[order]).add_prefix("f").assign(task=ids)
    expected = fitted.predict_proba(data.test.x)
    ways: list[tuple[Any, dict[str, Any]]] = [
        (frame, {}),
        (data.x[order], {"task_ids": ids}),
        (pl.from_pandas(frame), {}),
    ]
    for X, options in ways:
        clf = conal.CoNAL(**FAST).fit(X, crowd, **options)
        np.testing.assert_array_equal(clf.predict_proba(data.test.x), expected)
        assert set(clf.predict(data.test.x)) == {"cat", "dog", "elk"}


def test_text_ids_with_a_bare_array_are_refused(data: CrowdDataset) -> None:
    with pytest.raises(InputError, match="'t000' cannot be matched to a feature array without ids"):
        conal.CoNAL(**FAST).fit(data.x, named(data))


def test_missing_features_are_refused_or_dropped(data: CrowdDataset) -> None:
    ids = [f"t{k:03}" for k in range(len(data.x))]
    with pytest.raises(InputError, match=r"40 tasks have no features: 't200', 't201', 't202' and 37 more"):
        conal.CoNAL(**FAST).fit(data.x[:200], named(data), task_ids=ids[:200])
    with pytest.warns(DataWarning, match="dropped: 40 tasks have no features"):
        clf = conal.CoNAL(**FAST).fit(data.x[:200], named(data), task_ids=ids[:200], allow_missing=True)
    assert len(clf.labels_) == 200


def test_unlabelled_rows_annotators_without_labels_and_strangers_are_no_errors(data: CrowdDataset) -> None:
    crowd = data.annotations.select(data.annotations.tasks >= 40)
    crowd = crowd.select(crowd.annotators != 3)
    clf = conal.CoNAL(**FAST).fit(data.x, crowd)
    assert clf.probas_.shape == (240, 3)
    np.testing.assert_array_equal(clf.annotator_confusion_[3], clf.common_confusion_)
    np.testing.assert_allclose(clf.probas_[:40], clf.predict_proba(data.x[:40]), atol=1e-6)
    stranger = Annotations.from_triples([0], ["nobody knows me"], [1], classes=[0, 1, 2])
    prior = clf.predict_proba(data.x[:1])[0]
    expected = prior * clf.common_confusion_[:, 1]
    np.testing.assert_allclose(clf.infer(data.x[:1], stranger)[0], expected / expected.sum(), atol=1e-5)


def test_only_labelled_tasks_are_trained_on(data: CrowdDataset) -> None:
    crowd = data.annotations.select(data.annotations.tasks < 100)
    last = conal.CoNAL(selection="last", **FAST).fit(data.x, crowd)
    held = conal.CoNAL(holdout=0.2, **FAST).fit(data.x, crowd)
    counts = [
        (m.metrics_["n_tasks"], m.metrics_["n_tasks_labelled"], m.metrics_["n_tasks_trained_on"]) for m in (last, held)
    ]
    assert counts == [(240, 100, 100), (240, 100, 80)]
    assert held.model_.problem.n_tasks == 80


def test_omega_of_all_of_pairs_and_of_annotations(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    crowd = data.annotations
    everything = fitted.common_noise_rate(data.x)
    assert everything.shape == (240, 8)
    assert 0.26 < everything.min() < everything.max() < 0.74
    by_annotation = fitted.common_noise_rate(data.x, crowd)
    np.testing.assert_allclose(by_annotation, everything[crowd.tasks, crowd.annotators], atol=1e-6)
    one_each = fitted.common_noise_rate(data.x, np.arange(240) % 8)
    np.testing.assert_allclose(one_each, everything[np.arange(240), np.arange(240) % 8], atol=1e-6)
    assert fitted.common_noise_rate(data.x[:2], ["stranger", 0])[0] == 1
    with pytest.raises(InputError, match="3 annotators for 2 rows"):
        fitted.common_noise_rate(data.x[:2], [0, 1, 2])


def forms(crowd: Annotations) -> dict[str, Any]:
    """The same annotations in every form that is accepted."""
    matrix, table = crowd.to_matrix(), crowd.to_table()
    wide = pd.DataFrame(matrix, columns=crowd.annotator_ids.tolist())
    named = wide.rename(columns=str).assign(task=crowd.task_ids)
    return {
        "annotations": crowd,
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "Arrow": table,
        "matrix": matrix,
        "list": matrix.tolist(),
        "masked": np.ma.array(np.maximum(matrix, 0), mask=matrix < 0),
        "NaN": np.where(matrix < 0, np.nan, matrix),
        "wide": wide,
        "wide with tasks": named,
        "wide polars": pl.from_pandas(named),
    }


FORMS = ("pandas", "polars", "Arrow", "matrix", "list", "masked", "NaN", "wide", "wide with tasks", "wide polars")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["infer", "score", "common_noise_rate", "fit", "update"])
def test_every_method_takes_annotations_in_every_form(fitted: CrowdClassifier, method: str, form: str) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((30, *fitted.instance_shape_)).astype(np.float32)
    matrix = np.where(rng.random((30, 4)) < 0.8, rng.integers(3, size=(30, 4)), -1)
    matrix[:, 0] = np.maximum(matrix[:, 0], 0)
    crowd = Annotations.from_matrix(matrix)
    other = forms(crowd)[form]
    small: dict[str, Any] = {"epochs": 1, "hidden": (2,), "selection": "last", "verbose": False}
    if method == "fit":
        wanted, found = (conal.make("dl-ds", **small).fit(x, each).predict_proba(x) for each in (crowd, other))
    elif method == "update":
        start = crowd[:10].reindex(range(10))
        first = (conal.make("dl-ds", **small).fit(x[:10], start) for _ in range(2))
        wanted, found = (clf.update(x, each).predict_proba(x) for clf, each in zip(first, (crowd, other), strict=True))
    else:
        wanted, found = (getattr(fitted, method)(x, each) for each in (crowd, other))
    np.testing.assert_array_equal(found, wanted)


def test_true_labels_to_score_by_come_in_every_frame(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    assert data.test is not None
    frame = pd.DataFrame({"task": np.arange(len(data.test.x)), "label": data.test.y})
    wanted = fitted.score(data.test.x, data.test.y)
    for form in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        assert fitted.score(data.test.x, form) == wanted


def test_annotators_may_be_tuples() -> None:
    rng = np.random.default_rng(0)
    x, who = rng.standard_normal((20, 2)).astype(np.float32), [("a", 1), ("b", 2)]
    tasks, names = np.repeat(np.arange(20), 2).tolist(), who * 20
    labels = rng.integers(2, size=40)
    clf = conal.CoNAL(epochs=1, verbose=False).fit(x, Annotations.from_triples(tasks, names, labels))
    assert clf.common_noise_rate(x[:2], who).shape == (2,)


def test_a_huge_omega_matrix_is_never_made_by_accident(
    data: CrowdDataset, fitted: CrowdClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conal.estimator.classifier.MAX_DENSE_CELLS", 100)
    with pytest.raises(InputError, match="240 x 8 rates are too many at once"):
        fitted.common_noise_rate(data.x)


def test_methods_without_common_noise_say_so(data: CrowdDataset) -> None:
    clf = conal.make("dl-mv", **FAST).fit(data.x, data.annotations)
    assert clf.annotator_confusion_.shape == (8, 3, 3)
    with pytest.raises(InputError, match="'dl-mv' does not separate"):
        clf.common_noise_rate(data.x)


@pytest.mark.filterwarnings("ignore::conal.errors.EarlyEpochWarning")
def test_gold_validation_selects_the_epoch(data: CrowdDataset) -> None:
    assert data.valid is not None
    clf = conal.CoNAL(**FAST).fit(data.x, data.annotations, validation=(data.valid.x, data.valid.y))
    scores = [row["validation_accuracy"] for row in clf.history_]
    assert clf.metrics_["selection"] == "validation_accuracy"
    assert clf.metrics_["best_score"] == max(scores) == pytest.approx(clf.score(data.valid.x, data.valid.y))
    assert clf.metrics_["best_epoch"] == 1 + scores.index(max(scores))


@pytest.mark.filterwarnings("ignore::conal.errors.EarlyEpochWarning")
def test_validation_that_cannot_be_meant_is_refused(data: CrowdDataset) -> None:
    assert data.valid is not None
    x, y = data.valid.x, data.valid.y
    clf = conal.CoNAL(**FAST)
    with pytest.raises(InputError, match=r"shape \(5,\), the model was trained on \(20,\)"):
        clf.fit(data.x, data.annotations, validation=(x[:, :5], y))
    with pytest.raises(InputError, match="60 feature rows but 59 labels"):
        clf.fit(data.x, data.annotations, validation=(x, y[:-1]))
    with pytest.raises(InputError, match="not among the classes"):
        clf.fit(data.x, data.annotations, validation=(x, [f"c{k}" for k in y]))
    with pytest.warns(DataWarning, match="20 labels have classes that no annotator used"):
        clf.fit(data.x, data.annotations, validation=(x, np.where(np.arange(60) % 3 == 0, 9, y)))
    for alone in (x, (x,), (x, y, y)):
        with pytest.raises(InputError, match=r"validation must be a pair \(X, y_true\)"):
            clf.fit(data.x, data.annotations, validation=alone)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"monitor 'test' must be a pair \(X, y_true\)"):
        clf.fit(data.x, data.annotations, monitor={"test": x})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"validation labels: expected one true label .* of shape \(60, 2\)"):
        clf.fit(data.x, data.annotations, validation=(x, np.stack([y, y], axis=1)))
    with pytest.raises(InputError, match="selection='gold' needs validation"):
        conal.CoNAL(selection="gold", **FAST).fit(data.x, data.annotations)


def test_gold_takes_true_labels_and_is_the_ceiling(data: CrowdDataset) -> None:
    assert data.test is not None
    truth = np.array(["cat", "dog", "elk"])[data.y_true]
    clf = conal.make("gold", **FAST).fit(data.x, truth)
    assert clf.score(data.test.x, np.array(["cat", "dog", "elk"])[data.test.y]) > 0.93
    assert (clf.labels_ == truth).all()
    np.testing.assert_array_equal(clf.common_confusion_, np.eye(3))
    with pytest.raises(InputError, match="one true label per row"):
        clf.fit(data.x, data.annotations)


def test_crowd_methods_refuse_one_label_per_row(data: CrowdDataset) -> None:
    with pytest.raises(InputError, match=r"use conal\.make\('gold'\)"):
        conal.CoNAL(**FAST).fit(data.x, data.y_true)


def test_other_widths_are_refused(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    with pytest.raises(InputError, match=r"shape \(19,\), the model was trained on \(20,\)"):
        fitted.predict(data.x[:, 1:])


def test_no_label_at_all_is_refused(data: CrowdDataset) -> None:
    nobody = data.annotations.select(np.zeros(data.annotations.n_annotations, dtype=bool))
    with pytest.raises(InputError, match="no task with features has a label"):
        conal.CoNAL(**FAST).fit(data.x, nobody)


def test_a_single_class_is_refused(data: CrowdDataset) -> None:
    with pytest.raises(InputError, match="a single class"):
        conal.CoNAL(**FAST).fit(data.x, np.zeros((240, 3), dtype=int))


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("epochs", 0), ("batch_size", 2.5), ("lr", -1), ("dropout", 1.0), ("holdout", 0), ("patience", 0), ("seed", "a")],
)
def test_impossible_parameters_are_refused(data: CrowdDataset, parameter: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{parameter} must be"):
        conal.CoNAL(**{**FAST, parameter: value}).fit(data.x, data.annotations)


def test_unknown_parameters_and_methods_are_named() -> None:
    with pytest.raises(InputError, match="has no parameter 'lamda'"):
        conal.make("conal", lamda=1)
    with pytest.raises(InputError, match="did you mean 'conal'"):
        conal.make("connal")


def test_any_module_is_a_backbone(data: CrowdDataset) -> None:
    mine = nn.Sequential(nn.Linear(20, 12), nn.Tanh(), nn.Linear(12, 3))
    before = [parameter.detach().clone() for parameter in mine.parameters()]
    clf = conal.CoNAL(backbone=mine, **FAST).fit(data.x, data.annotations)
    assert clf.score(data.x, data.y_true) > 0.8
    for parameter, old in zip(mine.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


class Colours(nn.Module):
    """A network of (N, H, W, 3) images, which notes what it gets."""

    seen: ClassVar[list[torch.Tensor]] = []

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.detach().clone())
        logits: torch.Tensor = self.linear(x.mean((1, 2)) / 255)
        return logits


@pytest.mark.parametrize("method", ["gold", "conal", "xconal"])
@pytest.mark.parametrize("own", [Colours(), lambda shape, n_classes: Colours()], ids=["module", "callable"])
def test_a_network_of_ones_own_gets_what_the_user_supplied(method: str, own: Any) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(12, 6, 6, 3)).astype(np.uint8)
    images[..., 0] //= 8
    y = np.arange(12) % 2 if method == "gold" else np.c_[np.arange(12) % 2, np.arange(12) % 2]
    settings = {"backbone": own, "epochs": 1, "selection": "last", "verbose": False}
    clf = conal.make(method, **settings).fit(images, y)
    Colours.seen.clear()
    clf.predict(images)
    for x in Colours.seen:
        assert x.dtype == torch.float32
        np.testing.assert_array_equal(x.numpy(), images)
    scaled = conal.make(method, scaling="standard", **settings).fit(images, y)
    Colours.seen.clear()
    scaled.predict(images)
    np.testing.assert_allclose(Colours.seen[0].numpy().mean((0, 1, 2)), 0, atol=1e-4)  # colour by colour


@pytest.mark.parametrize("method", ["conal", "xconal", "doctor-net"])
def test_a_network_that_returns_probabilities_is_warned_of(method: str, data: CrowdDataset) -> None:
    settings: dict[str, Any] = {"epochs": 1, "selection": "last", "verbose": False, "ensemble": 2}
    for last, count in ((nn.Identity(), 0), (nn.LogSoftmax(-1), 0), (nn.Softmax(-1), 1)):
        own = nn.Sequential(nn.Linear(20, 3), last)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            conal.make(method, backbone=own, **settings).fit(data.x, data.annotations)
        found = [str(each.message) for each in told if each.category is NetworkWarning]
        assert len(found) == count
        assert all("returns probabilities: its rows are not negative and sum to 1" in message for message in found)


def test_vgg16_trains_on_images_for_a_few_steps() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(6, 3, 32, 32)).astype(np.uint8)
    labels = np.array([[0, 1], [1, 1], [0, 0], [1, -1], [0, 1], [-1, 1]])
    clf = conal.CoNAL(backbone="vgg16", epochs=2, batch_size=3, selection="last", verbose=False).fit(images, labels)
    assert isinstance(clf.model_.backbone, VGG16)
    assert clf.predict_proba(images).shape == (6, 2)


def test_annotator_features_are_used_and_checked(data: CrowdDataset) -> None:
    features = np.random.default_rng(0).normal(size=(8, 4))
    features[1] = features[0]
    clf = conal.CoNAL(**FAST).fit(data.x, data.annotations, annotator_features=features)
    omega = clf.common_noise_rate(data.x)
    np.testing.assert_allclose(omega[:, 0], omega[:, 1])
    assert not np.allclose(omega[:, 0], omega[:, 2])
    with pytest.raises(InputError, match=r"shape \(7, 4\); expected \(8, F\)"):
        conal.CoNAL(**FAST).fit(data.x, data.annotations, annotator_features=features[:7])


def about(data: CrowdDataset, **columns: Any) -> pa.Table:
    return pa.table({"worker": data.annotations.annotator_ids.tolist()[::-1]} | columns)


def test_a_table_about_annotators_has_their_features(data: CrowdDataset) -> None:
    years = np.arange(8.0)
    clf = conal.CoNAL(**FAST).fit(data.x, data.annotations, annotator_info=about(data, years=years[::-1].tolist()))
    same = conal.CoNAL(**FAST).fit(
        data.x, data.annotations, annotator_features=((years - years.mean()) / years.std())[:, None]
    )
    np.testing.assert_array_equal(clf.probas_, same.probas_)
    assert clf.annotator_info_ is not None
    assert clf.annotator_info_.feature_names == ("years",)
    crowd, info = anonymised(data.annotations, clf.annotator_info_, hide_below=1)
    assert conal.CoNAL(**FAST).fit(data.x, crowd, annotator_info=info).annotator_info_ is None
    with pytest.raises(InputError, match="both have features of the annotators; pass one"):
        conal.CoNAL(**FAST).fit(
            data.x, data.annotations, annotator_info=clf.annotator_info_, annotator_features=years[:, None]
        )


def test_groups_of_annotators_change_the_matrices_of_xconal(data: CrowdDataset) -> None:
    """Members of a group are drawn to its matrix; one group for all is not the same as none."""
    groups = ["a", "b"] * 4
    grouped = conal.CrossCoNAL(**FAST).fit(data.x, data.annotations, annotator_info=about(data, group=groups))
    alone = conal.CrossCoNAL(**FAST).fit(data.x, data.annotations)
    assert grouped.annotator_confusion_.shape == alone.annotator_confusion_.shape
    assert not np.allclose(grouped.annotator_confusion_, alone.annotator_confusion_, atol=1e-3)
    odd = grouped.annotator_confusion_[::2]
    assert odd.std(0).mean() < alone.annotator_confusion_[::2].std(0).mean()


def test_every_option_of_conal_changes_something(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    assert data.test is not None
    base = fitted.predict_proba(data.test.x)
    changes: list[dict[str, Any]] = [
        {"mixing": "logit"},
        {"layer": "row-stochastic"},
        {"layer": "row-stochastic", "likelihood": "joint"},
        {"embedding_dim": 5},
        {"lam": 0.1},
        {"omega_scale": 5.0},
        {"omega_scale": 1.0},
        {"hidden": (16,)},
        {"dropout": 0.1},
        {"batch_norm": True},
        {"scaling": "none"},
        {"lr": 0.005},
        {"batch_size": 16},
        {"warmup_epochs": 1},
        {"holdout": 0.3},
        {"selection": "last"},
        {"seed": 1},
    ]
    seen = [base]
    for change in changes:
        found = conal.CoNAL(**{**FAST, **change}).fit(data.x, data.annotations).predict_proba(data.test.x)
        assert not any(np.array_equal(found, other) for other in seen), change
        seen.append(found)


def test_precision_is_that_of_training_and_the_model_is_single(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    clf = conal.CoNAL(precision="64-true", accelerator="cpu", **FAST).fit(data.x, data.annotations)
    assert all(parameter.dtype == torch.float32 for parameter in clf.model_.parameters())
    losses = [[row["loss"] for row in model.history_] for model in (clf, fitted)]
    np.testing.assert_allclose(losses[0][:3], losses[1][:3], rtol=1e-4)
    assert losses[0] != losses[1]


@pytest.mark.filterwarnings("ignore::conal.errors.EarlyEpochWarning")
def test_frames_in_any_row_and_column_order(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    """A shuffled pandas frame keeps its index, and columns go by name: neither changes a prediction."""
    assert data.valid is not None
    frame = pd.DataFrame(data.x).add_prefix("f")
    order = np.random.default_rng(0).permutation(len(frame))
    clf = conal.CoNAL(**FAST).fit(frame.iloc[order], data.annotations[order])
    bare = conal.CoNAL(**FAST).fit(data.x[order], data.annotations[order])
    np.testing.assert_array_equal(clf.predict_proba(frame), bare.predict_proba(data.x))
    np.testing.assert_array_equal(clf.predict_proba(frame[frame.columns[::-1]]), bare.predict_proba(data.x))
    assert clf.feature_names_in_.tolist() == frame.columns.tolist()
    assert not hasattr(bare, "feature_names_in_")
    with pytest.raises(InputError, match="features 'f3', on which the model was trained, are missing"):
        clf.predict(frame.drop(columns="f3"))
    valid = pd.DataFrame(data.valid.x).add_prefix("f")
    for columns in (valid.columns, valid.columns[::-1]):
        chosen = conal.CoNAL(**FAST).fit(frame, data.annotations, validation=(valid[columns], data.valid.y))
        assert chosen.metrics_["best_score"] == chosen.score(valid, data.valid.y)
        assert chosen.metrics_["best_score"] > 0.85


def test_an_index_without_a_name_joins_features_by_id(data: CrowdDataset) -> None:
    crowd = named(data)
    frame = pd.DataFrame(data.x, index=[f"t{k:03}" for k in range(len(data.x))]).add_prefix("f")
    order = np.random.default_rng(0).permutation(len(frame))
    expected = conal.CoNAL(**FAST).fit(frame.rename_axis("task"), crowd)
    wide = pd.DataFrame(crowd.to_matrix(), index=crowd.task_ids.tolist(), columns=crowd.annotator_ids.tolist())
    for labels in (crowd, wide):
        clf = conal.CoNAL(**FAST).fit(frame.iloc[order], labels)
        np.testing.assert_array_equal(clf.predict_proba(data.x), expected.predict_proba(data.x))


def test_true_labels_in_a_frame_are_joined_to_an_index_without_a_name(
    data: CrowdDataset, fitted: CrowdClassifier
) -> None:
    assert data.valid is not None
    ids = [f"v{k}" for k in range(60)]
    features = pd.DataFrame(data.valid.x, index=ids).add_prefix("f").iloc[::-1]
    truth = pd.DataFrame({"task": ids, "label": data.valid.y})
    assert fitted.score(features, truth) == fitted.score(data.valid.x, data.valid.y)
    with pytest.raises(InputError, match="no common ids to join them by"):
        fitted.score(features, truth.assign(task=truth["task"] + "x"))


@pytest.mark.filterwarnings("ignore::conal.errors.EarlyEpochWarning")
def test_true_labels_in_a_frame_are_joined_by_id(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    assert data.valid is not None
    ids = [f"v{k}" for k in range(60)]
    features = pd.DataFrame(data.valid.x).add_prefix("f").assign(task=ids)
    truth = pd.DataFrame({"task": ids, "label": data.valid.y}).iloc[::-1]
    expected = fitted.score(data.valid.x, data.valid.y)
    assert fitted.score(features, truth) == expected
    assert fitted.score(data.valid.x, truth.iloc[::-1][["label"]]) == expected
    one = conal.CoNAL(**FAST).fit(data.x, data.annotations, validation=(features, truth))
    other = conal.CoNAL(**FAST).fit(data.x, data.annotations, validation=(data.valid.x, data.valid.y))
    assert one.metrics_["best_score"] == other.metrics_["best_score"]


def test_numpy_numbers_are_numbers(data: CrowdDataset) -> None:
    parameters = {
        "embedding_dim": np.int64(5),
        "lam": np.float32(1e-5),
        "omega_scale": np.int64(2),
        "seed": np.int64(1),
    }
    plain = {"embedding_dim": 5, "lam": float(np.float32(1e-5)), "omega_scale": 2, "seed": 1}
    models = [conal.CoNAL(**FAST, **options).fit(data.x, data.annotations) for options in (parameters, plain)]
    np.testing.assert_array_equal(models[0].predict_proba(data.x), models[1].predict_proba(data.x))


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (nn.Linear(20, 7), r"returns \(32, 7\) for 32 instances; expected \(32, 3\)"),
        (nn.Linear(19, 3), r"cannot take instances of shape \(20,\)"),
        (nn.Linear, "is the class Linear; pass an instance"),
    ],
)
def test_backbones_that_do_not_fit_are_refused(data: CrowdDataset, backbone: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        conal.CoNAL(backbone=backbone, **FAST).fit(data.x, data.annotations)


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_batch_norm_with_tiny_batches(data: CrowdDataset) -> None:
    clf = conal.CoNAL(batch_norm=True, epochs=2, batch_size=1, verbose=False).fit(data.x[:9], data.annotations[:9])
    assert np.isfinite(clf.predict_proba(data.x)).all()


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_one_labelled_task_keeps_the_last_epoch_and_says_so(data: CrowdDataset) -> None:
    crowd = data.annotations.select(data.annotations.tasks == 5)
    with pytest.warns(DataWarning, match="only one task has labels"):
        clf = conal.CoNAL(epochs=2, verbose=False).fit(data.x, crowd)
    assert clf.metrics_["selection"] == "last"


def test_scores_and_rates_of_nobody(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    nobody = data.annotations.select(np.zeros(data.annotations.n_annotations, dtype=bool))
    assert fitted.common_noise_rate(data.x, nobody).shape == (0,)
    with pytest.raises(InputError, match="there are no annotations to score"):
        fitted.score(data.x, nobody)


def test_labels_of_unknown_classes_are_left_out_with_a_count(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    crowd = data.annotations
    strange = Annotations.from_triples(crowd.tasks, crowd.annotators, np.where(crowd.tasks < 10, 9, crowd.labels))
    known = crowd.select(crowd.tasks >= 10)
    with pytest.warns(DataWarning, match=f"left out {(crowd.tasks < 10).sum()} labels .* unknown to the model: 9"):
        score = fitted.score(data.x, strange)
    assert score == pytest.approx(fitted.score(data.x, known))


def test_evaluation_in_pieces_keeps_the_order(
    data: CrowdDataset, fitted: CrowdClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Posteriors, rates and scores are the same in pieces of a few instances."""
    pairs = np.arange(240) % 8

    def everything() -> list[Any]:
        return [
            fitted.infer(data.x, data.annotations),
            fitted.common_noise_rate(data.x, data.annotations),
            fitted.common_noise_rate(data.x, pairs),
            fitted.predict_proba(data.x),
            fitted.score(data.x, data.annotations),
        ]

    whole = everything()
    monkeypatch.setattr("conal.training.batches.EVALUATION_BATCH", 7)
    monkeypatch.setattr("conal.training.batches.CHUNK_BYTES", 600)
    for one, other in zip(whole, everything(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_scaling_is_part_of_everything_the_model_says(data: CrowdDataset) -> None:
    """Features in other units give the same model in every respect."""
    one = conal.CoNAL(scaling="standard", **FAST).fit(data.x, data.annotations)
    x = 100 * data.x + 7
    other = conal.CoNAL(scaling="standard", **FAST).fit(x, data.annotations)
    np.testing.assert_allclose(other.predict_proba(x), one.predict_proba(data.x), atol=2e-3)
    np.testing.assert_allclose(
        other.common_noise_rate(x, data.annotations), one.common_noise_rate(data.x, data.annotations), atol=2e-3
    )
    assert other.score(x, data.annotations) == pytest.approx(one.score(data.x, data.annotations), abs=2e-3)


def test_confusion_of_methods_without_any_is_estimated_for_every_selection(data: CrowdDataset) -> None:
    for selection in ("last", "annotations"):
        clf = conal.make("dl-mv", selection=selection, **FAST).fit(data.x, data.annotations)
        assert np.abs(clf.common_confusion_ - 1 / 3).max() > 0.2


class Endless(Dataset[torch.Tensor]):
    """Instances that exist only when asked for."""

    def __init__(self, x: np.ndarray[Any, Any]) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, k: int) -> torch.Tensor:
        return torch.from_numpy(self.x[k])


def test_predictions_from_a_dataset(data: CrowdDataset, fitted: CrowdClassifier) -> None:
    np.testing.assert_array_equal(fitted.predict(Endless(data.x)), fitted.predict(data.x))


class TwoThings(torch.nn.Module):
    """Gives logits and something else."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(20, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), x


@pytest.mark.parametrize("name", ["conal", "doctor-net"])
def test_a_backbone_that_gives_a_tuple_is_refused(name: str) -> None:
    data = conal.datasets.synthetic(n_train=30, n_valid=10, n_test=10)
    with pytest.raises(InputError, match="the backbone returns tuple; expected a tensor of class logits"):
        conal.make(name, backbone=TwoThings(), verbose=False).fit(data.x, data.annotations)


def test_monitors_are_noted_and_influence_nothing() -> None:
    data = conal.datasets.synthetic(n_train=80, n_valid=20, n_test=40, n_classes=3)
    assert data.test is not None
    options: dict[str, Any] = {"epochs": 4, "hidden": (8,), "verbose": False}
    watched = conal.CoNAL(**options).fit(
        data.x,
        data.annotations,
        monitor={"test": (data.test.x, data.classes[data.test.y]), "training": (data.x, data.classes[data.y_true])},
    )
    plain = conal.CoNAL(**options).fit(data.x, data.annotations)
    np.testing.assert_array_equal(watched.predict_proba(data.x), plain.predict_proba(data.x))
    assert [
        {k: v for k, v in row.items() if not k.startswith(("test", "training")) and k != "seconds"}
        for row in watched.history_
    ] == [{k: v for k, v in row.items() if k != "seconds"} for row in plain.history_]
    best = watched.history_[watched.metrics_["best_epoch"] - 1]
    assert best["test_accuracy"] == watched.score(data.test.x, data.classes[data.test.y])
    assert best["training_accuracy"] == watched.score(data.x, data.classes[data.y_true])
    with pytest.raises(InputError, match="test: 40 feature rows but 3 labels"):
        conal.CoNAL(**options).fit(
            data.x, data.annotations, monitor={"test": (data.test.x, data.classes[data.test.y[:3]])}
        )


def test_the_papers_settings_in_one_call() -> None:
    """They reach the network, and what is passed beside them counts."""
    data = conal.datasets.synthetic(n_train=60, n_valid=0, n_test=5, n_classes=3, seed=0)
    fitted = conal.CoNAL.paper(epochs=2, seed=1, verbose=False).fit(data.x, data.annotations)
    assert float(fitted.model_.state_dict()["auxiliary.scale"]) == 1.0
    assert "auxiliary.scale" not in dict(fitted.model_.named_parameters())
    assert [row["lr"] for row in fitted.history_] == [0.01, 0.01]
    with pytest.raises(ValueError, match="Invalid parameter 'sed'"):
        conal.CoNAL.paper(sed=1)
