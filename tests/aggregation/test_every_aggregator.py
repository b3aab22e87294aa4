"""What every aggregator owes its users: indifference to order, certain true labels, sense at the edge."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from conal import aggregation
from conal.aggregation.base import aggregators
from conal.aggregation.voting import VoteAggregator
from conal.data.annotations import Annotations
from conal.errors import CollapseWarning
from helpers.crowds import graded_crowd, ragged_crowd
from helpers.guide import guide_code
from helpers.hard import CROWDS

pytestmark = [
    pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning"),
    pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:gold-majority-vote"),
]

NAMES = aggregation.names()
SIZE = ("seed", "n_tasks", "n_annotators", "n_classes")
SIZES = [(0, 120, 9, 3), (1, 15, 6, 2), (2, 40, 8, 4)]


def able_crowd(seed: int, n_tasks: int = 120, n_annotators: int = 9, n_classes: int = 3) -> tuple[Annotations, Any]:
    """Annotators right 60 to 95 times in a hundred, two thirds of all labels; and the truth."""
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n_tasks)
    right = rng.random((n_tasks, n_annotators)) < np.linspace(0.6, 0.95, n_annotators)
    matrix = np.where(right, z[:, None], (z[:, None] + rng.integers(1, n_classes, size=right.shape)) % n_classes)
    matrix[rng.random(matrix.shape) < 1 / 3] = -1
    return Annotations.from_matrix(matrix, classes=range(n_classes)), z


def check_contract(fitted: Any, crowd: Annotations) -> None:
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    assert fitted.probas_.shape == (N, C)
    assert (fitted.probas_ >= 0).all()
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(N))
    assert fitted.confusion_.shape == (R, C, C)
    assert (fitted.confusion_ >= 0).all()
    np.testing.assert_allclose(fitted.confusion_.sum(-1), np.ones((R, C)))
    assert fitted.skills_.shape == (R,)
    assert (fitted.skills_ >= 0).all()
    assert (fitted.skills_ <= 1 + 1e-12).all()
    assert (fitted.labels_ == crowd.classes[fitted.codes_]).all()


@pytest.mark.parametrize("name", NAMES)
def test_it_says_when_to_use_it(name: str) -> None:
    assert "Use it " in " ".join((aggregation.get(name).__doc__ or "").split())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_ragged_crowds(name: str, seed: int) -> None:
    """Some tasks and some annotators have no label, and no class is safe."""
    crowd = ragged_crowd(seed)
    check_contract(aggregation.make(name).fit(crowd), crowd)


@pytest.mark.parametrize("name", NAMES)
def test_crowds_at_the_edge(name: str) -> None:
    for crowd in (*CROWDS.values(), Annotations.from_triples(["t"], ["w"], ["x"])):
        suited = crowd.as_ordinal(crowd.classes) if aggregation.get(name).ordered else crowd
        check_contract(aggregation.make(name).fit(suited), suited)


@pytest.mark.parametrize("name", NAMES)
def test_a_single_annotator_is_believed(name: str) -> None:
    z = np.arange(30) % 3
    assert aggregation.make(name).fit(z[:, None]).labels_.tolist() == z.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_single_class(name: str) -> None:
    crowd = Annotations.from_matrix(np.where(np.eye(6, 4) > 0, -1, 0))
    fitted = aggregation.make(name).fit(crowd)
    check_contract(fitted, crowd)
    np.testing.assert_allclose(fitted.probas_, np.ones((6, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_unanimous_annotators_are_right(name: str) -> None:
    z = np.arange(40) % 3
    fitted = aggregation.make(name).fit(np.repeat(z[:, None], 5, axis=1))
    assert (fitted.codes_ == z).all()
    assert (fitted.confusion_.argmax(-1) == np.arange(3)).all()
    assert (fitted.skills_ > 0.85).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_of_a_simulated_crowd(name: str) -> None:
    """120 tasks with six labels each: nine tenths can be known, and better annotators have higher skills."""
    crowd, z = able_crowd(1)
    fitted = aggregation.make(name).fit(crowd)
    assert (fitted.codes_ == z).mean() > 0.9
    if name != "gold-majority-vote":  # without gold, all weigh the same
        assert np.corrcoef(fitted.skills_, np.linspace(0.6, 0.95, 9))[0, 1] > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_true_labels_are_certain(name: str) -> None:
    """Also the wrong ones, also of a task without labels."""
    crowd = graded_crowd(3)
    known = {0: 2, 1: 1, 7: 0, 8: 1, 9: 2}
    fitted = aggregation.make(name).fit(crowd, true_labels=known)
    np.testing.assert_array_equal(fitted.probas_[list(known)], np.eye(3)[list(known.values())])
    check_contract(fitted, crowd)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(SIZE, SIZES)
def test_names_and_order_of_tasks_annotators_and_classes_do_not_matter(
    name: str, seed: int, n_tasks: int, n_annotators: int, n_classes: int
) -> None:
    """As users call it: with random starts, and parameters that held-out labels choose."""
    crowd, _ = able_crowd(seed, n_tasks, n_annotators, n_classes)
    tops = np.sort(crowd.votes(), axis=1)
    crowd = crowd[np.flatnonzero(tops[:, -1] > tops[:, -2])]  # a tie goes to the first class
    matrix = crowd.to_matrix()
    rng = np.random.default_rng(5)
    rows, columns, classes = (rng.permutation(n) for n in (*matrix.shape, n_classes))
    classes = np.arange(n_classes)[::-1] if aggregation.get(name).ordered else classes  # a scale can only be reversed
    moved = np.where(matrix >= 0, np.argsort(classes)[matrix], -1)[np.ix_(rows, columns)]
    renamed = Annotations.from_matrix(moved, classes=range(n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # a small crowd may collapse, always in the same way
        one, two = (aggregation.make(name).fit(each) for each in (crowd, renamed))
    np.testing.assert_allclose(two.probas_, one.probas_[np.ix_(rows, classes)], atol=1e-8)
    np.testing.assert_allclose(two.skills_, one.skills_[columns], atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_can_be_repeated(name: str) -> None:
    crowd = graded_crowd(4)
    model = aggregation.make(name)
    first = model.fit(crowd).probas_.copy()
    np.testing.assert_array_equal(model.fit(crowd).probas_, first)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_majority_of_few_classes_stays_a_number(name: str) -> None:
    """Annotators who contradict each other throughout."""
    z = np.arange(20) % 2
    crowd = Annotations.from_matrix(np.column_stack([z, 1 - z]))
    check_contract(aggregation.make(name).fit(crowd), crowd)


def test_the_aggregator_of_the_contributing_guide_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer who follows the guide passes every test of this file."""
    monkeypatch.setattr(aggregators, "_entries", dict(aggregators._entries))
    monkeypatch.setitem(sys.modules, "guide", guide := ModuleType("guide"))
    exec(compile(guide_code("SmoothedVotes"), "CONTRIBUTING.md", "exec"), vars(guide))  # noqa: S102
    cases: list[tuple[str, list[dict[str, int]]]] = [
        ("n_tasks", [dict(zip(SIZE, size, strict=True)) for size in SIZES]),
        ("seed", [{"seed": seed} for seed in range(2)]),
        ("name", [{}]),
    ]
    contract = [test for key, test in globals().items() if key.startswith("test_") and "name" in test.__annotations__]
    assert len(contract) > 10
    for test in contract:
        for case in next(some for key, some in cases if key in test.__annotations__):
            test(name="smoothed-votes", **case)


def test_matrices_and_skills_follow_from_the_labels_where_an_aggregator_has_none() -> None:
    """As :class:`VoteAggregator` promises to those that derive from it; also after another fit."""

    class FirstVotes(VoteAggregator):
        """The votes of everybody, by the shortest code; it is registered nowhere."""

        def _aggregate(self, crowd: Annotations, known: Any) -> Any:
            return self._elect(crowd, None, known)[0]

    model = FirstVotes(guard="off")
    for seed in (0, 1):
        crowd, _ = able_crowd(seed)
        fitted, votes = model.fit(crowd), aggregation.make("majority-vote").fit(crowd)
        np.testing.assert_array_equal(fitted.skills_, votes.skills_)
        np.testing.assert_array_equal(fitted.confusion_, votes.confusion_)
        check_contract(fitted, crowd)
