"""Common confusion by EM against explicit sums over truth and coin, and on crowds with shared mistakes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conal import aggregation
from conal.aggregation import CommonConfusion, DawidSkene, MajorityVote
from conal.aggregation.common_confusion import Mixture
from conal.aggregation.counts import Votes
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.datasets import synthetic
from conal.errors import ConvergenceWarning, InputError
from helpers.crowds import sparse_crowd, thin_matrices

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Label = tuple[int, int, int]


def random_parameters(crowd: Annotations, seed: int) -> Mixture:
    """Parameters that have nothing to do with the crowd."""
    rng = np.random.default_rng(seed)
    R, C = crowd.n_annotators, crowd.n_classes
    ones = np.ones(C)
    return Mixture(rng.dirichlet(ones), rng.dirichlet(ones, C), rng.dirichlet(ones, (R, C)), rng.random(R))


def draw_crowd(
    seed: int, omega: Floats, pi_g: Floats, pi_r: Floats, N: int = 600, per_task: int = 6
) -> tuple[Annotations, Ints]:
    """``per_task`` annotators for every task, each of whom tosses a coin of her own between pi_g and her pi_r."""
    rng = np.random.default_rng(seed)
    R, C = len(omega), len(pi_g)
    z = rng.integers(C, size=N)
    matrix = np.full((N, R), -1)
    for i, c in enumerate(z):
        for r in rng.choice(R, per_task, replace=False):
            matrix[i, r] = rng.choice(C, p=(pi_g if rng.random() < omega[r] else pi_r[r])[c])
    return Annotations.from_matrix(matrix, classes=range(C)), z


def shared_mistake(C: int = 4, strength: float = 0.45) -> Floats:
    """Everybody takes a class for the next one."""
    return np.asarray((1 - strength) * np.eye(C) + strength * np.roll(np.eye(C), 1, axis=1))


def own_mistakes(R: int, seed: int, C: int = 4, strength: float = 0.3) -> Floats:
    """Everybody takes every class for another one of her own, not all of them for the next."""
    rng = np.random.default_rng(seed)
    orders = (np.array(order) for order in permutations(range(C)))
    others = [order for order in orders if (order != np.arange(C)).all() and (order != np.roll(range(C), -1)).any()]
    return np.stack(
        [(1 - strength) * np.eye(C) + strength * np.eye(C)[others[k]] for k in rng.integers(len(others), size=R)]
    )


# -------------------------------------------------------------------- the equations, slowly


def listed(crowd: Annotations) -> list[Label]:
    matrix = crowd.to_matrix()
    return [(i, r, int(matrix[i, r])) for i in range(len(matrix)) for r in range(matrix.shape[1]) if matrix[i, r] >= 0]


def slow_joint(labels: list[Label], N: int, p: Mixture, omega: Floats) -> Floats:
    """(N, C) P(z_i = c, labels of i): over a task's labels the product of the sum over both sides of the coin."""
    joint = np.array([[p.rho[c] for c in range(len(p.rho))] for _ in range(N)])
    for (i, r, y), w in zip(labels, omega, strict=True):
        for c in range(len(p.rho)):
            joint[i, c] *= sum(prob * pi[c, y] for prob, pi in ((w, p.pi_g), (1 - w, p.pi_r[r])))
    return joint


def slow_matrices(labels: list[Label], shape: tuple[int, int], cells: Floats, priors: Any) -> tuple[Floats, Floats]:
    """pi_g and pi_r from ``cells[p, c, s]``, the probability of truth c and coin s behind label p."""
    R, C = shape
    pi_g, pi_r = np.full((C, C), priors[0]), np.full((R, C, C), priors[1])
    for (_, r, y), cell in zip(labels, cells, strict=True):
        for c in range(C):
            pi_g[c, y] += cell[c, 1]
            pi_r[r, c, y] += cell[c, 0]
    return pi_g / pi_g.sum(-1, keepdims=True), pi_r / pi_r.sum(-1, keepdims=True)


