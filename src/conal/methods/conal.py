"""CoNAL, the paper's method: common and individual noise adaptation layers behind one classifier."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from conal.errors import InputError
from conal.methods.base import Batch, CrowdMethod, Problem, register
from conal.methods.two_source_noise import ATTRIBUTED
from conal.networks import AuxiliaryNetwork, NoiseAdaptation
from conal.networks.noise_layers import Layer, Mixing, Present, log_softmax, spread
from conal.parameters import Doc, number, parameters, whole


@parameters
class CoNALParameters:
    """Parameters of :class:`CoNALMethod`."""

    embedding_dim: Annotated[
        int, whole(1), Doc("Dimension of the annotator and instance embeddings that determine omega.")
    ] = 20
    lam: Annotated[
        float, number(at_least=0), Doc("Weight of the term that pushes the individual layers away from the common one.")
    ] = 1e-5
    mixing: Annotated[
        Mixing, Doc("Mix the two distributions, as the paper does, or the two logit vectors, as published code does.")
    ] = "probability"
    layer: Annotated[
        Layer,
        Doc(
            "A layer computes softmax(f W), or f times a row-stochastic matrix. On LabelMe's validation set the first "
            "was better; on held-out Music songs they were equal."
        ),
    ] = "softmax"
    likelihood: Annotated[
        Literal["annotation", "joint"],
        Doc(
            "Sum over the true label for each annotation separately (the paper's loss) or for all annotations of an "
            "instance jointly, as "
            "log sum_z f_z prod_r p(y^r | z), which needs layer='row-stochastic'."
        ),
    ] = "annotation"
    start: Annotated[
        float,
        number(),
        Doc(
            "Every layer starts at this multiple of the identity, since annotators are mostly right; twice the "
            "identity is that of published code."
        ),
    ] = 2.0
    omega_scale: Annotated[
        float | Literal["learn", "spread"],
        number(),
        Doc(
            "Factor on the inner product in omega. 'spread' learns how much omega varies, and keeps its level within "
            "the paper's bounds, which identify the common confusion. The paper's 1 confines omega to [0.27, 0.73]. "
            "'learn' is free: it can be more accurate, but where omega hardly varies it runs to 0, and the common "
            "matrix is lost."
        ),
    ] = "spread"


@register("conal")
class CoNALMethod(CrowdMethod, CoNALParameters):
    r"""Common and individual noise adaptation layers, mixed by an auxiliary network: the paper's method.

    A label comes either from the common confusion, which all annotators share, or from the annotator's individual
    confusion. An auxiliary network predicts which, for every instance and annotator. Everything is trained together by
    the likelihood of the observed labels:

    .. math::
        \mathcal L = - \frac{1}{|\mathcal O|} \sum_{(i, r) \in \mathcal O}
            \log \bigl[ \omega_i^r p_{W^g}(y_i^r \mid f(x_i)) + (1 - \omega_i^r) p_{W^r}(y_i^r \mid f(x_i)) \bigr]
            - \lambda \sum_r \| W^g - W^r \|_2

    The first sum is a mean over the observed annotations. The second runs over annotators who gave labels. A
    batch sums over its own annotators, weighted so that the expected sum is the whole one.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI.

    Examples
    --------
    >>> import conal
    >>> data = conal.datasets.synthetic(n_train=300, n_classes=3, seed=1)
    >>> clf = conal.CoNAL(epochs=20, batch_size=32).fit(data.x, data.annotations)
    >>> clf.predict(data.test.x).shape, clf.common_confusion_.shape
    ((1000,), (3, 3))
    """

    models_annotators = True
    separates_noise = True
    common_meaning = ATTRIBUTED

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        if self.likelihood == "joint" and self.layer != "row-stochastic":
            raise InputError("likelihood='joint' needs P(y | z), a confusion matrix; use layer='row-stochastic'")
        R, C = problem.n_annotators, problem.n_classes
        self.noise = NoiseAdaptation(C, R, layer=self.layer, mixing=self.mixing, start=float(self.start))
        self.auxiliary = AuxiliaryNetwork(
            math.prod(problem.shape),
            R,
            embedding_dim=self.embedding_dim,
            annotator_features=problem.annotator_features,
            scale=self.omega_scale,
        )

    def loss(self, batch: Batch) -> Tensor:
        """Negative log-likelihood per annotation, and the term that separates the layers."""
        present = self.present(batch)
        weights = present.take(self.noise.raw_pi_r)
        omega_logits = self.auxiliary(batch.x, batch.rows, present)
        own = spread(weights, present.place)
        if self.likelihood == "joint":
            data = self._joint(batch, omega_logits, own)
        else:
            data = self._log_prob(batch, omega_logits, own).sum()
        separation = (self.presence(batch, present) * self.noise.separation(weights)).sum()
        return -data * batch.label_weight - self.lam * separation

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log p(y | x) under the mixture of the two layers."""
        return self._log_prob(batch, *self._gate_and_own(batch))

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log [omega pi_g + (1 - omega) pi_r] at the observed labels."""
        return self.noise.log_prob_given_class(*self._gate_and_own(batch), batch.labels)

    def omega_of(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's pairs; 1 for annotators without training labels."""
        return self._gate(batch, self.present(batch)).sigmoid()

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """The two kinds of confusion, read from the weights by a softmax on each row."""
        pi_g = self.noise.pi_g
        return pi_g, self.known_or_common(pi_g, self.noise.pi_r)

    def _gate_and_own(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(P,) omega's logits and (C, C, P) the individual layers of the pairs' annotators."""
        present = self.present(batch)
        return self._gate(batch, present), spread(present.take(self.noise.raw_pi_r), present.place)

    def _gate(self, batch: Batch, present: Present) -> Tensor:
        """(P,) omega's logits; infinite for annotators without training labels, who get the common layer."""
        return torch.where(self.is_known(batch.annotators), self.auxiliary(batch.x, batch.rows, present), torch.inf)

    def _log_prob(self, batch: Batch, omega_logits: Tensor, own: Tensor) -> Tensor:
        log_class_proba = log_softmax(self.class_logits(batch.x))
        return self.noise.log_prob(log_class_proba, omega_logits, batch.rows, own, batch.labels)

    def _joint(self, batch: Batch, omega_logits: Tensor, own: Tensor) -> Tensor:
        given_class = self.noise.log_prob_given_class(omega_logits, own, batch.labels)
        log_joint = log_softmax(self.class_logits(batch.x)).index_add(0, batch.rows, given_class)
        return torch.logsumexp(log_joint, dim=-1).sum()
