"""True labels that are supplied for training: certain in inferred labels, without noise in losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import softmax
from torch.nn.functional import cross_entropy

from conal import methods
from conal.aggregation import CommonConfusion
from conal.data.annotations import Annotations
from conal.data.true_labels import parts_of_labels
from conal.methods import CrowdMethod, Problem
from conal.methods.conal_em import START_ROUNDS
from conal.methods.cross_conal import CrossCoNALMethod
from conal.methods.em import SingleNetworkEM
from conal.methods.true_label_correction import PosteriorCorrection, _certainty
from conal.methods.two_stage import TwoStageMethod
from conal.networks import MLP
from conal.training.batches import CrowdBatches, Instances

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning")  # labels at random

N, R, C, D = 40, 4, 3, 5
CROWD_METHODS = [name for name in methods.names() if methods.get(name).takes == "crowd"]
LOSSES = [name for name in CROWD_METHODS if not methods.get(name).truth_in_targets]


def crowd() -> Annotations:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, C, size=(N, R))
    labels[rng.random((N, R)) < 0.3] = -1
    labels[:, 0] = np.arange(N) % C
    labels[7] = -1  # nobody labelled this one
    return Annotations.from_matrix(labels, classes=range(C))


def known() -> npt.NDArray[np.int64]:
    truth = np.full(N, -1)
    truth[[0, 3, 7, 11, 20]] = [2, 1, 0, 1, 0]
    return truth


def made(name: str, **options: Any) -> tuple[CrowdMethod, CrowdBatches]:
    torch.manual_seed(0)
    ann = crowd()
    x = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
    batches = CrowdBatches(Instances(x), ann, batch_size=1000, known=known())
    given = torch.tensor(ann.labels_per_annotator())
    problem = Problem((D,), C, R, len(batches.labelled), given, n_true_labels=5)
    method = methods.get(name)(problem, MLP(D, C, dropout=0.0), **options)
    method.known = torch.from_numpy(known())
    method.prepare(ann)
    return method, batches


def one_hot(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.eye(C)[codes])


def test_a_task_with_a_true_label_alone_is_trained_on() -> None:
    _, batches = made("dl-mv")
    assert 7 in batches.labelled
    assert len(batches.labelled) == N


@pytest.mark.parametrize("name", LOSSES)
def test_a_true_label_is_one_more_label_without_noise(name: str) -> None:
    method, batches = made(name)
    batch = batches.cut(np.arange(N))
    at = np.flatnonzero(known() >= 0)
    logits = method.class_logits(batch.x)[at]
    expected = cross_entropy(logits, torch.from_numpy(known()[at]), reduction="sum")
    weight = batch.instance_weight if name == "max-mig" else batch.label_weight
    torch.testing.assert_close(method(batch) - method.loss(batch), expected * weight)
    without = batches.cut(np.flatnonzero(known() < 0))
    torch.testing.assert_close(method(without), method.loss(without))


@pytest.mark.parametrize("name", [n for n in CROWD_METHODS if issubclass(methods.get(n), TwoStageMethod)])
def test_two_stage_methods_train_on_the_true_labels(name: str) -> None:
    method, _ = made(name)
    assert isinstance(method, TwoStageMethod)
    at = np.flatnonzero(known() >= 0)
    np.testing.assert_array_equal(method.targets[at].numpy(), one_hot(known()[at]))


@pytest.mark.parametrize("name", [n for n in CROWD_METHODS if issubclass(methods.get(n), SingleNetworkEM)])
def test_em_keeps_true_labels_certain_and_counts_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, batches = made(name)
    assert isinstance(method, SingleNetworkEM)
    at = np.flatnonzero(known() >= 0)
    np.testing.assert_array_equal(method.posterior[at].numpy(), one_hot(known()[at]))
    counted: list[torch.Tensor] = []
    monkeypatch.setattr(method, "update_confusion", counted.append)
    with torch.no_grad():
        method.eval().em_round(batches.labelled_in_order())
    np.testing.assert_array_equal(method.posterior[at].numpy(), one_hot(known()[at]))
    np.testing.assert_allclose(counted[0].numpy(), expected_counts(method.posterior.double().numpy()), atol=1e-5)


@pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")
def test_conal_em_starts_from_an_aggregation_that_knows_the_true_labels() -> None:
    method, _ = made("conal-em", first_labels="common-confusion", prior_individual=0.3)
    truth = {int(i): int(known()[i]) for i in np.flatnonzero(known() >= 0)}
    found = CommonConfusion(prior_individual=0.3, n_iter=START_ROUNDS).fit(crowd(), true_labels=truth)
    np.testing.assert_allclose(method.posterior.numpy(), found.probas_, atol=1e-6)  # type: ignore[operator]
    np.testing.assert_allclose(method.noise.pi_r.numpy(), found.annotator_confusion_, atol=1e-6)  # type: ignore[operator, union-attr]


def expected_counts(posterior: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(R, C, C) label by label."""
    counts, ann = np.zeros((R, C, C)), crowd()
    for i, r, k in zip(ann.tasks, ann.annotators, ann.labels, strict=True):
        counts[r, :, k] += posterior[i]
    return counts


