"""Two-stage methods: cross-entropy to aggregated labels, and estimated confusion."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from conal import aggregation
from conal.aggregation import GLAD, CommonConfusion, DawidSkene, MajorityVote, WorkerClustering
from conal.aggregation.base import Aggregator
from conal.aggregation.em import EMAggregator
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.methods import Problem
from conal.methods.two_stage import (
    AnyAggregatorMethod,
    DawidSkeneMethod,
    GLADMethod,
    GoldMethod,
    MajorityVoteMethod,
    TwoStageMethod,
    WorkerClusteringMethod,
)
from conal.training.batches import CrowdBatches, Instances
from conal.training.selection import estimate_confusion

CROWD = Annotations.from_matrix([[0, 0, 1], [1, -1, 1], [-1, 2, -1]])
X = np.eye(3, dtype=np.float32)


def problem(crowd: Annotations) -> Problem:
    return Problem((3,), crowd.n_classes, crowd.n_annotators, 3, torch.tensor(crowd.labels_per_annotator()))


def certain_backbone() -> nn.Linear:
    """Instance i is class i, with great certainty."""
    backbone = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        backbone.weight.copy_(50 * torch.eye(3))
    return backbone


def test_the_loss_is_cross_entropy_to_the_majority() -> None:
    method = MajorityVoteMethod(problem(CROWD), nn.Linear(3, 3))
    method.prepare(CROWD)
    batch = CrowdBatches(Instances(X), CROWD, 8).cut(np.array([2, 0]))
    log_f = method.class_logits(batch.x).log_softmax(-1)
    torch.testing.assert_close(method.loss(batch), -(log_f[0, 2] + log_f[1, 0]) / 2)


@pytest.mark.parametrize(
    ("cls", "aggregator"),
    [
        (MajorityVoteMethod, MajorityVote()),
        (DawidSkeneMethod, DawidSkene(n_iter=1000)),
        (GLADMethod, GLAD(n_iter=1000)),
        (WorkerClusteringMethod, WorkerClustering(n_iter=1000)),
        (AnyAggregatorMethod, CommonConfusion()),
    ],
)
def test_soft_targets_are_the_shares_and_posteriors(cls: type[TwoStageMethod], aggregator: Aggregator) -> None:
    soft = cls(problem(CROWD), nn.Linear(3, 3), soft=True)
    soft.prepare(CROWD)
    expected = torch.as_tensor(aggregator.fit(CROWD).probas_).float()
    torch.testing.assert_close(soft.targets, expected)
    hard = cls(problem(CROWD), nn.Linear(3, 3))
    hard.prepare(CROWD)
    torch.testing.assert_close(hard.targets, torch.eye(3)[expected.argmax(1)])


def test_targets_are_not_saved() -> None:
    method = MajorityVoteMethod(problem(CROWD), nn.Linear(3, 3))
    method.prepare(CROWD)
    assert not any("targets" in name for name in method.state_dict())


def test_estimated_confusion_is_smoothed_counts() -> None:
    """With a certain classifier the counts are whole: worked by hand.

    True classes 0, 1, 2. Labels: annotator 0 says 0->0, 1->1; annotator 1 says 0->0, 2->2; annotator 2 says 0->1, 1->1.
    Pooled row 0 is (2, 1, 0) + 1/3 over 4, row 1 (0, 2, 0) + 1/3 over 3, row 2 (0, 0, 1) + 1/3 over 2.
    """
    method = MajorityVoteMethod(problem(CROWD), certain_backbone())
    estimate_confusion(method, CrowdBatches(Instances(X), CROWD, 8))
    common, individual = method.confusion_matrices()
    third = 1 / 3
    expected = torch.tensor(
        [
            [(2 + third) / 4, (1 + third) / 4, third / 4],
            [third / 3, (2 + third) / 3, third / 3],
            [third / 2, third / 2, (1 + third) / 2],
        ]
    )
    torch.testing.assert_close(common, expected)
    torch.testing.assert_close(individual[2, 0], (torch.tensor([0.0, 1.0, 0.0]) + expected[0]) / 2)
    torch.testing.assert_close(individual[0, 2], expected[2])  # no label there: the common row


def test_gold_is_cross_entropy_to_the_true_label() -> None:
    gold = Annotations.from_matrix([[2], [0], [1]])
    method = GoldMethod(problem(gold), nn.Linear(3, 3))
    batch = CrowdBatches(Instances(X), gold, 8).cut(np.arange(3))
    log_f = method.class_logits(batch.x).log_softmax(-1)
    torch.testing.assert_close(method.loss(batch), -(log_f[0, 2] + log_f[1, 0] + log_f[2, 1]) / 3)
    torch.testing.assert_close(method.infer(batch), torch.eye(3)[[2, 0, 1]])


@pytest.mark.filterwarnings("ignore:gold-majority-vote")
@pytest.mark.parametrize("name", aggregation.names())
def test_any_aggregator_by_name(name: str) -> None:
    method = AnyAggregatorMethod(problem(CROWD), nn.Linear(3, 3), aggregator=name)
    method.prepare(CROWD)
    expected = aggregation.make(name).fit(CROWD).codes_
    assert method.targets.argmax(1).tolist() == expected.tolist()


@pytest.mark.parametrize("cls", [DawidSkeneMethod, GLADMethod, WorkerClusteringMethod, AnyAggregatorMethod])
def test_the_aggregator_is_silent_below_the_training_bar(cls: type[TwoStageMethod]) -> None:
    aggregator = cls(problem(CROWD), nn.Linear(3, 3)).make_aggregator()
    assert isinstance(aggregator, EMAggregator)
    assert not aggregator.verbose
    assert aggregator.n_iter >= 500


def test_options_that_cannot_be_meant() -> None:
    with pytest.raises(InputError, match="there is no aggregator 'x'"):
        AnyAggregatorMethod(problem(CROWD), nn.Linear(3, 3), aggregator="x")
    with pytest.raises(InputError, match="soft must be true or false"):
        AnyAggregatorMethod(problem(CROWD), nn.Linear(3, 3), soft=2)
    with pytest.raises(InputError, match="n_groups"):
        WorkerClusteringMethod(problem(CROWD), nn.Linear(3, 3), n_groups=0)
