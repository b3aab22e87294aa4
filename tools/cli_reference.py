"""docs/cli.md from what every command says with --help: `make pages` writes it, and a test compares it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import typer

from conal.cli import app

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
PLAIN = {"TYPER_USE_RICH": "0", "NO_COLOR": "1", "COLUMNS": "80", "TERM": "dumb"}
INTRODUCTION = (
    "The output of `--help` for every command. Exit codes: 0 for success, 1 for failure, 2 for bad usage or bad input, "
    "130 if interrupted. With `--json` a command prints one JSON object on standard output, and everything else on "
    "standard error."
)


def page() -> str:
    """The whole page."""
    parts = ["# Command line", INTRODUCTION]
    commands = typer.main.get_group(app).commands
    for name in sorted(name for name, command in commands.items() if not command.hidden):
        parts += [f"## conal {name}", f"```text\n{_help(name)}\n```"]
    return "\n\n".join(parts) + "\n"


def _help(command: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "conal", command, "--help"],
        env=os.environ | PLAIN,
        capture_output=True,
        text=True,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
