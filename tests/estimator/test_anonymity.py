"""Anonymous models: nobody who gave a few labels is found again, and nothing but the annotators changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import conal
from conal import methods
from conal.data.annotations import Annotations
from conal.data.annotator_info import pseudonyms
from conal.errors import InputError, PrivacyWarning
from conal.estimator import CrowdClassifier
from conal.estimator.anonymity import annotator_axes
from helpers.linking import linked

FAST: dict[str, Any] = {"epochs": 4, "batch_size": 64, "hidden": (8,), "verbose": False}
KEY = b"k" * 32
FEW, MANY = 24, 8
NAMES = [name for name in methods.names() if methods.get(name).takes == "crowd"]
pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")


def crowd_with_few_labels(
    seed: int, *, n_tasks: int = 90, many: int = MANY
) -> tuple[npt.NDArray[np.float32], Annotations]:
    """Features, and the labels of 24 people with one to five labels each, and of some with thirty."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n_tasks)
    x = (1.5 * np.eye(6)[z] + rng.normal(size=(n_tasks, 6))).astype(np.float32)
    given = np.r_[1 + np.arange(FEW) % 5, np.full(many, 30)]
    tasks = np.concatenate([rng.choice(n_tasks, n, replace=False) for n in given])
    who = np.repeat(np.arange(len(given)), given)
    labels = np.where(rng.random(len(tasks)) < 0.7, z[tasks], rng.integers(3, size=len(tasks)))
    names = np.array([f"Person {k:02}" for k in rng.permutation(len(given))], dtype=object)
    return x, Annotations.from_triples(tasks, names[who], np.array(["a", "b", "c"])[labels]).reindex(range(n_tasks))


def share_linked(fitted: CrowdClassifier, crowd: Annotations, folder: Path, hide_below: int) -> float:
    """The share of people with up to five labels whose pseudonym the attack assigns to them."""
    fitted.anonymised(KEY, hide_below=hide_below).save(folder)
    found = linked(folder, crowd)
    true = dict(zip(pseudonyms(crowd.annotator_ids, KEY).tolist(), crowd.annotator_ids.tolist(), strict=True))
    few = {name for name, n in zip(crowd.annotator_ids, crowd.labels_per_annotator(), strict=True) if 1 <= n <= 5}
    assert len(few) == FEW
    right = [person for code, person in found.items() if true.get(code) == person and person in few]
    return len(right) / FEW


def test_annotators_with_few_labels_cannot_be_linked(tmp_path: Path) -> None:
    """Over twenty crowds; the same attack succeeds where nobody is hidden."""
    hidden, shown = [], []
    for seed in range(20):
        x, crowd = crowd_with_few_labels(seed)
        fitted = conal.make(["xconal", "conal", "dl-cl", "dl-mv"][seed % 4], seed=seed, **FAST).fit(x, crowd)
        hidden.append(share_linked(fitted, crowd, tmp_path / f"hidden {seed}", 10))
        shown.append(share_linked(fitted, crowd, tmp_path / f"shown {seed}", 1))
    assert max(hidden) == 0
    assert np.mean(shown) > 0.8


def test_a_crowd_in_which_all_are_hidden(tmp_path: Path) -> None:
    x, crowd = crowd_with_few_labels(0, many=0)
    for name in NAMES:
        fitted = conal.make(name, **FAST).fit(x, crowd)
        assert share_linked(fitted, crowd, tmp_path / name, 10) == 0
        loaded = conal.load(tmp_path / name)
        assert loaded.annotator_ids_.tolist() == ["annotators with fewer than 10 labels"]
        assert loaded.tables_["annotators.csv"].num_rows == 0
        assert loaded.tables_["suggestions.csv"].num_rows == 0
        np.testing.assert_allclose(loaded.annotator_confusion_.sum(-1), 1, rtol=1e-5)
        assert np.isfinite(loaded.infer(x, crowd)).all()
        np.testing.assert_allclose(loaded.probas_, fitted.probas_)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ensemble", [1, 2])
