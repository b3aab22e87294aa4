"""Odd names through every door and back: the same tasks, annotators and labels, or a refusal that says why."""

from __future__ import annotations

import json
import random
import re
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from torture.batches import batch
from torture.documents import Rows, csv_bytes, json_of
from torture.odd import KINDS, missing_like, odd_name
from torture.readers import signature
from torture.tally import Tally

__all__ = ["check", "replay", "torture"]

BATCH = 300
ENDINGS = ("csv", "tsv", "parquet", "jsonl")
HEADER = ("task", "worker", "label")


def torture(folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """Send tables through doors until the time is over."""
    deadline, first = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        make = partial(_case, seed, first)
        for number, outcome, message in batch(partial(_check_number, make, folder), BATCH, folder / "outcomes"):
            tally.count("tables of odd names", outcome)
            if outcome == "failed":
                case = make(number)
                if tally.fail(f"names: {message}", case):
                    tally.failures[f"names: {message}"] = _smaller(case, message, folder)
        first += BATCH


def replay(case: dict[str, Any], folder: Path) -> str | None:
    """What is wrong with one table; None if nothing is."""
    ((_, outcome, message),) = batch(lambda _: check(case, folder), 1, folder / "outcome")
    return message if outcome == "failed" else None


def _check_number(make: Callable[[int], dict[str, Any]], folder: Path, number: int) -> tuple[str, str]:
    return check(make(number), folder)


def _case(seed: int, first: int, number: int) -> dict[str, Any]:
    rng = random.Random(f"{seed}/{first + number}")
    doors = rng.sample(list(DOORS), rng.choice([1, 1, 2]))
    return {"part": "names", "rows": _table(rng), "doors": doors, "out": rng.choice(ENDINGS)}


def _table(rng: random.Random) -> Rows:
    """Distinct pairs of task and worker, in text; one kind of name prevails, because a column is read as a whole."""
    kinds = [rng.choice(list(KINDS)) if rng.random() < 0.6 else None for _ in HEADER]
    pools = [list(dict.fromkeys(_of_kind(kind, rng) for _ in range(rng.randint(1, 6)))) for kind in kinds]
    pairs = dict.fromkeys((rng.choice(pools[0]), rng.choice(pools[1])) for _ in range(rng.randint(1, 10)))
    return [(task, worker, rng.choice(pools[2])) for task, worker in pairs]


def _of_kind(kind: str | None, rng: random.Random) -> str:
    return odd_name(rng) if kind is None else rng.choice(KINDS[kind])


# ---------------------------------------------------------------- doors


def _delimited(ending: str, rows: Rows, folder: Path) -> Any:
    from conal.io import read_annotations

    path = folder / f"in.{ending}"
    path.write_bytes(csv_bytes(HEADER, rows, "\t" if ending == "tsv" else ","))
    return read_annotations(path)


def _json_lines(rows: Rows, folder: Path) -> Any:
    from conal.io import read_annotations

    path = folder / "in.jsonl"
    path.write_bytes(json_of([dict(zip(HEADER, row, strict=True)) for row in rows], lines=True))
    return read_annotations(path, format="jsonl")


def _arrow_table(rows: Rows) -> pa.Table:
    return pa.table({name: pa.array([row[k] for row in rows]) for k, name in enumerate(HEADER)})


def _parquet(rows: Rows, folder: Path) -> Any:
    from conal.io import read_annotations

    pq.write_table(_arrow_table(rows), folder / "in.parquet")
    return read_annotations(folder / "in.parquet")


def _frame(library: str, rows: Rows, folder: Path) -> Any:
    import pandas as pd
    import polars as pl

    from conal.data.annotations import Annotations

    columns = {name: [row[k] for row in rows] for k, name in enumerate(HEADER)}
    make: dict[str, Callable[[Any], Any]] = {"pandas": pd.DataFrame, "polars": pl.DataFrame}
    return Annotations.from_frame(make[library](columns))


def _lists(rows: Rows, folder: Path) -> Any:
    from conal.data.annotations import Annotations

    return Annotations.from_triples(*zip(*rows, strict=True))


def _peerannot(rows: Rows, folder: Path) -> Any:
    from conal.io import read_annotations

    found: dict[str, dict[str, str]] = {}
    for task, worker, label in rows:
        found.setdefault(task, {})[worker] = label
    (folder / "in.json").write_bytes(json_of(found))
    return read_annotations(folder / "in.json", format="peerannot")


def _argilla(rows: Rows, folder: Path) -> Any:
    from conal.io import read_annotations

    found: dict[str, list[Any]] = {}
    for task, worker, label in rows:
        found.setdefault(task, []).append({"value": label, "user_id": worker})
    records = [{"id": task, "fields": {"text": "x"}, "responses": {"k": given}} for task, given in found.items()]
    (folder / "in.json").write_bytes(json_of(records))
    return read_annotations(folder / "in.json", format="argilla")


def _matrix(rows: Rows, folder: Path) -> Any:
    from conal.data.annotations import Annotations

    tasks, workers = (list(dict.fromkeys(row[k] for row in rows)) for k in (0, 1))
    cells = np.full((len(tasks), len(workers)), None, dtype=object)
    for task, worker, label in rows:
        cells[tasks.index(task), workers.index(worker)] = label
    return Annotations.from_matrix(cells, task_ids=tasks, annotator_ids=workers)


def _wide(rows: Rows, folder: Path) -> Any:
    from conal.io import read_annotations

    workers = list(dict.fromkeys(row[1] for row in rows))
    cells = {row[:2]: row[2] for row in rows}
    lines = [
        [task, *(cells.get((task, worker), "") for worker in workers)] for task in dict.fromkeys(row[0] for row in rows)
    ]
    (folder / "in.csv").write_bytes(csv_bytes(["task", *workers], lines))
    return read_annotations(folder / "in.csv", format="wide")


DOORS: dict[str, Callable[[Rows, Path], Any]] = {
    "csv": partial(_delimited, "csv"),
    "tsv": partial(_delimited, "tsv"),
    "jsonl": _json_lines,
    "parquet": _parquet,
    "pandas": partial(_frame, "pandas"),
    "polars": partial(_frame, "polars"),
    "lists": _lists,
    "peerannot": _peerannot,
    "argilla": _argilla,
    "matrix": _matrix,
    "wide": _wide,
}


# ---------------------------------------------------------------- what must hold


def check(case: dict[str, Any], folder: Path) -> tuple[str, str]:
    """In through one or two doors, out into a file and in again, and through JSON: how it ends, and a message."""
    from conal.errors import ConalError

    rows: Rows = [tuple(row) for row in case["rows"]]
    dropped: list[set[Any]] = []
    refused = ""
    for door in case["doors"]:
        try:
            crowd, warned = _through(door, rows, folder)
        except ConalError as error:
            refused = str(error)
            continue
        except (UnicodeEncodeError, pa.ArrowException) as error:
            if not _is_ours(error):  # the table could not even be made
                continue
            return "failed", f"{door}: {signature(error)}"
        except Exception as error:
            return "failed", f"{door}: {signature(error)}"
        try:
            read = _texts(crowd, rows)
            found = _as_written(read, rows) if door == "wide" and _is_of_pandas(rows) else read
            problem = _difference(rows, found, warned, door)
            if problem is None and door == case["doors"][0]:  # one way out is enough; the ways in are many
                problem = _back(crowd, rows, read, case["out"], folder)
        except Exception as error:
            problem = f"{door}: {signature(error)}"
        if problem is not None:
            return "failed", problem
        dropped.append({row for row in set(rows) - found if row[2] != "-1"})  # which only matrices leave out
    if len(dropped) == 2 and dropped[0] != dropped[1]:
        return (
            "failed",
            f"{' and '.join(sorted(case['doors']))} leave out different rows{_kind(dropped[0] ^ dropped[1])}",
        )
    return ("refused", refused) if refused else ("unchanged", "")


def _through(door: str, rows: Rows, folder: Path) -> tuple[Any, bool]:
    from conal.errors import DataWarning

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        crowd = DOORS[door](rows, folder)
    return crowd, any(issubclass(each.category, DataWarning) for each in told)


def _texts(crowd: Any, rows: Rows) -> set[tuple[str, str, str]]:
    """The rows as text. In a column of decimals, 3 and 3.0 are two spellings of one name."""
    columns = crowd.to_table().to_pydict()
    texts = [[_spelled(value, {row[k] for row in rows}) for value in columns[name]] for k, name in enumerate(HEADER)]
    return set(zip(*texts, strict=True))


def _spelled(value: Any, known: set[str]) -> str:
    """A number as its column spells it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return next((text for text in (str(value), f"{value:g}", f"{value:.1f}") if text in known), str(value))


def _difference(rows: Rows, found: set[tuple[str, str, str]], warned: bool, door: str) -> str | None:
    """What is wrong with the rows that came in; labels that stand for "missing" may be left out with a warning."""
    wanted = set(rows)
    lost, new = wanted - found, found - wanted
    if new:
        return f"{door}: rows are changed{_kind(lost or new)}"
    in_matrix = door in ("matrix", "wide")
    lost = {row for row in lost if not (in_matrix and _is_no_cell(row[2], rows))}
    unexplained = {row for row in lost if not _may_be_left_out(row, in_matrix)}
    if unexplained:
        return f"{door}: rows are lost{_kind(unexplained)}"
    return f"{door}: rows are left out without a warning{_kind(lost)}" if lost and not warned else None


def _as_written(found: set[tuple[str, str, str]], rows: Rows) -> set[tuple[str, str, str]]:
    """The rows with 3.0 where the table has 3.0, and 3 where it has 3."""
    written = {row[:2]: row[2] for row in rows}
    same = {row: written.get(row[:2], "") for row in found}
    return {
        (*row[:2], label) if label.removesuffix(".0") == row[2].removesuffix(".0") else row
        for row, label in same.items()
    }


def _is_of_pandas(rows: Rows) -> bool:
    """Whether 3.0 is what pandas makes of 3 in a wide table: in columns with gaps, none of which spells it 3."""
    n_tasks = len({row[0] for row in rows})
    columns = [[row[2] for row in rows if row[1] == worker] for worker in {row[1] for row in rows}]
    gapped = [set(labels) for labels in columns if len(labels) < n_tasks]
    spaced, whole = (
        [labels for labels in gapped if all(re.fullmatch(pattern, label) for label in labels)]
        for pattern in (r"(0|-?[1-9]\d*)\.0", r"0|-?[1-9]\d*")
    )
    return bool(spaced) and not any(f"{label}.0" in others for labels in whole for label in labels for others in spaced)


def _is_no_cell(label: str, rows: Rows) -> bool:
    """Whether a cell of a matrix is no annotation: it is empty, or -1 where all labels are numbers from 0 on."""
    others = [row[2] for row in rows if row[2] != "-1" and not missing_like(row[2])]
    return not label.strip() or (label == "-1" and all(re.fullmatch(r"\d+(\.\d+)?", other) for other in others))


def _may_be_left_out(row: tuple[Any, Any, Any], in_matrix: bool) -> bool:
    return missing_like(row[2]) or (in_matrix and row[2] == "-1") or not (row[0].strip() and row[1].strip())


def _back(crowd: Any, rows: Rows, before: set[tuple[str, str, str]], ending: str, folder: Path) -> str | None:
    """Written as a table and read again, and written as JSON in a model folder and read again."""
    from conal.errors import ConalError
    from conal.io import read_annotations
    from conal.io.model_folder import names_from_json, names_to_json
    from conal.io.tables import write_annotations

    try:
        write_annotations(crowd, folder / f"out.{ending}")
        again = read_annotations(folder / f"out.{ending}", format=ending)
        for names in (crowd.task_ids, crowd.annotator_ids, crowd.classes):
            stored = names_from_json(json.loads(json.dumps(names_to_json(names))))
            if list(map(repr, stored.tolist())) != list(map(repr, names.tolist())):
                return "names differ after JSON"
    except ConalError as error:
        if "contains the end of a line" in str(error):  # refused in text tables; writing them warns
            return None
        return f"what conal wrote as {ending} is refused: {_reason(error)}"
    except Exception as error:
        return f"writing {ending}: {signature(error)}"
    after = _texts(again, rows)
    if before != after:
        return f"rows differ after writing {ending}{_kind(before ^ after)}"
    return None


def _reason(error: Exception) -> str:
    return re.sub(r"\d+", "#", str(error))[-60:]


def _is_ours(error: BaseException) -> bool:
    return "/conal/" in signature(error) or " in conal" in signature(error)


def _kind(rows: set[Any]) -> str:
    """Which kind of name the first row is about; a label that may mean "missing" comes first."""
    first = min(rows, default=("", "", ""))
    if any(missing_like(row[2]) for row in rows):
        return " (missing-like label)"
    found = [kind for kind, names in KINDS.items() if kind not in ("plain", "numbers") and set(first) & set(names)]
    return f" ({', '.join(found[:2])})"


def _smaller(case: dict[str, Any], message: str, folder: Path) -> dict[str, Any]:
    """Remove rows while the table fails in the same way."""
    best = case
    for row in list(case["rows"]):
        shorter = best | {"rows": [other for other in best["rows"] if other != row]}
        if shorter["rows"] and replay(shorter, folder) == message:
            best = shorter
    return best
