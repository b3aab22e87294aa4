"""AggNet and CoNAL by EM: every E- and M-step against loops, and a likelihood that never falls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from conal import methods
from conal.aggregation import CommonConfusion
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.methods import Batch, Problem
from conal.training.batches import CrowdBatches

from .loops import triples

Made = Callable[..., tuple[Any, CrowdBatches]]
Whole = Callable[[CrowdBatches], Batch]


def in_pieces(data: CrowdBatches) -> Iterator[Batch]:
    """The training data in order, in three uneven batches."""
    for index in (np.arange(5), np.arange(5, 6), np.arange(6, 12)):
        batch = data.cut(index)
        yield batch._replace(x=batch.x.double())


def by_rows(counts: Any) -> Any:
    return counts / counts.sum(-1, keepdims=True)


def joint_posterior(f: Any, labels: list[tuple[int, int, int]], mu: Any) -> Any:
    q = f.copy()
    for i, r, y in labels:
        q[i] *= mu[r][:, y]
    return by_rows(q)


def test_it_starts_from_the_vote_shares(made: Made, ragged: Annotations) -> None:
    method, _ = made("aggnet")
    votes = ragged.votes()
    shares = votes / votes.sum(1, keepdims=True)
    np.testing.assert_allclose(method.posterior, shares, atol=1e-6)
    counts = np.zeros((4, 3, 3))
    for i, r, y in zip(ragged.tasks, ragged.annotators, ragged.labels, strict=True):
        counts[r, :, y] += shares[i]
    np.testing.assert_allclose(method.pi_r, by_rows(counts + 0.1), atol=1e-6)


def test_conal_em_says_where_it_starts_by_default(made: Made) -> None:
    method, _ = made("conal-em")
    said = " ".join((type(method).__doc__ or "").split())
    assert method.first_labels == "votes"
    assert "By default the first q are the vote shares" in said
    assert 'With ``first_labels="common-confusion"``' in said


def test_half_of_every_label_is_first_common(made: Made) -> None:
    """After the first closed forms from the vote shares: omega one half, for the silent annotator too."""
    for omega in ("annotator", "annotation"):
        method, _ = made("conal-em", omega=omega, first_labels="votes")
        np.testing.assert_allclose(method.noise.omega, np.full(4, 0.5), atol=1e-7)


@pytest.mark.parametrize("prior", ["auto", 0.4])
def test_conal_em_starts_where_common_confusion_ends(prior: Any, made: Made, ragged: Annotations) -> None:
    method, _ = made("conal-em", first_labels="common-confusion", prior_individual=prior)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = CommonConfusion(prior_individual=prior).fit(ragged)
    assert found.start_ == "dawid-skene"
    assert method.noise.pseudo.individual == found.prior_individual_
    np.testing.assert_allclose(method.posterior, found.probas_, atol=1e-6)
    np.testing.assert_allclose(method.noise.pi_g, found.common_confusion_, atol=1e-6)
    np.testing.assert_allclose(method.noise.pi_r, found.annotator_confusion_, atol=1e-6)
    np.testing.assert_allclose(method.noise.omega, found.omega_, atol=1e-6)


def test_an_omega_per_annotation_starts_at_the_votes(made: Made, ragged: Annotations) -> None:
    votes = ragged.votes()
    for options in ({"omega": "annotation"}, {"first_labels": "votes"}):
        method, _ = made("conal-em", **options)
        np.testing.assert_allclose(method.posterior, votes / votes.sum(1, keepdims=True), atol=1e-6)
        assert method.noise.pseudo.individual == method.smoothing


@pytest.mark.parametrize("name", ["aggnet", "conal-em"])
def test_the_silent_annotator_is_given_the_common_confusion(name: str, made: Made) -> None:
    method, data = made(name)
    method.end_epoch(in_pieces(data))
    pi_g, pi_r = method.confusion_matrices()
    assert torch.equal(pi_r[3], pi_g)
    assert not torch.equal((method if name == "aggnet" else method.noise).pi_r[3], pi_g)
    if name == "aggnet":
        counts = method.labels_per_annotator.double()
        expected = sum(counts[r] * method.pi_r[r] for r in range(4)) / counts.sum()
        torch.testing.assert_close(pi_g, expected)


def test_an_aggnet_round(made: Made, whole: Whole) -> None:
    method, data = made("aggnet", smoothing=0.3)
    batch = whole(data)
    f, pi = method.predict_proba(batch.x).numpy(), method.pi_r.numpy().copy()
    for _ in range(3):
        method.end_epoch(in_pieces(data))
        q = joint_posterior(f, triples(batch), pi)
        counts = np.full((4, 3, 3), 0.3)
        for i, r, y in triples(batch):
            counts[r, :, y] += q[i]
        pi = by_rows(counts)
        np.testing.assert_allclose(method.posterior, q, atol=1e-12)
        np.testing.assert_allclose(method.pi_r, pi, atol=1e-12)
    expected = -(q * np.log(f)).sum(1).mean()
    assert method(method.scaled(batch)).item() == pytest.approx(expected, abs=1e-12)


def test_a_conal_em_round(made: Made, whole: Whole) -> None:
    """Sums over the true label and the source of every single label."""
    method, data = made("conal-em", smoothing=0.2, prior_individual=0.3)
    batch = whole(data)
    f = method.predict_proba(batch.x).numpy()
    g, pi, omega = (getattr(method.noise, name).numpy().copy() for name in ("pi_g", "pi_r", "omega"))
    for _ in range(3):
        method.end_epoch(in_pieces(data))
        mu = omega[:, None, None] * g + (1 - omega[:, None, None]) * pi
        q = joint_posterior(f, triples(batch), mu)
        common, own, from_common = np.full((3, 3), 0.2), np.full((4, 3, 3), 0.3), np.ones(4)
        for i, r, y in triples(batch):
            for c in range(3):
                t = omega[r] * g[c, y] / mu[r, c, y]
                common[c, y] += q[i, c] * t
                own[r, c, y] += q[i, c] * (1 - t)
                from_common[r] += q[i, c] * t
        g, pi = by_rows(common), by_rows(own)
        omega = from_common / (method.labels_per_annotator.numpy() + 2)
        np.testing.assert_allclose(method.posterior, q, atol=1e-12)
        np.testing.assert_allclose(method.noise.pi_g, g, atol=1e-12)
        np.testing.assert_allclose(method.noise.pi_r, pi, atol=1e-12)
        np.testing.assert_allclose(method.noise.omega, omega, atol=1e-12)
    np.testing.assert_allclose(method.common_noise_rate(batch), omega[batch.annotators.numpy()], atol=1e-12)
    unknown = batch._replace(annotators=torch.where(batch.annotators == 0, -1, 3))
    np.testing.assert_array_equal(method.common_noise_rate(unknown), np.ones(len(batch.labels)))


def test_the_literal_appendix(made: Made, whole: Whole) -> None:
    method, data = made("conal-em", omega="annotation", smoothing=0.2)
    batch = whole(data)
    labels = triples(batch)
    f = method.predict_proba(batch.x).numpy()
    g, pi = method.noise.pi_g.numpy().copy(), method.noise.pi_r.numpy().copy()
    omega = np.full(len(labels), 0.5)
    for _ in range(3):
        method.end_epoch(in_pieces(data))
        q = f.copy()
        for (i, r, y), w in zip(labels, omega, strict=True):
            q[i] *= w * g[:, y] + (1 - w) * pi[r][:, y]
        q = by_rows(q)
        common, own = np.full((3, 3), 0.2), np.full((4, 3, 3), 0.2)
        for k, (i, r, y) in enumerate(labels):
            yes, no = omega[k] * (q[i] @ g[:, y]), (1 - omega[k]) * (q[i] @ pi[r][:, y])
            omega[k] = yes / (yes + no)
        for (i, r, y), w in zip(labels, omega, strict=True):
            common[:, y] += w * q[i]
            own[r, :, y] += (1 - w) * q[i]
        g, pi = by_rows(common), by_rows(own)
        np.testing.assert_allclose(method.posterior, q, atol=1e-12)
        np.testing.assert_allclose(method.omega_of_labels, omega, atol=1e-12)
        np.testing.assert_allclose(method.noise.pi_g, g, atol=1e-12)
        np.testing.assert_allclose(method.noise.pi_r, pi, atol=1e-12)
    means = [np.mean([w for (_, r, _), w in zip(labels, omega, strict=True) if r == k]) for k in range(3)]
    np.testing.assert_allclose(method.noise.omega, [*means, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"), [("aggnet", {}), ("conal-em", {}), ("conal-em", {"first_labels": "common-confusion"})]
)
def test_with_the_network_fixed_the_objective_never_falls(
    name: str, options: dict[str, Any], made: Made, whole: Whole
) -> None:
    """The rounds are then exact EM on the annotators' parameters: log-likelihood and log-prior rise."""
    method, data = made(name, **options)
    batch = whole(data)

    def objective() -> float:
        log_joint = method.predict_proba(batch.x).log()
        log_joint = log_joint.index_add(0, batch.rows, method.log_prob_given_class(batch))
        own = (method if name == "aggnet" else method.noise).pi_r
        prior = (method.smoothing if name == "aggnet" else method.noise.pseudo.individual) * own[:3].log().sum()
        if name == "conal-em":
            omega = method.noise.omega[:3]
            prior = prior + method.smoothing * method.noise.pi_g.log().sum() + (omega.log() + (1 - omega).log()).sum()
        return float(log_joint.logsumexp(-1).sum() + prior)

    history = [objective()]
    for _ in range(40):
        method.end_epoch(in_pieces(data))
        history.append(objective())
    gains = np.diff(history)
    assert (gains >= -1e-10).all()
    assert gains[0] > 1e-3