def slow_step(crowd: Annotations, p: Mixture, priors: Any, beta: Any) -> tuple[Floats, float, Mixture]:
    """Posterior and log-posterior density under p, and the parameters that EM goes to from there."""
    labels, N = listed(crowd), crowd.n_tasks
    R, C = crowd.n_annotators, crowd.n_classes
    joint = slow_joint(labels, N, p, p.omega[[r for _, r, _ in labels]])
    q = joint / joint.sum(1, keepdims=True)
    objective = np.log(joint.sum(1)).sum() + priors[0] * np.log(p.pi_g).sum() + priors[1] * np.log(p.pi_r).sum()
    objective += sum(beta[0] * np.log(w) + beta[1] * np.log(1 - w) for w in p.omega)
    cells = np.zeros((len(labels), C, 2))  # q(z) q(s | z)
    for n, (i, r, y) in enumerate(labels):
        for c in range(C):
            both = np.array([(1 - p.omega[r]) * p.pi_r[r, c, y], p.omega[r] * p.pi_g[c, y]])
            cells[n, c] = q[i, c] * both / both.sum()
    omega = np.empty(R)
    for r in range(R):
        of_r = [n for n, (_, who, _) in enumerate(labels) if who == r]
        omega[r] = (cells[of_r, :, 1].sum() + beta[0]) / (len(of_r) + sum(beta))
    return q, float(objective), Mixture(q.mean(0), *slow_matrices(labels, (R, C), cells, priors), omega)


def vote_start(crowd: Annotations) -> Floats:
    matrix, C = crowd.to_matrix(), crowd.n_classes
    return np.array([[np.mean(row[row >= 0] == c) if (row >= 0).any() else 1 / C for c in range(C)] for row in matrix])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("beta", [(1.0, 1.0), (0.5, 3.0)])
