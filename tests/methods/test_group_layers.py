"""Group-wise common layers of CoNAL: likelihoods, groups that are found or given, saved and updated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

import conal
from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset, synthetic
from conal.errors import InputError
from conal.estimator.results import FittedResults
from conal.methods import Problem
from conal.methods.conal import CoNALMethod
from conal.networks import MLP, NoiseAdaptation
from conal.networks.noise_layers import AnnotatorGroups, spread
from conal.training.batches import CrowdBatches, Instances

SETTINGS: dict[str, Any] = {"n_valid": 0, "n_test": 500, "families": 3, "families_share": "common"}
VARIANTS = [("softmax", "probability"), ("softmax", "logit"), ("row-stochastic", "probability")]


@pytest.fixture(scope="module")
def data() -> CrowdDataset:
    return synthetic(n_train=1500, n_annotators=15, n_classes=4, common_strength=0.7, seed=0, **SETTINGS)


@pytest.fixture(scope="module")
def fitted(data: CrowdDataset) -> conal.CoNAL:
    return conal.CoNAL(groups=3, epochs=20, verbose=False).fit(data.x, data.annotations)


def about(data: CrowdDataset) -> pa.Table:
    assert data.truth is not None
    assert data.truth.groups is not None
    return pa.table({"worker": data.annotations.annotator_ids, "group": [f"g{k}" for k in data.truth.groups]})


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_layers_of_groups_agree_with_a_loop_over_labels(variant: tuple[str, str]) -> None:
    """Likelihoods and all gradients, by plain equations for one label after the other."""
    torch.manual_seed(0)
    N, R, C, K, P = 6, 5, 3, 2, 12
    made = NoiseAdaptation(C, R, layer=variant[0], mixing=variant[1], n_groups=K).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for table in made.parameters():
            table.add_(torch.randn_like(table))
    f = torch.randn(N, C, dtype=torch.float64).log_softmax(-1).requires_grad_()
    gate = torch.randn(P, dtype=torch.float64, requires_grad=True)
    q = torch.rand(R, K, dtype=torch.float64).softmax(-1)
    rows, who, labels = (torch.randint(high, (P,)) for high in (N, R, C))
    own = spread(made.raw_pi_r, who)
    fast = made.log_prob(f, gate, rows, own, labels, made.weights_of_groups(q[who]))
    given_class = made.log_prob_given_class(gate, own, labels, made.weights_of_groups(q[who]))

    def distribution(row: Any, weights: Any) -> Any:
        if made.layer == "row-stochastic":
            return row @ weights.softmax(-1)
        return (row @ weights).softmax(-1)

    slow, slow_given = [], []
    for i, r, y, logit in zip(rows, who, labels, gate, strict=True):
        common = q[r, 0] * made.raw_pi_g[0] + q[r, 1] * made.raw_pi_g[1]
        omega = torch.sigmoid(logit)
        if made.mixing == "logit":
            both = omega * common + (1 - omega) * made.raw_pi_r[r]
            slow.append(distribution(f[i].exp(), both)[y].log())
            slow_given.append(both.log_softmax(-1)[:, y])
            continue
        mixed = omega * distribution(f[i].exp(), common) + (1 - omega) * distribution(f[i].exp(), made.raw_pi_r[r])
        slow.append(mixed[y].log())
        slow_given.append((omega * common.softmax(-1) + (1 - omega) * made.raw_pi_r[r].softmax(-1))[:, y].log())
    torch.testing.assert_close(fast, torch.stack(slow))
    torch.testing.assert_close(given_class, torch.stack(slow_given))
    leaves = [f, gate, made.raw_pi_g, made.raw_pi_r]
    quick = torch.autograd.grad(fast.sum(), leaves)
    for found, expected in zip(quick, torch.autograd.grad(torch.stack(slow).sum(), leaves), strict=True):
        torch.testing.assert_close(found, expected)
    norms = made.separation(made.raw_pi_r, made.weights_of_groups(q))
    expected_norm = torch.linalg.norm(made.raw_pi_r[2] - q[2, 0] * made.raw_pi_g[0] - q[2, 1] * made.raw_pi_g[1])
    torch.testing.assert_close(norms[2], expected_norm)


def test_groups_by_hand() -> None:
    """Two annotators, who start in the first group; the second one's labels are e^6 times as likely in the other."""
    groups = AnnotatorGroups(2, 2)
    groups.start(torch.tensor([[1.0], [1.0]]))
    assert groups.shares.tolist() == [0.75, 0.25]  # (2 + 1) / 4
    groups.infer(torch.tensor([[0.0, 0.0], [-6.0, 0.0]]))
    prior = np.array([0.9 + 0.1 * 0.75, 0.1 * 0.25])
    second = prior * [np.exp(-6), 1]
    np.testing.assert_allclose(groups.membership[0], prior, rtol=1e-6)
    np.testing.assert_allclose(groups.membership[1], second / second.sum(), rtol=1e-5)
    np.testing.assert_allclose(groups.of(torch.tensor([-1]))[0], groups.shares)


