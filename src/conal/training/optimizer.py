"""Adam, with sparse updates for tables of which a batch uses few rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from conal.networks.noise_layers import is_lazy

LONG = 20_000
"""Steps after which the correction of the moments has come to its end: 0.999 to this power is 2e-9."""


# PyTorch decorates these so that its compiler leaves them alone, and the first call imports the compiler: two seconds
# that a small fit does not otherwise take.
_ADD_PARAM_GROUP = inspect.unwrap(torch.optim.Adam.add_param_group)
_ZERO_GRAD = inspect.unwrap(torch.optim.Adam.zero_grad)
_STEP = inspect.unwrap(torch.optim.Adam.step)
_STATE_DICT = inspect.unwrap(torch.optim.Adam.state_dict)


class LazyAdam(torch.optim.Adam):
    r"""Adam, with a separate step count per row for sparse gradients.

    A row that has no gradient is left alone, moments included, and the bias of its moments is corrected by the number
    of steps that it took part in:

    .. math::
        t_r \leftarrow t_r + 1, \quad m_r \leftarrow \beta_1 m_r + (1 - \beta_1) g_r, \quad
        v_r \leftarrow \beta_2 v_r + (1 - \beta_2) g_r^2, \quad
        w_r \leftarrow w_r - \eta \frac{m_r / (1 - \beta_1^{t_r})}{\sqrt{v_r / (1 - \beta_2^{t_r})} + \epsilon}

    To each row this is Adam on the batches that it is in, and where every batch has every row it is Adam. The cost of
    a step follows the rows in it, not the size of the table.

    Parameters
    ----------
    params, lr, betas, eps
        As for :class:`torch.optim.Adam`.

    References
    ----------
    Kingma and Ba (2015). Adam: A method for stochastic optimization. ICLR.
    """

    gather: Callable[[Tensor], Tensor] | None = None
    """What makes of a sparse gradient the mean over all processes, where there are several."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch."""
        _ADD_PARAM_GROUP(self, param_group)

    def state_dict(self) -> dict[str, Any]:
        """As in torch; every checkpoint asks for it."""
        found: dict[str, Any] = _STATE_DICT(self)
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As in torch, without its profiler where gradients are dropped: that takes a twentieth of a small step."""
        if not set_to_none:
            _ZERO_GRAD(self, set_to_none)
            return
        for group in self.param_groups:
            for table in group["params"]:
                table.grad = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update sparse gradients by row, all others as in torch."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        sparse = []
        for group in self.param_groups:
            for table in group["params"]:
                if self.gather is not None and is_lazy(table):  # other processes have rows that this one has not
                    table.grad = self.gather(_empty(table) if table.grad is None else table.grad)
                if table.grad is not None and table.grad.is_sparse:
                    self._step_rows(table, group)
                    sparse.append((table, table.grad))
                    table.grad = None
        _STEP(self)
        for table, gradient in sparse:
            table.grad = gradient
        return loss

    def _step_rows(self, table: Tensor, group: dict[str, Any]) -> None:
        r"""One step of the rows that the gradient contains.

        Moments are kept corrected, which makes them averages: :math:`\hat m \leftarrow \hat m + (1 - \beta_1) /
        (1 - \beta_1^t) \, (g - \hat m)`, and the like for v.
        """
        rows, g = _rows_and_values(table.grad)  # type: ignore[arg-type]
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros(len(table), device=table.device)
            state["mean"], state["mean_square"] = torch.zeros_like(table), torch.zeros_like(table)
        steps = state["step"].index_select(0, rows).add_(1)
        state["step"].index_copy_(0, rows, steps)
        weights = _weights(*group["betas"], table.dtype, table.device).index_select(1, steps.clamp(max=LONG).long())
        weights = weights.view(2, -1, *[1] * (table.dim() - 1))
        mean = state["mean"].index_select(0, rows).lerp_(g, weights[0])
        square = state["mean_square"].index_select(0, rows).lerp_(g * g, weights[1])
        state["mean"].index_copy_(0, rows, mean)
        state["mean_square"].index_copy_(0, rows, square)
        table.index_add_(0, rows, mean.div_(square.sqrt_().add_(group["eps"])), alpha=-float(group["lr"]))


def _empty(table: Tensor) -> Tensor:
    """A gradient without rows."""
    index = torch.empty(1, 0, dtype=torch.int64, device=table.device)
    return torch.sparse_coo_tensor(index, table.new_empty(0, *table.shape[1:]), table.shape, is_coalesced=True)


def _rows_and_values(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Different rows and their gradients; they are already sorted if the table was used once."""
    rows = gradient._indices()[0]
    if bool((rows[1:] > rows[:-1]).all()):
        return rows, gradient._values()
    whole = gradient.coalesce()
    return whole.indices()[0], whole.values()


@cache
def _weights(beta1: float, beta2: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(2, LONG + 1) what the gradient counts in the averages at a row's t-th step."""
    betas, t = torch.tensor([[beta1], [beta2]], dtype=torch.float64), torch.arange(LONG + 1)
    return ((1 - betas) / (1 - betas**t).clamp(min=1e-12)).to(dtype).to(device)
