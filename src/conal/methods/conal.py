"""CoNAL, the paper's method: common and individual noise adaptation layers behind one classifier."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from conal.aggregation.group_confusion import GroupConfusion
from conal.data.annotations import Annotations
from conal.errors import ConalWarning, InputError
from conal.methods.base import Batch, CrowdMethod, Problem, register
from conal.methods.two_source_noise import ATTRIBUTED
from conal.networks import AuxiliaryNetwork, NoiseAdaptation
from conal.networks.noise_layers import AnnotatorGroups, Layer, Mixing, Present, log_softmax, spread
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
    groups: Annotated[
        int | Literal["given"],
        whole(1),
        Doc(
            "Number of groups of annotators, each with a common layer of its own: the paper's future work. Who is in "
            "which is learned; 'given' takes the column 'group' of annotator_info. With 1, as in the paper, all "
            "annotators share one."
        ),
    ] = 1


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

    With ``groups=K``, the common layer of annotator r is that of the group,
    :math:`W^g_r = \sum_k q_r(k) W^k`. Groups start where ``group-confusion`` finds them in the labels alone, and
    follow the layers after every epoch (:class:`conal.networks.noise_layers.AnnotatorGroups`).

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
    groups_of_annotators: AnnotatorGroups | None
    common_meaning = ATTRIBUTED

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        if self.likelihood == "joint" and self.layer != "row-stochastic":
            raise InputError("likelihood='joint' needs P(y | z), a confusion matrix; use layer='row-stochastic'")
        R, C = problem.n_annotators, problem.n_classes
        K = self._number_of_groups()
        self.noise = NoiseAdaptation(C, R, layer=self.layer, mixing=self.mixing, start=float(self.start), n_groups=K)
        self.groups_of_annotators = AnnotatorGroups(R, K) if K > 1 else None
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
        everybody = torch.arange(self.problem.n_annotators, device=own.device)
        common = self._common(everybody if present.codes is None else present.codes)
        if self.likelihood == "joint":
            data = self._joint(batch, omega_logits, own)
        else:
            data = self._log_prob(batch, omega_logits, own).sum()
        separation = (self.presence(batch, present) * self.noise.separation(weights, common)).sum()
        return -data * batch.label_weight - self.lam * separation

    def prepare(self, annotations: Annotations) -> None:
        """Put the annotators into groups: those that are given, or that labels alone suggest."""
        if self.groups_of_annotators is None:
            return
        given = self.problem.annotator_groups
        if self.groups == "given" and given is not None:
            self.groups_of_annotators.start(one_hot(given))
            return
        found = GroupConfusion(groups=self.groups, verbose=False)
        with warnings.catch_warnings(action="ignore", category=ConalWarning):
            found.fit(annotations, true_labels=self.true_labels(annotations))
        self.groups_of_annotators.start(torch.from_numpy(found.membership_))

    def begin(self, batches: Iterable[Batch]) -> None:
        """In an update, groups keep their layers, which say where new annotators belong."""
        if self.groups_of_annotators is not None and self.groups != "given":
            self.groups_of_annotators.forget_start()
            self.end_epoch(batches)

    @torch.no_grad()
    def end_epoch(self, batches: Iterable[Batch]) -> None:
        """Put the annotators into the groups whose layers explain their labels best."""
        groups = self.groups_of_annotators
        if groups is None or self.groups == "given":
            return
        self.eval()
        found = torch.zeros_like(groups.membership)
        for batch in map(self.scaled, batches):
            alone = torch.full_like(batch.labels, torch.inf, dtype=found.dtype)  # logits of an omega of 1
            own = spread(self.noise.raw_pi_r[:1], torch.zeros_like(batch.labels))
            log_class_proba = log_softmax(self.class_logits(batch.x))
            for k, each in enumerate(torch.eye(len(groups.shares), device=found.device)):
                common = self.noise.weights_of_groups(each.expand(len(batch.labels), -1))
                explained = self.noise.log_prob(log_class_proba, alone, batch.rows, own, batch.labels, common)
                found[:, k].index_add_(0, batch.annotators, explained)
        groups.infer(found)

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log p(y | x) under the mixture of the two layers."""
        return self._log_prob(batch, *self._gate_and_own(batch))

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log [omega pi_g + (1 - omega) pi_r] at the observed labels."""
        return self.noise.log_prob_given_class(*self._gate_and_own(batch), batch.labels, self._common(batch.annotators))

    def omega_of(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's pairs; 1 for annotators without training labels."""
        return self._gate(batch, self.present(batch)).sigmoid()

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """The two kinds of confusion, read from the weights by a softmax on each row; of groups, the mean."""
        pi_g, groups = self.noise.pi_g, self.groups_of_annotators
        if groups is not None:
            pi_g = torch.einsum("kcl,k->cl", pi_g, groups.shares)
        return pi_g, self.known_or_common(pi_g, self.noise.pi_r)

    def common_of_annotators(self) -> Tensor:
        """(R, C, C) the common confusion of everybody's group, where there are groups."""
        groups = self.groups_of_annotators
        if groups is None:
            return self.noise.pi_g
        return torch.einsum("kcl,rk->rcl", self.noise.pi_g, groups.membership)

    def _number_of_groups(self) -> int:
        """K; given groups are counted."""
        if self.groups != "given":
            return int(self.groups)
        given = self.problem.annotator_groups
        if given is None:
            raise InputError("groups='given' needs groups: pass annotator_info with a column 'group', or a number")
        return int(given.max()) + 1

    def _common(self, annotators: Tensor) -> Tensor | None:
        """(C, C, P) common weights of annotators where there are groups."""
        groups = self.groups_of_annotators
        return None if groups is None else self.noise.weights_of_groups(groups.of(annotators))

    def _gate_and_own(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(P,) omega's logits and (C, C, P) the individual layers of the pairs' annotators."""
        present = self.present(batch)
        return self._gate(batch, present), spread(present.take(self.noise.raw_pi_r), present.place)

    def _gate(self, batch: Batch, present: Present) -> Tensor:
        """(P,) omega's logits; infinite for annotators without training labels, who get the common layer."""
        return torch.where(self.is_known(batch.annotators), self.auxiliary(batch.x, batch.rows, present), torch.inf)

    def _log_prob(self, batch: Batch, omega_logits: Tensor, own: Tensor) -> Tensor:
        log_class_proba = log_softmax(self.class_logits(batch.x))
        common = self._common(batch.annotators)
        return self.noise.log_prob(log_class_proba, omega_logits, batch.rows, own, batch.labels, common)

    def _joint(self, batch: Batch, omega_logits: Tensor, own: Tensor) -> Tensor:
        given_class = self.noise.log_prob_given_class(omega_logits, own, batch.labels, self._common(batch.annotators))
        log_joint = log_softmax(self.class_logits(batch.x)).index_add(0, batch.rows, given_class)
        return torch.logsumexp(log_joint, dim=-1).sum()
