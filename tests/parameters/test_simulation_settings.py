"""Settings of simulated crowds: declared once, checked when they are made, the same for every dataset and command."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import Any

import pytest
import typer

from conal.cli import app
from conal.datasets import CrowdSettings, cifar10, digits, synthetic
from conal.errors import InputError
from conal.parameters import parameters_of
from conal.parameters.simulation import SyntheticSettings


def test_settings_compare_by_value_and_cannot_change() -> None:
    settings = CrowdSettings(seed=3)
    assert settings == replace(CrowdSettings(), seed=3) != CrowdSettings()
    assert hash(settings) == hash(CrowdSettings(seed=3))
    assert "seed=3" in repr(settings)
    with pytest.raises(AttributeError, match="cannot assign to field 'seed'"):
        settings.seed = 4  # type: ignore[misc]
    assert settings.seed == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_annotators": 2.5}, "n_annotators must be a whole number of at least 1, not 2.5"),
        ({"gate_scale": -1}, r"gate_scale must be a number from 0 to 1e\+06 or 'paper' or 'wide', not -1"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"n_annotators": 2}, "labels_per_instance must be at most n_annotators, 2, not 3.0"),
    ],
)
def test_settings_are_checked_at_once(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CrowdSettings(**change)
    with pytest.raises(InputError, match=message):
        replace(CrowdSettings(), **change)


@pytest.mark.parametrize("dataset", [synthetic, digits, cifar10])
def test_every_dataset_takes_and_explains_every_setting(dataset: Any) -> None:
    signature = inspect.signature(dataset)
    for name, declared in parameters_of(CrowdSettings).items():
        default = 0.5 if (dataset, name) == (digits, "common_strength") else declared.default
        assert signature.parameters[name].default == default, name
        assert f"\n{name} : {declared.annotation}, default {default!r}\n    {declared.help}" in dataset.__doc__


def test_a_keyword_that_is_none_is_refused() -> None:
    loosely_typed: Any = synthetic
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'n_anotators'"):
        loosely_typed(n_anotators=3)
    with pytest.raises(TypeError, match="positional argument"):
        loosely_typed(3)


def test_the_command_takes_every_setting() -> None:
    (option,) = (each for each in typer.main.get_group(app).commands["simulate"].params if each.name == "settings")
    named = re.findall(r"\w+", getattr(option, "help", ""))
    assert set(named) >= set(parameters_of(SyntheticSettings))
