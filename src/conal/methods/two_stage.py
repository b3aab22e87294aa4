"""Two-stage methods: aggregate the crowd's labels first, then train the classifier on the result."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from conal import aggregation
from conal.aggregation import GLAD, DawidSkene, MajorityVote, WorkerClustering
from conal.aggregation.base import Aggregator
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.methods.base import Batch, CrowdMethod, Problem, register

__all__ = [
    "AnyAggregatorMethod",
    "DawidSkeneMethod",
    "GLADMethod",
    "MajorityVoteMethod",
    "TwoStageMethod",
    "WorkerClusteringMethod",
]


class TwoStageMethod(CrowdMethod):
    r"""Cross-entropy to aggregated labels, :math:`\mathcal L = -\frac1N \sum_i \sum_c q_{ic} \log f_c(x_i)`.

    Parameters
    ----------
    soft : bool
        Train on the aggregator's probabilities q instead of its most probable labels.
    """

    targets: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, *, soft: bool = False) -> None:
        super().__init__(problem, backbone)
        if not isinstance(soft, bool):
            raise InputError(f"soft must be true or false, not {soft!r}")
        self.soft = soft

    def make_aggregator(self) -> Aggregator:
        """What turns the crowd's labels into one per task."""
        raise NotImplementedError

    def prepare(self, annotations: Annotations) -> None:
        """Aggregate once; the targets are not part of the saved model."""
        fitted = self.make_aggregator().fit(annotations)
        soft = torch.as_tensor(fitted.probas_, dtype=torch.float32)
        targets = soft if self.soft else torch.eye(annotations.n_classes)[fitted.codes_]
        self.register_buffer("targets", targets, persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy between the aggregated labels and the classifier's probabilities."""
        target = self.targets[batch.instances]
        return cross_entropy(self.class_logits(batch.x), target, reduction="sum") * batch.instance_weight


@register("dl-mv")
class MajorityVoteMethod(TwoStageMethod):
    """A classifier trained on majority votes (DL-MV), the baseline that everybody starts from.

    Ties go to the class that comes first; see :class:`conal.aggregation.MajorityVote`.

    Parameters
    ----------
    soft : bool
        Train on the shares of the votes.

    Example
    -------
    >>> import conal
    >>> conal.make("dl-mv", soft=True).soft
    True
    """

    def make_aggregator(self) -> Aggregator:
        """One vote per annotator."""
        return MajorityVote()


@register("dl-ds")
class DawidSkeneMethod(TwoStageMethod):
    """A classifier trained on the labels that Dawid and Skene's model infers from the annotations alone (DL-DS).

    See :class:`conal.aggregation.DawidSkene`.

    Parameters
    ----------
    soft : bool
        Train on the posterior probabilities.

    Example
    -------
    >>> import conal
    >>> conal.make("dl-ds").method
    'dl-ds'
    """

    def make_aggregator(self) -> Aggregator:
        """Maximum likelihood, from the vote shares."""
        return DawidSkene(n_iter=1000, verbose=False)


@register("dl-glad")
class GLADMethod(TwoStageMethod):
    """A classifier trained on the labels that GLAD infers from skill and difficulty (DL-GLAD).

    See :class:`conal.aggregation.GLAD`.

    Parameters
    ----------
    soft : bool
        Train on the posterior probabilities.

    Example
    -------
    >>> import conal
    >>> conal.make("dl-glad").method
    'dl-glad'
    """

    def make_aggregator(self) -> Aggregator:
        """Skill of the annotators, difficulty of the tasks."""
        return GLAD(n_iter=1000, verbose=False)


@register("dl-wc")
class WorkerClusteringMethod(TwoStageMethod):
    """A classifier trained on the labels that worker clustering infers (DL-WC).

    See :class:`conal.aggregation.WorkerClustering`.

    Parameters
    ----------
    soft : bool
        Train on the posterior probabilities.
    n_groups : int
        Groups of annotators.

    Example
    -------
    >>> import conal
    >>> conal.make("dl-wc", n_groups=2).n_groups
    2
    """

    def __init__(self, problem: Problem, backbone: nn.Module, *, soft: bool = False, n_groups: int = 5) -> None:
        super().__init__(problem, backbone, soft=soft)
        self.n_groups = n_groups

    def make_aggregator(self) -> Aggregator:
        """One confusion matrix per group of annotators."""
        return WorkerClustering(n_groups=self.n_groups, n_iter=1000, verbose=False)


@register("two-stage")
class AnyAggregatorMethod(TwoStageMethod):
    """A classifier trained on the labels of any aggregator, by name.

    Parameters
    ----------
    aggregator : str
        One of ``conal.aggregation.names()``, with its default parameters.
    soft : bool
        Train on the aggregator's probabilities.

    Example
    -------
    >>> import conal
    >>> conal.make("two-stage", aggregator="one-coin", soft=True).aggregator
    'one-coin'
    """

    def __init__(
        self, problem: Problem, backbone: nn.Module, *, aggregator: str = "common-confusion", soft: bool = False
    ) -> None:
        super().__init__(problem, backbone, soft=soft)
        self.aggregator = aggregation.get(aggregator)

    def make_aggregator(self) -> Aggregator:
        """What was asked for."""
        quiet = {"verbose": False} if "verbose" in self.aggregator.parameter_names() else {}
        return self.aggregator(**quiet)