def test_an_iteration_agrees_with_explicit_sums(seed: int, beta: tuple[float, float]) -> None:
    crowd = sparse_crowd(seed)
    parameters = random_parameters(crowd, seed)
    model = CommonConfusion(prior_common=0.2, prior_individual=0.7, prior_omega=beta)
    engine = model.engine(Votes(crowd), np.full(crowd.n_tasks, MISSING))
    expectation, objective = model._e_step(engine, parameters)
    q, density, expected = slow_step(crowd, parameters, (0.2, 0.7), beta)
    np.testing.assert_allclose(expectation.posterior, q, atol=1e-10)
    np.testing.assert_allclose(objective, density, rtol=1e-10)
    for ours, theirs in zip(model._m_step(engine.votes, expectation, parameters), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_agrees_with_explicit_sums(seed: int) -> None:
    """From Dawid and Skene's posterior, nine tenths of every label common, four iterations."""
    crowd = sparse_crowd(seed)
    labels, q = listed(crowd), DawidSkene().fit(crowd).probas_
    cells = np.array([[[0.1 * q[i, c], 0.9 * q[i, c]] for c in range(3)] for i, _, _ in labels])
    given = np.array([sum(who == r for _, who, _ in labels) for r in range(5)])
    p = Mixture(q.mean(0), *slow_matrices(labels, (5, 3), cells, (0.1, 1.0)), (0.9 * given + 1) / (given + 2))
    history = []
    for _ in range(5):
        last = p
        q, density, p = slow_step(crowd, p, (0.1, 1.0), (1.0, 1.0))
        history.append(density)
    with pytest.warns(ConvergenceWarning):
        fitted = CommonConfusion(n_iter=4, tol=0, prior_individual=1.0).fit(crowd)
    np.testing.assert_allclose(fitted.objective_history_, history, rtol=1e-10)
    np.testing.assert_allclose(fitted.probas_, q, atol=1e-10)
    np.testing.assert_allclose(fitted.omega_, last.omega, atol=1e-10)
    np.testing.assert_allclose(fitted.annotation_omega_, [last.omega[r] for _, r, _ in labels], atol=1e-10)
    np.testing.assert_allclose(fitted.common_confusion_, last.pi_g, atol=1e-10)
    np.testing.assert_allclose(fitted.annotator_confusion_, last.pi_r, atol=1e-10)
    np.testing.assert_allclose(fitted.class_prior_, last.rho, atol=1e-10)
    mixed = np.array([w * last.pi_g + (1 - w) * own for w, own in zip(last.omega, last.pi_r, strict=True)])
    np.testing.assert_allclose(fitted.confusion_, mixed, atol=1e-10)
    np.testing.assert_allclose(fitted.skills_, [last.rho @ np.diag(matrix) for matrix in mixed], atol=1e-10)


def slow_factorised(labels: list[Label], q: Floats, q_s: Floats, R: int, priors: Any) -> Mixture:
    """Appendix B's M-step: truth and coin of a label as if they were independent; nothing to go by is uniform."""
    C = q.shape[1]
    cells = np.array(
        [[[(1 - w) * q[i, c], w * q[i, c]] for c in range(C)] for (i, _, _), w in zip(labels, q_s, strict=True)]
    )
    with np.errstate(invalid="ignore"):
        pi_g, pi_r = (np.nan_to_num(pi, nan=1 / C) for pi in slow_matrices(labels, (R, C), cells, priors))
    return Mixture(q.mean(0), pi_g, pi_r, q_s)


def slow_coins(labels: list[Label], q: Floats, p: Mixture) -> Floats:
    """Appendix B's q(s = 1), the truth averaged out."""
    q_s = np.empty(len(labels))
    for n, (i, r, y) in enumerate(labels):
        common, own = (sum(q[i, c] * pi[c, y] for c in range(q.shape[1])) for pi in (p.pi_g, p.pi_r[r]))
        q_s[n] = p.omega[n] * common / (p.omega[n] * common + (1 - p.omega[n]) * own)
    return q_s


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("priors", [(0.1, 0.3), (0.0, 0.0)])
def test_appendix_b_to_the_letter(seed: int, priors: tuple[float, float]) -> None:
    crowd = sparse_crowd(seed)
    labels = listed(crowd)
    q = vote_start(crowd)
    p = slow_factorised(labels, q, np.full(len(labels), 0.5), 5, priors)
    history: list[float] = []
    for iteration in range(5):
        p = slow_factorised(labels, q, slow_coins(labels, q, p), 5, priors) if iteration else p
        joint = slow_joint(labels, crowd.n_tasks, p, p.omega)
        q = joint / joint.sum(1, keepdims=True)
        density = float(np.log(joint.sum(1)).sum())
        for alpha, pi in zip(priors, (p.pi_g, p.pi_r), strict=True):
            density += alpha * np.log(pi).sum() if alpha else 0.0
        history.append(density)
    model = CommonConfusion(
        omega="annotation", prior_common=priors[0], prior_individual=priors[1], n_iter=4, tol=0, prior_omega=(7.0, 2.0)
    )
    with pytest.warns(ConvergenceWarning):
        fitted = model.fit(crowd)
    np.testing.assert_allclose(fitted.objective_history_, history, rtol=1e-10)
    np.testing.assert_allclose(fitted.probas_, q, atol=1e-10)
    np.testing.assert_allclose(fitted.annotation_omega_, p.omega, atol=1e-10)
    np.testing.assert_allclose(fitted.common_confusion_, p.pi_g, atol=1e-10)
    np.testing.assert_allclose(fitted.annotator_confusion_, p.pi_r, atol=1e-10)
    means = [
        np.mean([w for (_, who, _), w in zip(labels, p.omega, strict=True) if who == r] or [0.5]) for r in range(5)
    ]
    np.testing.assert_allclose(fitted.omega_, means, atol=1e-10)
    mixed = np.array([w * p.pi_g + (1 - w) * own for w, own in zip(means, p.pi_r, strict=True)])
    np.testing.assert_allclose(fitted.confusion_, mixed, atol=1e-10)


@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(1, 4),
    priors=st.sampled_from([(0.0, 0.0), (0.1, 0.3), (2.0, 0.0), (0.0, 2.0)]),
    beta=st.sampled_from([(0.0, 0.0), (1.0, 1.0), (0.0, 4.0)]),
    known=st.integers(0, 5),
)
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_the_objective_never_falls(seed: int, n_classes: int, priors: Any, beta: Any, known: int) -> None:
    crowd = sparse_crowd(seed, n_classes=n_classes)
    model = CommonConfusion(
        prior_common=priors[0], prior_individual=priors[1], prior_omega=beta, n_iter=30, tol=0, n_restarts=1 + seed % 2
    )
    fitted = model.fit(crowd, true_labels=dict.fromkeys(range(known), n_classes - 1))
    assert (np.diff(fitted.objective_history_) >= -1e-9).all()
    np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(15))
    for matrices in (fitted.common_confusion_, fitted.annotator_confusion_, fitted.confusion_):
        np.testing.assert_allclose(matrices.sum(-1), np.ones(matrices.shape[:-1]))
    assert ((fitted.omega_ >= 0) & (fitted.omega_ <= 1)).all()
    np.testing.assert_array_equal(fitted.probas_[:known], np.eye(n_classes)[[n_classes - 1] * known])


