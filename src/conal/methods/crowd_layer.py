"""The crowd layer: one linear map and softmax per annotator behind the classifier (DL-CL), or two (DL-CL_Over)."""

from __future__ import annotations

import torch
from torch import Tensor

from conal.methods.annotator_layers import AnnotatorLayersMethod
from conal.methods.base import register
from conal.networks.noise_adaptation import pick

__all__ = ["CrowdLayerMethod", "OverparameterisedCrowdLayerMethod"]


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


@register("dl-cl-over")
class OverparameterisedCrowdLayerMethod(CrowdLayerMethod):
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
    start = 4.0
