"""Groups of options on a toy application: what is shown, what the command is given, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from conal.cli.options import Exports, Group, Reading, with_groups
from conal.parameters import Option, Parameterised, anything, flag, number, one_of, optional, parameter, whole
from conal.parameters.constraints import comma_separated
from conal.parameters.reading import ReadOptions


class Brewing(Parameterised):
    """How coffee is made."""

    cups: int = parameter(default=2, must_be=whole(1), help="Cups to fill.", option=Option())
    grams: float | None = parameter(
        default=None, must_be=optional(number(above=0)), help="Coffee per cup.", option=Option(shown_default="to taste")
    )
    roast: Literal["light", "dark"] = parameter(
        default="dark", must_be=one_of("light", "dark"), help="Roast.", option=Option("--bean", help="light or dark.")
    )
    with_milk: bool = parameter(default=False, must_be=flag(), help="Add milk.", option=Option())
    guests: Sequence[str] | None = parameter(
        default=None, must_be=anything(), help="Who drinks it.", option=Option(parse=comma_separated)
    )
    water: str = parameter(default="tap", must_be=anything(), help="Kept from the command line.")


Given = dict[str, Any]


@pytest.fixture
def seen() -> Given:
    """What the command of the application was given at last."""
    return {}


@pytest.fixture
def app(seen: Given) -> typer.Typer:
    def brew(
        *,
        place: Annotated[str, typer.Argument(help="Where.")],
        brewing: Annotated[Brewing, Group(Brewing)],
        loud: Annotated[bool, typer.Option("--loud", help="Sing.")] = False,
    ) -> None:
        """Make coffee."""
        seen.update(place=place, brewing=brewing, loud=loud)

    return made(brew)


def made(command: Any) -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(with_groups(command))
    return app


def run(app: typer.Typer, *arguments: object, rich: bool = False) -> tuple[int, str]:
    """Exit code, and everything that was said, on one line."""
    app.rich_markup_mode = "rich" if rich else None
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, " ".join(re.sub("[│╭╮╰╯─]", " ", done.output).split())


def test_the_command_is_given_an_object(app: typer.Typer, seen: Given) -> None:
    words = ("--cups", 3, "--grams", 7.5, "--bean", "light", "--with-milk", "--guests", "ann, bob", "--loud")
    assert run(app, "kitchen", *words)[0] == 0
    brewing = seen.pop("brewing")
    assert seen == {"place": "kitchen", "loud": True}
    assert type(brewing) is Brewing
    assert [getattr(brewing, name) for name in Brewing.declared] == [3, 7.5, "light", True, ["ann", "bob"], "tap"]


def test_what_is_left_out_has_its_default(app: typer.Typer, seen: Given) -> None:
    assert run(app, "kitchen")[0] == 0
    assert vars(seen["brewing"]) == vars(Brewing())
    assert seen["loud"] is False


def test_the_help_shows_every_option_with_its_default(app: typer.Typer) -> None:
    code, text = run(app, "--help")
    assert code == 0
    assert "Make coffee." in text
    assert re.search(r"--cups \S+ Cups to fill\. \[default: 2\]", text)
    assert re.search(r"--grams \S+ Coffee per cup\. \[default: \(to taste\)\]", text)
    assert re.search(r"--bean \S+ light or dark\. \[default: dark\]", text)
    assert re.search(r"--with-milk Add milk\. --guests \S+ Who drinks it\. --loud", text)
    assert re.search(r"--with-milk Add milk\.", run(app, "--help", rich=True)[1])  # no type
    assert not {"--water", "--roast", "--no-with-milk", "brewing", "context"} & set(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cups", "many"), "Invalid value for '--cups'"),
        (("--cups", 0), "Invalid value for '--cups': cups must be a whole number of at least 1, not 0"),
        (("--grams", "nan"), "Invalid value for '--grams': grams must be None or a finite number above 0, not nan"),
        (("--bean", "raw"), "Invalid value for '--bean': roast must be 'light' or 'dark', not 'raw'"),
        (("--guests", "ann,,bob"), "Invalid value for '--guests': 'ann,,bob': a name is empty"),
        (("--with-milk=oat",), "'--with-milk'"),
        (("--water", "rain"), "--water"),
        (("--cups",), "'--cups'"),
    ],
)
def test_what_cannot_be_meant_is_bad_usage(
    app: typer.Typer, seen: Given, arguments: tuple[object, ...], message: str
) -> None:
    code, text = run(app, "kitchen", *arguments)
    assert code == 2
    assert message in text
    assert not seen


def test_a_dict_holds_what_the_user_set_and_nothing_else(seen: Given) -> None:
    def brew(*, chosen: Annotated[Given, Group(Brewing, make=dict)]) -> None:
        seen.update(chosen=chosen)

    app = made(brew)
    assert run(app)[0] == 0
    assert seen["chosen"] == {}
    assert run(app, "--cups", 2, "--with-milk")[0] == 0  # its default, but said
    assert seen["chosen"] == {"cups": 2, "with_milk": True}


def test_several_groups_and_parts_of_groups(seen: Given) -> None:
    def brew(*, brewing: Annotated[Brewing, Group(Brewing, only=("cups", "water"))], columns: Exports) -> None:
        seen.update(brewing=brewing, columns=columns)

    app = made(brew)
    assert run(app, "--cups", 3, "--task-column", "song")[0] == 0
    assert (seen["brewing"].cups, seen["columns"].task) == (3, "song")
    text = run(app, "--help")[1]
    assert "--bean" not in text
    assert "--water" not in text
    assert "--worker-column" not in text


def test_two_options_of_one_name_are_a_mistake_of_the_programmer() -> None:
    def brew(*, cups: int = 1, brewing: Annotated[Brewing, Group(Brewing)]) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name: 'cups'"):
        with_groups(brew)


def test_a_command_without_groups_stays_what_it_is(seen: Given) -> None:
    def brew(place: str, cups: int = 2) -> None:
        """Make coffee."""
        seen.update(place=place, cups=cups)

    app = made(brew)
    assert run(app, "kitchen", "--cups", 3)[0] == 0
    assert seen == {"place": "kitchen", "cups": 3}


def test_options_of_reading(seen: Given) -> None:
    """The flags are these; other commands and files rely on them."""

    def read(*, reading: Reading) -> None:
        seen.update(reading=reading)

    flags = ("task-column", "worker-column", "label-column", "format", "question", "classes", "missing")
    app = made(read)
    words = [word for name in flags for word in (f"--{name}", f"my-{name}")]
    assert run(app, *words, "--keep-rejected", "--on-duplicate", "first")[0] == 0
    assert vars(seen["reading"]) == {
        "task": "my-task-column",
        "worker": "my-worker-column",
        "label": "my-label-column",
        "format": "my-format",
        "question": "my-question",
        "classes": ["my-classes"],
        "missing": ["my-missing"],
        "keep_rejected": True,
        "on_duplicate": "first",
        "unlabelled": False,
        "abstain": None,
        "ordinal": False,
    }
    assert set(vars(seen["reading"])) == set(ReadOptions.declared)
