"""The loop that all EM aggregators share: starts, progress, convergence, every aggregator's promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from conal import aggregation
from conal.aggregation import DawidSkene, em
from conal.aggregation.em import EMAggregator
from conal.data.annotations import Annotations
from conal.errors import ConvergenceWarning, DataWarning, InputError, VanishedClassWarning
from helpers.hard import votes
from helpers.progress import Listener

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")

NAMES = [name for name in aggregation.names() if name != "gold-majority-vote"]  # it warns without true labels
ITERATIVE = [name for name in NAMES if issubclass(aggregation.get(name), EMAggregator)]


def test_progress_hears_of_every_iteration_of_every_start(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Listener()
    monkeypatch.setattr(em, "make_progress", lambda *_: heard)
    with pytest.warns(ConvergenceWarning):
        fitted = DawidSkene(n_iter=3, tol=0, n_restarts=2).fit(votes(4))
    assert [told[:2] for told in heard.told] == [(1, 3), (2, 3), (3, 3)] * 2
    assert heard.told[0][2].startswith("start 1 of 2  objective -")
    assert any(f"{fitted.objective_history_[-1]:.6g}" in told[2] for told in heard.told)


@pytest.mark.parametrize("name", ITERATIVE)
def test_it_stops_at_the_tolerance_or_says_so(name: str) -> None:
    crowd = Annotations.from_matrix(votes(5))
    fitted: Any = aggregation.make(name, n_iter=5000, tol=1e-7).fit(crowd)
    gains = np.abs(np.diff(fitted.objective_history_)) / crowd.n_annotations
    assert fitted.converged_
    assert gains[-1] < 1e-7
    assert (gains[:-1] >= 1e-7).all()
    assert fitted.n_iter_ == len(gains)
    with pytest.warns(ConvergenceWarning, match=r"not converged after 1 iterations .* raise n_iter, or tol"):
        fitted = aggregation.make(name, n_iter=1, tol=0).fit(crowd)
    assert not fitted.converged_
    assert len(fitted.objective_history_) == 2


@pytest.mark.parametrize(
    "options", [{"n_iter": 0}, {"n_iter": 1.5}, {"tol": -1}, {"tol": "x"}, {"n_restarts": 0}, {"seed": -1}]
)
def test_options_that_cannot_be_meant(options: dict[str, Any]) -> None:
    for name in ITERATIVE:
        with pytest.raises(InputError, match=next(iter(options))):
            aggregation.make(name, **options).fit(votes(3))


def test_an_unknown_parameter_lists_the_known() -> None:
    with pytest.raises(InputError, match="glad has no parameter 'prior'; it has class_prior, n_iter, tol"):
        aggregation.make("glad", prior=1)
    with pytest.raises(InputError, match="there is no aggregator 'dawid-sken'; did you mean 'dawid-skene'"):
        aggregation.make("dawid-sken")


def test_truth_about_tasks_that_are_not_there_changes_nothing() -> None:
    crowd = Annotations.from_matrix(votes(5))
    with pytest.warns(DataWarning, match="ignored 1 of 2 true labels, of tasks without annotations: 999"):
        with_stranger = DawidSkene().fit(crowd, true_labels={0: 2, 999: 0})
    np.testing.assert_array_equal(with_stranger.probas_, DawidSkene().fit(crowd, true_labels={0: 2}).probas_)


def test_ids_that_are_tuples_stay_whole() -> None:
    frame = pd.DataFrame({"task": [("a", 1), ("a", 2)] * 2, "worker": [0, 0, 1, 1], "label": ["x", "y", "x", "y"]})
    labels = DawidSkene().fit_predict(frame)
    assert labels.index.tolist() == [("a", 1), ("a", 2)]
    assert labels.index.nlevels == 1


@pytest.mark.parametrize(
    "given",
    [
        {0: 2, 7: 0},
        pd.Series({0: 2, 7: 0}),
        pd.Series({0: 2.0, 7: 0.0, 8: np.nan}),
        pd.DataFrame({"item": [0, 7], "truth": [2, 0]}),
        pl.DataFrame({"task": [0, 7], "label": [2, 0]}),
    ],
)
def test_truth_comes_in_many_shapes(given: Any) -> None:
    crowd = Annotations.from_matrix(votes(5))
    expected = DawidSkene().fit(crowd, true_labels={0: 2, 7: 0})
    np.testing.assert_array_equal(DawidSkene().fit(crowd, true_labels=given).probas_, expected.probas_)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 2}, "no task of the 1 true labels has annotations; the tasks are 'a', those with annotations 0, 1, 2"),
        (pd.Series([2, 1], index=[0, 0]), "a task occurs more than once"),
        ({0: "x"}, "'x' are not among the classes 0, 1, 2"),
        (pd.DataFrame({"task": [0], "worker": [1]}), "no column for the truth"),
    ],
)
def test_truth_that_cannot_be_used(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DawidSkene().fit(votes(5), true_labels=given)


def test_an_arrow_table_is_a_frame() -> None:
    frame = pd.DataFrame({"task": ["a", "a", "b"], "worker": [1, 2, 1], "label": ["x", "x", "y"]})
    table = pa.Table.from_pandas(frame)
    assert DawidSkene().fit_predict(table).tolist() == DawidSkene().fit_predict(frame).tolist()
    with pytest.raises(InputError, match="no column for the label"):
        DawidSkene().fit(table.drop_columns("label"))


@pytest.mark.parametrize("data", ["labels.csv", {"task": [1]}, None])
def test_what_is_no_crowd_is_told_where_to_go(data: Any) -> None:
    with pytest.raises(InputError, match=r"use conal\.Annotations\.read\(path\) for a file"):
        DawidSkene().fit(data)


def test_a_lazy_frame_must_be_collected() -> None:
    lazy = pl.LazyFrame({"task": [0], "worker": [0], "label": [0]})
    with pytest.raises(InputError, match=r"call \.collect\(\)"):
        DawidSkene().fit(lazy)


@pytest.mark.filterwarnings("error::conal.errors.VanishedClassWarning")
def test_a_class_that_disappears_is_told() -> None:
    """One label per task: nothing but the votes to go by, and one class explains them all."""
    rng = np.random.default_rng(0)
    task = np.arange(400)
    crowd = Annotations.from_triples(task, rng.integers(40, size=400), rng.choice(3, size=400, p=[0.5, 0.3, 0.2]))
    with pytest.warns(VanishedClassWarning, match=r"win votes, but .* 1\.0 labels per task .* 'majority-vote'"):
        fitted = aggregation.make("bayes-dawid-skene").fit(crowd)
    assert np.bincount(fitted.codes_, minlength=3).min() < 5
    aggregation.make("one-coin").fit(crowd)  # stays with the votes


@pytest.mark.parametrize("name", NAMES)
def test_parameters_can_be_read_changed_cloned_and_shown(name: str) -> None:
    model = aggregation.make(name)
    assert repr(model) == f"{type(model).__name__}()"
    if "seed" in model.parameter_names():
        assert model.set_params(seed=3).get_params()["seed"] == 3
        assert repr(model) == f"{type(model).__name__}(seed=3)"
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(InputError, match="has no parameter 'nonsense'"):
        model.set_params(nonsense=1)


def test_classes_may_be_called_like_columns() -> None:
    rows = {"task": [0, 0, 1, 1], "worker": [0, 1, 0, 1], "label": ["label"] * 4}
    probas = DawidSkene().fit_predict_proba(pd.DataFrame(rows))
    assert isinstance(probas, pd.DataFrame)
    assert probas.columns.tolist() == ["label"]
    rows["label"] = ["task", "task", "x", "x"]
    with pytest.raises(InputError, match="cannot be columns beside 'task'"):
        DawidSkene().fit_predict_proba(pl.DataFrame(rows))
    assert DawidSkene().fit_predict(pl.DataFrame(rows))["label"].to_list() == ["task", "x"]


def test_classes_of_plug_ins_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = aggregation.base.aggregators
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    @aggregation.base.register("another")
    class Another(aggregation.MajorityVote):
        """Votes, under another name."""

    assert aggregation.Another is Another
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = aggregation.Nobody
