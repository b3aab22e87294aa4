"""The compiled E-step against sparse products, what happens without a compiler, and longer steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from conal.aggregation import DawidSkene, OneCoinDawidSkene
from conal.aggregation import engines as compiled
from conal.aggregation.counts import Votes
from conal.aggregation.em import extrapolated
from conal.aggregation.engines import CompiledEngine, SparseEngine
from conal.data.annotations import Annotations


def crowd(seed: int = 0, n_tasks: int = 300, n_annotators: int = 12, n_classes: int = 4) -> Annotations:
    """Some tasks have no labels, and some have many."""
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n_tasks)
    right = rng.random((n_tasks, n_annotators)) < np.linspace(0.3, 0.9, n_annotators)
    matrix = np.where(right, z[:, None], rng.integers(n_classes, size=right.shape))
    matrix[rng.random(matrix.shape) < 0.6] = -1
    matrix[5] = -1
    return Annotations.from_matrix(matrix, classes=range(n_classes))


@pytest.fixture
def always_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILED_FROM", 0)


def fits(**options: Any) -> tuple[Any, Any]:
    """The same fit by sparse products and by the compiled pass."""
    settings = {"n_iter": 30, "tol": 0, "verbose": False, **options}
    cls, true_labels = settings.pop("cls", DawidSkene), settings.pop("true_labels", None)
    ann = crowd()
    made = []
    for above in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "COMPILED_FROM", above)
            assert CompiledEngine.pays(Votes(ann)) == (above == 0)
            made.append(cls(**settings).fit(ann, true_labels=true_labels))
    return made[0], made[1]


@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
@pytest.mark.parametrize("cls", [DawidSkene, OneCoinDawidSkene])
@pytest.mark.parametrize("options", [{}, {"prior": 0.5}, {"true_labels": {0: 1, 7: 3}}, {"tol": 1e-6, "n_iter": 200}])
def test_both_ways_agree(cls: Any, options: dict[str, Any]) -> None:
    slow, fast = fits(cls=cls, **options)
    np.testing.assert_allclose(fast.probas_, slow.probas_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(fast.confusion_, slow.confusion_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(fast.class_prior_, slow.class_prior_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fast.objective_history_, slow.objective_history_, rtol=1e-12)


def test_products_too_small_for_a_number() -> None:
    """Four hundred labels of a task by annotators who are wrong in all but one of a million cases."""
    n = 400
    ann = Annotations.from_triples(["a"] * n, range(n), np.arange(n) % 2, classes=[0, 1])
    pi_r = np.broadcast_to([[1e-6, 1 - 1e-6], [1 - 1e-6, 1e-6]], (n, 2, 2)).copy()
    pi_r[0] = [[0.8, 0.2], [0.4, 0.6]]  # the first says 0, and all others cancel but one who says 1
    expectation = CompiledEngine(Votes(ann), np.array([-1])).expect((np.array([0.5, 0.5]), pi_r))
    posterior = expectation.posterior
    zero = math.log(0.8) + 199 * math.log(1e-6) + 200 * math.log1p(-1e-6)
    one = math.log(0.4) + 199 * math.log1p(-1e-6) + 200 * math.log(1e-6)
    top = max(zero, one)
    total = top + math.log(math.exp(zero - top) + math.exp(one - top))
    np.testing.assert_allclose(posterior[0], [math.exp(zero - total), math.exp(one - total)], rtol=1e-9)
    assert expectation.log_evidence == pytest.approx(total + math.log(0.5), rel=1e-12)
    np.testing.assert_allclose(expectation.counts[0, :, 0], posterior[0])


@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
@pytest.mark.usefixtures("always_fused")
def test_without_a_compiler_sparse_products_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONAL_COMPILED", "0")
    engine = DawidSkene().engine(Votes(crowd()), np.full(300, -1))
    assert isinstance(engine, SparseEngine)
    assert len(DawidSkene(n_iter=3, tol=0, verbose=False).fit(crowd()).labels_) == 300


def test_nothing_is_computed_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled run makes no sparse matrix, and one pass over the posteriors, at its end."""
    monkeypatch.setattr(compiled, "COMPILED_FROM", 0)
    passes = []
    whole_pass = CompiledEngine._pass

    def counted(self: CompiledEngine, parameters: Any, n_kept: int) -> Any:
        passes.append(n_kept)
        return whole_pass(self, parameters, n_kept)

    monkeypatch.setattr(CompiledEngine, "_pass", counted)
    votes = Votes(crowd())
    model = DawidSkene(tol=1e-6, verbose=False)
    model.learn(model.engine(votes, np.full(300, -1)))
    assert "by_task" not in vars(votes)
    assert passes[-1] == 300
    assert not any(passes[:-1])


def test_labels_count_by_their_weights() -> None:
    rng = np.random.default_rng(0)
    ann = crowd()
    posterior, weights = rng.dirichlet(np.ones(4), size=300), rng.random(ann.n_annotations)
    expected = np.zeros((12, 4, 4))
    for i, r, y, weight in zip(ann.tasks, ann.annotators, ann.labels, weights, strict=True):
        expected[r, :, y] += weight * posterior[i]
    votes = Votes(ann)
    np.testing.assert_allclose(votes.counts(posterior, weights), expected, atol=1e-12)
    np.testing.assert_allclose(votes.counts(posterior, np.ones(len(weights))), votes.counts(posterior), atol=1e-12)


# ---------------------------------------------------------------- longer steps


def test_a_linear_course_is_ended_at_once() -> None:
    """Where EM shrinks the distance to its end by the same factor in every direction, one jump is enough."""
    end, start = np.array([[0.2, 0.3, 0.5]]), np.array([[0.4, 0.35, 0.25]])
    course = [(end + 0.8**k * (start - end),) for k in range(3)]
    (ahead,) = extrapolated(*course)
    np.testing.assert_allclose(ahead, end, atol=1e-12)


def test_probabilities_stay_positive_and_sum_to_one() -> None:
    course = [(np.array([[0.5, 0.5]]),), (np.array([[0.8, 0.2]]),), (np.array([[0.97, 0.03]]),)]
    (ahead,) = extrapolated(*course)
    assert ahead.min() > 0
    np.testing.assert_allclose(ahead.sum(-1), 1)


def test_three_equal_points_stay() -> None:
    point = (np.array([[0.5, 0.5]]),)
    assert extrapolated(point, point, point) is point


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_plain_em_does_and_never_falls(seed: int) -> None:
    ann = crowd(seed, n_tasks=200)
    settings: dict[str, Any] = {"n_iter": 20_000, "tol": 1e-11, "prior": 0.1, "verbose": False}
    plain, fast = (DawidSkene(accelerate=a, **settings).fit(ann) for a in (False, True))
    assert plain.converged_
    assert fast.converged_
    assert np.diff(fast.objective_history_).min() >= -1e-9 * abs(fast.objective_history_[-1])
    assert fast.n_iter_ < 0.7 * plain.n_iter_
    np.testing.assert_allclose(fast.probas_, plain.probas_, atol=2e-3)
    assert fast.objective_history_[-1] >= plain.objective_history_[-1] - 1e-6
