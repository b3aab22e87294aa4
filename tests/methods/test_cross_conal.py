"""Cross-fitted EM: its noise model and E-step against loops, and what cross-fitting is for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.special import softmax

import conal
from conal import methods
from conal.aggregation.held_out import held_out_certainty
from conal.data.annotations import Annotations
from conal.errors import ConalWarning, DataWarning, InputError, PriorWarning
from conal.estimator.results import FittedResults
from conal.methods import Batch, Problem
from conal.methods.cross_conal import CrossCoNALMethod, aligned_with_votes
from conal.methods.two_source_noise import highest_strength, learned_prior
from conal.networks import MLP
from conal.training.batches import CrowdBatches, Instances

from .loops import slow_sources

N, R, C, D = 30, 4, 3, 5


def crowd() -> Annotations:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, C, size=(N, R))
    labels[rng.random((N, R)) < 0.3] = -1
    labels[:, 0] = np.arange(N) % C
    return Annotations.from_matrix(labels, classes=range(C))


def made(**options: Any) -> tuple[CrossCoNALMethod, CrowdBatches]:
    torch.manual_seed(0)
    prior = options.pop("class_prior", None)
    ann = crowd()
    x = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
    problem = Problem((D,), C, R, N, torch.tensor(ann.labels_per_annotator()), class_prior=prior)
    method = methods.get("xconal")(problem, MLP(D, C, dropout=0.0), **options)
    assert isinstance(method, CrossCoNALMethod)
    method.prepare(ann)
    return method.eval(), CrowdBatches(Instances(x), ann, batch_size=8)


def expected_counts(ann: Annotations, posterior: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(R, C, C) label by label."""
    counts = np.zeros((R, C, C))
    for i, r, k in zip(ann.tasks, ann.annotators, ann.labels, strict=True):
        counts[r, :, k] += posterior[i]
    return counts


