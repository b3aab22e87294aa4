"""A layer per annotator after the classifier: crowd layer (DL-CL), two of them (DL-CL_Over), and Anno-Reg."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor, nn

from conal.methods.base import Batch, CrowdMethod, Problem, register
from conal.networks.noise_layers import Present, label_columns, log_softmax, pick, row_table, spread
from conal.parameters import Doc, number, parameters

# Base of methods with a layer per annotator after the classifier, and no common layer.


@parameters
class AnnotatorLayersParameters:
    """Parameters of :class:`AnnotatorLayersMethod`."""

    start: Annotated[
        float, number(), Doc("Every layer starts at this multiple of the identity, since annotators are mostly right.")
    ] = 1.0


class AnnotatorLayersMethod(CrowdMethod, AnnotatorLayersParameters):
    r"""Base of methods that explain a label by the classifier and the annotator's own layer.

    .. math::
        \mathcal L = - \frac{1}{|\mathcal O|} \sum_{(i, r) \in \mathcal O} \log p_{W^r}(y_i^r \mid f(x_i))

    Only the layers of the batch's annotators are touched. An annotator without training labels gets the mean of the
    others' confusion matrices, weighted by their labels.
    """

    models_annotators = True
    depth = 1
    """Layers per annotator."""

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        identity = float(self.start) * torch.eye(problem.n_classes)
        self.raw_pi_r = row_table(identity.repeat(problem.n_annotators, self.depth, 1, 1))

    # ---------------------------------------------------------------- what a subclass supplies

    def label_log_prob(self, log_class_proba: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """(P,) log p(y | f) by (depth, C, C, P) layers of the pairs' annotators, from (C, P) log f."""
        raise NotImplementedError

    def label_confusion(self, weights: Tensor) -> Tensor:
        """(A, C, C) confusion matrices equivalent to (A, depth, C, C) layers."""
        raise NotImplementedError

    # ---------------------------------------------------------------- what follows from it

    def loss(self, batch: Batch) -> Tensor:
        """Negative log-likelihood per annotation."""
        present = self.present(batch)
        return self._loss(batch, present, present.take(self.raw_pi_r))

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log p(y | x)."""
        log_class_proba = self._of_pairs(batch)
        present = self.present(batch)
        own = self.label_log_prob(log_class_proba, spread(present.take(self.raw_pi_r), present.place), batch.labels)
        common = torch.logsumexp(log_class_proba + self.confusion_matrices()[0][:, batch.labels].log(), dim=0)
        return torch.where(self.is_known(batch.annotators), own, common)

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """The annotators' matrices, and their mean for those without labels."""
        pi_r = self.label_confusion(self.raw_pi_r)
        pi_g = self.pooled(pi_r)
        return pi_g, self.known_or_common(pi_g, pi_r)

    def _loss(self, batch: Batch, present: Present, weights: Tensor) -> Tensor:
        log_prob = self.label_log_prob(self._of_pairs(batch), spread(weights, present.place), batch.labels)
        return -log_prob.sum() * batch.label_weight

    def _of_pairs(self, batch: Batch) -> Tensor:
        """(C, P) log f of each pair's instance."""
        return log_softmax(self.class_logits(batch.x)).T.index_select(1, batch.rows)


# The crowd layer: one linear map and softmax per annotator behind the classifier (DL-CL), or two (DL-CL_Over).


@register("dl-cl")
class CrowdLayerMethod(AnnotatorLayersMethod):
    r"""Crowd layer: a softmax layer per annotator behind the classifier (DL-CL; Rodrigues and Pereira 2018).

    Every annotator has a layer, which predicts the annotator's labels from the classifier's probabilities f. After
    training, the layers are dropped and f is the classifier:

    .. math:: p(y_i^r \mid x_i) = \mathrm{softmax}(f(x_i) W^r)

    References
    ----------
    Rodrigues and Pereira (2018). Deep learning from crowds. AAAI.

    Examples
    --------
    >>> import conal
    >>> conal.make("dl-cl", start=1.0).start
    1.0
    """

    def label_log_prob(self, log_class_proba: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """(P,) log softmax(f W^r) at the observed labels."""
        first, *others = own.unbind(0)
        logits = (log_class_proba.exp().unsqueeze(1) * first).sum(0)  # (C, P)
        for layer in others:
            logits = (logits.softmax(0).unsqueeze(1) * layer).sum(0)
        return pick(logits.log_softmax(0), labels)

    def label_confusion(self, weights: Tensor) -> Tensor:
        """(A, C, C) output of the layers for certain classes: row c is the distribution of labels if f is class c."""
        logits, *others = weights.unbind(1)
        for layer in others:
            logits = torch.bmm(logits.softmax(-1), layer)
        return logits.softmax(-1)


@parameters
class OverparameterisedCrowdLayerParameters(AnnotatorLayersParameters):
    """Parameters of :class:`OverparameterisedCrowdLayerMethod`."""

    start: float = 4.0


@register("dl-cl-over")
class OverparameterisedCrowdLayerMethod(CrowdLayerMethod, OverparameterisedCrowdLayerParameters):
    r"""The crowd layer with two layers per annotator, the paper's control for model size (DL-CL_Over).

    Twice the parameters and nothing shared: the paper's control, which shows that CoNAL's gain does not come from
    having more parameters to fit (Appendix C).

    .. math:: p(y_i^r \mid x_i) = \mathrm{softmax}(\mathrm{softmax}(f(x_i) W^r_1) W^r_2)

    Two softmax layers in a row flatten what passes through them, so they start steeper than one.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI. Appendix C.

    Examples
    --------
    >>> import conal
    >>> conal.make("dl-cl-over").method
    'dl-cl-over'
    """

    depth = 2


# Anno-Reg: a confusion matrix per annotator, and a penalty on its trace.


@parameters
class AnnoRegParameters(AnnotatorLayersParameters):
    """Parameters of :class:`AnnoRegMethod`."""

    start: float = 2.0
    lam: Annotated[float, number(at_least=0), Doc("Weight lambda of the trace penalty.")] = 0.01


@register("anno-reg")
class AnnoRegMethod(AnnotatorLayersMethod, AnnoRegParameters):
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
