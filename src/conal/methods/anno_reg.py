"""Anno-Reg: confusion matrices per annotator, kept from explaining too little by a penalty on their trace."""

from __future__ import annotations

import torch
from torch import Tensor

from conal.methods.annotator_layers import AnnotatorLayersMethod
from conal.methods.base import Batch, register
from conal.networks.noise_adaptation import label_columns
from conal.parameters import number, parameter

__all__ = ["AnnoRegMethod"]


@register("anno-reg")
class AnnoRegMethod(AnnotatorLayersMethod):
    r"""Learning from noisy labels by regularised estimation of annotator confusion (Anno-Reg).

    Classifier and confusion matrices are learned together. Many pairs explain the labels equally well; the trace of
    the matrices is *minimised*, which chooses the pair that blames the annotators most and leaves the classifier
    the clean rest:

    .. math::
        \mathcal L = - \frac{1}{|\mathcal O|} \sum_{(i, r) \in \mathcal O} \log \sum_c f_c(x_i) \pi^r_{c, y_i^r}
            + \lambda \sum_r \mathrm{tr}(\pi^r)

    The second sum runs over annotators who gave labels; a batch takes its own, weighted to be unbiased.

    References
    ----------
    Tanno, Saeedi, Sankaranarayanan, Alexander and Silberman (2019). Learning from noisy labels by regularized
    estimation of annotator confusion. CVPR.

    Example
    -------
    >>> import conal
    >>> conal.make("anno-reg", lam=0.1).lam
    0.1
    """

    lam: float = parameter(default=0.01, must_be=number(at_least=0), help="Weight of the trace.")
    start = 2.0

    def loss(self, batch: Batch) -> Tensor:
        """Negative log-likelihood per annotation, and the trace of the confusion matrices."""
        present = self.present(batch)
        weights = present.take(self.raw_pi_r)
        trace = torch.einsum("acc->a", self.label_confusion(weights))
        return self._loss(batch, present, weights) + self.lam * (self.presence(batch, present) * trace).sum()

    def label_log_prob(self, log_class_proba: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """(P,) log sum_c f_c pi_r[c, y]."""
        log_pi = label_columns(own.squeeze(0).log_softmax(1), labels)
        return torch.logsumexp(log_class_proba + log_pi, dim=0)

    def label_confusion(self, weights: Tensor) -> Tensor:
        """(A, C, C) softmax of each row."""
        return weights.squeeze(1).softmax(-1)
