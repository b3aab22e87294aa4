"""Crowds that break estimators: every method works on them, and nothing that it gives is NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import conal
from conal import methods
from conal.data.annotations import Annotations
from conal.errors import CollapseWarning
from helpers.hard import CROWDS, TRUTH

NAMES = [name for name in methods.names() if methods.get(name).takes == "crowd"]
N, C, D = len(TRUTH), 3, 4
X = (2 * np.eye(D)[TRUTH] + np.random.default_rng(0).normal(size=(N, D))).astype(np.float32)
FAST: dict[str, Any] = {"epochs": 4, "batch_size": 16, "hidden": (8,), "verbose": False}


HARD = CROWDS | {
    "everybody always right": Annotations.from_matrix(np.repeat(TRUTH[:, None], 5, axis=1)),
    "everybody says the same": Annotations.from_matrix(np.zeros((N, 3), dtype=int), classes=range(C)),
}


@pytest.mark.parametrize("crowd", HARD.values(), ids=HARD.keys())
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
@pytest.mark.filterwarnings("ignore::conal.errors.DataWarning")  # a method may warn of a crowd, but must fit it
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


def crowd_of_one_answer(seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Annotations]:
    """Six of eight annotators nearly always give the first of two classes; features say nothing."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=300)
    columns = [np.where(rng.random(300) < 0.93, 0, 1) for _ in range(6)]
    columns += [np.where(rng.random(300) < 0.7, z, 1 - z) for _ in range(2)]
    x = np.random.default_rng(seed).normal(size=(300, 3)).astype(np.float32)
    return x, z, Annotations.from_matrix(np.column_stack(columns), classes=range(2))


@pytest.mark.parametrize(
    ("name", "options", "seed", "sentence"),
    [
        (
            "conal-em",
            {"first_labels": "common-confusion"},
            0,
            "the labels of classes 0 and 1 look exchanged. This may be wrong",
        ),
        (
            "xconal",
            {"second_classifier": "none", "confusion": "mixture"},
            0,
            "class 0 gets 98% of the tasks, with 82% of the votes. This may be right or wrong",
        ),
    ],
)
def test_a_collapse_of_em_is_told_with_a_remedy(name: str, options: Any, seed: int, sentence: str) -> None:
    x, _, crowd = crowd_of_one_answer(seed)
    with pytest.warns(CollapseWarning, match=f"{name}: {sentence}: compare the labels .* use the method 'dl-ds'"):
        conal.make(name, epochs=5, selection="last", verbose=False, **options).fit(x, crowd)


@pytest.mark.filterwarnings("ignore::conal.errors.PriorWarning")
@pytest.mark.parametrize(("name", "options"), [("aggnet", {}), ("xconal", {"class_prior": "balanced"}), ("dl-ds", {})])
def test_there_is_no_alarm_without_collapse_with_a_stated_prior_or_without_em(name: str, options: Any) -> None:
    x, _, crowd = crowd_of_one_answer(1)
    conal.make(name, epochs=5, selection="last", verbose=False, **options).fit(x, crowd)  # a warning would be an error
