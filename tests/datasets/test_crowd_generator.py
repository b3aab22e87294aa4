"""The generator draws what it says it draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit

from conal._arrays import draw_from_rows
from conal.data.annotations import Annotations
from conal.datasets import CrowdSettings
from conal.datasets.crowd import CrowdTruth, draw_assignment, project, simulate_crowd, solve_bias
from conal.errors import InputError

FloatArray = npt.NDArray[np.float64]


def crowd(
    n: int = 4000, n_classes: int = 4, dim: int = 6, **options: Any
) -> tuple[Annotations, CrowdTruth, npt.NDArray[np.int64]]:
    rng = np.random.default_rng(7)
    z = rng.integers(n_classes, size=n)
    ann, truth = simulate_crowd(z, rng.standard_normal((n, dim)), range(n_classes), CrowdSettings(**options))
    return ann, truth, z


def assert_within_sampling_error(counts: npt.NDArray[Any], proba: FloatArray) -> None:
    """Each frequency lies within five standard errors of its probability; impossible cells are empty."""
    totals = counts.sum(axis=-1, keepdims=True)
    assert totals.min() > 200
    error = np.sqrt(proba * (1 - proba) / totals)
    np.testing.assert_array_less(np.abs(counts / totals - proba), 5 * error + 1e-12)


# ---------------------------------------------------------------- recovery


def test_labels_follow_the_matrix_that_the_coin_chose() -> None:
    ann, truth, z = crowd(n=20_000, n_annotators=5)
    cells = np.zeros((2, 5, 4, 4), dtype=np.int64)
    np.add.at(cells, (truth.s.astype(int), ann.annotators, z[ann.tasks], ann.labels), 1)
    assert_within_sampling_error(cells[1].sum(axis=0), truth.pi_g)
    assert_within_sampling_error(cells[0], truth.pi_r)


def test_coins_follow_omega() -> None:
    _, truth, _ = crowd(n=20_000, gate_scale=6.0, proportion=0.3)
    bins = np.digitize(truth.omega, [0.2, 0.4, 0.6])
    for k in range(4):
        omega, s = truth.omega[bins == k], truth.s[bins == k]
        assert abs(s.mean() - omega.mean()) < 5 * np.sqrt((omega * (1 - omega)).mean() / len(omega))


def test_draws_never_hit_a_class_of_probability_zero() -> None:
    rows = np.tile([0.1, 0.2, 0.3, 0.4, 0.0, 0.0], (2, 1))
    rows[:, 3] -= 1e-16  # a row that sums to a little less than 1
    assert draw_from_rows(rows, np.array([0.0, np.nextafter(1.0, 0.0)])).tolist() == [0, 3]


# ---------------------------------------------------------------- omega


@pytest.mark.parametrize("proportion", [0.01, 0.3, 0.5, 0.7, 0.99])
def test_mean_omega_is_the_proportion(proportion: float) -> None:
    _, truth, _ = crowd(n=500, proportion=proportion)
    assert truth.omega.mean() == pytest.approx(proportion, abs=1e-6)
    assert truth.omega.std() > 0.001


@pytest.mark.parametrize("proportion", [0, 1])
def test_extreme_proportions_are_exact(proportion: int) -> None:
    _, truth, _ = crowd(n=500, proportion=proportion)
    assert (truth.omega == proportion).all()
    assert (truth.s == bool(proportion)).all()
    assert (truth.omega_matrix() == proportion).all()


def test_scale_zero_makes_omega_constant() -> None:
    _, truth, _ = crowd(n=500, gate_scale=0.0, proportion=0.3)
    np.testing.assert_allclose(truth.omega, 0.3, atol=1e-9)


def test_scale_spreads_omega() -> None:
    spreads = [crowd(n=500, gate_scale=scale)[1].omega.std() for scale in (1.0, 4.0, 16.0)]
    assert spreads == sorted(spreads)


@pytest.mark.parametrize("gate", ["effects", "interaction"])
def test_omega_stays_in_the_papers_range_and_the_wide_one_does_not(gate: str) -> None:
    """Embeddings of length 1 bound the log-odds by 1: omega is from 0.27 to 0.73 where its mean is one half."""
    omega = crowd(n=2000, gate=gate)[1].omega_matrix()
    assert 0.2689 < omega.min() < 0.36
    assert 0.64 < omega.max() < 0.7311
    seldom = logit(crowd(n=2000, gate=gate, proportion=0.3)[1].omega_matrix())
    assert seldom.max() - seldom.min() < 2
    wide = crowd(n=2000, gate=gate, gate_scale="wide")[1].omega
    assert wide.min() < 0.1
    assert wide.max() > 0.9
    np.testing.assert_array_equal(wide, crowd(n=2000, gate=gate, gate_scale=4.0)[1].omega)


def test_the_gate_is_the_papers_by_default() -> None:
    """Equation 3: embeddings of length 1 with bias vectors, so that instances and annotators differ."""
    ann, truth, _ = crowd(n=300)
    np.testing.assert_array_equal(ann.labels, crowd(n=300, gate="effects", gate_scale="paper")[0].labels)
    for vectors in (truth.gate.annotator_embedding, truth.gate.instance_embedding):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)
    assert truth.omega_shares()[0] > 0.3


def test_matrix_agrees_with_the_pairs_and_the_equation() -> None:
    ann, truth, _ = crowd(n=300)
    matrix = truth.omega_matrix()
    assert matrix.shape == ann.shape
    np.testing.assert_allclose(matrix[ann.tasks, ann.annotators], truth.omega, rtol=1e-12)
    u, v = truth.gate.annotator_embedding, truth.gate.instance_embedding
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1)
    i, r = int(ann.tasks[5]), int(ann.annotators[5])
    by_hand = 1 / (1 + np.exp(-(sum(u[r] * v[i]) + truth.gate.bias)))
    assert truth.omega[5] == pytest.approx(by_hand, rel=1e-12)


def test_projection_in_chunks_is_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(11, 3, 2, 2), dtype=np.uint8)
    weights = np.random.default_rng(1).standard_normal((12, 5))
    monkeypatch.setattr("conal.datasets.crowd.CHUNK_CELLS", 36)
    np.testing.assert_allclose(project(images, weights), images.reshape(11, 12).astype(float) @ weights)


@given(st.lists(st.floats(-8, 8), min_size=1, max_size=20), st.floats(0.001, 0.999))
@settings(deadline=None)
def test_bias_solves_for_any_scores(scores: list[float], proportion: float) -> None:
    values = np.array(scores)
    bias = solve_bias(values, proportion, bound=8.0)
    assert (1 / (1 + np.exp(-(values + bias)))).mean() == pytest.approx(proportion, abs=1e-6)


# ---------------------------------------------------------------- matrices


def test_strength_is_the_off_diagonal_mass() -> None:
    _, truth, _ = crowd(n=50, common_strength=0.6, individual_strength=0.2)
    for pi, strength in ((truth.pi_g[None], 0.6), (truth.pi_r, 0.2)):
        diagonal = np.diagonal(pi, axis1=1, axis2=2)
        np.testing.assert_array_equal(diagonal, 1 - strength)
        np.testing.assert_allclose(pi.sum(axis=2) - diagonal, strength, rtol=1e-12)
        assert ((pi > 0).sum(axis=2) == 2).all()  # one other class per row


def test_asymmetric_targets_are_uniform_over_the_other_classes() -> None:
    _, truth, _ = crowd(n=10, n_annotators=3000)
    targets = (truth.pi_r > 0).sum(axis=0)
    assert (np.diagonal(targets) == 3000).all()
    others = targets[~np.eye(4, dtype=bool)]
    assert np.abs(others - 1000).max() < 5 * np.sqrt(3000 * 1 / 3 * 2 / 3)


@pytest.mark.parametrize("n_classes", [4, 5])
def test_symmetric_confusion_swaps_pairs(n_classes: int) -> None:
    _, truth, _ = crowd(n=50, n_classes=n_classes, common_type="symmetric", common_strength=0.4)
    np.testing.assert_array_equal(truth.pi_g, truth.pi_g.T)
    np.testing.assert_allclose(truth.pi_g.sum(axis=1), 1)
    untouched = np.diagonal(truth.pi_g) == 1
    assert untouched.sum() == n_classes % 2
    assert (np.diagonal(truth.pi_g)[~untouched] == 0.6).all()


def test_pairs_name_the_confused_classes() -> None:
    z, x, classes = np.array([0, 1, 2]), np.eye(3), ["cat", "dog", "emu"]
    swapped = simulate_crowd(z, x, classes, CrowdSettings(common_type="symmetric", pairs=[("emu", "cat")]))[1]
    np.testing.assert_allclose(swapped.pi_g, [[0.6, 0.0, 0.4], [0.0, 1.0, 0.0], [0.4, 0.0, 0.6]])
    mapped = simulate_crowd(z, x, classes, CrowdSettings(pairs={"dog": "cat"}))[1]
    np.testing.assert_allclose(mapped.pi_g, [[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": [(0, 1)]}, r"asymmetric confusion takes a mapping \{true: observed\}, not list"),
        ({"pairs": {0: 1}, "common_type": "symmetric"}, "symmetric confusion takes a list of pairs"),
        ({"pairs": {0: 9}}, r"9 not among the classes \[0, 1, 2, 3\]"),
        ({"pairs": {0: 0}}, "confused with itself"),
        ({"pairs": [(0, 1), (1, 2)], "common_type": "symmetric"}, "some class is in two pairs"),
        ({"labels_per_instance": 31}, "labels_per_instance must be at most n_annotators, 30, not 31"),
        ({"labels_per_instance": 0.5}, "labels_per_instance must be a finite number of at least 1, not 0.5"),
        ({"common_strength": 1.2}, "common_strength must be a number from 0 to 1, not 1.2"),
        ({"individual_strength": float("nan")}, "individual_strength must be a number from 0 to 1, not nan"),
        ({"proportion": -0.1}, "proportion must be a number from 0 to 1, not -0.1"),
        ({"n_annotators": 0}, "n_annotators must be a whole number of at least 1, not 0"),
        ({"embedding_dim": 0}, "embedding_dim must be a whole number of at least 1, not 0"),
        ({"common_type": "sideways"}, "'asymmetric' or 'symmetric', not 'sideways'"),
        ({"n_classes": 1}, "at least 2 classes, not 1"),
    ],
)
def test_impossible_settings_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        crowd(n=20, **options)


def test_wrong_truth_is_an_error() -> None:
    with pytest.raises(InputError, match=r"z has shape \(2,\) for 3 rows"):
        simulate_crowd([0, 1], np.eye(3), [0, 1])
    with pytest.raises(InputError, match=r"range\(2\), found 0 to 2"):
        simulate_crowd([0, 1, 2], np.eye(3), [0, 1])


# ---------------------------------------------------------------- who labels what


@pytest.mark.parametrize(("mean", "n_annotators"), [(3.0, 30), (1.0, 30), (2.5, 4), (1.0, 1)])
def test_labels_per_instance(mean: float, n_annotators: int) -> None:
    ann, _, _ = crowd(n=5000, labels_per_instance=mean, n_annotators=n_annotators)
    counts = ann.labels_per_task()
    assert counts.min() >= 1
    assert counts.max() <= n_annotators
    assert abs(counts.mean() - mean) <= 5 * counts.std() / np.sqrt(5000)


def test_everybody_labels_everything_when_asked() -> None:
    ann, _, _ = crowd(n=50, labels_per_instance=7, n_annotators=7)
    assert ann.n_annotations == 350


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.integers(8, 12), st.integers(0, 99))
@settings(deadline=None)
def test_assignment_gives_each_task_different_annotators_in_order(counts: list[int], r: int, seed: int) -> None:
    tasks, annotators = draw_assignment(np.array(counts), r, np.random.default_rng(seed))
    assert np.bincount(tasks, minlength=len(counts)).tolist() == counts
    pairs = list(zip(tasks.tolist(), annotators.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert all(0 <= annotator < r for _, annotator in pairs)


def test_every_set_of_annotators_is_equally_likely() -> None:
    n = 60_000
    _, annotators = draw_assignment(np.full(n, 2), 4, np.random.default_rng(0))
    first, second = annotators.reshape(n, 2).T
    counts = np.bincount(first * 4 + second, minlength=16).reshape(4, 4)[np.triu_indices(4, k=1)]
    assert counts.sum() == n
    assert np.abs(counts - n / 6).max() < 5 * np.sqrt(n * 1 / 6 * 5 / 6)


# ---------------------------------------------------------------- seeds


def test_same_seed_same_crowd() -> None:
    first, second, other = (crowd(n=300, seed=seed) for seed in (3, 3, 4))
    assert first[0] == second[0]
    np.testing.assert_array_equal(first[1].omega, second[1].omega)
    np.testing.assert_array_equal(first[1].pi_r, second[1].pi_r)
    assert first[0] != other[0]


@pytest.mark.parametrize(
    "change", [{"common_strength": 0.8}, {"individual_strength": 0.7}, {"common_type": "symmetric"}]
)
def test_other_matrices_keep_assignment_and_coins(change: dict[str, Any]) -> None:
    (ann, truth, _), (other, changed, _) = crowd(n=300), crowd(n=300, **change)
    for name in ("tasks", "annotators"):
        np.testing.assert_array_equal(getattr(ann, name), getattr(other, name))
    np.testing.assert_array_equal(truth.s, changed.s)
    np.testing.assert_array_equal(truth.omega, changed.omega)
    np.testing.assert_array_equal(truth.pi_r > 0, changed.pi_r > 0)
    assert not np.array_equal(ann.labels, other.labels)


def test_truth_keeps_what_was_asked_for() -> None:
    _, truth, z = crowd(n=20, seed=5)
    assert truth.settings == replace(CrowdSettings(), seed=5)
    np.testing.assert_array_equal(truth.z, z)


# -------------------------------------------------------------------- the gate of Equation 3


@pytest.mark.parametrize("gate_scale", ["paper", "wide"])
@pytest.mark.parametrize("proportion", [0.3, 0.7])
@pytest.mark.parametrize("shares", [(0.35, 0.2), (0.1, 0.6), (0.6, 0.1), (1.0, 0.0), (0.0, 1.0)])
def test_omega_has_the_shares_of_variance_that_were_asked_for(
    shares: tuple[float, float], proportion: float, gate_scale: str
) -> None:
    """By a slow analysis of variance, one effect at a time."""
    difficulty, expertise = shares
    _, truth, _ = crowd(
        n=600,
        gate="effects",
        gate_scale=gate_scale,
        difficulty_share=difficulty,
        expertise_share=expertise,
        proportion=proportion,
    )
    omega = truth.omega_matrix()
    centre = omega.mean()
    total = sum((w - centre) ** 2 for w in omega.ravel())
    instances = sum(omega.shape[1] * (row.mean() - centre) ** 2 for row in omega)
    annotators = sum(omega.shape[0] * (column.mean() - centre) ** 2 for column in omega.T)
    found = np.array([instances, annotators, total - instances - annotators]) / total
    np.testing.assert_allclose(found, [difficulty, expertise, 1 - difficulty - expertise], atol=0.01)
    np.testing.assert_allclose(truth.omega_shares(), found, atol=1e-9)
    assert truth.omega.mean() == pytest.approx(proportion, abs=1e-6)


def test_the_gate_of_effects_is_a_product_of_embeddings_with_bias_vectors() -> None:
    _, truth, _ = crowd(n=50, gate="effects")
    u, v, bias = truth.gate.annotator_embedding, truth.gate.instance_embedding, truth.gate.bias
    by_hand = [
        [1 / (1 + np.exp(-(sum(a * b for a, b in zip(u[r], v[i], strict=True)) + bias))) for r in range(len(u))]
        for i in range(50)
    ]
    np.testing.assert_allclose(truth.omega_matrix(), by_hand, rtol=1e-10, atol=1e-15)


def test_shares_of_variance_above_one_are_refused() -> None:
    with pytest.raises(InputError, match=r"expertise_share must be at most 1 together, not 1\.2"):
        CrowdSettings(difficulty_share=0.7, expertise_share=0.5)


@pytest.mark.parametrize("proportion", [0.0, 1.0])
def test_a_constant_omega_has_no_shares(proportion: float) -> None:
    _, truth, _ = crowd(n=50, gate="effects", proportion=proportion)
    assert (truth.omega == proportion).all()
    np.testing.assert_array_equal(truth.omega_shares(), np.zeros(3))


def test_members_share_a_part_of_their_confusion_with_their_family() -> None:
    ann, truth, z = crowd(n=30_000, n_annotators=6, families=3, family_share=0.6, proportion=0.2, gate_scale=0.0)
    assert truth.groups is not None
    assert truth.pi_f is not None
    assert truth.groups.tolist() == [0, 0, 1, 1, 2, 2]
    own = (truth.pi_r - 0.6 * truth.pi_f[truth.groups]) / 0.4
    np.testing.assert_allclose(own.sum(-1), 1.0)
    np.testing.assert_allclose(np.sort(own, axis=-1)[..., -2:], np.broadcast_to([0.3, 0.7], (6, 4, 2)))
    cells = np.zeros((6, 4, 4), dtype=np.int64)
    np.add.at(cells, (ann.annotators, z[ann.tasks], ann.labels), 1)
    assert_within_sampling_error(cells, 0.2 * truth.pi_g + 0.8 * truth.pi_r)


def test_families_may_have_a_common_confusion_each() -> None:
    _, plain, _ = crowd(n_annotators=6)
    ann, truth, z = crowd(
        n=30_000, n_annotators=6, families=3, families_share="common", common_strength=0.6, proportion=0.6, gate_scale=0
    )
    assert truth.pi_f is not None
    assert truth.groups is not None
    np.testing.assert_array_equal(truth.groups, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(truth.pi_r, plain.pi_r)  # nobody's own confusion is the family's
    np.testing.assert_allclose(truth.pi_g, truth.pi_f.mean(0))
    np.testing.assert_allclose(np.diagonal(truth.pi_f, axis1=1, axis2=2), 0.4)
    seen = np.zeros((3, 4, 4))
    common = truth.s
    np.add.at(seen, (truth.groups[ann.annotators[common]], z[ann.tasks[common]], ann.labels[common]), 1)
    np.testing.assert_allclose(seen / seen.sum(2, keepdims=True), truth.pi_f, atol=0.03)


def test_families_change_nothing_else() -> None:
    one, alone, _ = crowd(n_annotators=6)
    two, families, _ = crowd(n_annotators=6, families=2, family_share=0.0)
    assert one == two
    np.testing.assert_array_equal(alone.pi_r, families.pi_r)
    assert alone.groups is None
    assert alone.pi_f is None


def test_more_families_than_annotators_are_refused() -> None:
    with pytest.raises(InputError, match="families must be at most n_annotators, 3, not 4"):
        CrowdSettings(n_annotators=3, labels_per_instance=2, families=4)
