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
from conal.errors import DataWarning, InputError
from conal.estimator import estimator_class
from conal.parameters import parameters_of

FAST: dict[str, Any] = {"epochs": 4, "batch_size": 32, "verbose": False}
NAMES = methods.names()


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return conal.datasets.synthetic(
        n_train=150, n_valid=20, n_test=50, n_classes=3, n_annotators=6, seed=4, gate="interaction", gate_scale="wide"
    )


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


@pytest.mark.parametrize("name", NAMES)
def test_the_signature_and_the_docstring_have_what_is_declared(name: str) -> None:
    cls = estimator_class(name)
    declared, shown = parameters_of(cls), inspect.signature(cls).parameters
    assert {key: each.default for key, each in shown.items()} == {key: p.default for key, p in declared.items()}
    assert all(f"{key} : " in str(cls.__doc__) and p.help in str(cls.__doc__) for key, p in declared.items())


def test_the_public_classes_are_those_of_their_methods() -> None:
    assert estimator_class("conal") is conal.CoNAL
    assert estimator_class("xconal") is conal.CrossCoNAL


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
def test_splits_of_tasks_with_other_names_are_told(data: CrowdDataset) -> None:
    """A fit refuses to match such ids to an array, but of every part of a split the rows are known."""
    crowd = data.annotations.replace(task_ids=[f"t{k:03}" for k in range(len(data.x))], by_position=False)
    clf = conal.make("dl-mv", epochs=2)
    with pytest.raises(InputError, match="cannot be matched to a feature array without ids"):
        clf.fit(data.x, crowd)
    with pytest.warns(
        DataWarning, match=r"task i is taken for row i of the features.*'t000', 't001'.*annotations\[:\]"
    ):
        expected = cross_val_score(clf, data.x, crowd, cv=2)
    order = np.random.default_rng(0).permutation(len(data.x))
    np.testing.assert_array_equal(cross_val_score(clf, data.x, crowd[:], cv=2), expected)
    cross_val_score(clf, data.x[order], crowd.reindex(crowd.task_ids[order]), cv=2)


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


@pytest.mark.parametrize("name", methods.names())
def test_a_notebook_displays_estimators_without_a_warning(name: str) -> None:
    made: Any = conal.make(name)
    page = made._repr_html_()  # for which scikit-learn reads the docstring; warnings are errors here
    assert "batch_size" in page


def test_a_notebook_displays_text_features_without_a_warning() -> None:
    assert "max_terms" in conal.TextFeatures()._repr_html_()


@pytest.mark.parametrize("with_labels", [True, False])
def test_labels_without_features_name_the_aggregators(data: CrowdDataset, with_labels: bool) -> None:
    X, y = (None, data.annotations) if with_labels else (data.annotations, None)
    with pytest.raises(
        InputError, match=r"there are no features or texts: .* use an aggregator: .*\(conal aggregate\)"
    ):
        conal.CoNAL(epochs=1).fit(X, y)
