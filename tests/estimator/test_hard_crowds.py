"""Crowds that break estimators: every method works on them, and nothing that it gives is NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import conal
from conal import methods
from conal.data.annotations import Annotations

NAMES = [name for name in methods.names() if methods.get(name).takes == "crowd"]
N, C, D = 30, 3, 4
TRUTH = np.arange(N) % C
X = (2 * np.eye(D)[TRUTH] + np.random.default_rng(0).normal(size=(N, D))).astype(np.float32)
FAST: dict[str, Any] = {"epochs": 4, "batch_size": 16, "hidden": (8,), "verbose": False}


def votes(n_annotators: int, seed: int = 0) -> npt.NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    right = rng.random((N, n_annotators)) < 0.7
    return np.where(right, TRUTH[:, None], rng.integers(C, size=right.shape))


def with_missing(matrix: npt.NDArray[np.int64], *, annotator: int | None = None) -> npt.NDArray[np.int64]:
    if annotator is not None:
        matrix[:, annotator] = -1
    return matrix


def one_label_each(n_annotators: int = 6) -> npt.NDArray[np.int64]:
    matrix = np.full((N, n_annotators), -1)
    matrix[np.arange(N), np.arange(N) % n_annotators] = votes(1)[:, 0]
    return matrix


CROWDS: dict[str, Any] = {
    "a silent annotator": Annotations.from_matrix(with_missing(votes(4), annotator=2), classes=range(C)),
    "a class without votes": Annotations.from_matrix(np.minimum(votes(4), 1), classes=range(C)),
    "one label per task": Annotations.from_matrix(one_label_each(), classes=range(C)),
    "one annotator": Annotations.from_matrix(votes(1), classes=range(C)),
    "as many annotators as tasks": Annotations.from_matrix(votes(N), classes=range(C)),
    "labels that are strings": Annotations.from_matrix(np.array(["ä", "b c", "<i>"], dtype=object)[votes(4)]),
    "ten identical annotators": Annotations.from_matrix(np.repeat(votes(1), 10, axis=1), classes=range(C)),
    "everybody always right": Annotations.from_matrix(np.repeat(TRUTH[:, None], 5, axis=1)),
    "everybody says the same": Annotations.from_matrix(np.zeros((N, 3), dtype=int), classes=range(C)),
}


@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS.keys())
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_nothing_is_nan(name: str, crowd: Annotations) -> None:
    clf = conal.make(name, **FAST).fit(X, crowd)
    for probas in (clf.predict_proba(X), clf.probas_, clf.infer(X, crowd)):
        assert probas.shape == (N, crowd.n_classes)
        np.testing.assert_allclose(probas.sum(1), np.ones(N), rtol=1e-5)
    for confusion in (clf.common_confusion_, clf.annotator_confusion_):
        assert (confusion >= 0).all()
        np.testing.assert_allclose(confusion.sum(-1), np.ones(confusion.shape[:-1]), rtol=1e-5)
    assert np.isfinite(clf.score(X, crowd))
    assert all(np.isfinite(value) for row in clf.history_ for value in row.values())
    assert set(clf.predict(X).tolist()) <= set(crowd.classes.tolist())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_same_seed_same_model(name: str) -> None:
    crowd = CROWDS["a silent annotator"]
    one, same, other = (conal.make(name, seed=seed, **FAST).fit(X, crowd) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.predict_proba(X), same.predict_proba(X))
    np.testing.assert_array_equal(one.annotator_confusion_, same.annotator_confusion_)
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))