def test_cross_fitted_em_against_loops() -> None:
    """Posterior, correction and pooled confusion of an E-step, with true labels that are certain afterwards."""
    method, batches = made("xconal", folds=3, vote_weight=0.6, pooling=1.0, calibrate=False, second_classifier="none")
    assert isinstance(method, CrossCoNALMethod)
    assert method.correction is not None
    assert method.pooled_noise is not None
    ann, x = batches.annotations, batches.instances.take(np.arange(N))
    used = method.pooled_noise.pi_r.double().numpy().copy()
    with torch.no_grad():
        each = [network(x).log_softmax(-1).double().numpy() for network in method.averages.networks]
    log_joint = np.stack([each[int(method.fold_of[i])][i] for i in range(N)])
    unseen = log_joint.copy()  # without the labels of tasks whose truth is known
    before = expected_counts(method.posterior.double().numpy())
    for i, r, k in zip(ann.tasks, ann.annotators, ann.labels, strict=True):
        log_joint[i] += 0.6 * np.log(used[r, :, k])
        left, z = used[r, :, k].copy(), known()[i]
        if z >= 0:
            n = before[r, z].sum() + 1
            left[z] = max(left[z] * n - 1, 1e-2) / (n - 1)
        unseen[i] += 0.6 * np.log(left)
    reference = PosteriorCorrection(C)
    judged = [i for i in range(N) if known()[i] >= 0 and i != 7]  # nobody voted on 7
    reference.fit(torch.from_numpy(unseen[judged]), torch.from_numpy(known()[judged]))
    inferred = reference.double()(torch.from_numpy(log_joint)).softmax(-1).numpy()
    method.epochs_done.fill_(max(method.due))  # the correction takes part in the second half of the E-steps
    with torch.no_grad():
        method.eval().em_round(batches.labelled_in_order())
    posterior = method.posterior.double().numpy()
    gold = known() >= 0
    np.testing.assert_array_equal(posterior[gold], one_hot(known()[gold]))
    order = [int(np.abs(posterior[~gold][:, [c]] - inferred[~gold]).sum(0).argmin()) for c in range(C)]
    np.testing.assert_allclose(posterior[~gold], inferred[~gold][:, order], atol=5e-6)
    counts = expected_counts(posterior)
    pi_g = counts.sum(0) + 0.5 + 15 * np.eye(C)
    pi_g /= pi_g.sum(1, keepdims=True)
    expected = (counts + pi_g) / (counts.sum(2, keepdims=True) + 1)
    np.testing.assert_allclose(method.pooled_noise.pi_r.numpy(), expected, atol=1e-5)


def test_the_correction_minimises_what_it_says() -> None:
    rng = np.random.default_rng(4)
    log_posterior = np.log(rng.dirichlet(np.ones(C), size=60))
    truth = rng.integers(0, C, size=60)
    strength = (75 / 60) ** 2
    correction = PosteriorCorrection(C)
    correction.fit(torch.from_numpy(log_posterior), torch.from_numpy(truth))

    def loss(values: npt.NDArray[np.float64]) -> float:
        s, W, b = values[0], values[1:10].reshape(C, C), values[10:]
        moved = np.exp(s) * log_posterior + np.exp(log_posterior) @ W + b
        right = moved[np.arange(60), truth] - np.log(np.exp(moved).sum(1))
        return float(-right.sum() + strength * (0.5 * (W**2).sum() + 0.5 * (b**2).sum() + 2.5 * s**2))

    expected = minimize(loss, np.zeros(13), method="BFGS", options={"gtol": 1e-6}).x
    learned = (correction.log_scale, correction.weight, correction.shift)
    found = np.concatenate([each.double().numpy().ravel() for each in learned])
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_true_labels_say_how_sure_to_be() -> None:
    """Seven of ten sure labels are right: the report says seven tenths, and no label changes."""
    sure = torch.tensor([[0.99, 0.005, 0.005]]).log().repeat(200, 1)
    truth = torch.from_numpy(np.where(np.arange(200) % 10 < 7, 0, 1 + np.arange(200) % 2))
    correction = PosteriorCorrection(C)
    correction.fit(sure, truth)
    posterior = correction(sure).softmax(-1)
    reported = correction.reported(posterior)
    assert float(reported[0, 0]) == pytest.approx(0.7, abs=0.02)
    assert torch.equal(reported.argmax(1), posterior.argmax(1))