def test_rows_of_the_model_follow_the_pseudonyms(name: str, ensemble: int, tmp_path: Path) -> None:
    x, crowd = crowd_with_few_labels(1)
    fitted = conal.make(name, ensemble=ensemble, **FAST).fit(x, crowd)
    codes = dict(zip(pseudonyms(crowd.annotator_ids, KEY).tolist(), range(crowd.n_annotators), strict=True))
    given = crowd.labels_per_annotator()
    fitted.anonymised(KEY).save(tmp_path / "m")
    loaded = conal.load(tmp_path / "m")
    people = loaded.annotator_ids_.tolist()
    assert people == sorted(code for code, r in codes.items() if given[r] >= 10)
    rows = [codes[code] for code in people]
    counted = loaded.model_.labels_per_annotator.numpy()
    assert (counted % 10 == 0).all()
    np.testing.assert_array_equal(counted, (given[rows] + 5) // 10 * 10)
    expected, found = fitted.annotator_confusion_[rows], loaded.annotator_confusion_
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    if name != "doctor-net":  # its classifier is the mean of the annotators' heads
        np.testing.assert_allclose(loaded.predict_proba(x), fitted.predict_proba(x), rtol=1e-5)
    np.testing.assert_allclose(loaded.probas_, fitted.probas_)


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_with_rows_of_annotators_is_found(name: str) -> None:
    """No tensor of a method has as many rows as there are annotators, unless they are the annotators'."""
    x, crowd = crowd_with_few_labels(2)
    fitted = conal.make(name, **FAST).fit(x, crowd)
    shapes = {key: tensor.shape for key, tensor in fitted.model_.state_dict().items()}
    axes = annotator_axes(fitted)
    assert "labels_per_annotator" in axes
    assert {key: shape.index(FEW + MANY) for key, shape in shapes.items() if FEW + MANY in shape} == axes


def test_tables_and_report_follow_the_pseudonyms() -> None:
    x, crowd = crowd_with_few_labels(3)
    fitted = conal.make("conal", **FAST).fit(x, crowd)
    hidden = fitted.anonymised(KEY)
    codes = dict(zip(crowd.annotator_ids.tolist(), pseudonyms(crowd.annotator_ids, KEY).tolist(), strict=True))
    plain = {codes[row["worker"]]: row for row in fitted.tables_["annotators.csv"].to_pylist()}
    rows = hidden.tables_["annotators.csv"].to_pylist()
    assert [row["worker"] for row in rows] == sorted(
        code for code in plain if plain[code]["num_examples_labeled"] >= 10
    )
    for row in rows:
        exact = plain[row["worker"]]
        assert row["num_examples_labeled"] == 30
        for name in ("annotator_quality", "agreement_with_consensus", "common_noise_rate"):
            assert row[name] == pytest.approx(exact[name], abs=0.0051)
            assert row[name] == round(row[name], 2)
        assert row["expected_mistakes"] == pytest.approx(30 * (1 - row["annotator_quality"]), abs=0.01)
    section = hidden.results_.report["annotators"]
    assert (section["total"], section["hidden"], section["hide_below"]) == (FEW + MANY, FEW, 10)
    assert {row["worker"] for row in section["rows"]} == {row["worker"] for row in rows}
    for row in section["rows"]:
        assert set(row["classes_met"]) <= {0.0, 3.0}
        assert row["matrix"] == np.round(row["matrix"], 2).tolist()
    people = set(hidden.tables_["suggestions.csv"]["worker"].to_pylist())
    assert people <= {row["worker"] for row in rows}
    text = json.dumps(hidden.results_.report)
    assert "Person" not in text
    assert not any(code in text for name, code in codes.items() if plain[code]["num_examples_labeled"] < 10)
    assert hidden.results_.report["model"]["command"].endswith("--anonymise")
    np.testing.assert_array_equal(hidden.labels_, fitted.labels_)


def test_the_fitted_estimator_stays_as_it_is(tmp_path: Path) -> None:
    x, crowd = crowd_with_few_labels(4)
    fitted = conal.make("xconal", **FAST).fit(x, crowd)
    before = {name: tensor.clone() for name, tensor in fitted.model_.state_dict().items()}
    fitted.anonymised().save(tmp_path / "m")
    assert fitted.annotator_ids_.tolist() == crowd.annotator_ids.tolist()
    for name, tensor in fitted.model_.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    assert fitted.tables_["annotators.csv"].num_rows == crowd.n_annotators


def test_annotator_features_are_hidden_with_their_annotators(tmp_path: Path) -> None:
    x, crowd = crowd_with_few_labels(5)
    about = np.random.default_rng(0).normal(size=(crowd.n_annotators, 2)).astype(np.float32)
    fitted = conal.make("conal", **FAST).fit(x, crowd, annotator_features=about)
    fitted.anonymised(KEY).save(tmp_path / "m")
    loaded = conal.load(tmp_path / "m")
    stored = loaded.model_.state_dict()["auxiliary.annotator_features"].numpy()
    codes = pseudonyms(crowd.annotator_ids, KEY)
    order = np.argsort(codes)
    np.testing.assert_array_equal(stored, about[order[crowd.labels_per_annotator()[order] >= 10]])


def test_omega_belongs_to_the_same_annotations() -> None:
    """Where annotators are sorted anew, so are the labels of a task."""
    x, crowd = crowd_with_few_labels(6)
    fitted = conal.make("conal", **FAST).fit(x, crowd)
    hidden = fitted.anonymised(KEY, hide_below=1)
    codes = dict(zip(crowd.annotator_ids.tolist(), pseudonyms(crowd.annotator_ids, KEY).tolist(), strict=True))
    plain = {codes[row["worker"]]: row["common_noise_rate"] for row in fitted.tables_["annotators.csv"].to_pylist()}
    found = {row["worker"]: row["common_noise_rate"] for row in hidden.tables_["annotators.csv"].to_pylist()}
    assert len(set(plain.values())) > 5
    assert found == {code: pytest.approx(rate, abs=0.0051) for code, rate in plain.items()}


def test_names_in_ids_and_texts_are_told_without_the_names() -> None:
    _, crowd = crowd_with_few_labels(7, n_tasks=60)
    ids = [f"photo {k}" for k in range(60)]
    ids[4] = "by-person-03/4"
    words = ["sun rain", "dog cat", "bus car"]
    texts = [f"{words[k % 3]} {k}" for k in range(60)]
    texts[8] = "dog cat, said PERSON 07"
    named = Annotations(
        crowd.tasks, crowd.annotators, crowd.labels, task_ids=ids, annotator_ids=crowd.annotator_ids, classes=[*"abc"]
    )
    fitted = conal.make("dl-mv", text_components=4, **FAST).fit(texts, named, task_ids=ids)
    at = {task: k + 1 for k, task in enumerate(fitted.task_ids_.tolist())}
    with pytest.warns(PrivacyWarning) as caught:
        fitted.anonymised()
    messages = [str(entry.message) for entry in caught]
    assert len(messages) == 2
    assert messages[0].startswith(f"task ids contain names of annotators (row {at['by-person-03/4']} of labels.csv);")
    assert messages[1].startswith(f"texts contain names of annotators (tasks in row {at['photo 8']} of labels.csv);")
    assert not any("person" in message.lower() for message in messages)


def test_a_loaded_model_and_a_wrong_limit_are_refused(tmp_path: Path) -> None:
    x, crowd = crowd_with_few_labels(8)
    fitted = conal.make("dl-mv", **FAST).fit(x, crowd)
    with pytest.raises(InputError, match="hide_below must be a whole number of at least 1, not 0"):
        fitted.anonymised(hide_below=0)
    fitted.save(tmp_path / "m")
    with pytest.raises(InputError, match="a loaded model cannot be made anonymous"):
        conal.load(tmp_path / "m").anonymised()
