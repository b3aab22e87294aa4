"""Small files: written by hand, and listed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["names_in", "write_csv", "write_json", "write_json_lines", "write_lines"]


def write_lines(path: Path, *lines: str) -> Path:
    """A text file of these lines, each with its end."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def write_json(path: Path, *records: Any) -> Path:
    """One JSON array of these records."""
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def write_json_lines(path: Path, *records: Any) -> Path:
    """One JSON object per line."""
    return write_lines(path, *map(json.dumps, records))


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """A CSV file with quotes where they are needed; tabs instead of commas if the name ends in ``.tsv``."""
    with path.open("w", encoding="utf-8", newline="") as file:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([header, *rows])
    return path


def names_in(folder: Path) -> list[str]:
    """The sorted names of everything in a folder."""
    return sorted(entry.name for entry in folder.iterdir())