@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_appendix_b_to_the_letter_may_lower_the_objective() -> None:
    fitted = CommonConfusion(omega="annotation", n_iter=60, tol=0).fit(sparse_crowd(142))
    assert np.diff(fitted.objective_history_).min() < -1e-3


# -------------------------------------------------------------------- crowds


@pytest.mark.parametrize("omega", ["annotator", "annotation"])
def test_perfect_annotators_give_the_truth(omega: Any) -> None:
    z = np.arange(30) % 3
    fitted = CommonConfusion(omega=omega).fit(np.repeat(z[:, None], 4, axis=1))
    assert (fitted.codes_ == z).all()
    np.testing.assert_allclose(fitted.confusion_, np.broadcast_to(np.eye(3), (4, 3, 3)), atol=0.05)
    np.testing.assert_allclose(fitted.common_confusion_, np.eye(3), atol=0.01)
    assert (fitted.skills_ > 0.95).all()
    assert fitted.converged_


@pytest.mark.parametrize("seed", range(4))
def test_a_shared_mistake_is_found_and_undone(seed: int) -> None:
    """14 annotators who only make the common mistake, 6 who only make their own."""
    pi_g, pi_r, omega = shared_mistake(), own_mistakes(20, seed), np.repeat([1.0, 0.0], [14, 6])
    crowd, z = draw_crowd(seed, omega, pi_g, pi_r)
    fitted = CommonConfusion(prior_individual=1).fit(crowd)
    assert np.abs(fitted.common_confusion_ - pi_g).mean() < 0.03
    assert fitted.omega_[:14].min() > 0.9
    assert fitted.omega_[14:].max() < 0.2
    assert np.abs(fitted.confusion_[:14] - pi_g).mean() < 0.03
    assert np.abs(fitted.confusion_[14:] - pi_r[14:]).mean() < 0.05
    right, votes = ((model.codes_ == z).mean() for model in (fitted, MajorityVote().fit(crowd)))
    assert right > votes + 0.05
    assert right > 0.98


def test_annotators_with_few_labels_lean_on_the_crowd() -> None:
    """100 annotators with 36 labels each: better than with matrices of one's own, and than votes."""
    gains = []
    for seed in range(4):
        pi_r = own_mistakes(100, seed)
        crowd, z = draw_crowd(seed, np.full(100, 0.8), shared_mistake(), pi_r, N=900, per_task=4)
        fitted = CommonConfusion().fit(crowd)
        right = (fitted.codes_ == z).mean()
        gains.append(right - (DawidSkene().fit(crowd).codes_ == z).mean())
        assert right > (MajorityVote().fit(crowd).codes_ == z).mean() + 0.05
        assert fitted.omega_.mean() > 0.5
    assert np.mean(gains) > 0.05


def test_the_synthetic_crowd() -> None:
    """Where the coin depends on the instance, the default still beats votes and Appendix B to the letter."""
    for seed in range(2):
        data = synthetic(n_train=3000, n_valid=1, n_test=1, seed=seed)
        assert data.truth is not None
        literal = CommonConfusion(omega="annotation")
        models = MajorityVote(), CommonConfusion(), literal
        votes, right, to_the_letter = ((m.fit(data.annotations).codes_ == data.truth.z).mean() for m in models)
        assert right > votes + 0.08
        assert right > to_the_letter + 0.01
        assert (np.abs(literal.annotation_omega_ - 0.5) > 0.49).mean() > 0.9


