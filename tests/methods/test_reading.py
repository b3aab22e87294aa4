"""Reading a batch once: the same as asking for each part, and no further pass of the network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import conal
from conal import methods
from conal.data.annotations import Annotations
from conal.methods import Batch, CrowdMethod, Problem
from conal.methods.ensemble import Ensemble
from conal.networks import MLP
from conal.training.batches import CrowdBatches, Instances

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning")  # labels at random

N, R, C, D = 40, 5, 3, 6


def made(name: str, seed: int = 0) -> tuple[CrowdMethod, Batch]:
    torch.manual_seed(seed)
    n_annotators = 1 if methods.get(name).takes == "gold" else R
    crowd = Annotations.from_matrix(np.random.default_rng(0).integers(0, C, size=(N, n_annotators)), classes=range(C))
    x = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
    problem = Problem((D,), C, n_annotators, N, torch.tensor(crowd.labels_per_annotator()))
    method = methods.get(name)(problem, MLP(D, C))
    method.prepare(crowd)
    method.prior_shift.copy_(torch.tensor([0.5, 0.0, -0.5]))
    return method.eval(), CrowdBatches(Instances(x), crowd, 1000).cut(np.arange(N))


def assert_reads(method: CrowdMethod, batch: Batch, class_logits: Tensor) -> None:
    for reading in (method.predict_batch(batch), method.predict_batch(batch, class_logits)):
        torch.testing.assert_close(reading.class_proba, method.predict_proba(batch.x))
        torch.testing.assert_close(reading.posterior, method.infer(batch))
        if method.separates_noise:
            torch.testing.assert_close(reading.omega, method.common_noise_rate(batch))
        else:
            assert reading.omega is None


@pytest.mark.parametrize("name", methods.names())
def test_a_reading_is_the_sum_of_its_parts(name: str) -> None:
    method, batch = made(name)
    with torch.no_grad():
        assert_reads(method, batch, method.class_logits(method.scaler(batch.x)))


@pytest.mark.parametrize("name", ["conal", "dl-mv", "xconal"])
def test_an_ensemble_reads_the_mean_of_its_members(name: str) -> None:
    (one, batch), (other, _) = made(name), made(name, seed=1)
    with torch.no_grad():
        logits = torch.stack([member.class_logits(member.scaler(batch.x)) for member in (one, other)], 1)
    assert_reads(Ensemble([one, other]).eval(), batch, logits)


@pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")
@pytest.mark.parametrize("name", ["dl-mv", "conal", "aggnet", "max-mig", "doctor-net"])
@pytest.mark.parametrize("prior", ["estimate", "balanced"])
def test_after_training_the_network_passes_over_the_instances_once(
    name: str, prior: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = conal.datasets.synthetic(n_train=60, n_classes=3, seed=1)
    cls, seen = methods.get(name), []
    original, end_epoch = cls.class_logits, cls.end_epoch

    def counted(self: CrowdMethod, x: Tensor) -> Tensor:
        seen.append(len(x))
        return original(self, x)

    def forget(self: CrowdMethod, batches: Any) -> None:
        end_epoch(self, batches)
        seen.clear()

    monkeypatch.setattr(cls, "class_logits", counted)
    monkeypatch.setattr(cls, "end_epoch", forget)
    clf = conal.make(name, epochs=2, selection="last", class_prior=prior, verbose=False).fit(data.x, data.annotations)
    assert sum(seen) == 60
    np.testing.assert_array_equal(clf.probas_, clf.infer(data.x, data.annotations))
