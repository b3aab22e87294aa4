"""Max-MIG: the loss over pairs, where the aggregator starts, and the posterior of both views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax

from conal import methods
from conal.data.annotations import Annotations
from conal.methods import Batch, Problem
from conal.training.batches import CrowdBatches

Made = Callable[..., tuple[Any, CrowdBatches]]
Whole = Callable[[CrowdBatches], Batch]


def both_views(method: Any, batch: Batch) -> tuple[Any, Any, Any]:
    """Classifier h, aggregator g, prior p, straight from the equations."""
    p = softmax(method.raw_prior.detach().numpy())
    W = method.raw_votes.detach().numpy()
    h = method.predict_proba(batch.x).numpy()
    evidence = np.zeros_like(h)
    for i, r, y in zip(batch.rows.tolist(), batch.annotators.tolist(), batch.labels.tolist(), strict=True):
        evidence[i] += W[r, y]
    return h, softmax(evidence + np.log(p), axis=1), p


def test_the_loss_by_pairs(made: Made, whole: Whole) -> None:
    method, data = made("max-mig")
    batch = whole(data)
    h, g, p = both_views(method, batch)
    K = np.array([[sum(h[i, c] * g[j, c] / p[c] for c in range(3)) for j in range(12)] for i in range(12)])
    matched = np.mean([1 + np.log(K[i, i]) for i in range(12)])
    mismatched = np.mean([K[i, j] for i in range(12) for j in range(12) if i != j])
    assert method(method.scaled(batch)).item() == pytest.approx(-matched + mismatched, abs=1e-12)


def test_a_batch_of_one_has_no_negatives(made: Made) -> None:
    method, data = made("max-mig")
    batch = data.cut(np.array([3]))
    batch = batch._replace(x=batch.x.double())
    h, g, p = both_views(method, batch)
    assert method(method.scaled(batch)).item() == pytest.approx(-1 - np.log((h * g / p).sum()), abs=1e-12)


def test_the_posterior_joins_both_views(made: Made, whole: Whole) -> None:
    method, data = made("max-mig")
    batch = whole(data)
    h, g, p = both_views(method, batch)
    joint = h * g / p
    np.testing.assert_allclose(method.infer(batch), joint / joint.sum(1, keepdims=True), atol=1e-12)


def test_the_aggregator_starts_from_the_votes() -> None:
    """Worked by hand: shares (1, 0) and (1/2, 1/2); one pseudo-label per row, spread over two cells."""
    crowd = Annotations.from_matrix([[0, 0], [0, 1]])
    problem = Problem((2,), 2, 2, 2, torch.tensor(crowd.labels_per_annotator()))
    method: Any = methods.get("max-mig")(problem, torch.nn.Linear(2, 2))
    method.prepare(crowd)
    first = np.array([[1.5 + 0.5, 0.5], [0.5 + 0.5, 0.5]])  # rows: true; columns: observed
    second = np.array([[1 + 0.5, 0.5 + 0.5], [0.5, 0.5 + 0.5]])
    for r, counts in enumerate((first, second)):
        expected = np.log(counts / counts.sum(1, keepdims=True))
        np.testing.assert_allclose(method.raw_votes[r].detach().T, expected, atol=1e-6)
    np.testing.assert_allclose(method.raw_prior.detach().softmax(0), [2.5 / 4, 1.5 / 4], atol=1e-6)


def test_the_prior_may_be_fixed(made: Made) -> None:
    method, _ = made("max-mig", learn_prior=False)
    assert "raw_prior" in method.state_dict()
    assert "raw_prior" not in dict(method.named_parameters())


def test_a_prior_near_zero_stays_finite(made: Made, whole: Whole) -> None:
    method, data = made("max-mig")
    with torch.no_grad():
        method.raw_prior[0] = -1e4
    loss = method(whole(data))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(value.grad).all() for value in method.parameters())


def test_tasks_without_labels_leave_the_prior_alone() -> None:
    made = []
    for matrix in ([[0, 0], [0, 1]], [[0, 0], [0, 1], [-1, -1], [-1, -1]]):
        crowd = Annotations.from_matrix(matrix)
        problem = Problem((2,), 2, 2, 2, torch.tensor(crowd.labels_per_annotator()))
        method: Any = methods.get("max-mig")(problem, torch.nn.Linear(2, 2))
        method.prepare(crowd)
        made.append(method)
    torch.testing.assert_close(made[0].raw_prior, made[1].raw_prior)
    assert isinstance(made[0].raw_prior, torch.nn.Parameter)


def test_a_silent_annotator_is_an_unknown_one(made: Made, whole: Whole) -> None:
    method, data = made("max-mig")
    x, zero = whole(data).x[:1], torch.tensor([0])
    silent, unknown = (method.infer(Batch(x, zero, zero, torch.tensor([r]), torch.tensor([1]))) for r in (3, -1))
    torch.testing.assert_close(silent, unknown)