def test_it_does_not_matter_who_comes_first() -> None:
    crowd, _ = draw_crowd(0, np.full(8, 0.6), shared_mistake(), own_mistakes(8, 0), N=100, per_task=4)
    matrix = crowd.to_matrix()
    rng = np.random.default_rng(0)
    rows, columns, classes = (rng.permutation(n) for n in (*matrix.shape, 4))
    shuffled = np.where(matrix >= 0, np.argsort(classes)[matrix], -1)[np.ix_(rows, columns)]
    one = CommonConfusion().fit(crowd)
    two = CommonConfusion().fit(Annotations.from_matrix(shuffled, classes=range(4)))
    np.testing.assert_allclose(two.probas_, one.probas_[np.ix_(rows, classes)], atol=1e-6)
    np.testing.assert_allclose(two.omega_, one.omega_[columns], atol=1e-6)
    np.testing.assert_allclose(two.common_confusion_, one.common_confusion_[np.ix_(classes, classes)], atol=1e-6)


def test_known_labels_teach() -> None:
    """Two annotators who always disagree: a tie without gold, settled by a few true labels."""
    z = np.arange(40) % 2
    fitted = CommonConfusion().fit(np.column_stack([z, 1 - z]), true_labels={task: int(z[task]) for task in range(6)})
    assert (fitted.codes_ == z).all()


# -------------------------------------------------------------------- edges


@pytest.mark.parametrize("omega", ["annotator", "annotation"])
@pytest.mark.parametrize("prior", [0.0, 0.3])
@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_thin_crowds_give_numbers(omega: Any, prior: float) -> None:
    """One label per task, one annotator in all, a class nobody chose, ten identical annotators, N = R, one class."""
    _, _, same, *_ = matrices = list(thin_matrices())
    model = CommonConfusion(omega=omega, prior_common=prior, prior_individual=prior)
    for matrix in matrices:
        fitted = model.fit(Annotations.from_matrix(matrix, classes=range(4)))
        for values in (fitted.probas_, fitted.confusion_, fitted.omega_, fitted.annotation_omega_, fitted.skills_):
            assert np.isfinite(values).all()
        np.testing.assert_allclose(fitted.probas_.sum(1), np.ones(len(matrix)))
        assert fitted.omega_.shape == (matrix.shape[1],)
        assert fitted.annotation_omega_.shape == ((matrix >= 0).sum(),)
    assert (model.fit(same).labels_ == same[:, 0]).all()
    assert model.fit(Annotations.from_matrix([["x", "x"], ["x", ""]])).labels_.tolist() == ["x", "x"]


@pytest.mark.parametrize(("beta", "expected"), [((0.0, 0.0), 0.5), ((1.0, 1.0), 0.5), ((3.0, 1.0), 0.75)])
def test_an_annotator_without_labels_has_the_omega_of_the_prior(beta: tuple[float, float], expected: float) -> None:
    fitted = CommonConfusion(prior_omega=beta).fit(np.array([[0, 0, -1], [1, 1, -1], [0, 1, -1]] * 5))
    assert fitted.omega_[2] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"omega": "task"}, "omega must be 'annotator' or 'annotation'"),
        ({"prior_common": -0.1}, "prior_common must be"),
        ({"prior_individual": float("inf")}, "prior_individual must be"),
        ({"prior_omega": (1.0, -1.0)}, "prior_omega must be two numbers"),
        ({"prior_omega": 1.0}, "prior_omega must be two numbers"),
        ({"prior_omega": (1.0,)}, "prior_omega must be two numbers"),
        ({"tol": -1}, "tol must be"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CommonConfusion(**options).fit(sparse_crowd(0))


def test_it_goes_by_a_name() -> None:
    assert "common-confusion" in aggregation.names()
    model = aggregation.make("common-confusion", prior_individual=2.0)
    assert isinstance(model, CommonConfusion)
    assert model.prior_individual == 2.0