@pytest.mark.parametrize("name", ["aggnet", "conal-em"])
def test_rounds_may_be_longer_than_an_epoch(name: str, made: Made) -> None:
    method, data = made(name, epochs_per_round=3)
    before = method.posterior.clone()
    for _ in range(2):
        method.end_epoch(in_pieces(data))
        assert torch.equal(method.posterior, before)
    method.end_epoch(in_pieces(data))
    assert not torch.equal(method.posterior, before)


@pytest.mark.parametrize("name", ["aggnet", "conal-em"])
@pytest.mark.parametrize(
    ("option", "message"),
    [({"epochs_per_round": 0}, "epochs_per_round must be"), ({"smoothing": 0.0}, "smoothing must be")],
)
def test_options_that_cannot_be_meant(name: str, option: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        methods.get(name)(Problem((2,), 2, 1, 1, torch.tensor([1])), torch.nn.Linear(2, 2), **option)


def test_omega_is_per_annotator_or_per_annotation() -> None:
    with pytest.raises(InputError, match="omega must be 'annotator' or 'annotation'"):
        methods.get("conal-em")(Problem((2,), 2, 1, 1, torch.tensor([1])), torch.nn.Linear(2, 2), omega="x")


def test_the_posterior_is_no_part_of_the_model(made: Made) -> None:
    method, _ = made("conal-em", omega="annotation")
    assert {"posterior", "epochs_done", "omega_of_labels"} == set(method.working_state())
    assert not any(name in method.state_dict() for name in method.working_state())


@pytest.mark.parametrize("name", ["aggnet", "conal-em"])
def test_the_e_step_is_without_dropout(name: str, made: Made) -> None:
    one, data = made(name)
    other, _ = made(name)
    for method in (one, other):
        method.backbone.append(torch.nn.Dropout(0.5))
    one.train().end_epoch(in_pieces(data))
    other.eval().end_epoch(in_pieces(data))
    torch.testing.assert_close(one.posterior, other.posterior)
