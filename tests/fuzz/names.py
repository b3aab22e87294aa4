"""Odd names through every door and back: the same tasks, annotators and labels, or a refusal that says why."""

from __future__ import annotations

import csv
import json
import random
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import note

import conal
from conal.data.annotations import Annotations
from conal.errors import ConalError, DataWarning
from conal.io import read_annotations
from conal.io.model_folder import names_from_json, names_to_json
from conal.io.tables import write_annotations
from fuzz.files import csv_bytes
from fuzz.odd import KINDS, missing_like, odd_name
from helpers.platforms import EXPORTS, Rows

__all__ = ["DOORS", "check_names", "check_table"]

PACKAGE = Path(conal.__file__).parent
HEADER = ("task", "worker", "label")
NOTES = ('"odd', '"odd" x', 'o"dd', '"odd ""', "it's", "")
"""Comments with quotes that nobody doubled; none of them can end a quoted value."""
Texts = set[tuple[str, ...]]


def check_names(rng: random.Random, folder: Path) -> str:
    """A random table through two doors: how it ended."""
    rows = _table(rng)
    doors = rng.sample(sorted(DOORS), 2)
    note(str([rows, doors]))
    return check_table(rows, doors, rng, folder)


def check_table(rows: Rows, doors: list[str], rng: random.Random, folder: Path) -> str:
    """In through doors, out into a file and in again, and through JSON."""
    left_out: list[Texts] = []
    for door in doors:
        try:
            crowd, warned = _through(door, rows, rng, folder)
        except ConalError:
            continue
        except (UnicodeEncodeError, pa.ArrowInvalid) as error:
            if _is_ours(error):
                raise
            continue  # the table could not even be made
        found = _texts(crowd, rows)
        if door in MATRICES:  # whose columns are read as a whole, so that 3 may be 3.0
            found = {_as_written(row, rows) for row in found}
        lost = set(rows) - found
        assert not found - set(rows), f"{door}: rows are changed: {found - set(rows)}"
        assert all(_may_be_left_out(row, door) for row in lost), f"{door}: rows are lost: {lost}"
        assert warned or all(row[2] == "-1" or not row[2].strip() for row in lost), f"{door}: lost in silence: {lost}"
        left_out.append({row for row in lost if row[2] != "-1"})
        _check_way_back(crowd, rows, rng.choice(["csv", "tsv", "parquet", "jsonl"]), folder)
    if len(left_out) == 2:
        assert left_out[0] == left_out[1], f"{doors} leave out different rows: {left_out}"
    return "unchanged" if left_out else "refused"


def _table(rng: random.Random) -> Rows:
    """Distinct pairs of task and worker; mostly one kind of name per column, because a column is read as a whole."""
    kinds = [rng.choice(list(KINDS)) if rng.random() < 0.6 else None for _ in HEADER]
    pools = [[odd_name(rng, kind) for _ in range(rng.randint(1, 6))] for kind in kinds]
    pairs = dict.fromkeys((rng.choice(pools[0]), rng.choice(pools[1])) for _ in range(rng.randint(1, 10)))
    return [(task, worker, rng.choice(pools[2])) for task, worker in pairs]


def _is_ours(error: Exception) -> bool:
    return any(Path(frame.filename).is_relative_to(PACKAGE) for frame in traceback.extract_tb(error.__traceback__))


# ---------------------------------------------------------------- doors


def _delimited(ending: str, rows: Rows, rng: random.Random, folder: Path) -> Annotations:
    """A text table in any dialect, with a column of comments that somebody wrote without doubling quotes."""
    delimiter = "\t" if ending == "tsv" else rng.choice(",;")
    end, quoting = rng.choice(["\n", "\r\n"]), rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    content = csv_bytes([HEADER, *rows], delimiter, lineterminator=end, quoting=quoting)
    if rng.random() < 0.3 and not any("\n" in cell or "\r" in cell for row in rows for cell in row):
        lines = content.decode("utf-8", "surrogatepass").split(end)
        notes = ["note", *(rng.choice(NOTES) for _ in rows)]
        noted = (line + delimiter + note for line, note in zip(lines, notes, strict=False))
        content = "".join(line + end for line in noted).encode("utf-8", "surrogatepass")
    path = folder / f"in.{ending}"
    path.write_bytes(rng.choice([b"", b"", b"\xef\xbb\xbf"]) + content)
    return read_annotations(path)


