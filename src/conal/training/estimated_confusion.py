"""Confusion matrices for methods that have none of their own, counted against the classifier's predictions."""

from __future__ import annotations

import torch

from conal.methods.base import Batch, CrowdMethod
from conal.training.batches import CrowdBatches

__all__ = ["PRIOR_STRENGTH", "estimate_confusion", "to_device"]

PRIOR_STRENGTH = 1.0
"""Pseudo-labels per row that pull an annotator's matrix towards the common one."""


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on another device."""
    return batch._replace(**{name: getattr(batch, name).to(device) for name in Batch._fields if name != "weights"})


@torch.no_grad()
def estimate_confusion(method: CrowdMethod, training: CrowdBatches) -> None:
    r"""Set the method's estimated confusion matrices.

    .. math::
        n_r[c, l] = \sum_{i : y_i^r = l} f_c(x_i), \quad
        \pi^g[c, l] \propto \textstyle\sum_r n_r[c, l] + \tfrac1C, \quad
        \pi^r[c, l] = \frac{n_r[c, l] + \alpha \pi^g[c, l]}{\sum_{l'} n_r[c, l'] + \alpha}

    with :math:`\alpha` = :data:`PRIOR_STRENGTH`. An annotator without labels gets the common matrix.
    """
    device = next(method.parameters()).device
    C = method.problem.n_classes
    counts = torch.zeros(method.problem.n_annotators * C, C, device=device)
    method.eval()
    for batch in training.labelled_in_order():
        moved = to_device(batch, device)
        class_proba = method.predict_proba(moved.x).float()
        counts.index_add_(0, moved.annotators * C + moved.labels, class_proba[moved.rows])
    by_annotator = counts.view(-1, C, C).transpose(1, 2)  # (R, true, observed)
    common = by_annotator.sum(0) + 1 / C
    common = common / common.sum(-1, keepdim=True)
    method.estimated_pi_g.copy_(common)
    total = by_annotator.sum(-1, keepdim=True) + PRIOR_STRENGTH
    method.estimated_pi_r.copy_((by_annotator + PRIOR_STRENGTH * common) / total)
