"""At home in scikit-learn: parameters, clones, pipelines, searches, pickles."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import conal
from conal import methods
from conal.datasets import CrowdDataset
from conal.errors import InputError
from conal.estimator import CrowdClassifier, estimator_class

FAST: dict[str, Any] = {"epochs": 4, "batch_size": 32, "verbose": False}
NAMES = methods.names()


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(n_train=150, n_valid=20, n_test=50, n_classes=3, n_annotators=6, seed=4)


def target(name: str, data: CrowdDataset) -> Any:
    return data.y_true if methods.get(name).takes == "gold" else data.annotations


@pytest.mark.parametrize("name", NAMES)
def test_parameters_survive_get_set_and_clone(name: str) -> None:
    clf = conal.make(name, lr=0.005, epochs=7, batch_size=8, seed=3)
    copy = clone(clf)
    assert type(copy) is type(clf)
    assert copy.get_params() == clf.get_params()
    assert copy.set_params(lr=0.5).lr == 0.5
    assert is_classifier(clf)
    assert name in repr(type(clf).method)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_fit_predict_pickle(name: str, data: CrowdDataset) -> None:
    clf = conal.make(name, **FAST)
    with pytest.raises(NotFittedError):
        clf.predict(data.x)
    assert clf.fit(data.x, target(name, data)) is clf
    restored = pickle.loads(pickle.dumps(clf))  # noqa: S301 - our own object
    np.testing.assert_array_equal(restored.predict_proba(data.x), clf.predict_proba(data.x))


def test_the_written_class_and_the_method_agree_on_parameters() -> None:
    """CoNAL's signature is written out for its readers: names and defaults must be those of the parts."""
    written = inspect.signature(conal.CoNAL.__init__).parameters
    own = inspect.signature(methods.get("conal").__init__).parameters
    shared = inspect.signature(CrowdClassifier.__init__).parameters
    expected = {k: p.default for k, p in {**own, **shared}.items() if p.kind is p.KEYWORD_ONLY}
    assert {k: p.default for k, p in written.items() if k != "self"} == expected
    assert estimator_class("conal") is conal.CoNAL


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_a_pipeline(data: CrowdDataset) -> None:
    pipeline = make_pipeline(StandardScaler(), conal.CoNAL(scaling="none", **FAST)).fit(data.x, data.annotations)
    assert pipeline.predict(data.x).shape == (150,)
    assert pipeline.score(data.x, data.y_true) > 0.4


@pytest.mark.parametrize("cv", [3, KFold(3, shuffle=True, random_state=0)])
@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_grid_search_over_rows_needs_no_gold(data: CrowdDataset, cv: Any) -> None:
    """Folds are scored by the likelihood of their annotations; shuffled folds keep features and labels together."""
    grid = {"lr": [1e-6, 0.01]}
    for crowd in (data.annotations, data.annotations.to_matrix()):
        search = GridSearchCV(conal.CoNAL(**{**FAST, "epochs": 15}), grid, cv=cv).fit(data.x, crowd)
        assert search.best_params_ == {"lr": 0.01}
        assert search.best_score_ < 0
        assert search.predict(data.x).shape == (150,)
        assert (search.predict(data.x) == data.y_true).mean() > 0.8


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_out_of_fold_predictions(data: CrowdDataset) -> None:
    """Labels work; probabilities would make scikit-learn encode the annotations as labels, and are refused."""
    clf = conal.CoNAL(**{**FAST, "epochs": 20})
    predicted = cross_val_predict(clf, data.x, data.annotations, cv=3)
    assert (predicted == data.y_true).mean() > 0.8
    with pytest.raises(InputError, match="one label per task is not a crowd"):
        cross_val_predict(clf, data.x, data.annotations, cv=3, method="predict_proba")


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_cross_validation_of_gold(data: CrowdDataset) -> None:
    scores = cross_val_score(conal.make("gold", **{**FAST, "epochs": 20}), data.x, data.y_true, cv=3)
    assert scores.mean() > 0.85