def _json_lines(rows: Rows, rng: random.Random, folder: Path) -> Annotations:
    lines = [json.dumps(dict(zip(HEADER, row, strict=True)), ensure_ascii=True) for row in rows]
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_annotations(folder / "in.jsonl", format="jsonl")


def _parquet(rows: Rows, rng: random.Random, folder: Path) -> Annotations:
    pq.write_table(pa.table(dict(zip(HEADER, map(list, zip(*rows, strict=True)), strict=True))), folder / "in.parquet")
    return read_annotations(folder / "in.parquet")


def _frame(make: Callable[[Any], Any], rows: Rows, rng: random.Random, folder: Path) -> Annotations:
    return Annotations.from_frame(make(dict(zip(HEADER, map(list, zip(*rows, strict=True)), strict=True))))


def _triples(rows: Rows, rng: random.Random, folder: Path) -> Annotations:
    return Annotations.from_triples(*zip(*rows, strict=True))


def _matrix(rows: Rows, rng: random.Random, folder: Path) -> Annotations:
    tasks, workers = (list(dict.fromkeys(row[k] for row in rows)) for k in (0, 1))
    cells = np.full((len(tasks), len(workers)), None, dtype=object)
    for task, worker, label in rows:
        cells[tasks.index(task), workers.index(worker)] = label
    return Annotations.from_matrix(cells, task_ids=tasks, annotator_ids=workers)


def _export(platform: str, rows: Rows, rng: random.Random, folder: Path) -> Annotations:
    return read_annotations(EXPORTS[platform](rows, folder), format=platform)


DOORS: dict[str, Callable[[Rows, random.Random, Path], Annotations]] = {
    "csv": partial(_delimited, "csv"),
    "tsv": partial(_delimited, "tsv"),
    "jsonl": _json_lines,
    "parquet": _parquet,
    "pandas": partial(_frame, pd.DataFrame),
    "polars": partial(_frame, pl.DataFrame),
    "triples": _triples,
    "matrix": _matrix,
    **{platform: partial(_export, platform) for platform in ("argilla", "lists", "peerannot", "wide")},
}
MATRICES = ("matrix", "wide")


# ---------------------------------------------------------------- what must hold


def _through(door: str, rows: Rows, rng: random.Random, folder: Path) -> tuple[Annotations, bool]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        crowd = DOORS[door](rows, rng, folder)
    return crowd, any(issubclass(each.category, DataWarning) for each in given)


def _texts(crowd: Annotations, rows: Rows) -> Texts:
    """The rows as text. In a column of decimals, 3 and 3.0 are two spellings of one name."""
    columns = crowd.to_table().to_pydict()
    texts = [[_spelled(value, {row[k] for row in rows}) for value in columns[name]] for k, name in enumerate(HEADER)]
    return set(zip(*texts, strict=True))


def _spelled(value: Any, known: set[str]) -> str:
    """A number as its column spells it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return next((text for text in (str(value), f"{value:g}", f"{value:.1f}") if text in known), str(value))


def _as_written(row: tuple[str, ...], rows: Rows) -> tuple[str, ...]:
    """The row with 3.0 where the table has 3.0, and 3 where it has 3."""
    written = {other[:2]: other[2] for other in rows}.get((row[0], row[1]), "")
    return (*row[:2], written) if written.removesuffix(".0") == row[2].removesuffix(".0") else row


def _may_be_left_out(row: tuple[Any, ...], door: str) -> bool:
    return missing_like(row[2]) or not (row[0].strip() and row[1].strip()) or (door in MATRICES and row[2] == "-1")


def _check_way_back(crowd: Annotations, rows: Rows, ending: str, folder: Path) -> None:
    """Written as a table and read again, and written as JSON in a model folder and read again."""
    for names in (crowd.task_ids, crowd.annotator_ids, crowd.classes):
        stored = names_from_json(json.loads(json.dumps(names_to_json(names))))
        assert list(map(repr, stored.tolist())) == list(map(repr, names.tolist()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            write_annotations(crowd, folder / f"out.{ending}")
            again = read_annotations(folder / f"out.{ending}", format=ending)
        except ConalError as error:
            assert "contains the end of a line" in str(error), error  # noqa: PT017 - text tables have none
            return
    assert _texts(again, rows) == _texts(crowd, rows), f"rows differ after writing {ending}"
