"""Registries: entering, finding, and discovering by import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conal._registry import Registry
from conal.cli.aggregate import AGGREGATORS
from conal.cli.fit import METHODS
from conal.errors import InputError
from conal.parameters.reading import PLATFORMS

OWNER = """
from conal._registry import Registry
FRUIT = Registry("fruit", package="orchard_for_tests")
IMPORTED = []
"""
MEMBER = """
from orchard_for_tests import FRUIT, IMPORTED
IMPORTED.append("{name}")
@FRUIT.register("{name}")
def make():
    return "{name}"
"""


@pytest.fixture
def fruit() -> Registry[str]:
    registry: Registry[str] = Registry("fruit", package="")
    registry.register("plum")("a plum")
    registry.register("apple")("an apple")
    return registry


@pytest.fixture
def orchard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "orchard_for_tests"
    package.mkdir()
    (package / "__init__.py").write_text(OWNER)
    for name in ("pear", "cherry"):
        (package / f"{name}.py").write_text(MEMBER.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("orchard_for_tests")]:
        del sys.modules[name]


def test_get_returns_the_registered_thing(fruit: Registry[str]) -> None:
    assert fruit.get("plum") == "a plum"
    assert fruit.get("apple") == "an apple"


def test_names_are_sorted(fruit: Registry[str]) -> None:
    assert fruit.names() == ["apple", "plum"]


def test_register_returns_what_it_decorates() -> None:
    registry: Registry[type] = Registry("thing", package="")

    @registry.register("thing")
    class Thing:
        pass

    assert isinstance(Thing, type)
    assert registry.get("thing") is Thing


def test_two_registrations_of_one_name_are_an_error(fruit: Registry[str]) -> None:
    with pytest.raises(ValueError, match="fruit 'plum' is registered twice"):
        fruit.register("plum")("another")
    assert fruit.get("plum") == "a plum"


def test_unknown_name_suggests_the_nearest_and_lists_all(fruit: Registry[str]) -> None:
    with pytest.raises(InputError, match=r"there is no fruit 'plumm'; did you mean 'plum'\? Known: apple, plum$"):
        fruit.get("plumm")


def test_unknown_name_without_a_near_one(fruit: Registry[str]) -> None:
    with pytest.raises(InputError, match=r"there is no fruit 'xyz'\. Known: apple, plum$"):
        fruit.get("xyz")


@pytest.mark.usefixtures("orchard")
def test_modules_are_imported_on_first_use_and_once() -> None:
    import orchard_for_tests as owner  # type: ignore[import-not-found]

    assert owner.IMPORTED == []
    assert owner.FRUIT.names() == ["cherry", "pear"]
    assert owner.FRUIT.get("pear")() == "pear"
    owner.FRUIT.discover()
    assert sorted(owner.IMPORTED) == ["cherry", "pear"]


@pytest.mark.usefixtures("orchard")
def test_get_discovers_too() -> None:
    import orchard_for_tests as owner

    assert owner.FRUIT.get("cherry")() == "cherry"


@pytest.mark.parametrize(
    ("package", "listed"),
    [("conal.methods", METHODS), ("conal.aggregation", AGGREGATORS), ("conal.io.platforms", PLATFORMS)],
)
def test_help_texts_list_what_is_registered(package: str, listed: str) -> None:
    assert listed.split(", ") == importlib.import_module(package).names()


@pytest.fixture
def plugin(tmp_path: Path, orchard: None) -> str:
    """Another distribution, which adds a quince to the orchard; the name of its module."""
    (tmp_path / "quince_for_tests.py").write_text(MEMBER.format(name="quince"), encoding="utf-8")
    info = tmp_path / "quince_for_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quince-for-tests\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[orchard_for_tests]\nquince = quince_for_tests\n", encoding="utf-8")
    return "quince_for_tests"


@pytest.mark.usefixtures("plugin")
def test_other_distributions_join_by_an_entry_point() -> None:
    registry = importlib.import_module("orchard_for_tests").FRUIT
    assert "quince" in registry.names()
    assert registry.get("quince")() == "quince"
