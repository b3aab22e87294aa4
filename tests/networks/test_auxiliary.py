"""The gate between common and individual confusion."""

from __future__ import annotations

import pytest
import torch

from conal.networks import AuxiliaryNetwork
from conal.networks.noise_layers import Present


def test_omega_follows_the_equation() -> None:
    """Eq. (3) written out with a one-hot code of the annotator."""
    made = AuxiliaryNetwork(4, 3, embedding_dim=5).double()
    x = torch.randn(2, 4, dtype=torch.float64)
    rows, annotators = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])
    v = x @ made.instance.weight.T + made.instance.bias
    u = torch.eye(3, dtype=torch.float64) @ made.annotator_table + made.annotator_bias
    cosine = torch.nn.functional.cosine_similarity(v[rows], u[annotators], dim=-1)
    torch.testing.assert_close(made(x, rows, Present(None, annotators)).sigmoid(), cosine.sigmoid())


def test_the_papers_gate_is_confined() -> None:
    made = AuxiliaryNetwork(4, 50)
    x = 100 * torch.randn(50, 4)
    omega = made(x, torch.arange(50), Present(None, torch.arange(50))).sigmoid()
    assert omega.min() >= 0.268
    assert omega.max() <= 0.732


def test_scale_opens_the_gate() -> None:
    torch.manual_seed(3)
    narrow = AuxiliaryNetwork(4, 5)
    torch.manual_seed(3)
    wide = AuxiliaryNetwork(4, 5, scale=6.0)
    x, all_five = torch.randn(5, 4), torch.arange(5)
    present = Present(None, all_five)
    torch.testing.assert_close(wide(x, all_five, present), 6 * narrow(x, all_five, present))


def test_a_learned_scale_is_a_parameter() -> None:
    made = AuxiliaryNetwork(4, 5, scale="learn")
    assert "scale" in dict(made.named_parameters())
    made(torch.randn(5, 4), torch.arange(5), Present(None, torch.arange(5))).sum().backward()
    assert made.scale.grad is not None
    assert float(made.scale.grad) != 0


def test_a_learned_spread_keeps_the_level() -> None:
    """Whatever the scale is, the mean of the logits is that of the paper's gate, within [-1, 1]."""
    made, pairs = AuxiliaryNetwork(4, 5, scale="spread"), (torch.arange(5), Present(None, torch.arange(5)))
    x = torch.randn(5, 4)
    cosine = (made.instance_embedding(x) * made.annotator_embedding(pairs[1])).sum(-1)
    torch.testing.assert_close(made(x, *pairs), cosine)  # it starts as the paper's
    with torch.no_grad():
        made.scale.fill_(7.0)
    found = made(x, *pairs)
    torch.testing.assert_close(found, 7 * (cosine - cosine.mean()) + cosine.mean())
    found.square().sum().backward()
    assert made.scale.grad is not None
    assert float(made.scale.grad) != 0


def test_the_level_of_predictions_is_a_running_mean_of_training() -> None:
    made, pairs = AuxiliaryNetwork(4, 5, scale="spread"), (torch.arange(5), Present(None, torch.arange(5)))
    first, second = torch.randn(5, 4), torch.randn(5, 4)
    means = [float(made(x, *pairs).detach().mean()) for x in (first, second)]
    expected = 0.9 * means[0] + 0.1 * means[1]
    assert float(made.level) == pytest.approx(expected, abs=1e-6)
    made.eval()
    with torch.no_grad():
        made.scale.fill_(3.0)
        cosine = (made.instance_embedding(first) * made.annotator_embedding(pairs[1])).sum(-1)
        torch.testing.assert_close(made(first, *pairs), 3 * (cosine - expected) + expected)
        alone = made(first[:1], torch.zeros(1, dtype=torch.int64), Present(None, torch.zeros(1, dtype=torch.int64)))
    torch.testing.assert_close(alone[0], 3 * (cosine[0] - expected) + expected)  # not the mean of this one pair
    assert float(made.level) == pytest.approx(expected, abs=1e-6)


def test_annotator_features_replace_the_table() -> None:
    """Two annotators with equal features cannot be told apart, and no table is learned."""
    features = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    made = AuxiliaryNetwork(4, 3, annotator_features=features)
    omega = made(torch.randn(1, 4).expand(3, 4), torch.arange(3), Present(None, torch.arange(3))).detach()
    assert float(omega[0]) == pytest.approx(float(omega[1]))
    assert float(omega[0]) != pytest.approx(float(omega[2]))
    assert "annotator_table" not in dict(made.named_parameters())


def test_both_embeddings_are_unit_vectors() -> None:
    x = 9 * torch.randn(3, 4)
    for features in (None, 9 * torch.randn(3, 2)):
        made = AuxiliaryNetwork(4, 3, annotator_features=features)
        for embedding in (made.instance_embedding(x), made.annotator_embedding(Present(None, torch.arange(3)))):
            torch.testing.assert_close(embedding.norm(dim=-1), torch.ones(3))


@pytest.mark.parametrize("scale", [1.0, "learn", "spread"])
def test_gradcheck(scale: float | str) -> None:
    made = AuxiliaryNetwork(3, 2, embedding_dim=4, scale=scale).double()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x: made(x, torch.tensor([0, 1, 1]), Present(None, torch.tensor([0, 0, 1]))), (x,)
    )
