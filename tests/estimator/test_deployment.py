"""``to_torch``: one module for every method, whose output equals ``predict_proba``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import conal
from conal import methods
from conal.estimator import CrowdClassifier

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")

FAST: dict[str, Any] = {"epochs": 2, "batch_size": 16, "verbose": False, "selection": "last", "seed": 3}
CLASSES = ["a", "b", "c"]


def features(*, positive: bool = False) -> npt.NDArray[np.float32]:
    x = np.random.default_rng(0).normal(2.0, 5.0, size=(40, 6)).astype(np.float32)
    x[:, 1] = 4.0  # a constant feature
    x[3, 2] = 1e6  # an outlier, which is cut off
    return np.abs(x) if positive else x


def fit(name: str, x: npt.NDArray[np.float32], **settings: Any) -> CrowdClassifier:
    """Five annotators, of whom the last gave no label."""
    matrix = np.random.default_rng(1).integers(3, size=(len(x), 5))
    matrix[:, 4] = -1
    crowd = conal.Annotations.from_matrix(matrix, classes=range(3))
    target = matrix[:, 0] if methods.get(name).takes == "gold" else crowd
    return conal.make(name, **{**FAST, **settings}).fit(x, target)


def assert_equal(clf: CrowdClassifier, x: npt.NDArray[Any]) -> torch.nn.Module:
    module = clf.to_torch()
    found = module(torch.from_numpy(x).float())
    assert found.dtype == torch.float32
    assert not found.requires_grad
    np.testing.assert_allclose(found.numpy(), clf.predict_proba(x), rtol=0, atol=1e-6)
    return module


@pytest.mark.parametrize("name", methods.names())
def test_every_method(name: str) -> None:
    x = features()
    clf = fit(name, x)
    assert not assert_equal(clf, x).training


@pytest.mark.parametrize("name", ["xconal", "conal", "doctor-net"])
def test_an_ensemble_with_a_class_prior_that_was_saved(name: str, tmp_path: Path) -> None:
    x = features()
    clf = fit(name, x, ensemble=2, class_prior={0: 0.7, 1: 0.2, 2: 0.1})
    assert_equal(clf, x)
    clf.save(tmp_path / "model")
    assert_equal(conal.load(tmp_path / "model"), x)


@pytest.mark.parametrize("scaling", ["none", "global", "standard", "robust", "auto"])
@pytest.mark.parametrize("positive", [False, True])
def test_every_scaling(scaling: str, positive: bool) -> None:
    x = features(positive=positive) / (1e6 if scaling == "none" else 1)
    assert_equal(fit("dl-mv", x, scaling=scaling), x)


def test_integer_images_are_given_as_float32() -> None:
    images = np.random.default_rng(0).integers(256, size=(20, 1, 4, 4)).astype(np.uint8)
    assert_equal(fit("conal", images, batch_norm=True), images)  # type: ignore[arg-type]


def test_the_module_is_a_copy_that_contains_nothing_about_annotators() -> None:
    x = features()
    clf = fit("xconal", x, folds=3, hidden=(4,))
    before, state = clf.predict_proba(x), torch.random.get_rng_state()
    module = clf.to_torch()
    assert torch.equal(torch.random.get_rng_state(), state)
    sizes = {name: tensor.numel() for name, tensor in module.state_dict().items()}
    networks, scaling, prior = 3 * (6 * 4 + 4 + 4 * 3 + 3), 6 + 6 + 1 + 1, 3
    second = (6 * 3 + 3) + 2 + 2  # a linear classifier, temperatures and shares
    assert sum(sizes.values()) == networks + scaling + prior + second
    for tensor in (*module.parameters(), *module.buffers()):
        assert tensor.untyped_storage().nbytes() == tensor.nbytes  # no part of a larger one that is shared
        tensor.zero_()
    np.testing.assert_array_equal(clf.predict_proba(x), before)


def test_only_heads_of_annotators_with_labels_are_in_doctor_nets_module() -> None:
    x = features()
    module = assert_equal(fit("doctor-net", x), x)
    assert {tensor.shape[0] for name, tensor in module.state_dict().items() if ".heads." in name} == {4}
