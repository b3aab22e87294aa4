"""Anno-Reg: a confusion matrix per annotator, and a penalty on its trace."""

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
    r"""A confusion matrix per annotator with a penalty on its trace (Anno-Reg; Tanno et al. 2019).

    Classifier and confusion matrices are learned together. Many pairs of them explain the labels equally well. The
    trace of the matrices is *minimised*: of these pairs, it selects the one that attributes most of the noise to the
    annotators and leaves the classifier clean:

    .. math::
        \mathcal L = - \frac{1}{|\mathcal O|} \sum_{(i, r) \in \mathcal O} \log \sum_c f_c(x_i) \pi^r_{c, y_i^r}
            + \lambda \sum_r \mathrm{tr}(\pi^r)

    The second sum runs over annotators who gave labels. A batch sums over its own annotators, weighted so that the
    expected sum is the whole one.

    References
    ----------
    Tanno, Saeedi, Sankaranarayanan, Alexander and Silberman (2019). Learning from noisy labels by regularized
    estimation of annotator confusion. CVPR.

    Examples
    --------
    >>> import conal
    >>> conal.make("anno-reg", lam=0.1).lam
    0.1
    """

    lam: float = parameter(default=0.01, must_be=number(at_least=0), help="Weight lambda of the trace penalty.")
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
