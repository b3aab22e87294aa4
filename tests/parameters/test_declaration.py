"""Parameters are declared once: constructors, checks, documentation and options follow."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from conal.errors import InputError
from conal.parameters import (
    Parameterised,
    anything,
    check_parameters,
    either,
    flag,
    number,
    one_of,
    optional,
    parameter,
    share,
    whole,
    widths,
)
from conal.parameters.declaration import declare, declare_keywords, set_parameters
from conal.parameters.training import ClassifierParameters, Settings


class Base(Parameterised):
    """A story.

    References
    ----------
    Somebody (1979).
    """

    lr: float = parameter(default=0.1, must_be=number(above=0), help="Learning rate.")
    steps: int = parameter(default=3, must_be=whole(1), help="How many steps.", free_on_resume=True)


class Slow(Base):
    """Another story."""

    lr = 0.01
    name: str = parameter(default="x", must_be=one_of("x", "y"), help="A name.")


def test_the_constructor_takes_what_is_declared_and_nothing_else() -> None:
    made = Slow(steps=5)
    assert (made.lr, made.steps, made.name) == (0.01, 5, "x")
    assert Base().lr == 0.1
    assert str(inspect.signature(Slow)) == "(*, name: 'str' = 'x', lr: 'float' = 0.01, steps: 'int' = 3)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        Slow(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Slow(1)  # type: ignore[call-arg]


def test_nothing_is_checked_until_it_is_asked_for() -> None:
    wrong = Slow(steps=0)
    with pytest.raises(InputError, match=r"^steps must be a whole number of at least 1, not 0$"):
        check_parameters(wrong)
    check_parameters(Slow())


def test_a_copy_with_changes() -> None:
    made = Slow(steps=5)
    changed = made.replace(lr=1.0)
    assert (changed.lr, changed.steps, made.lr) == (1.0, 5, 0.01)


def test_the_documentation_lists_every_parameter_before_the_references() -> None:
    text = str(Base.__doc__)
    assert text.index("A story.") < text.index("Parameters\n----------\nlr : float, default 0.1\n    Learning rate.")
    assert text.index("steps : int, default 3") < text.index("References\n----------")
    assert "name : str, default 'x'" in str(Slow.__doc__)
    assert "lr : float, default 0.01" in str(Slow.__doc__)
    assert Slow.story == "Another story."


def test_declarations_of_a_subclass_do_not_reach_its_base() -> None:
    assert list(Base.declared) == ["lr", "steps"]
    assert list(Slow.declared) == ["name", "lr", "steps"]
    assert Base.declared["lr"].default == 0.1
    assert Base.declared["steps"].free_on_resume


def test_an_alias_is_the_name_for_users() -> None:
    class Aliased:
        kind: str = parameter(default="a", must_be=one_of("a", "b"), help="A kind.", alias="class_")

    declare(Aliased)
    thing: Any = Aliased()
    set_parameters(thing, {"class_": "c"})
    assert thing.kind == "c"
    with pytest.raises(InputError, match="class_ must be 'a' or 'b', not 'c'"):
        check_parameters(thing)


def test_keyword_only_arguments_of_a_written_constructor_are_parameters_too() -> None:
    class Written:
        def __init__(self, *, width: int = 4) -> None:
            self.width = width

    declare(Written)
    declare_keywords(Written)
    found = Written.declared["width"]  # type: ignore[attr-defined]
    assert (found.default, found.annotation, found.attribute) == (4, "int", "")


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
        (optional(whole(1)), [None, 1], [0], "None or a whole number of at least 1"),
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
    for name, found in ClassifierParameters.declared.items():
        found.check(found.default)
        assert found.help.endswith("."), name
        assert found.help[0].isupper(), name
    assert set(Settings.declared) < set(ClassifierParameters.declared)
