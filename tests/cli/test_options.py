"""``--set`` and options that stand for declared parameters: what is taken, parsed, checked and refused."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
import typer

from conal.cli import app, options
from conal.errors import InputError
from conal.parameters import Doc, Option, comma_separated, number, parameters, whole

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

COMMANDS = sorted(typer.main.get_group(app).commands)


@parameters
class Brewing:
    """How coffee is made."""

    cups: Annotated[int, whole(1), Doc("Cups to fill."), Option("--cups")] = 2
    grams: Annotated[float | None, number(above=0), Doc("Coffee per cup.")] = None
    roast: Annotated[Literal["light", "dark"], Doc("Roast.")] = "dark"
    milk: Annotated[bool, Doc("Add milk.")] = False
    bean: Annotated[str | None, Doc("Name of the bean."), Option(parse=str)] = None
    guests: Annotated[Sequence[str] | None, Doc("Who."), Option(parse=comma_separated)] = None
    water: Annotated[str, Doc("Kept from the command line."), Option(parse=None)] = "tap"


def brew(*pairs: str, **given: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What was chosen, and the settings that are left."""
    settings = options.parse_settings(pairs)
    return options.chosen(Brewing, settings, **given), settings


def test_every_value_is_what_its_parameter_expects() -> None:
    pairs = ("grams=7.5", "roast=light", "milk=true", "bean=1984", "guests=ann, bob", "sugar=[1, 2]")
    found, left = brew(*pairs, cups=3)
    assert found == {
        "cups": 3,
        "grams": 7.5,
        "roast": "light",
        "milk": True,
        "bean": "1984",
        "guests": ["ann", "bob"],
    }
    assert left == {"sugar": "[1, 2]"}
    assert options.remaining(left) == {"sugar": [1, 2]}


def test_only_what_the_user_said_is_chosen() -> None:
    assert brew(cups=None, milk=False) == ({}, {})
    assert brew("milk=false", "cups=2") == ({"milk": False, "cups": 2}, {})  # a default, but said
    assert vars(options.taken(Brewing, {})) == vars(Brewing())


def test_a_value_may_contain_signs_and_be_empty() -> None:
    assert brew("bean=a=b") == ({"bean": "a=b"}, {})
    assert brew("bean=") == ({"bean": ""}, {})


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("grams=nan", "grams must be None or a finite number above 0, not 'nan'"),
        ("grams=-1", "grams must be None or a finite number above 0, not -1"),
        ("roast=raw", "roast must be 'light' or 'dark', not 'raw'"),
        ("milk=oat", "milk must be true or false, not 'oat'"),
        ("guests=ann,,bob", "'ann,,bob': a name is empty"),
        ("cups", "--set 'cups': expected NAME=VALUE"),
        ("=3", "--set '=3': expected NAME=VALUE"),
        ("cups=4", "--set cups: --cups sets it too; leave out one of the two"),
    ],
)
def test_what_cannot_be_meant_is_refused(pair: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        brew(pair, cups=3)
    assert message in str(refused.value)


def test_names_that_nothing_takes_are_refused_with_the_known_ones() -> None:
    _, left = brew("water=rain")
    known = options.settable(Brewing)
    with pytest.raises(InputError, match=r"--set water: there is no such setting; known are grams, roast, milk, bean"):
        options.refuse_unknown(left, known)
    assert "cups" not in known
    assert "cups" in options.settable(Brewing, also=("cups",))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_names_every_setting_that_has_no_option(name: str) -> None:
    command = typer.main.get_group(app).commands[name]
    shown = {word for parameter in command.params for word in parameter.opts}
    settings = getattr(importlib.import_module(f"conal.cli.{name}"), "SETTINGS", {})
    own = name == "rank"  # it takes the parameters of its model alone
    assert ("--set" in shown) == bool(settings or own)
    if settings:
        (text,) = (getattr(each, "help", "") for each in command.params if "--set" in each.opts)
        assert all(setting in text for setting in settings)
        assert not {found.option.flag for found in settings.values()} - {""} & shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_place_in_the_help(name: str) -> None:
    """What people use first has no panel, and so comes first."""
    panels = {"Data", "Labels", "Training", "Report", "Privacy", None}
    parameters = typer.main.get_group(app).commands[name].params
    assert {getattr(each, "rich_help_panel", None) for each in parameters} <= panels
    first = [p for p in parameters if isinstance(p, typer.core.TyperOption) and p.rich_help_panel is None]
    assert len([p for p in first if not p.hidden and p.name != "help"]) <= 11


@pytest.mark.parametrize("name", ["aggregate", "convert", "inspect"])
def test_settings_reach_the_reader_of_every_command(name: str, conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    outputs = {"aggregate": ["--out", tmp_path / "o.csv"], "convert": ["--to", "csv", "--out", tmp_path / "o.csv"]}
    line = (name, crowd.labels, *outputs.get(name, []), "--json")
    all_of_them = conal(*line).json()["n_annotations"]
    fewer = conal(*line, "--set", "missing=cat", *(["--overwrite"] if name in outputs else [])).json()["n_annotations"]
    assert fewer == all_of_them - sum(label == "cat" for _, _, label in crowd.rows)
