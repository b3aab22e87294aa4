"""Refused answers as evidence: rates by class, against loops, and what they are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conal import Annotations
from conal.aggregation import DawidSkene, MajorityVote, make
from conal.aggregation.base import STRENGTH, abstention_rates, with_abstentions


def declining_crowd(seed: int, *, n_tasks: int = 300, informative: bool = True) -> tuple[Annotations, Any, Any]:
    """Six weak annotators who decline 60 % of the tasks of class 2 and 5 % of others, or 20 % of all; and the truth."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n_tasks)
    right = rng.random((n_tasks, 6)) < 0.5
    labels = np.where(right, z[:, None], rng.integers(3, size=right.shape)).astype(object)
    rates = np.array([0.05, 0.05, 0.6]) if informative else np.full(3, 0.2)
    labels[rng.random(labels.shape) < rates[z][:, None]] = "refused"
    return Annotations.from_matrix(labels, classes=range(3), abstain="refused"), z, rates


def by_loops(crowd: Annotations, posterior: Any) -> Any:
    """Rates from the definition, annotator by annotator and class by class."""
    R, C = crowd.n_annotators, crowd.n_classes
    refused = crowd.abstentions
    assert refused is not None
    share = refused.n_annotations / (refused.n_annotations + crowd.n_annotations)
    rates = np.empty((R, C))
    for r in range(R):
        declined = [i for i, who in zip(refused.tasks, refused.annotators, strict=True) if who == r]
        answered = [i for i, who in zip(crowd.tasks, crowd.annotators, strict=True) if who == r]
        usual = (len(declined) + share) / (len(declined) + len(answered) + 1)
        for c in range(C):
            up = sum(posterior[i, c] for i in declined)
            met = up + sum(posterior[i, c] for i in answered)
            rates[r, c] = (up + STRENGTH * usual) / (met + STRENGTH)
    return rates


def test_rates_are_those_of_the_definition() -> None:
    crowd, _, _ = declining_crowd(0, n_tasks=40)
    posterior = np.random.default_rng(1).dirichlet(np.ones(3), size=40)
    np.testing.assert_allclose(abstention_rates(crowd, posterior), by_loops(crowd, posterior), rtol=1e-12)


def test_the_posterior_is_that_of_the_definition_and_the_objective_never_falls() -> None:
    crowd, _, _ = declining_crowd(2, n_tasks=40)
    refused = crowd.abstentions
    assert refused is not None
    before = np.random.default_rng(3).dirichlet(np.ones(3), size=40)
    before[0] = [0.0, 1.0, 0.0]  # known
    found = with_abstentions(crowd, before)
    assert len(found.history) > 2
    assert (np.diff(found.history) > -1e-9).all()
    wanted = before.copy()
    for i, r in zip(refused.tasks, refused.annotators, strict=True):
        wanted[i] *= found.rates[r]
    for i, r in zip(crowd.tasks, crowd.annotators, strict=True):
        wanted[i] *= 1 - found.rates[r]
    np.testing.assert_allclose(found.posterior, wanted / wanted.sum(1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(found.rates, by_loops(crowd, found.posterior), atol=1e-3)
    assert found.posterior[0].tolist() == [0.0, 1.0, 0.0]


def test_who_declines_some_classes_says_something() -> None:
    crowd, z, rates = declining_crowd(4)
    with_them = DawidSkene().fit(crowd)
    without = DawidSkene().fit(crowd.replace(abstentions=None))
    assert (with_them.codes_ == z).mean() > (without.codes_ == z).mean() + 0.08
    assert with_them.abstention_ is not None
    np.testing.assert_allclose(with_them.abstention_.mean(0), rates, atol=0.12)
    assert without.abstention_ is None
    np.testing.assert_array_equal(with_them.confusion_, without.confusion_)


def test_who_declines_all_classes_alike_says_nothing() -> None:
    crowd, z, _ = declining_crowd(5, informative=False)
    right = [(DawidSkene().fit(each).codes_ == z).mean() for each in (crowd, crowd.replace(abstentions=None))]
    assert abs(right[0] - right[1]) < 0.03


def test_votes_stay_votes() -> None:
    crowd, _, _ = declining_crowd(6, n_tasks=60)
    fitted = MajorityVote().fit(crowd)
    np.testing.assert_array_equal(fitted.probas_, MajorityVote().fit(crowd.replace(abstentions=None)).probas_)
    assert fitted.abstention_ is not None
    assert fitted.abstention_.shape == (6, 3)


@pytest.mark.parametrize("name", ["auto", "ordinal", "backoff", "glad"])
def test_other_aggregators_use_them_too(name: str) -> None:
    crowd, _, _ = declining_crowd(7, n_tasks=90)
    one, two = (make(name).fit(each) for each in (crowd, crowd.replace(abstentions=None)))
    assert np.abs(one.probas_ - two.probas_).max() > 0.01
    np.testing.assert_allclose(one.probas_.sum(1), 1)


def test_true_labels_stay_certain_and_nobody_has_to_decline() -> None:
    crowd, _, _ = declining_crowd(8, n_tasks=40)
    fitted = DawidSkene().fit(crowd, true_labels={0: 2, 1: 0})
    assert fitted.labels_[:2].tolist() == [2, 0]
    with pytest.warns(UserWarning, match="no label is 'refused'"):
        none = Annotations.from_matrix([[0, 1], [1, 1]], abstain="refused")
    fitted = DawidSkene().fit(none)
    np.testing.assert_array_equal(fitted.probas_, DawidSkene().fit([[0, 1], [1, 1]]).probas_)
    np.testing.assert_array_equal(fitted.abstention_, np.zeros((2, 2)))
