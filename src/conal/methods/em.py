"""What methods share that alternate between inferring the true labels and training the network on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from conal.aggregation.votes import Votes, vote_shares
from conal.data.annotations import Annotations
from conal.methods.base import Batch, CrowdMethod, Problem
from conal.parameters import number, parameter, whole

__all__ = ["EMMethod", "smoothed"]


class EMMethod(CrowdMethod):
    r"""Base of methods trained by expectation-maximisation with a network in the M-step.

    .. math::
        \text{E:} \quad q_i(c) \propto f_c(x_i) \prod_r p(y_i^r \mid z_i = c), \qquad
        \text{M:} \quad \mathcal L = - \frac1N \sum_i \sum_c q_i(c) \log f_c(x_i)

    and the annotators' parameters in closed form from the expected counts. The first posterior is the vote shares. A
    round is some epochs of the M-step's cross-entropy and then an E-step over all training tasks.
    """

    models_annotators = True
    prior_in_e_step = True
    posterior: Tensor
    epochs_done: Tensor

    epochs_per_round: int = parameter(default=1, must_be=whole(1), help="Epochs between E-steps.")
    smoothing: float = parameter(
        default=0.1, must_be=number(above=0), help="Pseudo-labels in every cell of a confusion matrix."
    )

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        self.register_buffer("epochs_done", torch.zeros((), dtype=torch.int64), persistent=False)

    def update_confusion(self, counts: Tensor) -> None:
        """Fit the annotators' parameters to expected counts (R, C, C), ``[r, true, observed]``."""
        raise NotImplementedError

    @torch.no_grad()
    def prepare(self, annotations: Annotations) -> None:
        """Start from the vote shares."""
        shares = vote_shares(annotations)
        self.register_buffer("posterior", torch.from_numpy(shares).to(torch.float32), persistent=False)
        counts = Votes(annotations).counts(shares)
        self.update_confusion(torch.from_numpy(counts.copy()).to(torch.float32))

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy between the inferred labels and the classifier's probabilities."""
        target = self.posterior[batch.instances]
        return cross_entropy(self.class_logits(batch.x), target, reduction="sum") * batch.instance_weight

    @torch.no_grad()
    def end_epoch(self, batches: Iterable[Batch]) -> None:
        """At the end of a round: infer the labels, then fit the annotators to them."""
        self.epochs_done += 1
        if int(self.epochs_done) % self.epochs_per_round == 0:
            self.eval()
            self.em_round(batches)

    def em_round(self, batches: Iterable[Batch]) -> None:
        """One E-step and the closed forms of the M-step."""
        self.update_confusion(self.e_step(batches))

    def e_step(self, batches: Iterable[Batch]) -> Tensor:
        """Set the posterior of every training task; (R, C, C) expected counts ``[r, true, observed]``."""
        R, C = self.problem.n_annotators, self.problem.n_classes
        counts = self.posterior.new_zeros(R * C, C)
        self.meet_prior(self.posterior.mean(0))
        for batch in batches:
            posterior = self.infer(batch).to(self.posterior.dtype)
            self.posterior[batch.instances] = posterior
            counts.index_add_(0, batch.annotators * C + batch.labels, posterior[batch.rows])
        return counts.view(R, C, C).transpose(1, 2)

    def working_state(self) -> dict[str, Tensor]:
        """The posterior, and where in a round training is."""
        return {"posterior": self.posterior, "epochs_done": self.epochs_done}


def smoothed(counts: Tensor, pseudo: float) -> Tensor:
    """Expected counts (..., C, C) as confusion matrices with pseudo-labels in every cell."""
    total = counts + pseudo
    return total / total.sum(-1, keepdim=True)
