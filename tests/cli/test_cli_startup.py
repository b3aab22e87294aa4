"""Help is instant, complete, and needs none of the heavy libraries."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer

import conal as package
from conal.cli import app
from helpers.processes import conal_and_its_modules

if TYPE_CHECKING:
    from cli.conftest import Run

COMMANDS = (
    *("aggregate", "convert", "demo", "export", "fit", "inspect", "measure", "plan", "predict"),
    *("rank", "report", "simulate", "update"),
)
SHOWN = ("aggregate", "fit", "inspect", "convert", "report", "simulate")
HEAVY = ("torch", "sklearn", "pandas", "scipy", "pyarrow", "numpy", "lightning_fabric", "altair", "jinja2")


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in SHOWN), ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    printed, loaded = conal_and_its_modules(*arguments)
    assert printed.strip()
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_click_is_not_needed_beside_typer() -> None:
    code = "import sys; sys.modules['click'] = None; import conal.cli"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_a_success(conal: Run, command: tuple[str, ...], flag: str) -> None:
    run = conal(*command, flag)
    assert (run.code, run.err) == (0, "")
    assert "Usage: conal" in run.out


def test_version(conal: Run) -> None:
    run = conal("--version")
    assert (run.code, run.out, run.err) == (0, f"conal {package.__version__}\n", "")


def test_no_arguments_show_the_help_and_are_no_success(conal: Run) -> None:
    run = conal()
    assert run.code == 2
    assert "Usage: conal" in run.out + run.err
    assert all(name in run.out + run.err for name in COMMANDS)


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return {"conal": group, **group.commands}


def test_all_commands_are_there() -> None:
    shown = {name for name, command in commands().items() if not command.hidden}
    assert shown == {"conal", *COMMANDS}


@pytest.mark.parametrize("name", ["conal", *COMMANDS])
def test_everything_is_explained(name: str) -> None:
    command = commands()[name]
    assert command.help.strip()
    assert command.params
    for parameter in command.params:
        assert parameter.help, f"{name} {parameter.name}"
        assert parameter.help.strip().endswith("."), f"{name} {parameter.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_help_text(conal: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = conal(name, "--help").out
    for parameter in commands()[name].params:
        if getattr(parameter, "hidden", False):
            continue
        words = parameter.opts if parameter.param_type_name == "option" else [parameter.name]
        assert all(word in text for word in words), parameter.name


@pytest.mark.parametrize("name", ["bound", "verify", "reproduce"])
def test_commands_of_0_2_0_that_are_gone(conal: Run, name: str) -> None:
    assert f"No such command '{name}'; see conal --help" in conal(name, "--out", "results").refusal()