def test_how_sure_to_be_is_judged_by_corrections_that_have_not_seen_the_label() -> None:
    """By loops: a fifth of the labels is corrected by the other four; labels by lot then allow no certainty."""
    rng = np.random.default_rng(6)
    log_posterior = torch.from_numpy(np.log(rng.dirichlet(np.full(C, 0.5), size=42)))
    truth = torch.from_numpy(rng.integers(0, C, size=42))
    correction = PosteriorCorrection(C)
    correction.fit(log_posterior, truth)
    correction.fit_certainty(log_posterior, truth, 0.8)
    unseen = torch.empty(42, C, dtype=torch.float64)
    for k in range(5):
        others = torch.from_numpy(parts_of_labels(truth.numpy(), 5)) != k
        part = PosteriorCorrection(C).double()
        part.fit(log_posterior[others], truth[others])
        unseen[~others] = part(log_posterior[~others])

    def loss(corrected: torch.Tensor, certainty: float) -> float:
        right = (certainty * corrected).log_softmax(-1)[torch.arange(42), truth]
        return float(np.log(certainty / 0.8) ** 2 / 2 - right.sum())

    grid = np.geomspace(0.02, 0.8, 4000)
    expected = grid[np.argmin([loss(unseen, value) for value in grid])]
    assert float(correction.certainty) == pytest.approx(expected, rel=5e-3)
    seen = correction.double()(log_posterior)
    assert expected < 0.8 * grid[np.argmin([loss(seen, value) for value in grid])]


def test_posteriors_are_as_sure_as_both_left_out_and_true_labels_allow() -> None:
    """Left-out labels allow 83 %: where 70 % are right by true labels, that is lowered; where all are, it stays."""
    sure = np.log([[0.9, 0.05, 0.05]])
    usual = softmax(0.8 * sure)[0, 0]
    for right, expected in ((0.7, 0.7), (1.0, usual)):
        truth = np.where(np.arange(50) < right * 50, 0, 1 + np.arange(50) % 2)
        reported = softmax(_certainty(np.repeat(sure, 50, 0), truth, 0.8) * sure)[0, 0]
        assert reported == pytest.approx(expected, abs=0.01)


def test_true_labels_correct_in_the_second_half_of_the_e_steps() -> None:
    """Before, networks do not tell the classes apart yet, and a correction of two classes would make them one."""
    method, batches = made("xconal", folds=3)
    assert isinstance(method, CrossCoNALMethod)
    assert method.correction is not None
    due = sorted(method.due)
    corrected = []
    for epoch in (due[0], due[len(due) // 2 - 1], due[len(due) // 2]):
        method.epochs_done.fill_(epoch)
        with torch.no_grad():
            method.eval().em_round(batches.labelled_in_order())
        corrected.append(bool(method.correction.weight.any()))
    assert corrected == [False, False, True]


def test_few_true_labels_correct_little() -> None:
    wrong = torch.tensor([[0.7, 0.2, 0.1]]).log()
    moved = []
    for n in (1, 5, 25, 100):
        correction = PosteriorCorrection(C)
        correction.fit(wrong.repeat(n, 1), torch.full((n,), 1))
        moved.append(float(correction(wrong).softmax(-1)[0, 1]))
    assert moved == sorted(moved)
    assert moved[0] < 0.25
    assert moved[-1] > 0.9


def test_true_labels_name_the_classes() -> None:
    """Where most annotators exchange two classes, votes name them wrongly, and a few true labels rightly."""
    rng = np.random.default_rng(0)
    n, n_annotators, some = 200, 8, 12
    z = rng.integers(0, C, size=n)
    swapped = np.array([1, 0, 2])
    said = np.where(rng.random((n, n_annotators)) < 0.75, swapped[z][:, None], z[:, None])
    ann = Annotations.from_matrix(said, classes=range(C))
    problem = Problem((D,), C, n_annotators, n, torch.tensor(ann.labels_per_annotator()), n_true_labels=some)
    inferred = []
    for truth in (None, torch.from_numpy(np.where(np.arange(n) < some, z, -1))):
        torch.manual_seed(0)
        method = methods.get("xconal")(problem, MLP(D, C))
        assert isinstance(method, CrossCoNALMethod)
        method.known = truth
        method.prepare(ann)
        inferred.append(float((method.posterior.argmax(1).numpy() == z)[some:].mean()))
    assert inferred[0] < 0.5
    assert inferred[1] > 0.9
