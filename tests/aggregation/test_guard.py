"""The guard against collapse: what it notices, what it repairs, and when it keeps silent."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from conal import aggregation
from conal.aggregation import OneCoinDawidSkene
from conal.aggregation.guard import collapse_of
from conal.aggregation.held_out import fifths, held_out_scores
from conal.data.annotations import Annotations
from conal.errors import CollapseWarning
from helpers.crowds import ragged_crowd
from helpers.real import labelled_crowd

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")


def biased_crowd(seed: int, n_tasks: int = 300, n_annotators: int = 12) -> tuple[Annotations, Any]:
    """Two classes, one of which half of the annotators overlook more often than not."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n_tasks)
    overlook = np.linspace(0.1, 0.9, n_annotators)
    slips = rng.random((n_tasks, n_annotators))
    matrix = np.where(z[:, None] == 1, slips > overlook, slips < 0.2).astype(int)
    return Annotations.from_matrix(matrix, classes=range(2)), z


def posterior(codes: Any, n_classes: int) -> Any:
    return np.eye(n_classes)[np.asarray(codes)]


def votes_of(codes: Any, n_classes: int) -> Annotations:
    """Three annotators of one mind."""
    return Annotations.from_matrix(np.repeat(np.asarray(codes)[:, None], 3, axis=1), classes=range(n_classes))


def test_the_votes_themselves_have_not_collapsed() -> None:
    codes = np.arange(60) % 3
    assert collapse_of(votes_of(codes, 3), posterior(codes, 3)) is None


def test_a_lost_class_is_noticed() -> None:
    codes = np.arange(60) % 3
    found = collapse_of(votes_of(codes, 3), posterior(np.where(codes == 2, 0, codes), 3))
    assert found is not None
    assert found.certain
    assert found.sentence == "class 2 wins votes, but hardly any task gets it"


def test_true_labels_do_not_hide_a_lost_class() -> None:
    """A third of the lost class is known, which is more than hardly any; nothing else gets it."""
    codes = np.arange(60) % 3
    known = np.where((codes == 2) & (np.arange(60) < 20), 2, -1)
    q = posterior(np.where((codes == 2) & (known < 0), 0, codes), 3)
    assert collapse_of(votes_of(codes, 3), q) is None
    found = collapse_of(votes_of(codes, 3), q, known)
    assert found is not None
    assert found.sentence == "class 2 wins votes, but hardly any task gets it"


def test_a_collapse_beside_true_labels_is_told() -> None:
    labels, truth = labelled_crowd("flute")
    with pytest.warns(CollapseWarning, match="hardly any task gets them. This may be wrong; compare with"):
        OneCoinDawidSkene().fit(labels, true_labels=truth.sample(50, random_state=0))


def test_exchanged_classes_are_noticed() -> None:
    codes = np.arange(60) % 3
    found = collapse_of(votes_of(codes, 3), posterior(np.array([1, 0, 2])[codes], 3))
    assert found is not None
    assert found.certain
    assert "classes 0 and 1 look exchanged" in found.sentence


