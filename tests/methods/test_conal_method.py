"""CoNAL: its loss against equations written out, its regulariser, its reading of confusion."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.methods import Batch, Problem
from conal.methods.conal import CoNALMethod
from conal.networks import MLP
from conal.training.batches import CrowdBatches, Instances

D = 4


def made_for(crowd: Annotations, **options: Any) -> tuple[CoNALMethod, CrowdBatches]:
    torch.manual_seed(0)
    x = np.random.default_rng(1).normal(size=(crowd.n_tasks, D))
    batches = CrowdBatches(Instances(x), crowd, batch_size=1000)
    counts = torch.tensor(crowd.labels_per_annotator())
    problem = Problem((D,), crowd.n_classes, crowd.n_annotators, len(batches.labelled), counts)
    method = CoNALMethod(problem, MLP(D, crowd.n_classes, dropout=0.0), **options).double()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return method, batches


def everything(batches: CrowdBatches) -> Batch:
    batch = batches.cut(batches.labelled)
    return batch._replace(x=batch.x.double())


def test_the_whole_loss_is_the_papers(crowd: Annotations) -> None:
    """Every (instance, annotator) pair by a loop over plain numbers, and the sum of norms over labelled annotators."""
    method, batches = made_for(crowd, lam=0.01, omega_scale=1.0)
    batch = everything(batches)
    f = method.backbone(batch.x).softmax(-1)
    v = torch.nn.functional.normalize(method.auxiliary.instance(batch.x), dim=-1)
    u = torch.nn.functional.normalize(method.auxiliary.annotator_table + method.auxiliary.annotator_bias, dim=-1)
    terms = []
    for row, task in enumerate(batches.labelled):
        for r in range(crowd.n_annotators):
            label = crowd.to_matrix()[task, r]
            if label < 0:
                continue
            omega = torch.sigmoid(u[r] @ v[row])
            common = (f[row] @ method.noise.raw_pi_g).softmax(-1)[label]
            individual = (f[row] @ method.noise.raw_pi_r[r]).softmax(-1)[label]
            terms.append(torch.log(omega * common + (1 - omega) * individual))
    labelled = np.flatnonzero(crowd.labels_per_annotator())
    norms = sum(torch.linalg.norm(method.noise.raw_pi_g - method.noise.raw_pi_r[r]) for r in labelled)
    expected = -sum(terms) / len(terms) - 0.01 * norms
    torch.testing.assert_close(method.loss(batch), expected, rtol=1e-9, atol=1e-9)


def test_the_regulariser_of_batches_is_unbiased(crowd: Annotations) -> None:
    """Averaged over all batches of three tasks, it is exactly the sum over labelled annotators."""
    method, batches = made_for(crowd)
    every = [batches.cut(np.array(rows)) for rows in combinations(batches.labelled, 3)]
    norms = method.noise.separation(method.noise.raw_pi_r)
    found = [(method.presence(batch, method.present(batch)) * norms).sum() for batch in every]
    labelled = torch.tensor(np.flatnonzero(crowd.labels_per_annotator()))
    torch.testing.assert_close(torch.stack(found).mean(), norms[labelled].sum())


def test_lambda_pushes_the_layers_apart() -> None:
    crowd = Annotations.from_matrix(np.random.default_rng(0).integers(0, 3, size=(30, 4)), classes=range(3))

    def distance(lam: float) -> float:
        method, batches = made_for(crowd, lam=lam)
        optimizer = torch.optim.Adam(method.parameters(), lr=0.01)
        for _ in range(30):
            optimizer.zero_grad()
            method.loss(everything(batches)).backward()
            optimizer.step()
        return float(method.noise.separation(method.noise.raw_pi_r).detach().sum())

    assert distance(0.1) > distance(0.0) + 1


def test_the_joint_likelihood_sums_over_the_true_label_once(crowd: Annotations) -> None:
    method, batches = made_for(crowd, layer="row-stochastic", likelihood="joint", lam=0.0)
    batch = everything(batches)
    f = method.class_logits(batch.x).softmax(-1)
    given = method.log_prob_given_class(batch).exp()
    total = torch.zeros((), dtype=torch.float64)
    for row in range(len(batch.x)):
        evidence = given[batch.rows == row].prod(0)
        total = total + torch.log((f[row] * evidence).sum())
    torch.testing.assert_close(method.loss(batch), -total / len(batch.labels), rtol=1e-9, atol=1e-9)


def test_the_posterior_is_bayes_rule(crowd: Annotations) -> None:
    method, batches = made_for(crowd)
    batch = everything(batches)
    f = method.class_logits(batch.x).softmax(-1)
    given = method.log_prob_given_class(batch).exp()
    for row, found in enumerate(method.infer(batch)):
        evidence = f[row] * given[batch.rows == row].prod(0)
        torch.testing.assert_close(found, evidence / evidence.sum())


def test_annotators_without_labels_are_reported_with_the_common_matrix(crowd: Annotations) -> None:
    method, _ = made_for(crowd)
    common, individual = method.confusion_matrices()
    for r, count in enumerate(crowd.labels_per_annotator()):
        expected = method.noise.raw_pi_r[r].softmax(-1) if count else common
        torch.testing.assert_close(individual[r], expected)
    assert (crowd.labels_per_annotator() == 0).any()


def test_omega_of_an_annotator_without_training_labels_is_one(crowd: Annotations) -> None:
    method, batches = made_for(crowd)
    batch = everything(batches)
    silent = int(np.flatnonzero(crowd.labels_per_annotator() == 0)[0])
    busy = int(np.argmax(crowd.labels_per_annotator()))
    pairs = torch.zeros(2, dtype=torch.long)
    pair = Batch(batch.x[:1], torch.tensor([0]), pairs, torch.tensor([silent, busy]), pairs)
    rates = method.common_noise_rate(pair)
    assert float(rates[0]) == 1
    assert 0.26 < float(rates[1]) < 0.74


def test_a_batch_without_labels_has_no_loss_and_no_error(crowd: Annotations) -> None:
    method, batches = made_for(crowd)
    empty = np.flatnonzero(crowd.labels_per_task() == 0)[:1]
    batch = batches.cut(empty)
    assert float(method.loss(batch._replace(x=batch.x.double())).detach()) == 0


@pytest.mark.parametrize("options", [{"likelihood": "both"}, {"likelihood": "joint", "layer": "softmax"}])
def test_impossible_options_are_refused(crowd: Annotations, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="likelihood"):
        made_for(crowd, **options)
