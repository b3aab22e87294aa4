"""The optimisers: which parameters go where, weight decay in closed form, checkpoints, and no compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

import conal
from conal.methods.base import CrowdMethod, Problem, methods
from conal.networks import MLP
from conal.networks.noise_layers import take_rows
from conal.training.optimizer import SparseAdam, make_optimizers, optimizer_tensors, restore_optimizer

D, C, LR, DECAY = 4, 3, 0.02, 0.3


def method_of(name: str, n_annotators: int) -> CrowdMethod:
    problem = Problem((D,), C, n_annotators, 50, torch.ones(n_annotators, dtype=torch.int64))
    return methods.get(name)(problem, MLP(D, C, hidden=(6,)))


@pytest.mark.parametrize("name", ["conal", "xconal", "dl-cl", "doctor-net", "aggnet"])
def test_one_step_without_gradients_shrinks_the_weights_of_networks_alone(name: str) -> None:
    method = method_of(name, 20)
    before = {key: value.detach().clone() for key, value in method.named_parameters()}
    (optimizer,) = make_optimizers(method, LR, DECAY)
    for parameter in method.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for key, value in method.named_parameters():
        is_network = key.startswith(("backbone.", "others.")) and value.dim() > 1
        factor = 1 - LR * DECAY if is_network else 1
        torch.testing.assert_close(value.detach(), before[key] * factor, rtol=1e-6, atol=0, msg=key)


def test_no_weight_decay_is_adam() -> None:
    torch.manual_seed(0)
    method = method_of("conal", 20)
    twins = [torch.nn.Parameter(each.detach().clone()) for each in method.parameters()]
    (optimizer,) = make_optimizers(method, LR)
    adam = torch.optim.Adam(twins, lr=LR)
    for _ in range(3):
        for parameter, twin in zip(method.parameters(), twins, strict=True):
            parameter.grad = twin.grad = torch.randn_like(parameter)
        optimizer.step()
        adam.step()
    for parameter, twin in zip(method.parameters(), twins, strict=True):
        torch.testing.assert_close(parameter, twin)


def test_a_fit_with_weight_decay_has_smaller_weights() -> None:
    data = conal.datasets.synthetic(n_train=200, n_classes=3, seed=1)
    norms = []
    for decay in (0.0, 3.0):
        clf = conal.CoNAL(epochs=30, weight_decay=decay, verbose=False).fit(data.x, data.annotations)
        norms.append(float(next(clf.model_.backbone.parameters()).detach().norm()))
    assert norms[1] < 0.8 * norms[0]


def test_long_tables_of_annotators_have_an_optimiser_of_their_own() -> None:
    assert len(make_optimizers(method_of("conal", 1000), LR)) == 1
    method = method_of("conal", 1500)
    networks, tables = make_optimizers(method, LR, DECAY)
    assert isinstance(tables, SparseAdam)
    counts = [sum(len(group["params"]) for group in each.param_groups) for each in (networks, tables)]
    assert counts == [len(list(method.parameters())) - 2, 2]


def steps(table: Tensor, optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        table.grad = None
        rows = torch.randperm(len(table), generator=torch.Generator().manual_seed(step))[:12].sort().values
        (take_rows(table, rows) * (rows[:, None] + 1)).sum().backward()
        optimizer.step()


def test_the_optimiser_of_tables_is_that_of_torch() -> None:
    found, expected = torch.nn.Parameter(torch.zeros(1500, C)), torch.nn.Parameter(torch.zeros(1500, C))
    steps(found, SparseAdam([found], lr=LR), 0, 9)
    steps(expected, torch.optim.SparseAdam([expected], lr=LR), 0, 9)
    torch.testing.assert_close(found, expected)


def test_rows_that_are_used_twice_are_summed() -> None:
    found, expected = torch.nn.Parameter(torch.ones(1500, C)), torch.nn.Parameter(torch.ones(1500, C))
    for table, optimizer in ((found, SparseAdam([found])), (expected, torch.optim.SparseAdam([expected]))):
        for _ in range(2):
            table.grad = None
            again = take_rows(table, torch.tensor([2, 7]))
            (take_rows(table, torch.tensor([1, 2])).square().sum() - again.sum()).backward()
            optimizer.step()
    torch.testing.assert_close(found, expected)


def test_the_optimiser_of_tables_goes_on_from_a_checkpoint() -> None:
    straight = torch.nn.Parameter(torch.zeros(1500, C))
    optimizer = SparseAdam([straight], lr=LR)
    steps(straight, optimizer, 0, 4)
    kept, resumed = optimizer_tensors(optimizer), torch.nn.Parameter(straight.detach().clone())
    again = SparseAdam([resumed], lr=LR)
    restore_optimizer(again, {name: tensor.clone() for name, tensor in kept.items()})
    steps(straight, optimizer, 4, 9)
    steps(resumed, again, 4, 9)
    assert torch.equal(resumed, straight)


def test_steps_and_checkpoints_do_not_import_the_compiler() -> None:
    code = """
import sys, torch
from conal.training.optimizer import AdamW, SparseAdam, optimizer_tensors
layer, table = torch.nn.Linear(2, 1), torch.nn.Parameter(torch.zeros(2, 1))
table.grad = torch.ones(2, 1).to_sparse(1)
both = AdamW(layer.parameters(), lr=0.1), SparseAdam([table], lr=0.1)
layer(torch.ones(1, 2)).sum().backward()
for optimizer in both:
    optimizer.step()
assert [len(optimizer_tensors(optimizer)) for optimizer in both] == [6, 3]
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
