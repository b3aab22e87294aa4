"""The noise adaptation layers against a slow dense reference, known answers and gradcheck."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.networks import NoiseAdaptation
from conal.networks.noise_layers import spread

VARIANTS = [("softmax", "probability"), ("softmax", "logit"), ("row-stochastic", "probability")]


def dense_reference(layer: NoiseAdaptation, class_proba: Tensor, omega: Tensor) -> Tensor:
    """(N, R, C) p(y^r = l | x_n) for every annotator on every instance, straight from the paper's equations."""
    omega = omega[..., None]
    if layer.layer == "row-stochastic":
        common = torch.einsum("nc,cl->nl", class_proba, layer.raw_pi_g.softmax(-1))[:, None]
        individual = torch.einsum("nc,rcl->nrl", class_proba, layer.raw_pi_r.softmax(-1))
        return omega * common + (1 - omega) * individual
    common = torch.einsum("nc,cl->nl", class_proba, layer.raw_pi_g)[:, None]
    individual = torch.einsum("nc,rcl->nrl", class_proba, layer.raw_pi_r)
    if layer.mixing == "logit":
        return (omega * common + (1 - omega) * individual).softmax(-1)
    return omega * common.softmax(-1) + (1 - omega) * individual.softmax(-1)


def random_layer(n_classes: int, n_annotators: int, variant: tuple[str, str]) -> NoiseAdaptation:
    kind, mixing = variant
    made = NoiseAdaptation(n_classes, n_annotators, layer=kind, mixing=mixing).double()  # type: ignore[arg-type]
    with torch.no_grad():
        made.raw_pi_g.add_(torch.randn_like(made.raw_pi_g))
        made.raw_pi_r.add_(torch.randn_like(made.raw_pi_r))
    return made


def pairs_of(crowd: Annotations) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.tensor(a).long() for a in (crowd.tasks, crowd.annotators, crowd.labels))  # type: ignore[return-value]


@pytest.mark.parametrize("variant", VARIANTS)
def test_observed_pairs_agree_with_the_dense_reference(crowd: Annotations, variant: tuple[str, str]) -> None:
    """Losses and all gradients, to 1e-6 in double precision."""
    N, R, C = crowd.n_tasks, crowd.n_annotators, crowd.n_classes
    layer = random_layer(C, R, variant)
    logits = torch.randn(N, C, dtype=torch.float64, requires_grad=True)
    omega_logits = torch.randn(N, R, dtype=torch.float64, requires_grad=True)
    rows, annotators, labels = pairs_of(crowd)
    leaves: list[Any] = [logits, omega_logits, layer.raw_pi_g, layer.raw_pi_r]

    fast = layer.log_prob(
        logits.log_softmax(-1), omega_logits[rows, annotators], rows, spread(layer.raw_pi_r, annotators), labels
    )
    fast_gradients = torch.autograd.grad(fast.mean(), leaves)

    dense = dense_reference(layer, logits.softmax(-1), omega_logits.sigmoid())
    observed = torch.zeros(N, R, C, dtype=torch.float64)
    observed[rows, annotators, labels] = 1  # one-hot labels, all zero where nobody labelled
    slow = (observed * dense.log()).sum() / observed.sum()
    slow_gradients = torch.autograd.grad(slow, leaves)

    torch.testing.assert_close(fast, dense[rows, annotators, labels].log(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(fast.mean(), slow, rtol=0, atol=1e-6)
    for quick, reference in zip(fast_gradients, slow_gradients, strict=True):
        torch.testing.assert_close(quick, reference, rtol=0, atol=1e-6)
    silent = torch.tensor(crowd.labels_per_annotator() == 0)
    assert (fast_gradients[3][silent] == 0).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradcheck(variant: tuple[str, str]) -> None:
    layer = random_layer(3, 2, variant)
    rows, annotators, labels = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])

    def forward(logits: Tensor, omega_logits: Tensor, raw_pi_g: Tensor, raw_pi_r: Tensor) -> Tensor:
        weights = {"raw_pi_g": raw_pi_g, "raw_pi_r": raw_pi_r}
        arguments = (logits.log_softmax(-1), omega_logits, rows, annotators, labels)
        out: Tensor = torch.func.functional_call(
            _LogProb(layer), {f"layer.{k}": v for k, v in weights.items()}, arguments
        )
        return out

    inputs = (
        torch.randn(2, 3, dtype=torch.float64, requires_grad=True),
        torch.randn(3, dtype=torch.float64, requires_grad=True),
        layer.raw_pi_g.detach().clone().requires_grad_(),
        layer.raw_pi_r.detach().clone().requires_grad_(),
    )
    assert torch.autograd.gradcheck(forward, inputs)


class _LogProb(torch.nn.Module):
    def __init__(self, layer: NoiseAdaptation) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, log_f: Tensor, gates: Tensor, rows: Tensor, annotators: Tensor, labels: Tensor) -> Tensor:
        return self.layer.log_prob(log_f, gates, rows, spread(self.layer.raw_pi_r, annotators), labels)


def two_class_layer(variant: tuple[str, str]) -> NoiseAdaptation:
    """W^g = [[2, 0], [0, 2]] and W^1 = [[0, 4], [0, 0]], one annotator."""
    made = random_layer(2, 1, variant)
    with torch.no_grad():
        made.raw_pi_g.copy_(torch.tensor([[2.0, 0.0], [0.0, 2.0]]))
        made.raw_pi_r.copy_(torch.tensor([[[0.0, 4.0], [0.0, 0.0]]]))
    return made


def probability_of_first(layer: NoiseAdaptation, class_proba: list[float], omega: float) -> float:
    log_f = torch.tensor([class_proba], dtype=torch.float64).log()
    zero = torch.tensor([0])
    gate = torch.tensor([omega], dtype=torch.float64).logit()
    return float(layer.log_prob(log_f, gate, zero, spread(layer.raw_pi_r, zero), zero).detach().exp())


