"""Tables of annotators: long ones give the same losses and gradients as short ones, of the rows they touch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conal import methods
from conal.methods import Problem
from conal.methods.base import Batch
from conal.networks import MLP
from conal.networks.noise_layers import LAZY_ABOVE, Present, log_softmax, spread, take_rows

NAMES = ["conal", "dl-cl", "dl-cl-over", "anno-reg"]


def problem(n_annotators: int, given: torch.Tensor) -> Problem:
    return Problem((4,), 3, n_annotators, 50, given)


@pytest.mark.parametrize("name", NAMES)
def test_a_long_table_learns_what_a_short_one_does(name: str) -> None:
    """Annotators 0 to 9 of a crowd of 10, and annotators 100, 110, ... of a crowd of 1,200."""
    torch.manual_seed(0)
    short = methods.get(name)(problem(10, torch.full((10,), 7)), MLP(4, 3, dropout=0.0)).double()
    places, given = 100 + 10 * torch.arange(10), torch.zeros(1200, dtype=torch.int64)
    given[places] = 7
    long = methods.get(name)(problem(1200, given), MLP(4, 3, dropout=0.0)).double()
    with torch.no_grad():
        for parameter in short.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        theirs = dict(short.named_parameters())
        for key, parameter in long.named_parameters():
            if parameter.ndim and len(parameter) == 1200:
                parameter[places] = theirs[key]
            else:
                parameter.copy_(theirs[key])
    rng = np.random.default_rng(1)
    rows, annotators, labels = (torch.from_numpy(rng.integers(k, size=40)) for k in (8, 10, 3))
    batch = Batch(torch.randn(8, 4, dtype=torch.float64), torch.arange(8), rows, annotators, labels)
    losses = [short.loss(batch), long.loss(batch._replace(annotators=places[annotators]))]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-10, atol=1e-10)
    sparse = 0
    for key, parameter in long.named_parameters():
        found, expected = parameter.grad, theirs[key].grad
        assert found is not None
        assert expected is not None
        if found.is_sparse:
            sparse += 1
            assert set(found.coalesce().indices()[0].tolist()) == set(places[annotators].tolist())
            found = found.to_dense()[places]
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert sparse == (2 if name == "conal" else 1)


def test_rows_of_the_present() -> None:
    few, many = Present.of(torch.tensor([2, -1, 2]), 5), Present.of(torch.tensor([1002, -1, 1002]), LAZY_ABOVE + 5)
    assert few.codes is None
    assert few.place.tolist() == [2, 0, 2]
    assert many.codes is not None
    assert many.codes.tolist() == [0, 1002]
    assert many.place.tolist() == [1, 0, 1]
    table = torch.arange(LAZY_ABOVE + 5.0)[:, None]
    assert many.take(table).flatten().tolist() == [0.0, 1002.0]
    assert few.take(table) is table


def test_no_sparse_gradient_without_gradients() -> None:
    table = torch.nn.Parameter(torch.randn(2000, 2))
    with torch.no_grad():
        assert not take_rows(table, torch.tensor([1])).requires_grad
    assert take_rows(table.detach(), torch.tensor([1, 5])).shape == (2, 2)


def test_layout_along_pairs() -> None:
    rows = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    place = torch.tensor([3, 0, 0, 1, 3])
    torch.testing.assert_close(spread(rows, place), rows[place].permute(1, 2, 0))
    assert torch.autograd.gradcheck(lambda r: spread(r, place), (rows,))
    logits = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(log_softmax(logits), logits.log_softmax(-1))
    assert torch.autograd.gradcheck(log_softmax, (logits,))