def slow_pooled(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(R, C, C) counts with one pseudo-label per row from the matrix of all."""
    pi_g = counts.sum(0) + 0.5 + 15 * np.eye(C)
    pi_g /= pi_g.sum(1, keepdims=True)
    return np.asarray((counts + pi_g) / (counts.sum(2, keepdims=True) + 1))


@pytest.mark.parametrize("confusion", ["both", "mixture"])
@pytest.mark.parametrize("prior", [None, [0.6, 0.3, 0.1]])
def test_an_e_step_against_loops(prior: list[float] | None, confusion: str) -> None:
    stated = None if prior is None else torch.tensor(prior)
    settings: dict[str, Any] = {"calibrate": False, "confusion": confusion, "second_classifier": "none", "pooling": 1.0}
    method, batches = made(folds=3, vote_weight=0.6, class_prior=stated, **settings)
    before = method.posterior.double().numpy().copy()
    pi_g, pi_r, omega = (t.double().numpy().copy() for t in (method.noise.pi_g, method.noise.pi_r, method.noise.omega))
    x = batches.instances.take(np.arange(N))
    with torch.no_grad():
        each = [network(x).softmax(-1).double().numpy() for network in method.averages.networks]
    expected = np.zeros((N, C))
    ann = batches.annotations
    used = omega[:, None, None] * pi_g + (1 - omega[:, None, None]) * pi_r
    if confusion == "both":
        used = slow_pooled(expected_counts(ann, before))
    for i in range(N):
        for c in range(C):
            score = each[int(method.fold_of[i])][i, c]
            for a in np.flatnonzero(ann.tasks == i):
                r, k = ann.annotators[a], ann.labels[a]
                score *= used[r, c, k] ** 0.6
            if prior is not None:
                score *= (C * prior[c] + 1e-3) / (C * before[:, c].mean() + 1e-3)  # half a step of the power 2
            expected[i, c] = score
    expected /= expected.sum(1, keepdims=True)
    expected = expected[:, aligned_with_votes(torch.from_numpy(expected.T @ ann.votes())).numpy()]
    with torch.no_grad():
        method.em_round(batches.labelled_in_order())
    np.testing.assert_allclose(method.posterior.numpy(), expected, atol=2e-6)
    counts = expected_counts(ann, expected)
    for found, value in zip(
        (method.noise.pi_g, method.noise.pi_r, method.noise.omega),
        slow_sources(counts, pi_g, pi_r, omega, 1.0, diagonal=15.0),
        strict=True,
    ):
        np.testing.assert_allclose(found.numpy(), value, atol=5e-6)


class Again:
    """The training batches in order, as often as wanted."""

    def __init__(self, batches: CrowdBatches) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return self.batches.labelled_in_order()


def test_an_e_step_with_a_second_classifier_against_loops() -> None:
    """The mixture of held-out networks and held-out Gaussian classifiers, weighted by the likelihood of the labels."""
    method, batches = made(folds=3, vote_weight=0.6, calibrate=False, second_classifier="lda")
    assert method.gaussian is not None
    assert method.pooled_noise is not None
    ann, fold = batches.annotations, method.fold_of.numpy()
    before, used = method.posterior.double().numpy().copy(), method.pooled_noise.pi_r.double().numpy().copy()
    x = batches.instances.take(np.arange(N))
    components = np.linalg.svd(x.double().numpy() - x.double().numpy().mean(0))[2][: N // 8].T
    z = x.double().numpy() @ components
    networks, gaussians = np.zeros((N, C)), np.zeros((N, C))
    with torch.no_grad():
        each = [network(x).softmax(-1).double().numpy() for network in method.averages.networks]
    for i in range(N):
        networks[i] = each[fold[i]][i]
        gaussians[i] = slow_gaussian(z[fold != fold[i]], before[fold != fold[i]], z[i])
    votes = np.ones((N, C))
    for i, r, k in zip(ann.tasks, ann.annotators, ann.labels, strict=True):
        votes[i] *= used[r, :, k] ** 0.6
    likelihood = np.stack([(networks * votes).sum(1), (gaussians * votes).sum(1)], 1)
    share = max(np.linspace(0, 1, 10001), key=lambda w: float(np.log(likelihood @ [w, 1 - w]).sum()))
    with torch.no_grad():
        method.em_round(Again(batches))
    np.testing.assert_allclose(method.gaussian.shares.numpy(), [share, 1 - share], atol=0.02)
    shares = method.gaussian.shares.double().numpy()
    expected = (shares[0] * networks + shares[1] * gaussians) * votes
    expected /= expected.sum(1, keepdims=True)
    expected = expected[:, aligned_with_votes(torch.from_numpy(expected.T @ ann.votes())).numpy()]
    np.testing.assert_allclose(method.posterior.numpy(), expected, atol=5e-6)


def slow_gaussian(z: npt.NDArray[Any], q: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(C,) probabilities of one instance by the shrunken shared-covariance Gaussian classifier of others."""
    means = (q.T @ z) / q.sum(0)[:, None]
    covariance = sum(q[i, c] * np.outer(z[i] - means[c], z[i] - means[c]) for i in range(len(z)) for c in range(C))
    covariance = covariance / len(z)
    shrunk = 0.9 * covariance + 0.1 * np.trace(covariance) / z.shape[1] * np.eye(z.shape[1])
    away = new - means
    score = np.log(q.mean(0)) - 0.5 * np.einsum("cp,pq,cq->c", away, np.linalg.inv(shrunk), away)
    return np.asarray(np.exp(score) / np.exp(score).sum())


def test_the_second_classifier_takes_part_in_predictions_and_pictures_have_none() -> None:
    method, batches = made(second_classifier="lda")
    assert method.gaussian is not None
    x = batches.instances.take(np.arange(N))
    alone = method.predict_proba(x)
    with torch.no_grad():
        method.em_round(Again(batches))
        torch.testing.assert_close(
            method.predict_proba(x), method.gaussian.mixed(alone.log(), method.gaussian.log_proba(x)).exp()
        )
    assert (method.predict_proba(x) - alone).abs().max() > 0.01
    pictures = Problem((1, 4, 4), C, R, N, method.problem.labels_per_annotator)
    assert methods.get("xconal")(pictures, MLP(16, C), second_classifier="lda").gaussian is None


def test_no_network_learns_from_its_own_fold() -> None:
    method, batches = made(folds=3)
    method.train()
    whole = batches.cut(np.arange(N))
    for k in range(3):
        method.zero_grad()
        only = np.flatnonzero(method.fold_of.numpy() == k)
        method.loss(batches.cut(only)).backward()
        moved = [any(p.grad is not None and p.grad.abs().sum() > 0 for p in b.parameters()) for b in method.backbones]
        assert moved == [j != k for j in range(3)]
    assert len(whole.x) == N
    assert sorted(np.bincount(method.fold_of).tolist()) == [10, 10, 10]


def test_networks_start_from_different_weights_and_a_users_own_keeps_its() -> None:
    method, _ = made()
    first, second = (next(b.parameters()) for b in method.backbones[:2])
    assert not torch.equal(first, second)
    own = torch.nn.Sequential(torch.nn.Linear(D, C))
    problem = method.problem
    kept = methods.get("xconal")(problem, own)
    assert isinstance(kept, CrossCoNALMethod)
    weights = [next(b.parameters()) for b in kept.backbones]
    assert all(torch.equal(weights[0], weight) for weight in weights)


def test_the_mean_of_the_networks_predicts() -> None:
    method, batches = made()
    x = batches.instances.take(np.arange(N))
    with torch.no_grad():
        expected = torch.stack([network(x).softmax(-1) for network in method.averages.networks]).mean(0)
    torch.testing.assert_close(method.predict_proba(x), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds must be a whole number of at least 2 or 'auto', not 1"),
        ({"vote_weight": 0}, "vote_weight must be a finite number above 0, not 0"),
        ({"pooling": float("inf")}, "pooling must be a finite number above 0 or 'auto', not inf"),
        ({"start": 1.0}, "start must be a share above 0 and below 1, not 1.0"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1, not 0"),
        ({"averaging": 1.0}, "averaging must be a number from 0 to below 1, not 1.0"),
        ({"second_classifier": "other"}, "second_classifier must be 'lda' or 'none', not 'other'"),
        ({"calibrate": 1}, "calibrate must be true or false, not 1"),
        ({"confusion": "own"}, "confusion must be 'both', 'mixture' or 'pooled', not 'own'"),
    ],
)
def test_impossible_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(**options)


def identified_crowd() -> tuple[npt.NDArray[np.float32], Annotations, npt.NDArray[np.int64]]:
    """Instances known by a feature of their own each, which says nothing about their class."""
    rng = np.random.default_rng(5)
    n = 240
    z = rng.integers(0, 3, size=n)
    labels = np.where(rng.random((n, 3)) < 0.45, z[:, None], rng.integers(0, 3, size=(n, 3)))
    return np.eye(n, dtype=np.float32) * 10, Annotations.from_matrix(labels, classes=range(3)), z


@pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning")  # such features favour the largest class
def test_cross_fitted_posteriors_do_not_memorise_votes() -> None:
    """Where features only identify instances, a network can do nothing but memorise; its vote must not count."""
    x, ann, z = identified_crowd()
    alone = conal.aggregation.make("dawid-skene", verbose=False).fit(ann)
    sure: dict[str, float] = {}
    for name in ("aggnet", "xconal"):
        options: dict[str, Any] = {"scaling": "none", "selection": "last", "dropout": 0.0, "epochs": 80}
        clf = conal.make(name, verbose=False, **options).fit(x, ann)
        votes_back = (clf.predict_proba(x).argmax(1) == clf.probas_.argmax(1)).mean()
        sure[name] = float(clf.probas_.max(1).mean())
        assert votes_back > 0.7  # either kind of network has memorised what it was trained on
    right = float((alone.codes_ == z).mean())
    assert sure["aggnet"] > 0.97 > right + 0.15  # far surer than anybody can be
    assert sure["xconal"] < right + 0.1


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_a_stated_prior_moves_labels_and_says_so_when_it_moves_them_far() -> None:
    data = conal.datasets.synthetic(n_train=400, n_classes=3, separation=0.3, seed=2)
    fast: dict[str, Any] = {"epochs": 20, "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PriorWarning)
        as_it_is = conal.CrossCoNAL(class_prior="balanced", **fast).fit(data.x, data.annotations)
    with pytest.warns(PriorWarning, match=r"is far from the vote shares.*check some of these"):
        wrong = conal.CrossCoNAL(class_prior={0: 0.9, 1: 0.05, 2: 0.05}, **fast).fit(data.x, data.annotations)
    assert wrong.probas_[:, 0].mean() > as_it_is.probas_[:, 0].mean() + 0.2


def test_recovers_the_crowd_and_beats_majority_vote() -> None:
    data = conal.datasets.synthetic(n_train=1500, common_strength=0.6, seed=1)
    assert data.test is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        clf = conal.CrossCoNAL(epochs=40, verbose=False).fit(data.x, data.annotations)
        plain = conal.make("dl-mv", epochs=40, verbose=False).fit(data.x, data.annotations)
    truth = data.classes[data.test.y]
    assert clf.metrics_["selection"] == "last"
    assert (clf.predict(data.test.x) == truth).mean() > (plain.predict(data.test.x) == truth).mean() + 0.03
    assert (clf.labels_ == data.classes[data.y_true]).mean() > 0.95


def test_a_model_says_whether_it_was_made_less_sure() -> None:
    """By left-out labels, if they ask for it, and by true labels always; findings and ensembles know it."""
    data = conal.datasets.synthetic(n_train=200, n_classes=3, common_strength=0.6, seed=1)
    fast: dict[str, Any] = {"epochs": 5, "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        left_out = conal.CrossCoNAL(**fast).fit(data.x, data.annotations)
        sure = conal.make("xconal", confidence="model", **fast).fit(data.x, data.annotations)
        gold = dict(enumerate(data.classes[data.y_true[:20]].tolist()))
        taught = conal.make("xconal", confidence="model", ensemble=2, refits=0, **fast)
        taught.fit(data.x, data.annotations, true_labels=gold)
    assert isinstance(left_out.model_, CrossCoNALMethod)
    assert left_out.model_.tempered == (float(left_out.model_.certainty) < 1)
    assert not sure.model_.tempered
    assert taught.model_.tempered
    assert isinstance(taught.results_, FittedResults)
    assert taught.results_.findings.evidence.tempered


@pytest.mark.parametrize("pooling", [1.0, "auto"])
def test_how_sure_posteriors_are_is_that_of_the_selected_epoch(pooling: float | Literal["auto"]) -> None:
    """Validation data select an early epoch: labels, and how sure they are said to be, are those of that epoch."""
    data = conal.datasets.synthetic(n_train=290, n_classes=4, common_strength=0.8, seed=1)
    assert data.test is not None
    fast: dict[str, Any] = {"seed": 1, "verbose": False, "warmup_epochs": 0, "start": 0.1}
    gold = dict(enumerate(data.classes[data.y_true[:30]].tolist()))
    for truth in (None, gold):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConalWarning)
            clf = conal.make("xconal", epochs=20, refits=0, pooling=pooling, **fast)
            clf.fit(data.x, data.annotations, true_labels=truth, validation=(data.test.x, data.test.y))
        chosen = clf.metrics_["best_epoch"]
        assert 2 <= chosen < 20
        model = clf.model_
        assert isinstance(model, CrossCoNALMethod)
        assert int(model.epochs_done) == chosen
        votes = data.annotations.tasks, data.annotations.annotators, data.annotations.labels
        if truth is not None:
            votes = tuple(each[data.annotations.tasks >= 30] for each in votes)  # type: ignore[assignment]
        q = model.posterior.double().numpy()
        counts = np.zeros((data.annotations.n_annotators, 4, 4))
        for i, r, y in zip(data.annotations.tasks, data.annotations.annotators, data.annotations.labels, strict=True):
            counts[r, :, y] += q[i]
        log_q = np.log(np.maximum(q, np.finfo(np.float32).tiny))
        drawn: Any = pooling
        if pooling == "auto":
            drawn = learned_prior(torch.from_numpy(counts), model.noise_in_use.pi_g, highest_strength(3)).numpy()
        expected = held_out_certainty(log_q, votes, counts, vote_weight=0.7, pooling=drawn)
        assert expected < 1
        assert float(model.certainty) == pytest.approx(expected, rel=1e-6)
        if truth is None:
            np.testing.assert_allclose(clf.probas_, softmax(expected * log_q, axis=1), atol=1e-5)
        else:
            assert float(model.correction.certainty) <= expected * (1 + 1e-6)  # type: ignore[union-attr]


def test_few_tasks_are_mixed_unless_the_network_is_a_users() -> None:
    def mixes(n_tasks: int, **options: Any) -> bool:
        problem = Problem((D,), C, R, n_tasks, torch.ones(R, dtype=torch.int64))
        return CrossCoNALMethod(problem, options.pop("backbone", MLP(D, C)), **options).mixes

    assert mixes(2_500)
    assert not mixes(2_501)
    assert mixes(2_501, mixup=True)
    assert not mixes(100, mixup=False)
    assert not mixes(100, backbone=torch.nn.Sequential(torch.nn.Linear(D, C)))


def test_large_data_have_fewer_folds() -> None:
    assert made()[0].n_folds == 5
    assert made(folds=4)[0].n_folds == 4
    problem = Problem((D,), C, R, 16_000, torch.ones(R, dtype=torch.int64))
    assert CrossCoNALMethod(problem, MLP(D, C)).n_folds == 3


def test_tasks_that_were_held_out_are_inferred_like_new_ones() -> None:
    data = conal.datasets.synthetic(n_train=300, n_classes=3, seed=1)
    clf = conal.CrossCoNAL(epochs=10, selection="annotations", holdout=0.3, verbose=False)
    clf.fit(data.x, data.annotations)
    posterior = clf.model_.training_posterior()
    assert posterior is not None
    held_out = posterior.isnan().all(1).numpy()
    assert held_out.sum() == 90
    inferred = clf.infer(data.x, data.annotations)
    np.testing.assert_allclose(clf.probas_[held_out], inferred[held_out], atol=1e-7)
    np.testing.assert_allclose(clf.probas_[~held_out], posterior[~held_out].numpy(), atol=1e-6)
    assert (clf.labels_ == data.classes[data.y_true])[held_out].mean() > 0.8


def test_tensors_of_a_saved_model_keep_their_names() -> None:
    names = {name.removeprefix("averages.") for name in made(folds=2)[0].state_dict()}
    weights = {"1.weight", "1.bias", "4.weight", "4.bias"}
    networks = {f"{place}.{name}" for place in ("backbone", "others.0", "networks.0", "networks.1") for name in weights}
    noise = {f"{place}.{name}" for place in ("noise", "pooled_noise") for name in ("pi_g", "pi_r", "omega", "started")}
    scaler = {f"scaler.{name}" for name in ("shift", "factor", "limit", "root")}
    expert = {f"gaussian.{name}" for name in ("weight", "bias", "temperatures", "shares")}
    others = {"labels_per_annotator", "prior_shift", "temperature", "certainty", "steps"}
    assert names == networks | noise | scaler | expert | others


def test_new_names_of_classes_reach_networks_second_classifier_and_noise() -> None:
    method, batches = made(folds=3, second_classifier="lda")
    method.begin(batches.labelled_in_order())
    x = torch.randn(7, D)
    before = method.class_logits(x), method.posterior.clone(), *(each.clone() for each in method.confusion_matrices())
    held_out = [network(x) for network in method.averages.networks]
    order = torch.tensor([2, 0, 1])
    method._rename(order)
    logits, posterior, pi_g, pi_r = before
    torch.testing.assert_close(method.class_logits(x), logits[:, order])
    for network, own in zip(method.averages.networks, held_out, strict=True):
        torch.testing.assert_close(network(x), own[:, order])
    torch.testing.assert_close(method.posterior, posterior[:, order])
    torch.testing.assert_close(method.confusion_matrices()[0], pi_g[order])
    torch.testing.assert_close(method.confusion_matrices()[1], pi_r[:, order])


def test_true_labels_name_classes_that_networks_tell_apart() -> None:
    """Four in ten labels are of the other class of a pair: votes do not name them, and networks must follow."""
    data = conal.datasets.synthetic(
        n_train=4000,
        n_valid=0,
        common_type="symmetric",
        common_strength=0.8,
        seed=3,
        gate="interaction",
        gate_scale="wide",
    )
    drawn = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(17,))).permutation(4000)[:100]
    gold = {int(task): data.classes[data.y_true[task]].item() for task in drawn}
    with pytest.warns(DataWarning, match="27 of 100 contradict every vote"):
        clf = conal.CrossCoNAL(seed=3, refits=0, verbose=False).fit(data.x, data.annotations, true_labels=gold)
    assert data.test is not None
    assert clf.score(data.test.x, data.classes[data.test.y]) > 0.9


def test_a_ring_of_colluders_does_not_name_the_classes() -> None:
    """24 of 60 exchange all classes and never slip; the other 36 are right more often than they make any mistake."""
    crowd_of: dict[str, Any] = {
        "n_train": 1500,
        "n_annotators": 60,
        "labels_per_instance": 4.0,
        "n_valid": 0,
        "n_test": 10,
    }
    data = conal.datasets.synthetic(**crowd_of, adversaries="ring", adversary_share=0.4, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        clf = conal.CrossCoNAL(epochs=20, seed=2, verbose=False).fit(data.x, data.annotations)
    assert (clf.labels_ == data.classes[data.y_true]).mean() > 0.9


def test_a_ring_of_colluders_does_not_rename_the_classes() -> None:
    """Two in five exchange all classes and never slip: they win the votes together, but most people are not theirs."""
    data = conal.datasets.synthetic(
        n_train=1000,
        n_annotators=40,
        labels_per_instance=5.0,
        n_valid=0,
        n_test=10,
        adversaries="ring",
        adversary_share=0.4,
        seed=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        clf = conal.CrossCoNAL(epochs=15, seed=0, verbose=False).fit(data.x, data.annotations)
    assert (clf.labels_ == data.classes[data.y_true]).mean() > 0.9
