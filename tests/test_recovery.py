"""Every generator returns its truth: CoNAL must find it again."""

from __future__ import annotations

import numpy as np
import pytest

import conal


@pytest.mark.slow
def test_the_common_confusion_is_recovered() -> None:
    """The paper's synthetic crowd: asymmetric, strength 0.4, proportion 0.5, individual accuracy 0.7.

    Mean absolute error of pi_g within 0.035 over three seeds. Majority vote's estimate would not do: pi_g mixed
    half and half with the mean individual matrix is 0.05 or more away.
    """
    errors = []
    for seed in range(3):
        data = conal.datasets.synthetic(seed=seed)
        assert data.truth is not None
        clf = conal.CoNAL(seed=seed, selection="last", verbose=False)  # gold labels may choose an epoch of the warm-up
        clf.fit(data.x, data.annotations)
        errors.append(np.abs(clf.common_confusion_ - data.truth.pi_g).mean())
        blend = (data.truth.pi_g + data.truth.pi_r.mean(0)) / 2
        assert np.abs(blend - data.truth.pi_g).mean() > 0.05
    assert np.mean(errors) <= 0.035, errors


@pytest.mark.slow
def test_conal_beats_majority_vote_on_the_embedded_default() -> None:
    data = conal.datasets.digits()
    assert data.valid is not None
    assert data.test is not None
    validation = (data.valid.x, data.classes[data.valid.y])
    scores = {}
    for method in ("dl-mv", "conal"):
        clf = conal.make(method, verbose=False).fit(data.x, data.annotations, validation=validation)
        scores[method] = clf.score(data.test.x, data.classes[data.test.y])
    assert scores["conal"] > scores["dl-mv"] + 0.05
