"""What a method declares: its own parameters, and which of every classifier's it reads."""

from __future__ import annotations

import pytest
import torch

import conal
from conal import methods
from conal.errors import InputError
from conal.estimator import CrowdClassifier, estimator_class
from conal.methods import CrowdMethod, Problem
from conal.methods.cross_conal import CrossCoNALMethod
from conal.parameters import parameters_of
from conal.parameters.training import ClassifierParameters

PROBLEM = Problem((2,), 2, 1, 1, torch.tensor([1]))


@pytest.mark.parametrize("name", methods.names())
def test_a_method_and_its_estimator_share_their_parameters(name: str) -> None:
    own, all_of_them = parameters_of(methods.get(name)), parameters_of(estimator_class(name))
    assert set(all_of_them) == set(own) | set(parameters_of(ClassifierParameters))
    assert all(all_of_them[key] == declared for key, declared in own.items())
    assert set(methods.get(name).reads) <= set(parameters_of(ClassifierParameters))
    assert not any(declared.option.flag for declared in own.values()), "those of methods are set by --set"


def test_xconal_plans_its_rounds_by_the_epochs() -> None:
    made = CrossCoNALMethod(PROBLEM, torch.nn.Linear(2, 2), epochs=10, start=0.5, rounds=2)
    assert (made.epochs, made.due) == (10, {5, 10})
    assert CrossCoNALMethod(PROBLEM, torch.nn.Linear(2, 2)).epochs == "auto"


def test_a_method_refuses_a_parameter_that_it_does_not_have() -> None:
    with pytest.raises(TypeError, match=r"CrossCoNALMethod\(\) got an unexpected keyword argument 'lam'"):
        CrossCoNALMethod(PROBLEM, torch.nn.Linear(2, 2), lam=0.1)
    with pytest.raises(InputError, match="method 'dl-mv' has no parameter 'lam'"):
        conal.make("dl-mv", lam=0.1)


def test_a_method_without_an_estimator_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    methods.names()
    monkeypatch.setattr(methods.base.methods, "_entries", dict(methods.base.methods._entries))
    methods.register("lonely")(type("Lonely", (CrowdMethod,), {}))
    with pytest.raises(InputError, match=r"method 'lonely' has no estimator: derive a class with method = 'lonely'"):
        conal.make("lonely")
    assert "lonely" not in CrowdClassifier.by_method
