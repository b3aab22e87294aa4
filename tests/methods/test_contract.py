"""What every registered method promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from conal import methods
from conal.data.annotations import Annotations
from conal.methods import Batch, CrowdMethod, Problem
from conal.networks import MLP
from conal.training.batches import CrowdBatches, Instances

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning")  # labels at random

NAMES = methods.names()
N, R, C, D = 40, 5, 3, 6


def full_crowd(n_annotators: int = R) -> Annotations:
    rng = np.random.default_rng(0)
    return Annotations.from_matrix(rng.integers(0, C, size=(N, n_annotators)), classes=range(C))


def crowd_for(name: str) -> Annotations:
    """A fully labelled crowd; one label per task where the method takes true labels."""
    return full_crowd(1 if methods.get(name).takes == "gold" else R)


def made_for(name: str, crowd: Annotations, **options: Any) -> tuple[CrowdMethod, CrowdBatches]:
    torch.manual_seed(0)
    x = np.random.default_rng(1).normal(size=(crowd.n_tasks, D)).astype(np.float32)
    batches = CrowdBatches(Instances(x), crowd, batch_size=1000)
    problem = Problem((D,), C, crowd.n_annotators, len(batches.labelled), torch.tensor(crowd.labels_per_annotator()))
    options = {"mixup": False, **options} if name == "xconal" else options  # like dropout, it draws at every step
    method = methods.get(name)(problem, MLP(D, C, dropout=0.0), **options)
    method.prepare(crowd)
    return method, batches


def whole(batches: CrowdBatches) -> Batch:
    return batches.cut(np.arange(len(batches.instances)))


@pytest.mark.parametrize("name", NAMES)
def test_a_few_steps_move_every_parameter(name: str) -> None:
    method, batches = made_for(name, crowd_for(name))
    before = {key: value.detach().clone() for key, value in method.named_parameters()}
    optimizer = torch.optim.Adam(method.parameters(), lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        loss = method(whole(batches))
        loss.backward()
        for key, value in method.named_parameters():
            assert value.grad is None or torch.isfinite(value.grad).all(), key
        optimizer.step()
    for key, value in method.named_parameters():
        assert not (value.requires_grad and torch.equal(value, before[key])), key


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_sum_to_one(name: str) -> None:
    method, batches = made_for(name, crowd_for(name))
    batch = whole(batches)
    for probas in (method.predict_proba(batch.x), method.infer(batch)):
        assert probas.shape == (N, C)
        torch.testing.assert_close(probas.sum(-1), torch.ones(N))
    for confusion in method.confusion_matrices():
        torch.testing.assert_close(confusion.sum(-1), torch.ones(confusion.shape[:-1]))


@pytest.mark.parametrize("name", NAMES)
def test_an_annotator_who_never_answers_changes_nothing(name: str) -> None:
    crowd = crowd_for(name)
    silent = Annotations(
        crowd.tasks,
        crowd.annotators,
        crowd.labels,
        task_ids=crowd.task_ids,
        annotator_ids=np.arange(crowd.n_annotators + 1),
        classes=crowd.classes,
    )
    one, batches = made_for(name, crowd)
    other, more = made_for(name, silent)
    # New random numbers are drawn for the newcomer: give both the same weights where they share them.
    state = other.state_dict()
    for key, value in one.state_dict().items():
        state[key] = value if state[key].shape == value.shape else torch.cat([value, state[key][len(value) :]])
    other.load_state_dict(state)
    torch.testing.assert_close(one(whole(batches)), other(whole(more)))


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_annotators_does_not_matter(name: str) -> None:
    crowd = crowd_for(name)
    order = np.random.default_rng(3).permutation(crowd.n_annotators)
    rank = np.argsort(order)
    shuffled = Annotations(
        crowd.tasks,
        rank[crowd.annotators],
        crowd.labels,
        task_ids=crowd.task_ids,
        annotator_ids=crowd.annotator_ids[order],
        classes=crowd.classes,
    )
    one, batches = made_for(name, crowd)
    other, again = made_for(name, shuffled)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    per_annotator = {k for k, v in one.state_dict().items() if v.ndim and len(v) == R and "backbone" not in k}
    other.load_state_dict({k: v[order] if k in per_annotator else v for k, v in one.state_dict().items()})
    torch.testing.assert_close(one(whole(batches)), other(whole(again)))


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_labels_are_log_probabilities(name: str) -> None:
    """The probabilities of all C labels of one annotator on one instance sum to one."""
    method, batches = made_for(name, crowd_for(name))
    x = whole(batches).x[:1]
    zero = torch.zeros(C, dtype=torch.long)
    batch = Batch(x, torch.tensor([0]), zero, zero, torch.arange(C))
    assert float(method.score_annotations(batch).exp().sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if methods.get(name).takes == "crowd"])
def test_an_unknown_annotator_counts_by_the_common_confusion(name: str) -> None:
    method, batches = made_for(name, crowd_for(name))
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = whole(batches).x[:1]
    batch = Batch(x, torch.tensor([0]), torch.tensor([0]), torch.tensor([-1]), torch.tensor([2]))
    prior = method.predict_proba(x)[0]
    expected = prior * method.confusion_matrices()[0][:, 2] ** getattr(method, "vote_weight", 1.0)
    torch.testing.assert_close(method.infer(batch)[0], (expected / expected.sum()).detach())


def test_registered_names_and_docstrings() -> None:
    assert {"conal", "dl-mv", "gold"} <= set(NAMES)
    for name in NAMES:
        assert methods.get(name).name == name
        assert methods.get(name).__doc__


@pytest.mark.parametrize("name", NAMES)
def test_the_predictor_gives_what_predict_proba_gives(name: str) -> None:
    """Also where a class prior shifts the classes."""
    method, batches = made_for(name, crowd_for(name))
    method.eval().prior_shift.copy_(torch.tensor([1.0, -0.5, 0.25]))
    x = whole(batches).x
    with torch.no_grad():
        torch.testing.assert_close(method.predictor().eval()(x), method.predict_proba(x), rtol=0, atol=1e-6)


def test_a_method_with_class_logits_of_its_own_has_a_predictor() -> None:
    class Doubled(CrowdMethod):
        """Logits that are twice those of the backbone."""

        def class_logits(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = 2 * self.backbone(x)
            return logits

    crowd = full_crowd()
    problem = Problem((D,), C, R, N, torch.tensor(crowd.labels_per_annotator()))
    method, x = Doubled(problem, MLP(D, C)).eval(), torch.randn(7, D)
    with torch.no_grad():
        torch.testing.assert_close(method.predictor()(x), (2 * method.backbone(x)).softmax(-1))
