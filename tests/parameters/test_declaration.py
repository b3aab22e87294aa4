"""Parameters are declared once: constructors, checks, documentation and options follow."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from sklearn.base import clone

import conal
from conal.errors import InputError
from conal.parameters import (
    Doc,
    Option,
    anything,
    check_parameters,
    comma_separated,
    either,
    flag,
    frozen_parameters,
    number,
    one_of,
    only_none,
    parameters,
    parameters_of,
    share,
    whole,
    widths,
)
from conal.parameters.training import ClassifierParameters, Settings


@parameters
class Base:
    """First paragraph.

    References
    ----------
    Somebody (1979).
    """

    lr: Annotated[float, number(above=0), Doc("Learning rate.")] = 0.1
    steps: Annotated[int | Literal["auto"], whole(1), Doc("How many steps."), Option("--steps")] = 3


@parameters
class Slow(Base):
    """Another paragraph."""

    lr: float = 0.01
    name: Annotated[Literal["x", "y"], Doc("A name."), Option(parse=comma_separated)] = "x"


def test_the_constructor_takes_what_is_declared_and_nothing_else() -> None:
    made = Slow(steps=5)
    assert (made.lr, made.steps, made.name) == (0.01, 5, "x")
    assert Base().lr == 0.1
    shown = inspect.signature(Slow).parameters
    assert {name: (each.annotation, each.default) for name, each in shown.items()} == {
        "lr": ("float", 0.01),
        "steps": ("int | Literal['auto']", 3),
        "name": ("Literal['x', 'y']", "x"),
    }
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        Slow(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Slow(1)  # type: ignore[call-arg]


def test_nothing_is_checked_until_it_is_asked_for() -> None:
    wrong = Slow(steps=0)
    with pytest.raises(InputError, match=r"^steps must be a whole number of at least 1 or 'auto', not 0$"):
        check_parameters(wrong)
    check_parameters(Slow(steps="auto"))


@pytest.mark.parametrize(
    ("kind", "right", "wrong", "meaning"),
    [
        ("bool", [True, False], [1, None], "true or false"),
        ("int | None", [None, 3, "x"], [], "anything"),
        ("Literal['a'] | None", [None, "a"], ["b"], "None or 'a'"),
        ("Literal['a', 'b']", ["a", "b"], ["c", None], "'a' or 'b'"),
        ("str", ["", 3], [], "anything"),
    ],
)
def test_types_are_constraints_too(kind: str, right: list[Any], wrong: list[Any], meaning: str) -> None:
    cls = type("Made", (), {"value": None, "__annotations__": {"value": f"Annotated[{kind}, Doc('A value.')]"}})
    cls.__module__ = __name__
    found = parameters_of(parameters(cls))["value"].constraint
    assert all(found.holds(each) for each in right)
    assert not any(found.holds(each) for each in wrong)
    assert found.meaning == meaning


def test_a_type_adds_to_a_stated_constraint() -> None:
    found = parameters_of(ClassifierParameters)["scaling"].constraint
    assert found.holds(None)
    assert found.holds("robust")
    assert not found.holds("none at all")
    assert parameters_of(Slow)["steps"].option.flag == "--steps"
    assert parameters_of(Slow)["name"].option.parse is comma_separated


def test_the_documentation_lists_every_parameter_before_the_references() -> None:
    text = str(Base.__doc__)
    assert text.index("First") < text.index("Parameters\n----------\nlr : float, default 0.1\n    Learning rate.")
    assert text.index("steps : int | Literal['auto'], default 3") < text.index("References\n----------")
    assert "name : Literal['x', 'y'], default 'x'" in str(Slow.__doc__)
    assert "lr : float, default 0.01" in str(Slow.__doc__)


def test_declarations_of_a_subclass_do_not_reach_its_base() -> None:
    assert list(parameters_of(Base)) == ["lr", "steps"]
    assert list(parameters_of(Slow)) == ["name", "lr", "steps"]
    assert (parameters_of(Base)["lr"].default, parameters_of(Slow)["lr"].default) == (0.1, 0.01)
    assert parameters_of(object()) == {}


def test_a_default_that_would_not_reach_the_constructor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.lr: change a default with its type, lr: type = default"):

        @parameters
        class Wrong(Base):
            lr = 1.0


def test_a_parameter_without_a_sentence_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bare\.width: a parameter is Annotated\[type, constraint, Doc"):

        @parameters
        class Bare:
            width: int = 3


def test_settings_are_compared_by_value_and_cannot_be_changed() -> None:
    @frozen_parameters
    class Size:
        rows: Annotated[int, whole(1), Doc("Rows.")] = 1

    @frozen_parameters
    class Box(Size):
        columns: Annotated[int, whole(1), Doc("Columns.")] = 1

    assert Size(rows=2) == Size(rows=2) != Size()
    assert len({Size(), Size(), Box()}) == 2
    with pytest.raises(FrozenInstanceError):
        Size().rows = 3  # type: ignore[misc]
    assert replace(Box(), rows=3).rows == 3


def test_estimators_are_what_editors_and_scikit_learn_see() -> None:
    made = conal.CoNAL(lam=0.5, lr=0.1)
    assert clone(made).get_params() == made.get_params()
    assert made.set_params(lam=0.25).lam == 0.25
    assert pickle.loads(pickle.dumps(made)).lam == 0.25  # noqa: S301 - our own object
    page = pydoc.plain(pydoc.render_doc(conal.CoNAL))
    assert all(found.help.split(".")[0][:40] in " ".join(page.split()) for found in parameters_of(conal.CoNAL).values())


@pytest.mark.slow
def test_a_type_checker_refuses_a_keyword_that_does_not_exist(tmp_path: Path) -> None:
    """With the types of the package as they are installed."""
    code = 'import conal\nconal.CoNAL(lr=0.1)\nconal.CoNAL(learning_rate=0.1)\nconal.CoNAL(lr="fast")\n'
    (tmp_path / "user.py").write_text(code, encoding="utf-8")
    call = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "user.py"]
    found = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    errors = [line for line in found.splitlines() if line.startswith("user.py")]
    assert [line.split(":")[1] for line in errors] == ["3", "4"]
    assert 'Unexpected keyword argument "learning_rate" for "CoNAL"' in errors[0]


@pytest.mark.parametrize(
    ("constraint", "right", "wrong", "meaning"),
    [
        (whole(1), [1, 7], [0, 1.0, True, "1", None], "a whole number of at least 1"),
        (whole(0, below=4), [0, 3], [-1, 4], "a whole number from 0 to below 4"),
        (number(), [0, -1.5], [float("nan"), float("inf"), True, "0"], "a finite number"),
        (number(above=0), [1e-9], [0, -1], "a finite number above 0"),
        (number(at_least=0), [0, 2], [-1e-9], "a finite number of at least 0"),
        (number(at_least=0, below=1), [0, 0.5], [1, -0.1], "a number from 0 to below 1"),
        (share(), [0.5], [0, 1], "a share above 0 and below 1"),
        (flag(), [True, False], [1, 0, "true"], "true or false"),
        (one_of("a", "b"), ["a"], ["c", ["a"], None], "'a' or 'b'"),
        (one_of("a", "b", "c"), ["c"], ["d"], "'a', 'b' or 'c'"),
        (either(only_none(), whole(1)), [None, 1], [0], "None or a whole number of at least 1"),
        (either(number(), one_of("learn")), [1.0, "learn"], ["x"], "a finite number or 'learn'"),
        (widths(), [[64, 32], (), (1,)], [64, "64", [0], [1.5]], "a list of whole numbers of at least 1"),
        (anything(), [None, 1, object()], [], "anything"),
    ],
)
def test_constraints(constraint: Any, right: list[Any], wrong: list[Any], meaning: str) -> None:
    assert all(constraint.holds(value) for value in right)
    assert not any(constraint.holds(value) for value in wrong)
    assert constraint.meaning.startswith(meaning)


def test_every_default_is_allowed_and_every_line_of_help_is_a_sentence() -> None:
    for name, found in parameters_of(ClassifierParameters).items():
        found.check(found.default)
        assert found.help.endswith("."), name
        assert found.help[0].isupper(), name
    assert set(parameters_of(Settings)) < set(parameters_of(ClassifierParameters))
