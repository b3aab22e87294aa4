"""Adam, and what it does to tables of which a batch touches few rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from conal.compiled import kernel

__all__ = ["LazyAdam"]


class LazyAdam(torch.optim.Adam):
    r"""Adam, with rows of their own time where gradients are sparse.

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

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Sparse gradients by row, all others as ever."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        sparse = []
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None and table.grad.is_sparse:
                    self._step_rows(table, group)
                    sparse.append((table, table.grad))
                    table.grad = None
        super().step()
        for table, gradient in sparse:
            table.grad = gradient
        return loss

    def _step_rows(self, table: Tensor, group: dict[str, Any]) -> None:
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros(len(table), device=table.device)
            state["exp_avg"] = torch.zeros_like(table)
            state["exp_avg_sq"] = torch.zeros_like(table)
        rates = float(group["lr"]), *group["betas"], group["eps"]
        gradient = table.grad.coalesce()  # type: ignore[union-attr]
        if table.device.type == "cpu" and table.dtype == torch.float32 and step_rows.usable:
            arrays = [t.flatten(1).numpy() for t in (table.detach(), state["exp_avg"], state["exp_avg_sq"])]
            index, g = gradient.indices()[0], gradient.values().flatten(1).contiguous()
            step_rows(*arrays, state["step"].numpy(), index.numpy(), g.numpy(), *rates)
        else:
            _step_rows_by_torch(table, state, gradient, *rates)


def _step_rows_by_torch(
    table: Tensor, state: dict[str, Tensor], gradient: Tensor, lr: float, beta1: float, beta2: float, eps: float
) -> None:
    rows, g = gradient.indices()[0], gradient.values()
    steps = state["step"].index_select(0, rows).add_(1)
    m = state["exp_avg"].index_select(0, rows).lerp_(g, 1 - beta1)
    v = state["exp_avg_sq"].index_select(0, rows).mul_(beta2).addcmul_(g, g, value=1 - beta2)
    for name, values in (("step", steps), ("exp_avg", m), ("exp_avg_sq", v)):
        state[name].index_copy_(0, rows, values)
    time = steps.view(-1, *[1] * (table.dim() - 1))
    size = v.div_(1 - beta2**time).sqrt_().add_(eps)
    table.index_add_(0, rows, m.div_(1 - beta1**time).div_(size), alpha=-lr)


@kernel
def step_rows(  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    table, exp_avg, exp_avg_sq, steps, index, gradient, lr, beta1, beta2, eps
):
    """The same in one go over the (A, K) gradients of different rows."""
    b1, b2, tiny, one = np.float32(beta1), np.float32(beta2), np.float32(eps), np.float32(1)
    for p in range(len(index)):
        row = index[p]
        steps[row] += one
        scale = np.float32(lr / (1 - beta1 ** steps[row]))
        root = np.float32(1 / math.sqrt(1 - beta2 ** steps[row]))
        for k in range(gradient.shape[1]):
            g = gradient[p, k]
            exp_avg[row, k] = b1 * exp_avg[row, k] + (one - b1) * g
            exp_avg_sq[row, k] = b2 * exp_avg_sq[row, k] + (one - b2) * g * g
            table[row, k] -= scale * exp_avg[row, k] / (root * np.sqrt(exp_avg_sq[row, k]) + tiny)
