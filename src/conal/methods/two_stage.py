"""Two-stage methods: aggregate the labels first, then train the classifier; and training on true labels."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from conal import aggregation
from conal.aggregation import GLAD, DawidSkene, MajorityVote, WorkerClustering
from conal.aggregation.base import Aggregator
from conal.data.annotations import Annotations
from conal.methods.base import Batch, CrowdMethod, register
from conal.parameters import Constraint, Doc, parameters, whole

# Two-stage methods: aggregate the crowd's labels first, then train the classifier on the result.


def _is_aggregator(name: str) -> bool:
    return bool(aggregation.get(name))  # an unknown name is an error that suggests similar ones


@parameters
class TwoStageParameters:
    """Parameters of :class:`TwoStageMethod`."""

    soft: Annotated[bool, Doc("Train on the aggregator's probabilities instead of its most probable labels.")] = False


class TwoStageMethod(CrowdMethod, TwoStageParameters):
    r"""Cross-entropy to aggregated labels, :math:`\mathcal L = -\frac1N \sum_i \sum_c q_{ic} \log f_c(x_i)`."""

    targets: Tensor

    truth_in_targets = True

    def make_aggregator(self) -> Aggregator:
        """The aggregator of the crowd's labels."""
        raise NotImplementedError

    def prepare(self, annotations: Annotations) -> None:
        """Aggregate once; the targets are not part of the saved model."""
        fitted = self.make_aggregator().fit(annotations, true_labels=self.true_labels(annotations))
        soft = torch.as_tensor(fitted.probas_, dtype=torch.float32)
        targets = soft if self.soft else torch.eye(annotations.n_classes)[fitted.codes_]
        self.register_buffer("targets", targets, persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy between the aggregated labels and the classifier's probabilities."""
        target = self.targets[batch.instances]
        return cross_entropy(self.class_logits(batch.x), target, reduction="sum") * batch.instance_weight


@register("dl-mv")
class MajorityVoteMethod(TwoStageMethod):
    """A classifier trained on majority votes (DL-MV), the usual baseline.

    Ties go to the class that comes first; see :class:`conal.aggregation.MajorityVote`.

    Examples
    --------
    >>> import conal
    >>> conal.make("dl-mv", soft=True).soft
    True
    """

    def make_aggregator(self) -> Aggregator:
        """One vote per annotator."""
        return MajorityVote()


@register("dl-ds")
class DawidSkeneMethod(TwoStageMethod):
    """A classifier trained on the labels that Dawid-Skene infers (DL-DS).

    See :class:`conal.aggregation.DawidSkene`.

    Examples
    --------
    >>> import conal
    >>> conal.make("dl-ds").method
    'dl-ds'
    """

    def make_aggregator(self) -> Aggregator:
        """Maximum likelihood, from the vote shares."""
        return DawidSkene(n_iter=1000, verbose=False)


@register("dl-glad")
class GLADMethod(TwoStageMethod):
    """A classifier trained on the labels that GLAD infers (DL-GLAD).

    See :class:`conal.aggregation.GLAD`.

    Examples
    --------
    >>> import conal
    >>> conal.make("dl-glad").method
    'dl-glad'
    """

    def make_aggregator(self) -> Aggregator:
        """Skill of the annotators, difficulty of the tasks."""
        return GLAD(n_iter=1000, verbose=False)


@parameters
class WorkerClusteringParameters(TwoStageParameters):
    """Parameters of :class:`WorkerClusteringMethod`."""

    n_groups: Annotated[int, whole(1), Doc("Number of groups of annotators.")] = 5


@register("dl-wc")
class WorkerClusteringMethod(TwoStageMethod, WorkerClusteringParameters):
    """A classifier trained on the labels that worker clustering infers (DL-WC).

    See :class:`conal.aggregation.WorkerClustering`.

    Examples
    --------
    >>> import conal
    >>> conal.make("dl-wc", n_groups=2).n_groups
    2
    """

    def make_aggregator(self) -> Aggregator:
        """One confusion matrix per group of annotators."""
        return WorkerClustering(n_groups=self.n_groups, n_iter=1000, verbose=False)


@parameters
class AnyAggregatorParameters(TwoStageParameters):
    """Parameters of :class:`AnyAggregatorMethod`."""

    aggregator: Annotated[
        str,
        Constraint("the name of an aggregator, one of conal.aggregation.names()", _is_aggregator),
        Doc("Name of the aggregator, one of conal.aggregation.names(); its parameters have their defaults."),
    ] = "common-confusion"


@register("two-stage")
class AnyAggregatorMethod(TwoStageMethod, AnyAggregatorParameters):
    """A classifier trained on the labels of any aggregator, by name.

    Examples
    --------
    >>> import conal
    >>> conal.make("two-stage", aggregator="one-coin", soft=True).aggregator
    'one-coin'
    """

    def make_aggregator(self) -> Aggregator:
        """The aggregator of that name."""
        silent = {"verbose": False} if "verbose" in aggregation.get(self.aggregator).parameter_names() else {}
        return aggregation.make(self.aggregator, **silent)


# The upper bound: a classifier trained on true labels.


@register("gold")
class GoldMethod(CrowdMethod):
    r"""A classifier trained on true labels, the upper bound: ``fit(X, y_true)``.

    .. math:: \mathcal L = -\frac1N \sum_i \log f_{z_i}(x_i)

    ``fit`` takes one label per instance. It shows what the backbone could reach with labels free of errors,
    and so how much a better method could gain.
    """

    takes = "gold"
    models_annotators = True  # a single one, who is always right

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy to the true labels, which arrive as the labels of one infallible annotator."""
        logits = self.class_logits(batch.x)[batch.rows]
        return cross_entropy(logits, batch.labels, reduction="sum") * batch.label_weight

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log f at the true labels."""
        log_class_proba = self.class_logits(batch.x).log_softmax(-1)[batch.rows]
        return log_class_proba.gather(-1, batch.labels[:, None]).squeeze(-1)

    def posterior_given(self, class_logits: Tensor, batch: Batch) -> Tensor:
        """(N, C) certainty where a true label is given, the classifier's probabilities elsewhere."""
        probas = self.log_class_proba(class_logits).exp()
        probas[batch.rows] = one_hot(batch.labels, self.problem.n_classes).to(probas.dtype)
        return probas

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """The identity: a true label is not confused."""
        identity = torch.eye(self.problem.n_classes)
        return identity, identity.repeat(self.problem.n_annotators, 1, 1)
