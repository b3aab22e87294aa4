"""Lazy Adam against Adam row by row."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conal.networks.noise_layers import take_rows
from conal.training.checkpoint import optimizer_tensors, restore_optimizer
from conal.training.optimizer import LazyAdam

R, C = 1500, 3
LR = 0.02


def slow_adam(start: Tensor, batches: list[Tensor], gradients: list[Tensor]) -> Tensor:
    """The update rule written out: every row has a clock of its own, which the batches without it do not move."""
    table = start.clone().double()
    m, v, t = torch.zeros_like(table), torch.zeros_like(table), np.zeros(R)
    for rows, gradient in zip(batches, gradients, strict=True):
        for row, g in zip(rows.tolist(), gradient.double(), strict=True):
            t[row] += 1
            m[row] = 0.9 * m[row] + 0.1 * g
            v[row] = 0.999 * v[row] + 0.001 * g * g
            step = (m[row] / (1 - 0.9 ** t[row])) / ((v[row] / (1 - 0.999 ** t[row])).sqrt() + 1e-8)
            table[row] -= LR * step
    return table


def batches_of_rows(seed: int = 0) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(np.sort(rng.choice(40, size=12, replace=False))) for _ in range(30)]


def train(start: Tensor, batches: list[Tensor], gradients: list[Tensor], at: int | None = None) -> Tensor:
    """Steps whose gradients are given; with ``at``, a new optimiser goes on from the state of the old one there."""
    table = torch.nn.Parameter(start.clone())
    optimizer = LazyAdam([table], lr=LR, fused=True)
    for number, (rows, gradient) in enumerate(zip(batches, gradients, strict=True)):
        if number == at:
            kept = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer).items()}
            optimizer = LazyAdam([table], lr=LR, fused=True)
            restore_optimizer(optimizer, kept)
        optimizer.zero_grad()
        (take_rows(table, rows) * gradient).sum().backward()
        optimizer.step()
    return table.detach()


@pytest.mark.parametrize("at", [None, 11])
def test_rows_follow_adam_on_the_batches_they_are_in(at: int | None) -> None:
    torch.manual_seed(1)
    start, batches = torch.randn(R, C, C), batches_of_rows()
    gradients = [torch.randn(len(rows), C, C) for rows in batches]
    found = train(start, batches, gradients, at)
    torch.testing.assert_close(found.double(), slow_adam(start, batches, gradients), rtol=0, atol=5e-6)
    untouched = sorted(set(range(R)) - set(torch.cat(batches).tolist()))
    assert torch.equal(found[untouched], start[untouched])


def test_where_every_batch_has_every_row_it_is_adam() -> None:
    torch.manual_seed(2)
    start, everyone = torch.randn(R, C, C), torch.arange(R)
    gradients = [torch.randn(R, C, C) for _ in range(10)]
    found = train(start, [everyone] * 10, gradients)
    usual = torch.nn.Parameter(start.clone())
    adam = torch.optim.Adam([usual], lr=LR)
    for gradient in gradients:
        usual.grad = gradient.clone()
        adam.step()
    torch.testing.assert_close(found, usual.detach(), rtol=0, atol=2e-6)


def test_dense_parameters_beside_a_table() -> None:
    torch.manual_seed(3)
    table, weight = torch.nn.Parameter(torch.zeros(R, 2)), torch.nn.Parameter(torch.randn(2))
    usual = torch.nn.Parameter(weight.detach().clone())
    optimizer, adam = LazyAdam([table, weight], lr=LR, fused=True), torch.optim.Adam([usual], lr=LR)
    for _ in range(5):
        for parameter, other in ((weight, optimizer), (usual, adam)):
            other.zero_grad()
            (take_rows(table.detach(), torch.tensor([3])).sum() + parameter.square().sum()).backward()
        (take_rows(table, torch.tensor([3, 9]))).sum().backward()
        optimizer.step()
        adam.step()
    torch.testing.assert_close(weight, usual)
    assert table.grad is not None
    assert table.grad.is_sparse
    assert torch.count_nonzero(table.detach().sum(1)) == 2


def test_a_closure_is_called() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = LazyAdam([weight], lr=LR)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss.detach()

    assert float(optimizer.step(closure)) == 1.0
    assert float(weight.detach()) < 1


def test_steps_and_checkpoints_do_not_import_the_compiler() -> None:
    code = """
import sys, torch
from conal.training.checkpoint import optimizer_tensors
from conal.training.optimizer import LazyAdam
layer = torch.nn.Linear(2, 1)
optimizer = LazyAdam(layer.parameters(), lr=0.1)
optimizer.zero_grad()
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
assert len(optimizer_tensors(optimizer)) == 6
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
