"""The loop that all EM aggregators share: starts, progress, convergence, every aggregator's promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from conal import aggregation
from conal.aggregation import DawidSkene, em
from conal.aggregation.em import EMAggregator
from conal.annotations import Annotations
from conal.errors import ConvergenceWarning, InputError
from conal.progress import Progress

NAMES = aggregation.names()
ITERATIVE = [name for name in NAMES if issubclass(aggregation.get(name), EMAggregator)]
TRUTH = np.arange(30) % 3


def votes(n_annotators: int, seed: int = 0) -> npt.NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    right = rng.random((30, n_annotators)) < 0.7
    return np.where(right, TRUTH[:, None], rng.integers(3, size=right.shape))


class Listener(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, str]] = []

    def update(self, completed: int, total: int, figures: str) -> None:
        self.told.append((completed, total, figures))


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


@pytest.mark.parametrize("name", ITERATIVE)
@pytest.mark.parametrize(
    "options", [{"n_iter": 0}, {"n_iter": 1.5}, {"tol": -1}, {"tol": "x"}, {"n_restarts": 0}, {"seed": -1}]
)
def test_options_that_cannot_be_meant(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        aggregation.make(name, **options).fit(votes(3))


def test_an_unknown_parameter_lists_the_known() -> None:
    with pytest.raises(InputError, match="glad has no parameter 'prior'; it has class_prior, n_iter, tol"):
        aggregation.make("glad", prior=1)
    with pytest.raises(InputError, match="no aggregator is called 'dawid-sken'; did you mean 'dawid-skene'"):
        aggregation.make("dawid-sken")


HARD: dict[str, Annotations] = {
    "a silent annotator": Annotations.from_matrix(np.column_stack([votes(3), np.full(30, -1)]), classes=range(3)),
    "a class without votes": Annotations.from_matrix(np.minimum(votes(4), 1), classes=range(3)),
    "one label per task": Annotations.from_matrix(
        np.where(np.arange(6) == np.arange(30)[:, None] % 6, votes(6), -1), classes=range(3)
    ),
    "one annotator": Annotations.from_matrix(votes(1), classes=range(3)),
    "as many annotators as tasks": Annotations.from_matrix(votes(30), classes=range(3)),
    "labels that are strings": Annotations.from_matrix(np.array(["ä", "b c", "<i>"], dtype=object)[votes(4)]),
    "ten identical annotators": Annotations.from_matrix(np.repeat(votes(1), 10, axis=1), classes=range(3)),
    "one class": Annotations.from_matrix(np.zeros((5, 3), dtype=int)),
    "one label in all": Annotations.from_triples(["t"], ["w"], ["x"]),
}


@pytest.mark.parametrize("crowd", HARD.values(), ids=HARD.keys())
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_nan(name: str, crowd: Annotations) -> None:
    fitted = aggregation.make(name).fit(crowd)
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    assert fitted.probas_.shape == (N, C)
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(N))
    assert fitted.confusion_.shape == (R, C, C)
    assert (fitted.confusion_ >= 0).all()
    np.testing.assert_allclose(fitted.confusion_.sum(-1), np.ones((R, C)))
    assert fitted.skills_.shape == (R,)
    assert ((fitted.skills_ >= 0) & (fitted.skills_ <= 1 + 1e-12)).all()
    assert set(fitted.labels_.tolist()) <= set(crowd.classes.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_perfect_annotators_give_the_truth(name: str) -> None:
    fitted = aggregation.make(name).fit(np.repeat(TRUTH[:, None], 5, axis=1))
    assert (fitted.codes_ == TRUTH).all()
    assert (fitted.confusion_.argmax(-1) == np.arange(3)).all()
    assert (fitted.skills_ > 0.7).all()


@pytest.mark.parametrize("name", NAMES)
def test_known_labels_stay_and_count(name: str) -> None:
    """Against the votes of everybody, where the truth is known."""
    crowd = Annotations.from_matrix(votes(5))
    fitted = aggregation.make(name).fit(crowd, true_labels={0: 2, 7: 0})
    np.testing.assert_array_equal(fitted.probas_[[0, 7]], np.eye(3)[[2, 0]])
    assert fitted.labels_[[0, 7]].tolist() == [2, 0]


def test_truth_about_tasks_that_are_not_there_changes_nothing() -> None:
    crowd = Annotations.from_matrix(votes(5))
    with_stranger = DawidSkene().fit(crowd, true_labels={0: 2, 999: 0})
    np.testing.assert_array_equal(with_stranger.probas_, DawidSkene().fit(crowd, true_labels={0: 2}).probas_)


def test_ids_that_are_tuples_stay_whole() -> None:
    frame = pd.DataFrame({"task": [("a", 1), ("a", 2)] * 2, "worker": [0, 0, 1, 1], "label": ["x", "y", "x", "y"]})
    labels = DawidSkene().fit_predict(frame)
    assert labels.index.tolist() == [("a", 1), ("a", 2)]
    assert labels.index.nlevels == 1