def test_known_answers_tell_the_mixings_apart() -> None:
    """f = (1, 0), omega = 1/2, worked by hand.

    Probability: (sigma(2) + sigma(-4)) / 2 = (0.880797 + 0.017986) / 2 = 0.449392.
    Logit: the mixed logits are (1, 2), so sigma(-1) = 0.268941.
    """
    certain = [1 - 1e-15, 1e-15]
    assert probability_of_first(two_class_layer(("softmax", "probability")), certain, 0.5) == pytest.approx(
        0.4493918, abs=1e-6
    )
    assert probability_of_first(two_class_layer(("softmax", "logit")), certain, 0.5) == pytest.approx(
        0.2689414, abs=1e-6
    )


def test_known_answers_tell_the_layers_apart() -> None:
    """f = (0.75, 0.25), omega = 1/2.

    softmax: f W^g = (1.5, 0.5), f W^1 = (0, 3): (sigma(1) + sigma(-3)) / 2 = 0.389242.
    row-stochastic: 0.75 (0.880797 + 0.017986) / 2 + 0.25 (0.119203 + 0.5) / 2 = 0.414444.
    """
    share = [0.75, 0.25]
    softmax = probability_of_first(two_class_layer(("softmax", "probability")), share, 0.5)
    rows = probability_of_first(two_class_layer(("row-stochastic", "probability")), share, 0.5)
    assert softmax == pytest.approx(0.3892422, abs=1e-6)
    assert rows == pytest.approx(0.4144443, abs=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_omega_one_is_the_common_path_and_zero_the_individual(variant: tuple[str, str]) -> None:
    layer = random_layer(3, 2, variant)
    log_f = torch.randn(4, 3, dtype=torch.float64).log_softmax(-1)
    rows, annotators, labels = torch.arange(4), torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 2, 2])
    for gate, weights in ((torch.inf, layer.raw_pi_g.expand(4, 3, 3)), (-torch.inf, layer.raw_pi_r[annotators])):
        found = layer.log_prob(
            log_f, torch.full((4,), gate, dtype=torch.float64), rows, spread(layer.raw_pi_r, annotators), labels
        )
        f = log_f.exp()[:, None]
        paths = f @ weights.softmax(-1) if variant[0] == "row-stochastic" else (f @ weights).softmax(-1)
        expected = (paths[:, 0] * one_hot(labels, 3)).sum(-1).log()
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_omega_is_irrelevant_where_the_layers_are_equal(variant: tuple[str, str]) -> None:
    layer = random_layer(3, 2, variant)
    with torch.no_grad():
        layer.raw_pi_r.copy_(layer.raw_pi_g.expand(2, 3, 3))
    log_f = torch.randn(1, 3, dtype=torch.float64).log_softmax(-1)
    zero, labels = torch.tensor([0, 0]), torch.tensor([1, 1])
    gates = torch.tensor([-3.0, 5.0], dtype=torch.float64)
    one, other = layer.log_prob(log_f, gates, zero, spread(layer.raw_pi_r, torch.tensor([0, 1])), labels)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("variant", VARIANTS)
def test_label_probabilities_sum_to_one(variant: tuple[str, str]) -> None:
    layer = random_layer(4, 1, variant)
    log_f = torch.randn(1, 4, dtype=torch.float64).log_softmax(-1)
    zero = torch.zeros(4, dtype=torch.long)
    gates = torch.full((4,), 0.3, dtype=torch.float64)
    found = layer.log_prob(log_f, gates, zero, spread(layer.raw_pi_r, zero), torch.arange(4)).detach().exp()
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_probability_given_the_class_is_that_of_a_certain_classifier(variant: tuple[str, str]) -> None:
    layer = random_layer(3, 2, variant)
    annotators, labels = torch.tensor([0, 1]), torch.tensor([2, 0])
    gates = torch.randn(2, dtype=torch.float64)
    given = layer.log_prob_given_class(gates, spread(layer.raw_pi_r, annotators), labels)
    for c in range(3):
        log_f = torch.full((2, 3), -torch.inf, dtype=torch.float64)
        log_f[:, c] = 0
        certain = layer.log_prob(log_f, gates, torch.arange(2), spread(layer.raw_pi_r, annotators), labels)
        torch.testing.assert_close(given[:, c], certain)


def test_the_separation_has_zero_gradient_at_the_start() -> None:
    """W^g = W^r is where training starts, and where a norm has no gradient: it must be 0 and not NaN."""
    layer = NoiseAdaptation(3, 2)
    weights: list[Any] = [layer.raw_pi_g, layer.raw_pi_r]
    for gradient in torch.autograd.grad(layer.separation(layer.raw_pi_r).sum(), weights):
        assert (gradient == 0).all()


def test_the_separation_is_the_frobenius_norm() -> None:
    layer = NoiseAdaptation(2, 3)
    with torch.no_grad():
        layer.raw_pi_r[1] += torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    torch.testing.assert_close(layer.separation(layer.raw_pi_r), torch.tensor([0.0, 5.0, 0.0]))


def test_confusion_is_the_softmax_of_each_row() -> None:
    layer = NoiseAdaptation(2, 1)
    expected = torch.tensor([2.0, 0.0]).softmax(0)
    torch.testing.assert_close(layer.pi_g[0], expected)
    torch.testing.assert_close(layer.pi_r[0, 1], expected.flip(0))


@pytest.mark.parametrize(
    "options", [{"layer": "rows"}, {"mixing": "both"}, {"layer": "row-stochastic", "mixing": "logit"}]
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"layer|mixing"):
        NoiseAdaptation(2, 1, **options)
