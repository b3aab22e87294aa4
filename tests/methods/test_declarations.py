"""What a method declares: its own parameters, and which of every classifier's it uses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import conal
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.estimator import factory
from conal.estimator.classifier import CrowdClassifier
from conal.methods import Batch, CrowdMethod, Problem
from conal.methods.base import methods, register
from conal.methods.cross_conal import CrossCoNALMethod
from conal.parameters import Parameter, number, parameter
from conal.parameters.training import ClassifierParameters

PROBLEM = Problem((2,), 2, 1, 1, torch.tensor([1]))


@pytest.fixture
def smoothing(monkeypatch: pytest.MonkeyPatch) -> type[CrowdMethod]:
    """A training parameter for losses, and a method that uses it."""
    found = Parameter(0.0, number(at_least=0, below=1), "Label smoothing.", for_losses=True)
    found = Parameter(**vars(found) | {"name": "label_smoothing", "attribute": "label_smoothing"})
    for owner in (ClassifierParameters, CrowdClassifier):
        monkeypatch.setattr(owner, "declared", dict(owner.declared) | {"label_smoothing": found})
    monkeypatch.setattr(ClassifierParameters, "label_smoothing", 0.0, raising=False)
    methods.discover()
    monkeypatch.setattr(methods, "_entries", dict(methods._entries))
    monkeypatch.setattr(factory, "_CLASSES", {})

    @register("smoothed")
    class Smoothed(CrowdMethod):
        """Uses it."""

        uses = ("label_smoothing",)
        label_smoothing: float

        def loss(self, batch: Batch) -> torch.Tensor:
            logits = self.class_logits(batch.x)[batch.rows]
            return torch.nn.functional.cross_entropy(logits, batch.labels, label_smoothing=self.label_smoothing)

    return Smoothed


def test_a_method_has_the_training_parameters_that_it_uses(smoothing: type[CrowdMethod]) -> None:
    x, crowd = torch.eye(4).numpy(), Annotations.from_matrix([[0], [1], [0], [1]])
    fast: dict[str, Any] = {"epochs": 1, "selection": "last", "verbose": False}
    clf = conal.make("smoothed", label_smoothing=0.25, **fast).fit(x, crowd)
    assert clf.model_.label_smoothing == 0.25
    assert conal.make("smoothed", **fast).fit(x, crowd).model_.label_smoothing == 0.0
    assert smoothing(PROBLEM, torch.nn.Linear(2, 2)).label_smoothing == 0.0


@pytest.mark.usefixtures("smoothing")
def test_other_methods_refuse_a_parameter_of_losses() -> None:
    assert "label_smoothing" not in conal.make("dl-mv").get_params()
    with pytest.raises(InputError, match="method 'dl-mv' has no parameter 'label_smoothing'"):
        conal.make("dl-mv", label_smoothing=0.1)


def test_xconal_plans_its_rounds_by_the_epochs() -> None:
    made = CrossCoNALMethod(PROBLEM, torch.nn.Linear(2, 2), epochs=10, start=0.5, rounds=2)
    assert (made.epochs, made.due) == (10, {5, 10})
    assert CrossCoNALMethod(PROBLEM, torch.nn.Linear(2, 2)).epochs == "auto"


def test_declarations_without_effect_are_told_to_the_author() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.width: only parameters of every classifier have an option"):

        class Wrong(CrowdMethod):
            width: float = parameter(default=1.0, must_be=number(), help="Width.", flag="--width")

    with pytest.raises(TypeError, match=r"Unknown\.uses: 'width' is not a parameter of every classifier"):

        class Unknown(CrowdMethod):
            uses = ("width",)
