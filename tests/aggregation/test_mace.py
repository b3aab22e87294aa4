"""MACE against slow loops for both kinds of M-step, crowds with spammers, and crowd-kit on real crowds."""

from __future__ import annotations

from typing import Any

import crowdkit.aggregation as crowdkit
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln, digamma, gammaln

from conal.aggregation import MACE, MajorityVote
from conal.aggregation.counts import Votes
from conal.aggregation.mace import Habits
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.errors import InputError
from helpers.crowds import graded_crowd, sparse_crowd
from helpers.iterations import assert_iteration
from helpers.real import CROWDS, labelled_crowd

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")


def slow_iteration(  # noqa: C901 - one sum after the other
    crowd: Annotations, q: Any, old: Habits, method: str
) -> tuple[Habits, Any, float]:
    """Counts of knowing and of habits, label by label, then the posterior and the objective as they are defined."""
    matrix, N, R, C = crowd.to_matrix(), crowd.n_tasks, crowd.n_annotators, crowd.n_classes

    def rates(counts: Any) -> Any:
        if method == "em":
            return counts / counts.sum()
        return np.exp(digamma(counts) - digamma(counts.sum()))

    a, b = (0.5, 10.0) if method == "vb" else (0.01 / C, 0.01 / C)
    knowing, spam = np.full((R, 2), a), np.full((R, C), b)
    for r in range(R):
        theta, xi = rates(old.knowing[r]), rates(old.spam[r])
        for i in range(N):
            y = matrix[i, r]
            if y < 0:
                continue
            known = q[i, y] * theta[1] / (theta[1] + theta[0] * xi[y])
            knowing[r] += [1 - known, known]
            spam[r, y] += 1 - known
    joint = np.full((N, C), 1 / C)
    for i in range(N):
        for c in range(C):
            for r in range(R):
                if (y := matrix[i, r]) >= 0:
                    theta, xi = rates(knowing[r]), rates(spam[r])
                    joint[i, c] *= theta[0] * xi[y] + theta[1] * (y == c)
    objective = np.log(joint.sum(1)).sum()
    for r in range(R):
        if method == "em":
            objective += a * np.log(rates(knowing[r])).sum() + b * np.log(rates(spam[r])).sum()
            continue
        elog = digamma(knowing[r]) - digamma(knowing[r].sum())
        objective -= betaln(a, a) - betaln(*knowing[r]) + ((knowing[r] - a) * elog).sum()
        elog = digamma(spam[r]) - digamma(spam[r].sum())
        objective -= C * gammaln(b) - gammaln(C * b) - gammaln(spam[r]).sum() + gammaln(spam[r].sum())
        objective -= ((spam[r] - b) * elog).sum()
    return Habits(knowing, spam), joint / joint.sum(1, keepdims=True), float(objective)


@pytest.mark.parametrize("method", ["vb", "em"])
@pytest.mark.parametrize("seed", range(4))
def test_an_iteration_agrees_with_slow_loops(seed: int, method: Any) -> None:
    crowd = sparse_crowd(seed)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(3), size=crowd.n_tasks)
    old = Habits(rng.gamma(2.0, size=(5, 2)), rng.gamma(2.0, size=(5, 3)))
    assert_iteration(MACE(method=method), crowd, (q, old), *slow_iteration(crowd, q, old, method))


@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(1, 4),
    method=st.sampled_from(["vb", "em"]),
    known=st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_the_objective_never_falls(seed: int, n_classes: int, method: Any, known: int) -> None:
    crowd = sparse_crowd(seed, n_classes=n_classes)
    model = MACE(method=method, n_iter=30, tol=0, n_restarts=1 + seed % 3, seed=seed)
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), n_classes - 1))
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(n_classes)[[n_classes - 1] * known])


@pytest.mark.parametrize("method", ["vb", "em"])
def test_spammers_are_found_with_their_habits(method: Any) -> None:
    """Three know nine answers in ten; one always says 2, and one says anything."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=300)
    expert = [np.where(rng.random(300) < 0.9, z, rng.integers(3, size=300)) for _ in range(3)]
    matrix = np.column_stack([*expert, np.full(300, 2), rng.integers(3, size=300), rng.integers(3, size=300)])
    fitted = MACE(method=method).fit(matrix)
    assert (fitted.codes_ == z).mean() > 0.97
    assert (fitted.codes_ == z).mean() > (MajorityVote().fit(matrix).codes_ == z).mean() + 0.02
    np.testing.assert_allclose(fitted.theta_[:3], 0.9, atol=0.06)
    assert (fitted.theta_[3:] < 0.08).all()
    assert fitted.spam_[3, 2] > 0.9
    np.testing.assert_allclose(fitted.spam_[4:], 1 / 3, atol=0.08)
    np.testing.assert_allclose(fitted.skills_[:3], fitted.theta_[:3] + (1 - fitted.theta_[:3]) / 3)
    assert fitted.converged_


class Start(Habits):
    """Probabilities in place of counts."""


class FromTheirStart(MACE):
    """Starts at the random parameters of crowd-kit, which are the same in each of its restarts."""

    def _first_parameters(self, votes: Votes, expectation: Any, rng: Any) -> Habits:
        peer = crowdkit.MACE(random_state=0)
        peer._initialize(votes.shape[1], votes.shape[2])
        start = Start(np.asarray(peer.spamming_), np.asarray(peer.thetas_))
        return self._m_step(votes, self.engine(votes, np.full(votes.shape[0], MISSING)).expect(start), start)

    def _rates(self, parameters: Habits) -> tuple[Any, Any]:
        return (parameters.knowing, parameters.spam) if isinstance(parameters, Start) else super()._rates(parameters)


@pytest.mark.parametrize(
    ("name", "method"), [*((name, "vb") for name in CROWDS if name != "product"), ("bluebird", "em"), ("emotion", "em")]
)
@pytest.mark.filterwarnings("ignore::Warning:crowdkit")
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_labels_are_those_of_crowdkit(name: str, method: Any) -> None:
    """From its start, after as many iterations.

    crowd-kit numbers workers and labels as they appear, but its counts of habits are sorted by name. The two mix up
    unless names are sorted as they appear, so they are renamed here. Its restarts are all the same one.
    """
    frame, _ = labelled_crowd(name)
    renamed = pd.DataFrame({column: pd.factorize(frame[column])[0] for column in frame})
    ours = FromTheirStart(method=method, n_iter=9, tol=0).fit(renamed)
    peer: Any = crowdkit.MACE(n_restarts=1, n_iter=10, method=method, random_state=0).fit(renamed)
    np.testing.assert_allclose(ours.probas_, peer.probas_.loc[ours.task_ids_, ours.classes_], atol=1e-6)
    assert ours.labels_.tolist() == peer.labels_[ours.task_ids_].tolist()


@pytest.mark.parametrize(
    "settings", [{"method": "map"}, {"prior_knowing": 0.0}, {"prior_spam": -1.0}, {"smoothing": 0.0}]
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(settings))} must be"):
        MACE(**settings).fit(graded_crowd(0))
