"""Auto: the mean of several aggregators."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from conal import aggregation
from conal.aggregation import Auto
from conal.aggregation.auto import MEMBERS
from conal.errors import CollapseWarning
from helpers.crowds import graded_crowd
from helpers.real import CROWDS, labelled_crowd

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConvergenceWarning")


def test_without_true_labels_it_is_the_mean() -> None:
    crowd = graded_crowd(0, n_tasks=200)
    fitted = Auto().fit(crowd)
    assert not fitted.left_out_
    assert fitted.why_ == f"mean of {', '.join(MEMBERS)}"
    each = [aggregation.make(name).fit(crowd).probas_ for name in MEMBERS]
    np.testing.assert_allclose(fitted.probas_, sum(each) / len(each), atol=1e-12)


def test_a_collapsed_member_is_left_out() -> None:
    labels, _ = labelled_crowd("raop")
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)  # it is not used, so it is no reason to worry
        fitted = Auto().fit(labels)
    assert list(fitted.left_out_) == ["one-coin"]
    assert "one-coin is left out, because classes 'A', 'B', 'D' and 2 more win votes" in fitted.why_
    with pytest.warns(CollapseWarning):
        each = [aggregation.make(name).fit(labels).probas_ for name in MEMBERS if name != "one-coin"]
    np.testing.assert_allclose(fitted.probas_, sum(each) / len(each), atol=1e-12)


def test_true_labels_are_certain_to_all_members() -> None:
    crowd = graded_crowd(2, n_tasks=100)
    known = {2: 0, 3: 1, 4: 2, 5: 0, 6: 1}
    fitted = Auto().fit(crowd, true_labels=known)
    np.testing.assert_array_equal(fitted.probas_[2:7], np.eye(3)[[0, 1, 2, 0, 1]])
    each = [aggregation.make(name).fit(crowd, true_labels=known).probas_ for name in MEMBERS]
    np.testing.assert_allclose(fitted.probas_, sum(each) / len(each), atol=1e-12)


@pytest.mark.filterwarnings("ignore::conal.errors.CollapseWarning")
def test_thirteen_crowds() -> None:
    """In the mean at least as good as Dawid-Skene, and never far below it."""
    gains = []
    for name in CROWDS:
        labels, truth = labelled_crowd(name)
        right = []
        for model in (Auto(), aggregation.make("dawid-skene")):
            inferred = model.fit_predict(labels)
            right.append((truth == inferred.astype(str).reindex(truth.index)).mean())
        gains.append(right[0] - right[1])
    assert np.mean(gains) >= 0
    assert min(gains) > -0.02
