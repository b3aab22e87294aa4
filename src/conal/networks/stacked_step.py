"""Loss and gradients of stacked perceptrons, written out: no graph, and memory that every step uses again."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from conal.networks.dropout import draw_kept

if TYPE_CHECKING:
    from conal.networks.stacked import Seen

__all__ = ["PerceptronStep"]


class PerceptronStep:
    r"""The cross-entropy of K multilayer perceptrons without batch normalisation, with its gradients.

    With :math:`h_0 = x`, :math:`h_l = m_l \odot \max(0, W_l h_{l-1} + b_l)`, masks m of dropout, and logits a,

    .. math::
        \mathcal L = - w \sum_i \sum_c q_{ic} \log \mathrm{softmax}(a_i)_c, \qquad
        \delta_a = w (\mathrm{softmax}(a) \textstyle\sum_c q_c - q), \qquad
        \delta_{l-1} = m_{l-1} \odot [h_{l-1} > 0] \odot W_l^\top \delta_l

    It computes what automatic differentiation would, of small steps in about two thirds of the time.

    Parameters
    ----------
    layers : list of pairs of tensors
        (K, H, D) weights and (K, H) biases, from the input to the logits.
    input_dropout : nn.Module
        What is done to the instances first.
    dropout : list of float
        Probability of dropping a unit, for every layer but the last.
    """

    def __init__(self, layers: list[tuple[Tensor, Tensor]], input_dropout: nn.Module, dropout: list[float]) -> None:
        self.layers, self.input_dropout, self.dropout = layers, input_dropout, dropout
        self._memory: dict[str, Tensor] = {}

    def __call__(self, x: Tensor, seen: Seen, target: Tensor, weight: float) -> Tensor:
        """The loss; ``target`` is (M, C), in the order of ``seen.rows``."""
        parameters = [each for layer in self.layers for each in layer]
        wanted = torch.is_grad_enabled()
        loss: Tensor = _Step.apply(self, x, seen, target, weight, wanted, *parameters)  # type: ignore[no-untyped-call]
        return loss

    def forward(self, x: Tensor, seen: Seen) -> list[Tensor]:
        """The inputs, the hidden layers and the logits."""
        inputs = self.input_dropout(x.flatten(1))
        made = [torch.index_select(inputs, 0, seen.around, out=self._room("x", len(seen.around), inputs.shape[1]))]
        for level, (weight, bias) in enumerate(self.layers):
            h = self._room(f"h{level}", sum(seen.sizes), weight.shape[1])
            for own, piece, w, b in zip(h.split(seen.sizes), _pieces(seen, level), weight, bias, strict=True):
                torch.addmm(b, made[-1][piece], w.T, out=own)
            if level < len(self.dropout):
                h.relu_()
                if self.dropout[level]:
                    h.mul_(draw_kept(self._room(f"m{level}", *h.shape), self.dropout[level]))
            made.append(h)
        return made

    def backward(self, made: list[Tensor], delta: Tensor, seen: Seen) -> list[Tensor]:
        """Gradients of weights and biases, from those of the logits."""
        found: list[Tensor] = []
        for level in range(len(self.layers) - 1, -1, -1):
            (weight, bias), h = self.layers[level], made[level]
            parts = delta.split(seen.sizes)
            by_weight, by_bias = torch.empty_like(weight), torch.empty_like(bias)
            for k, (part, piece) in enumerate(zip(parts, _pieces(seen, level), strict=True)):
                torch.mm(part.T, h[piece], out=by_weight[k])
                torch.sum(part, 0, out=by_bias[k])
            found = [by_weight, by_bias, *found]
            if level:
                delta = self._room(f"d{level}", *h.shape)
                for own, part, w in zip(delta.split(seen.sizes), parts, weight, strict=True):
                    torch.mm(part, w, out=own)
                if self.dropout[level - 1]:
                    delta.mul_(self._room(f"m{level - 1}", *h.shape))
                # What is dropped is zero too, and so are its gradients already.
                torch.ops.aten.threshold_backward.grad_input(delta, h, 0, grad_input=delta)
        return found

    def _room(self, name: str, *shape: int) -> Tensor:
        """Memory for a tensor, with whatever is in it: the same for the same name, if it is large enough."""
        kept = self._memory.get(name)
        if kept is None or kept.numel() < prod(shape):
            kept = self._memory[name] = self.layers[0][0].new_empty(prod(shape))
        return kept[: prod(shape)].view(shape)


def _pieces(seen: Seen, level: int) -> list[slice]:
    """The rows of each network: at first they overlap, from the first hidden layer on every network has its own."""
    starts = [0, *accumulate(seen.sizes[:-1])] if level else seen.starts
    return [slice(start, start + size) for start, size in zip(starts, seen.sizes, strict=True)]


class _Step(torch.autograd.Function):
    """A loss whose gradients are computed with it."""

    @staticmethod
    def forward(
        ctx: Any, step: PerceptronStep, x: Tensor, seen: Seen, target: Tensor, weight: float, wanted: bool, *_: Tensor
    ) -> Tensor:
        made = step.forward(x, seen)
        log_proba = made[-1].log_softmax(-1)
        loss = (log_proba * target).sum() * -weight
        if wanted:
            delta = log_proba.exp_().mul_(target.sum(-1, keepdim=True)).sub_(target).mul_(weight)
            ctx.found = step.backward(made, delta, seen)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        factor = float(gradients[0])
        found = ctx.found if factor == 1 else [each * factor for each in ctx.found]
        ctx.found = None  # the optimiser may keep them without a copy
        return (None,) * 6 + tuple(found)
