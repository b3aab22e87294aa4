"""Confusion matrices for methods without confusion matrices, counted against the classifier's predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from conal.aggregation.two_sources import rows
from conal.methods.base import Batch, CrowdMethod
from conal.methods.expected_counts import ExpectedCounts
from conal.training.batches import CrowdBatches
from conal.training.instances import placed

__all__ = ["PRIOR_STRENGTH", "estimate_confusion", "to_device"]

PRIOR_STRENGTH = 1.0
"""Pseudo-labels per row that pull an annotator's matrix towards the common one."""


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on another device."""
    codes = {name: getattr(batch, name).to(device) for name in Batch._fields if name not in ("x", "weights")}
    return batch._replace(x=placed(batch.x, device), **codes)


@torch.no_grad()
def estimate_confusion(method: CrowdMethod, training: CrowdBatches, class_proba: Tensor | None = None) -> None:
    r"""Set the method's estimated confusion matrices.

    .. math::
        n_r[c, l] = \sum_{i : y_i^r = l} f_c(x_i), \quad
        \pi^g[c, l] \propto \textstyle\sum_r n_r[c, l] + \tfrac1C, \quad
        \pi^r[c, l] = \frac{n_r[c, l] + \alpha \pi^g[c, l]}{\sum_{l'} n_r[c, l'] + \alpha}

    with :math:`\alpha` = :data:`PRIOR_STRENGTH`. An annotator without labels gets the common matrix.

    Parameters
    ----------
    class_proba : (N, C) tensor, optional
        f of all training instances, where it is known already.
    """
    device = next(method.parameters()).device
    R, C = method.problem.n_annotators, method.problem.n_classes
    counts = ExpectedCounts(R, C, like=torch.zeros((), device=device))
    method.eval()
    for batch in training.labelled_in_order():
        moved = to_device(batch, device)
        probas = method.predict_proba(moved.x) if class_proba is None else class_proba[batch.instances].to(device)
        certain = method.with_truth(probas.float(), moved.instances)
        counts.add(certain[moved.rows], moved.annotators, moved.labels)
    by_annotator = counts.matrices()
    common = rows(by_annotator.sum(0), 1 / C)
    method.estimated_pi_g.copy_(common)
    total = by_annotator.sum(-1, keepdim=True) + PRIOR_STRENGTH
    method.estimated_pi_r.copy_((by_annotator + PRIOR_STRENGTH * common) / total)
