"""The Bayes-optimal training labels of simulated crowds, against loops; and what omega is worth."""

from __future__ import annotations

import numpy as np
import pytest

from conal import datasets
from conal.errors import InputError
from conal.experiments.bayes_labels import bayes_label_accuracy


@pytest.mark.parametrize("gate", [True, False])
def test_against_loops(gate: bool) -> None:
    data = datasets.load("synthetic", n_train=200, n_annotators=7, common_strength=0.7, seed=3)
    crowd, truth = data.annotations, data.truth
    assert truth is not None
    right = 0
    for i in range(crowd.n_tasks):
        score = np.array([np.mean(truth.z == c) for c in range(crowd.n_classes)])
        for a in np.flatnonzero(crowd.tasks == i):
            r, label = crowd.annotators[a], crowd.labels[a]
            omega = truth.omega[a] if gate else truth.omega[crowd.annotators == r].mean()
            for c in range(crowd.n_classes):
                score[c] *= omega * truth.pi_g[c, label] + (1 - omega) * truth.pi_r[r, c, label]
        right += int(score.argmax() == truth.z[i])
    assert bayes_label_accuracy(data, gate=gate) == right / crowd.n_tasks


def test_knowing_omega_is_worth_more_where_common_noise_is_strong() -> None:
    worth = []
    for strength in (0.4, 0.8):
        data = datasets.load("synthetic", common_strength=strength)
        worth.append(bayes_label_accuracy(data) - bayes_label_accuracy(data, gate=False))
    assert 0 < worth[0] < 0.01 < 0.03 < worth[1]


def test_a_crowd_of_people_has_no_known_truth() -> None:
    data = datasets.load("synthetic", n_train=50)
    people = datasets.CrowdDataset(data.name, data.x, data.annotations, data.y_true)
    with pytest.raises(InputError, match="the true parameters of this crowd are unknown"):
        bayes_label_accuracy(people)
