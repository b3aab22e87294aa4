"""Which epoch is kept, and what is held out for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from conal.data.annotations import Annotations
from conal.methods import Problem
from conal.methods.conal import CoNALMethod
from conal.methods.two_stage import MajorityVoteMethod
from conal.training.batches import CrowdBatches, Instances
from conal.training.selection import AnnotationLikelihood, GoldAccuracy, LastEpoch, hold_out

X = np.eye(4, dtype=np.float32)
CROWD = Annotations.from_matrix([[0, 1], [1, 1], [0, -1], [1, 0]])


def problem() -> Problem:
    return Problem((4,), 2, 2, 4, torch.tensor(CROWD.labels_per_annotator()))


def knowing_backbone(codes: list[int]) -> nn.Linear:
    """Instance i is class ``codes[i]`` with probability 0.9."""
    backbone = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        backbone.weight.copy_(torch.logit(torch.tensor(0.9)) * torch.eye(2)[codes].T)
    return backbone


def test_gold_accuracy_by_hand() -> None:
    method = MajorityVoteMethod(problem(), knowing_backbone([0, 1, 1, 0]))
    assert GoldAccuracy(Instances(X), np.array([0, 1, 0, -1])).score(method) == 0.5


def test_held_out_likelihood_by_hand() -> None:
    """At the start every layer is softmax(2 I): p(y = c) = softmax(2 f)_y whatever omega is."""
    method = CoNALMethod(problem(), knowing_backbone([0, 1, 0, 1]))
    batches = CrowdBatches(Instances(X), CROWD, 8)
    right, wrong = 1 / (1 + np.exp(-1.6)), 1 / (1 + np.exp(1.6))
    expected = np.mean(np.log([right, wrong, right, right, right, right, wrong]))
    assert AnnotationLikelihood(batches, batches).score(method) == pytest.approx(expected, abs=1e-5)


def test_methods_without_a_noise_model_are_given_one() -> None:
    method = MajorityVoteMethod(problem(), knowing_backbone([0, 1, 0, 1]))
    batches = CrowdBatches(Instances(X), CROWD, 8)
    score = AnnotationLikelihood(batches, batches).score(method)
    f = method.predict_proba(torch.from_numpy(X)).numpy()
    _, pi = method.confusion_matrices()
    expected = [
        np.log(f[i] @ pi[r, :, y].numpy()) for i, r, y in zip(CROWD.tasks, CROWD.annotators, CROWD.labels, strict=True)
    ]
    assert score == pytest.approx(np.mean(expected), abs=1e-5)
    assert not torch.allclose(pi, torch.full_like(pi, 0.5))


def test_selection_sees_the_held_out_part_and_learns_from_the_other() -> None:
    """Confusion is estimated on the training annotations, likelihood measured on the held-out ones."""
    method = MajorityVoteMethod(problem(), knowing_backbone([0, 1, 0, 1]))
    first = CROWD.tasks < 2
    training = CrowdBatches(Instances(X), CROWD.select(first), 8)
    held_out = CrowdBatches(Instances(X), CROWD.select(~first), 8)
    score = AnnotationLikelihood(held_out, training).score(method)
    f = method.predict_proba(torch.from_numpy(X)).numpy()
    counts = np.zeros((2, 2, 2))
    for i, r, y in zip(CROWD.tasks[first], CROWD.annotators[first], CROWD.labels[first], strict=True):
        counts[r, :, y] += f[i]
    common = counts.sum(0) + 0.5
    common /= common.sum(1, keepdims=True)
    pi = (counts + common) / (counts.sum(-1, keepdims=True) + 1)
    rest = zip(CROWD.tasks[~first], CROWD.annotators[~first], CROWD.labels[~first], strict=True)
    assert score == pytest.approx(np.mean([np.log(f[i] @ pi[r, :, y]) for i, r, y in rest]), abs=1e-5)


def test_selection_scores_without_dropout() -> None:
    method = CoNALMethod(problem(), nn.Sequential(nn.Dropout(0.9), knowing_backbone([0, 1, 0, 1])))
    batches = CrowdBatches(Instances(X), CROWD, 8)
    method.train()
    scores = set()
    for _ in range(3):
        method.train()
        scores.add(AnnotationLikelihood(batches, batches).score(method))
    assert len(scores) == 1


def test_the_last_epoch_needs_no_score() -> None:
    assert LastEpoch().score(MajorityVoteMethod(problem(), knowing_backbone([0, 0, 0, 0]))) is None


def test_whole_tasks_are_held_out(crowd: Annotations) -> None:
    kept = hold_out(crowd, 0.3, seed=0)
    training, held_out = crowd.select(kept), crowd.select(~kept)
    both = (training.labels_per_task() > 0) & (held_out.labels_per_task() > 0)
    labelled = np.count_nonzero(crowd.labels_per_task())
    assert not both.any()
    assert np.count_nonzero(held_out.labels_per_task()) == round(0.3 * labelled)
    assert training.n_annotations + held_out.n_annotations == crowd.n_annotations
    assert (hold_out(crowd, 0.3, seed=0) == kept).all()


@pytest.mark.parametrize(("fraction", "expected"), [(0.001, 1), (0.999, 3)])
def test_at_least_one_task_on_either_side(fraction: float, expected: int) -> None:
    kept = hold_out(CROWD, fraction, seed=0)
    assert len(np.unique(CROWD.tasks[~kept])) == expected