def test_the_likelihood_of_the_groups_is_summed_by_annotator(crowd: Annotations) -> None:
    """An E-step against a loop over annotators and groups."""
    torch.manual_seed(0)
    x = np.random.default_rng(1).normal(size=(crowd.n_tasks, 4)).astype(np.float32)
    batches = CrowdBatches(Instances(x), crowd, batch_size=7)
    counts = torch.tensor(crowd.labels_per_annotator())
    problem = Problem((4,), crowd.n_classes, crowd.n_annotators, len(batches.labelled), counts)
    method = CoNALMethod(problem, MLP(4, crowd.n_classes, dropout=0.0), groups=2)
    method.prepare(crowd)
    with torch.no_grad():
        method.noise.raw_pi_g.add_(torch.randn_like(method.noise.raw_pi_g))
    groups = method.groups_of_annotators
    assert groups is not None
    prior = (0.9 * groups.first + 0.1 * groups.shares).log()
    method.end_epoch(batches.labelled_in_order())
    batch = batches.cut(batches.labelled)
    f = method.backbone(batch.x).softmax(-1)[batch.rows]
    for k in range(2):
        logs = (f @ method.noise.raw_pi_g[k]).log_softmax(-1)[torch.arange(len(batch.labels)), batch.labels]
        prior[:, k] += torch.stack([logs[batch.annotators == r].sum() for r in range(crowd.n_annotators)])
    torch.testing.assert_close(groups.membership, prior.softmax(1), rtol=1e-4, atol=1e-5)


def test_groups_are_found(data: CrowdDataset, fitted: conal.CoNAL) -> None:
    assert data.truth is not None
    assert adjusted_rand_score(fitted.membership_.argmax(1), data.truth.groups) == 1.0
    assert fitted.group_confusion_.sum(2) == pytest.approx(1)
    share = (fitted.membership_.sum(0) + 1) / 18
    np.testing.assert_allclose(np.einsum("k,kcl", share, fitted.group_confusion_), fitted.common_confusion_, atol=1e-6)


@pytest.mark.slow
def test_the_matrices_of_groups_are_recovered() -> None:
    """Ten annotators each; one common layer for all has an error of 0.18."""
    data = synthetic(common_strength=0.6, gate_scale="wide", seed=0, **SETTINGS)
    truth = data.truth
    assert truth is not None
    assert truth.groups is not None
    assert truth.pi_f is not None
    clf = conal.CoNAL(groups=3, verbose=False).fit(data.x, data.annotations)
    found = clf.membership_.argmax(1)
    assert adjusted_rand_score(found, truth.groups) == 1.0
    errors = np.abs(clf.group_confusion_[found[[0, 10, 20]]] - truth.pi_f).mean((1, 2))
    assert errors.max() < 0.06, errors


def test_annotators_are_judged_by_their_own_group(data: CrowdDataset, fitted: conal.CoNAL) -> None:
    assert isinstance(fitted.results_, FittedResults)
    evidence = fitted.results_.evidence
    own = np.einsum("rk,kcl->rcl", fitted.membership_, fitted.group_confusion_)
    share = evidence.common_share[:, None, None]
    expected = share * own + (1 - share) * fitted.annotator_confusion_
    np.testing.assert_allclose(evidence.confusion_of(np.arange(15)), expected, atol=1e-6)


def test_given_groups_are_kept_saved_and_loaded(data: CrowdDataset, tmp_path: Path) -> None:
    clf = conal.CoNAL(groups="given", epochs=5, verbose=False)
    with pytest.raises(InputError, match="annotator_info"):
        clf.fit(data.x, data.annotations)
    clf.fit(data.x, data.annotations, annotator_info=about(data))
    assert data.truth is not None
    np.testing.assert_array_equal(clf.membership_, np.eye(3)[data.truth.groups])
    clf.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.infer(data.x, data.annotations), clf.infer(data.x, data.annotations), atol=1e-6)
    assert isinstance(loaded, conal.CoNAL)
    np.testing.assert_array_equal(loaded.membership_, clf.membership_)
    np.testing.assert_allclose(loaded.group_confusion_, clf.group_confusion_)


def test_an_update_keeps_the_numbers_of_groups_and_places_new_annotators(data: CrowdDataset) -> None:
    crowd, truth = data.annotations, data.truth
    assert truth is not None
    assert truth.groups is not None
    late = np.isin(crowd.annotators, [0, 14])
    table = crowd.select(~late).to_table()
    old = Annotations.from_triples(*(table[name] for name in ("task", "worker", "label")), classes=crowd.classes)
    table = crowd.select(late).to_table()
    new = Annotations.from_triples(*(table[name] for name in ("task", "worker", "label")), classes=crowd.classes)
    clf = conal.CoNAL(groups=3, epochs=30, verbose=False).fit(data.x[old.task_ids], old, task_ids=old.task_ids)
    before = dict(zip(clf.annotator_ids_.tolist(), clf.membership_.argmax(1).tolist(), strict=True))
    clf.update(data.x, new, task_ids=np.arange(len(data.x)))
    after = dict(zip(clf.annotator_ids_.tolist(), clf.membership_.argmax(1).tolist(), strict=True))
    assert {name: after[name] for name in before} == before
    assert after[0] == after[1] != after[14] == after[13]


@pytest.mark.parametrize("n_annotators", [1, 2, 5])
def test_more_groups_than_annotators_are_possible(n_annotators: int) -> None:
    small = synthetic(n_train=40, n_annotators=n_annotators, labels_per_instance=1.0, n_valid=0, n_test=10, seed=1)
    clf = conal.CoNAL(groups=4, epochs=2, verbose=False).fit(small.x, small.annotations)
    assert clf.membership_.shape == (n_annotators, 4)
    assert np.isfinite(clf.group_confusion_).all()


def test_one_group_is_the_papers_method(data: CrowdDataset) -> None:
    clf = conal.CoNAL(epochs=1, verbose=False).fit(data.x, data.annotations)
    assert clf.membership_.tolist() == [[1.0]] * 15
    np.testing.assert_array_equal(clf.group_confusion_[0], clf.common_confusion_)