@pytest.mark.parametrize(("n_grown", "noticed"), [(40, True), (36, False)])
def test_a_class_with_more_than_twice_its_votes_is_noticed(n_grown: int, noticed: bool) -> None:
    """Of a hundred tasks, 18 have the votes of class 0. Every other class keeps more than a tenth of its tasks."""
    codes = np.repeat([0, 1, 2, 3], [18, 28, 27, 27])
    inferred = codes.copy()
    inferred[[*range(18, 18 + (n_grown - 18) // 2), *range(46, 46 + (n_grown - 18) // 2)]] = 0
    found = collapse_of(votes_of(codes, 4), posterior(inferred, 4))
    assert (found is not None) == noticed
    if found is not None:
        assert not found.certain
        assert found.sentence == "class 0 gets 40% of the tasks, with 18% of the votes"


@pytest.mark.parametrize(("n_left", "noticed"), [(12, True), (14, False)])
def test_classes_with_less_than_a_third_of_their_votes_are_noticed(n_left: int, noticed: bool) -> None:
    """Class 0 has 60 of a hundred votes, and cannot double."""
    codes = np.repeat([0, 1], [60, 40])
    inferred = np.repeat([0, 1], [100 - n_left, n_left])
    assert (collapse_of(votes_of(codes, 2), posterior(inferred, 2)) is not None) == noticed


def rare_crowd(
    seed: int, *, n_classes: int = 2, share: float = 0.007, n_tasks: int = 1500, per_task: int = 5
) -> tuple[Annotations, Any]:
    """On a fifth of the tasks, annotators answer by habit, and a ``share`` of their labels is a class more.

    That last class is never true.
    """
    rng = np.random.default_rng(seed)
    R = 40
    z, hard = rng.integers(n_classes, size=n_tasks), rng.random(n_tasks) < 0.2
    habits = rng.dirichlet(np.ones(n_classes), size=R).cumsum(1)
    who = rng.random((n_tasks, R)).argsort(1)[:, :per_task]
    habitual = (rng.random(who.shape)[..., None] > habits[who]).sum(-1).clip(max=n_classes - 1)
    slips = np.where(rng.random(who.shape) < 0.03, rng.integers(1, n_classes, size=who.shape), 0)
    labels = np.where(hard[:, None], habitual, (z[:, None] + slips) % n_classes)
    labels[hard[:, None] & (rng.random(who.shape) < share)] = n_classes
    tasks = np.repeat(np.arange(n_tasks), per_task)
    return Annotations.from_triples(tasks, who.ravel(), labels.ravel(), classes=range(n_classes + 1)), z


RARE = [
    *({"n_classes": n_classes, "share": share} for n_classes in (2, 3, 4) for share in (0.007, 0.03)),
    {"per_task": 10},
    {"n_classes": 4, "per_task": 3, "share": 0.02},
    {"n_tasks": 6000},
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", RARE, ids=str)
def test_a_rare_class_that_takes_hard_tasks_is_noticed_and_repaired(options: Any, seed: int) -> None:
    """Where many of its tasks have not one such label, other starts and priors are tried, until it has few tasks."""
    crowd, z = rare_crowd(seed, **options)
    rare = crowd.n_classes - 1
    plain = aggregation.make("dawid-skene", guard="off").fit(crowd)
    found = collapse_of(crowd, plain.probas_)
    assert found is not None
    assert f"class {rare} gets" in found.sentence
    with pytest.warns(CollapseWarning, match=f"dawid-skene: class {rare} gets"):
        fitted = aggregation.make("dawid-skene").fit(crowd)
    if found.certain:
        assert "nobody gave it to" in found.sentence
        assert collapse_of(crowd, fitted.probas_) is None
        by_votes = aggregation.make("majority-vote").fit(crowd)
        assert (fitted.codes_ == z).mean() > (plain.codes_ == z).mean()
        assert (fitted.codes_ == z).mean() > (by_votes.codes_ == z).mean() - 0.04


@pytest.mark.parametrize("name", ["backoff", "cbcc", "common-confusion", "worker-clustering", "auto"])
@pytest.mark.parametrize("share", [0.007, 0.03, 0.1])
def test_no_aggregator_inflates_a_rare_class_in_silence(name: str, share: float) -> None:
    crowd, _ = rare_crowd(5, share=share, n_tasks=1000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = aggregation.make(name).fit(crowd)
    told = [str(each.message) for each in caught if issubclass(each.category, CollapseWarning)]
    grown = (fitted.codes_ == 2).mean() / (crowd.labels == 2).mean()
    assert grown <= 3 or any(f"{name}: class 2 gets" in sentence for sentence in told)


def test_a_class_that_most_annotators_overlook_is_left_alone() -> None:
    """One in seven sees it, hardly anybody by mistake: far more tasks than votes are right, and nothing is changed."""
    rng = np.random.default_rng(0)
    z = rng.random(1000) < 0.1
    labels = rng.random((1000, 12)) < np.where(z, 1 / 7, 0.002)[:, None]
    crowd = Annotations.from_matrix(labels.astype(int), classes=range(2))
    with pytest.warns(CollapseWarning, match="class 1 gets .* of the tasks, with 1% of the votes. This may be right"):
        fitted = aggregation.make("dawid-skene").fit(crowd)
    plain = aggregation.make("dawid-skene", guard="off").fit(crowd)
    np.testing.assert_array_equal(fitted.probas_, plain.probas_)
    assert (fitted.codes_ == z).mean() > 0.95 > (aggregation.make("majority-vote").fit(crowd).codes_ == z).mean()


def test_tasks_without_labels_do_not_count() -> None:
    codes = np.arange(60) % 2
    crowd = Annotations.from_matrix(
        np.vstack([np.repeat(codes[:, None], 3, axis=1), np.full((200, 3), -1)]), classes=range(2)
    )
    assert collapse_of(crowd, np.vstack([posterior(codes, 2), np.tile([0.9, 0.1], (200, 1))])) is None


@pytest.mark.parametrize("guard", ["repair", "warn"])
def test_a_collapse_is_told(guard: str) -> None:
    crowd, _ = biased_crowd(0)
    with pytest.warns(CollapseWarning, match="one-coin: class 1 wins votes, but hardly any task gets it"):
        aggregation.make("one-coin", guard=guard).fit(crowd)


def test_it_can_be_switched_off() -> None:
    crowd, _ = biased_crowd(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = aggregation.make("one-coin", guard="off").fit(crowd)
    assert (fitted.codes_ == 0).mean() > 0.99


def test_a_repair_is_a_fit_of_the_same_model() -> None:
    """The posterior is the one that the remedy has by itself, and the fitted attributes belong to it."""
    labels, _ = labelled_crowd("bluebird")
    with pytest.warns(CollapseWarning, match="class_prior='labels' helped"):
        fitted = OneCoinDawidSkene().fit(labels)
    alone = aggregation.make("one-coin", class_prior="labels", guard="off").fit(labels)
    np.testing.assert_array_equal(fitted.probas_, alone.probas_)
    np.testing.assert_array_equal(fitted.confusion_, alone.confusion_)
    assert fitted.class_prior == "estimate"  # what the user set stays


def test_another_start_is_named() -> None:
    labels, truth = labelled_crowd("flute")
    with pytest.warns(CollapseWarning, match="The start 'dawid-skene' helped"):
        fitted = OneCoinDawidSkene().fit(labels)
    assert fitted.start_ == "dawid-skene"
    right = (truth.reindex(fitted.task_ids_.astype(str)).to_numpy() == fitted.labels_.astype(str)).mean()
    assert right > 0.6  # 0.25 without


@pytest.mark.parametrize("name", ["dog", "face", "product", "sentiment"])
def test_no_false_alarm(name: str) -> None:
    labels, _ = labelled_crowd(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        aggregation.make("dawid-skene").fit(labels)


def test_held_out_labels_leave_one_per_task() -> None:
    crowd = ragged_crowd(3, n_tasks=80)
    rest, held_out = next(fifths(crowd, np.random.default_rng(0)))
    assert rest.n_annotations == (~held_out).sum()
    np.testing.assert_array_equal(rest.labels_per_task() > 0, crowd.labels_per_task() > 0)
    assert 0.05 < held_out.mean() < 0.25
    kept = set(zip(rest.tasks.tolist(), rest.annotators.tolist(), rest.labels.tolist(), strict=True))
    out = set(
        zip(
            crowd.tasks[held_out].tolist(),
            crowd.annotators[held_out].tolist(),
            crowd.labels[held_out].tolist(),
            strict=True,
        )
    )
    assert not kept & out
    assert len(kept | out) == crowd.n_annotations


def test_scores_of_held_out_labels_are_explicit_sums() -> None:
    crowd = ragged_crowd(1)
    rng = np.random.default_rng(1)
    q = rng.dirichlet(np.ones(crowd.n_classes), size=crowd.n_tasks)
    pi = rng.dirichlet(np.ones(crowd.n_classes), size=(crowd.n_annotators, crowd.n_classes))
    held_out = rng.random(crowd.n_annotations) < 0.5
    rows = zip(crowd.tasks[held_out], crowd.annotators[held_out], crowd.labels[held_out], strict=True)
    slow = [np.log(sum(q[i, c] * pi[r, c, y] for c in range(crowd.n_classes))) for i, r, y in rows]
    np.testing.assert_allclose(held_out_scores(crowd, held_out, q, pi), slow, rtol=1e-12)
