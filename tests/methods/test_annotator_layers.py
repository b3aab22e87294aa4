"""The crowd layers and Anno-Reg against the equations, written with loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax

from conal.errors import InputError
from conal.methods import Batch
from conal.training.batches import CrowdBatches

from .loops import triples

Made = Callable[..., tuple[Any, CrowdBatches]]
Whole = Callable[[CrowdBatches], Batch]


def crowd_layer(f: Any, layers: Any) -> Any:
    """Probabilities of an annotator's labels, one layer after the other."""
    for layer in layers:
        f = softmax(np.array([sum(f[c] * layer[c, k] for c in range(len(f))) for k in range(len(f))]))
    return f


def row_stochastic(f: Any, layers: Any) -> Any:
    return sum(f[c] * softmax(layers[0][c]) for c in range(len(f)))


@pytest.mark.parametrize(
    ("name", "layer"), [("dl-cl", crowd_layer), ("dl-cl-over", crowd_layer), ("anno-reg", row_stochastic)]
)
def test_likelihood_loss_and_confusion(name: str, layer: Any, made: Made, whole: Whole) -> None:
    method, data = made(name, **({"lam": 0.0} if name == "anno-reg" else {}))
    batch = whole(data)
    f = method.predict_proba(batch.x).numpy()
    W = method.raw_pi_r.detach().numpy()
    assert W.shape == (4, 2 if name == "dl-cl-over" else 1, 3, 3)
    expected = np.array([np.log(layer(f[i], W[r])[y]) for i, r, y in triples(batch)])
    np.testing.assert_allclose(method.score_annotations(batch), expected, atol=1e-12)
    assert method(method.scaled(batch)).item() == pytest.approx(-expected.mean(), abs=1e-12)
    pi_g, pi_r = (tensor.detach().numpy() for tensor in method.confusion_matrices())
    own = np.array([[layer(np.eye(3)[c], W[r]) for c in range(3)] for r in range(4)])
    counts = method.labels_per_annotator.numpy()
    pooled = sum(counts[r] * own[r] for r in range(4)) / counts.sum()
    np.testing.assert_allclose(pi_g, pooled, atol=1e-12)
    np.testing.assert_allclose(pi_r[:3], own[:3], atol=1e-12)
    np.testing.assert_allclose(pi_r[3], pooled, atol=1e-12)  # he never answered


@pytest.mark.parametrize("name", ["dl-cl", "dl-cl-over", "anno-reg"])
@pytest.mark.parametrize("unknown", [-1, 3])
def test_an_unknown_annotator_is_scored_by_the_mean(name: str, unknown: int, made: Made, whole: Whole) -> None:
    method, data = made(name)
    x = whole(data).x[:1]
    batch = Batch(x, torch.tensor([0]), torch.tensor([0]), torch.tensor([unknown]), torch.tensor([1]))
    expected = method.predict_proba(x)[0] @ method.confusion_matrices()[0][:, 1]
    torch.testing.assert_close(method.score_annotations(batch)[0], expected.log().detach())


def test_the_trace_is_added_and_unbiased(made: Made, whole: Whole) -> None:
    """The mean of the batch losses' trace terms over all batches of one is the whole sum over annotators."""
    method, data = made("anno-reg", lam=0.25)
    plain, _ = made("anno-reg", lam=0.0)
    batch = whole(data)
    W = method.raw_pi_r.detach().numpy()[:, 0]
    trace = sum(softmax(W[r], axis=-1)[c, c] for r in range(3) for c in range(3))
    assert (method(method.scaled(batch)) - plain(plain.scaled(batch))).item() == pytest.approx(0.25 * trace, abs=1e-12)
    singles = [data.cut(np.array([i])) for i in range(12)]
    singles = [single._replace(x=single.x.double()) for single in singles]
    terms = [(method(single) - plain(single)).item() for single in singles]
    assert np.mean(terms) == pytest.approx(0.25 * trace, abs=1e-6)


def test_layers_start_at_multiples_of_the_identity(made: Made) -> None:
    from conal import methods
    from conal.methods import Problem

    problem = Problem((2,), 3, 2, 1, torch.tensor([1, 1]))
    for name, start in (("dl-cl", 1.0), ("dl-cl-over", 4.0), ("anno-reg", 2.0)):
        method: Any = methods.get(name)(problem, torch.nn.Linear(2, 3))
        assert torch.equal(method.raw_pi_r, (start * torch.eye(3)).expand_as(method.raw_pi_r))
    with pytest.raises(InputError, match="start must be a finite number"):
        methods.get("dl-cl")(problem, torch.nn.Linear(2, 3), start="x")
    with pytest.raises(InputError, match="lam must be a finite number of at least 0"):
        methods.get("anno-reg")(problem, torch.nn.Linear(2, 3), lam=-1.0)


def test_the_trace_pulls_at_the_matrices(made: Made, whole: Whole) -> None:
    """By the derivative of a softmax: lam pi_cc (delta - pi_c)."""
    method, data = made("anno-reg", lam=0.25)
    plain, _ = made("anno-reg", lam=0.0)
    for each in (method, plain):
        each(whole(data)).backward()
    pi = method.raw_pi_r.detach()[:3, 0].softmax(-1)
    expected = 0.25 * pi.diagonal(dim1=-2, dim2=-1)[..., None] * (torch.eye(3).double() - pi)
    found = method.raw_pi_r.grad[:3, 0] - plain.raw_pi_r.grad[:3, 0]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["dl-cl", "anno-reg"])
def test_saturated_layers_give_no_nan(name: str, made: Made, whole: Whole) -> None:
    """Two annotators, each certain of another class."""
    method, data = made(name, start=500.0)
    probas = method.float().infer(whole(data)._replace(x=whole(data).x.float()))
    torch.testing.assert_close(probas.sum(-1), torch.ones(12))
