"""Label accuracy of the Bayes-optimal rule, which knows the parameters of a simulated crowd."""

from __future__ import annotations

import numpy as np

from conal import theory
from conal.datasets import CrowdDataset
from conal.errors import InputError

__all__ = ["bayes_label_accuracy"]


def bayes_label_accuracy(data: CrowdDataset, *, gate: bool = True) -> float:
    """Share of training labels that the Bayes-optimal decision infers correctly from annotations alone.

    Parameters
    ----------
    data : CrowdDataset
        A simulated dataset, with its truth.
    gate : bool
        Whether omega is known for every annotation, or only its mean for every annotator. The difference is what
        can be gained, beyond a confusion matrix per annotator, by knowing which labels come from common noise.

    Examples
    --------
    >>> from conal.datasets import load
    >>> data = load("synthetic", n_train=500, gate_scale=0)  # a constant omega
    >>> bayes_label_accuracy(data) == bayes_label_accuracy(data, gate=False)
    True
    """
    crowd, truth = data.annotations, data.truth
    if truth is None:
        raise InputError(f"{data.name}: the true parameters of this crowd are unknown")
    known = truth.omega
    if not gate:
        count = np.bincount(crowd.annotators, minlength=crowd.n_annotators)
        mean = np.bincount(crowd.annotators, weights=known, minlength=crowd.n_annotators) / np.maximum(count, 1)
        known = mean[crowd.annotators]
    omega = np.zeros((crowd.n_tasks, crowd.n_annotators))
    omega[crowd.tasks, crowd.annotators] = known
    rho = np.bincount(truth.z, minlength=crowd.n_classes) / len(truth.z)
    best = theory.posterior(crowd.to_matrix(), rho, truth.pi_g, truth.pi_r, omega).argmax(axis=1)
    return float((best == truth.z).mean())
