"""Pages of the documentation that are gone through from top to bottom: Python and commands, in one folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from helpers.commands import run_line

__all__ = ["blocks", "commands", "run_page"]

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every block of a page that can be run, in order."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[str]:
    """The lines of a page that begin with ``$``, which come to be run."""
    texts = [text for language, text in blocks(page) if language == "console"]
    lines = [line for text in texts for line in text.splitlines()]
    assert all(line.startswith("$ ") for line in lines), page
    return [line.removeprefix("$ ").partition("  #")[0] for line in lines]


def run_page(page: Path) -> dict[str, Any]:
    """Run all blocks of a page in the current folder, and return what its Python defined."""
    namespace: dict[str, Any] = {}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), namespace)  # noqa: S102
            continue
        for line in text.splitlines():
            assert line.startswith("$ "), line
            run_line(line.removeprefix("$ "))
    return namespace
