"""Doctor Net: heads, what the weights learn from, and the mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from conal.methods import Batch, Problem
from conal.methods import doctor_net as module
from conal.methods.doctor_net import DoctorNetMethod
from conal.networks import MLP, VGG16
from conal.networks.backbones import AnnotatorHeads, split_head
from conal.training.batches import CrowdBatches

Made = Callable[..., tuple[Any, CrowdBatches]]
Whole = Callable[[CrowdBatches], Batch]


def heads_of(method: Any, x: torch.Tensor) -> Any:
    """(N, R, C) probabilities of all heads, one linear layer at a time."""
    features = method.backbone(method.scaler(x)).detach().numpy()
    W, b = method.heads.weight.detach().numpy(), method.heads.bias.detach().numpy()
    return np.array([[softmax(h @ W[r] + b[r]) for r in range(len(W))] for h in features])


def moved(parameter: Any) -> bool:
    return parameter.grad is not None and bool(parameter.grad.any())


def test_loss_and_prediction_by_loops(made: Made, whole: Whole) -> None:
    method, data = made("doctor-net")
    batch = whole(data)
    p = heads_of(method, batch.x)
    a = method.raw_weights.detach().numpy()
    w = np.append(softmax(a[:3]), 0.0)  # the fourth never answered
    np.testing.assert_allclose(method.predict_proba(batch.x), np.einsum("r,nrc->nc", w, p), atol=1e-12)
    terms = []
    for i, r, y in zip(batch.rows.tolist(), batch.annotators.tolist(), batch.labels.tolist(), strict=True):
        others = sum(w[j] * p[i, j, y] for j in range(4) if j != r) / (1 - w[r])
        terms.append(-np.log(p[i, r, y]) - np.log(others))
    assert method(method.scaled(batch)).item() == pytest.approx(np.mean(terms), abs=1e-12)


def test_heads_do_not_learn_from_the_others_labels(made: Made, whole: Whole) -> None:
    """The averaging term moves the weights and nothing else; the heads' own term does not move the weights."""
    method, data = made("doctor-net")
    batch = whole(data)
    method._averaging_loss(method.backbone(batch.x).detach(), batch).backward()
    assert method.raw_weights.grad[:3].abs().min() > 1e-6
    assert method.raw_weights.grad[3] == 0
    assert not moved(method.heads.weight)
    method.zero_grad()
    own = method.heads.of_pairs(method.backbone(batch.x)[batch.rows], batch.annotators)
    nn.functional.cross_entropy(own, batch.labels).backward()
    assert not moved(method.raw_weights)
    assert moved(method.heads.weight)
    assert not method.heads.weight.grad[3].any()


def test_a_single_annotator_is_the_mean_of_himself() -> None:
    problem = Problem((2,), 3, 2, 1, torch.tensor([4, 0]))
    method = DoctorNetMethod(problem, MLP(2, 3, dropout=0.0))
    zero = torch.zeros(2, dtype=torch.long)
    batch = Batch(torch.randn(2, 2), zero, torch.tensor([0, 1]), zero, torch.tensor([0, 2]))
    assert torch.isfinite(method(batch))
    p = heads_of(method, batch.x)
    np.testing.assert_allclose(method.predict_proba(batch.x), p[:, 0], atol=1e-6)


def test_many_annotators_are_averaged_in_pieces(made: Made, whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    method, data = made("doctor-net")
    x = whole(data).x
    at_once = method.class_logits(x)
    loss = method(whole(data)).item()
    for cells in (3 * 4 * 3, 1):
        monkeypatch.setattr(module, "MAX_CELLS", cells)
        torch.testing.assert_close(method.class_logits(x), at_once, rtol=1e-12, atol=1e-12)
        assert method(whole(data)).item() == pytest.approx(loss, abs=1e-12)


def test_the_trunk_is_the_backbone_below_its_last_layer() -> None:
    trunk, width = split_head(MLP(5, 3, hidden=(7,), dropout=0.0), (5,), 3)
    assert width == 7
    x = torch.randn(4, 5)
    assert trunk(x).shape == (4, 7)
    trunk, width = split_head(VGG16(3, 10), (3, 32, 32), 10)
    assert width == 512
    assert trunk.eval()(torch.randn(1, 3, 32, 32)).shape == (1, 512)
    trunk, width = split_head(nn.Linear(5, 3), (5,), 3)
    assert width == 5
    assert torch.equal(trunk(x), x)


class Skip(nn.Module):
    """Two linear layers whose sum is the output; neither is the head."""

    def __init__(self) -> None:
        super().__init__()
        self.out, self.skip = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out(x) + self.skip(x)
        return out


class HeadFirst(nn.Module):
    """The head is registered before the layer that feeds it."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(3, 3), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x).relu())
        return out


@pytest.mark.parametrize(
    ("backbone", "expected"),
    [
        (nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)), 3),
        (nn.Sequential(nn.Linear(5, 4), nn.ReLU()), 4),
        (Skip(), 3),
        (nn.Flatten(), 5),
    ],
)
def test_other_backbones_stay_whole(backbone: nn.Module, expected: int) -> None:
    x = torch.randn(4, 5)
    before = backbone.eval()(x)
    trunk, width = split_head(backbone.train(), (5,), 3)
    assert trunk is backbone
    assert width == expected
    assert trunk.training
    assert torch.equal(trunk.eval()(x), before)


def test_the_head_is_what_makes_the_output() -> None:
    trunk, width = split_head(HeadFirst(), (5,), 3)
    assert width == 3
    assert isinstance(trunk.head, nn.Identity)
    assert isinstance(trunk.body, nn.Linear)


def test_heads_start_like_linear_layers() -> None:
    heads = AnnotatorHeads(16, 3, 200)
    for part in (heads.weight, heads.bias):
        assert 0.24 < part.abs().max() <= 0.25
        assert abs(float(part.detach().mean())) < 0.02


def test_heads_of_pairs_are_a_part_of_all_heads() -> None:
    heads = AnnotatorHeads(4, 3, 5).double()
    features = torch.randn(6, 4, dtype=torch.float64)
    annotators = torch.tensor([0, 4, 2, 2, 1, 3])
    torch.testing.assert_close(heads.of_pairs(features, annotators), heads(features)[torch.arange(6), annotators])
