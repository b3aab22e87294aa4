"""Inference from annotations alone, against EM that goes from label to label."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conal.data.annotations import Annotations
from conal.methods.cross_conal import infer_from_labels
from conal.methods.two_source_noise import PseudoLabels, TwoSourceNoise

N, R, C = 40, 5, 3


def noise_model(*, learn_omega: bool) -> TwoSourceNoise:
    pseudo = PseudoLabels(common=0.5, diagonal=1.5, pooling=1.0)
    return TwoSourceNoise(R, C, pseudo, omega_start=0.2, learn_omega=learn_omega)


def crowd() -> Annotations:
    rng = np.random.default_rng(0)
    z = rng.integers(0, C, N)
    labels = np.where(rng.random((N, R)) < 0.7, z[:, None], rng.integers(0, C, (N, R)))
    labels[rng.random((N, R)) < 0.5] = -1
    labels[3] = -1  # nobody labelled this one
    return Annotations.from_matrix(labels, classes=range(C))


@pytest.mark.parametrize("learn_omega", [True, False])
def test_five_rounds_label_by_label(learn_omega: bool) -> None:
    ann, slow = crowd(), noise_model(learn_omega=learn_omega)
    posterior = np.full((N, C), 1 / C)
    votes = ann.votes()
    posterior[votes.sum(1) > 0] = (votes / np.maximum(votes.sum(1, keepdims=True), 1))[votes.sum(1) > 0]
    lone = votes.sum(1) == 1
    assert lone.sum() > 2
    single = 2 / 3 * votes[lone] + 1 / 3 / C  # these keep a smoothed vote
    posterior[lone] = single
    triples = list(zip(ann.tasks, ann.annotators, ann.labels, strict=True))

    def counted() -> torch.Tensor:
        counts = np.zeros((R, C, C))
        for i, r, y in triples:
            counts[r, :, y] += posterior[i]
        return torch.from_numpy(counts).float()

    for _ in range(5):
        slow.fit(counted())
        log_joint = np.tile(np.log((posterior.sum(0) + 1) / (N + C)), (N, 1))
        for i, r, y in triples:
            given = slow.log_prob(torch.tensor([r]), torch.tensor([y]), torch.tensor([True]))
            log_joint[i] += given[0].double().numpy()
        posterior = np.exp(log_joint) / np.exp(log_joint).sum(1, keepdims=True)
        posterior[lone] = single
    found, counts = infer_from_labels(noise_model(learn_omega=learn_omega), ann, 5, lambda q: q)
    np.testing.assert_allclose(found.numpy(), posterior, atol=2e-5)
    np.testing.assert_allclose(counts.numpy(), counted().numpy(), atol=1e-4)
