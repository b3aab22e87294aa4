"""Stated class priors: how they are read, and what they do to a classifier that was trained without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import conal
from conal.errors import InputError
from conal.methods.base import PRIOR_STRENGTH, prior_shift, read_class_prior

PETS = np.array(["cat", "dog"], dtype=object)


def test_statements_are_read_by_name() -> None:
    assert read_class_prior("estimate", PETS) is None
    torch.testing.assert_close(read_class_prior("balanced", PETS), torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(read_class_prior({"dog": 0.25, "cat": 0.75}, PETS), torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(read_class_prior([["dog", 0.2], ["cat", 0.8]], PETS), torch.tensor([0.8, 0.2]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("equal", "'estimate', 'balanced' or the share of every class, not 'equal'"),
        (3, "or the share of every class, not 3"),
        ({"cat": "much"}, "or the share of every class"),
        ({"cat": 1.0}, "has no share of 'dog'; the classes are 'cat', 'dog'"),
        ({"cat": 0.5, "cow": 0.5}, "has no share of 'dog' and names 'cow', which is no class"),
        ({"cat": 0.5, "dog": 0.3, "cow": 0.2}, "names 'cow', which is no class"),
        ({"cat": 1.0, "dog": 0.0}, "above 0 and sum to 1"),
        ({"cat": 0.6, "dog": 0.6}, "above 0 and sum to 1"),
    ],
)
def test_statements_that_cannot_be_meant(prior: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_class_prior(prior, PETS)


def test_the_shift_by_hand() -> None:
    found = prior_shift(torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2]))
    expected = PRIOR_STRENGTH * np.log([1.001 / 1.601, 1.001 / 0.401])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")
@pytest.mark.parametrize("name", ["dl-mv", "conal", "dl-cl", "max-mig"])
def test_a_trained_classifier_is_shifted(name: str) -> None:
    """The same fit, and then exactly the shift from the mean prediction to what was stated."""
    data = conal.datasets.synthetic(n_train=300, n_classes=3, seed=3)
    fast: dict[str, Any] = {"epochs": 8, "verbose": False, "selection": "last"}
    plain = conal.make(name, **fast).fit(data.x, data.annotations)
    stated = conal.make(name, class_prior={0: 0.6, 1: 0.3, 2: 0.1}, **fast).fit(data.x, data.annotations)
    before = plain.predict_proba(data.x)
    shift = prior_shift(torch.tensor([0.6, 0.3, 0.1]).double(), torch.from_numpy(before.mean(0))).numpy()
    expected = before * np.exp(shift)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(stated.predict_proba(data.x), expected, atol=2e-6)


@pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")
@pytest.mark.parametrize("name", ["aggnet", "conal-em"])
def test_em_meets_the_prior_while_it_infers(name: str) -> None:
    data = conal.datasets.synthetic(n_train=300, n_classes=3, separation=0.3, seed=3)
    fast: dict[str, Any] = {"epochs": 15, "verbose": False, "selection": "last"}
    plain = conal.make(name, **fast).fit(data.x, data.annotations)
    stated = conal.make(name, class_prior={0: 0.6, 1: 0.3, 2: 0.1}, **fast).fit(data.x, data.annotations)
    want = np.array([0.6, 0.3, 0.1])
    distance = [np.abs(clf.predict_proba(data.x).mean(0) - want).sum() for clf in (plain, stated)]
    assert distance[1] < distance[0] - 0.1


def test_true_labels_tell_their_shares_themselves() -> None:
    data = conal.datasets.synthetic(n_train=60, n_classes=3)
    with pytest.raises(InputError, match="true labels already determine the class shares"):
        conal.make("gold", class_prior="balanced", epochs=1).fit(data.x, data.y_true)
