"""Write the golden set again: `make golden`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from golden import folders, messages, numbers

EXPECTED = Path(__file__).parent / "expected"
DIGITS = 12


def write(name: str, content: Any) -> None:
    """One JSON file with a line per row of numbers."""
    place = EXPECTED / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def rows(arrays: dict[str, numbers.FloatArray]) -> dict[str, list[str]]:
    """Rows of numbers as text, so that a difference reads line by line."""
    return {key: [" ".join(f"{x:.{DIGITS}g}" for x in row) for row in array] for key, array in arrays.items()}


def main() -> None:
    """Everything, into an empty folder."""
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for name in numbers.aggregator_names():
        write(f"aggregators/{name}", rows(numbers.crowd_posteriors(name)))
    for name in numbers.method_names():
        write(f"methods/{name}", rows(numbers.classifier_posteriors(name)))
    for name in folders.COMMANDS:
        write(f"folders/{name}", inside_empty_folder(folders.run, name))
    write("messages", {name: inside_empty_folder(messages.say_error, *case) for name, case in messages.CASES.items()})


def inside_empty_folder(function: Any, *arguments: Any) -> Any:
    """The result of a function that runs in a new folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return function(*arguments)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    main()
