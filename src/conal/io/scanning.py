"""Text tables of labels line by line, for ``conal inspect``: lines that no reader takes, or with other problems."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conal.data.cleaning import missing_rule
from conal.data.encoding import as_names
from conal.data.frames import find_columns
from conal.data.matching import look, lookalikes
from conal.errors import InputError
from conal.io.importing import detect
from conal.io.limits import ARROW_ERRORS, ENCODING_REMEDY, refusing
from conal.io.tables import QUOTE_REMEDY, decoding, text_blocks, without_compression
from conal.parameters.reading import ReadOptions

MAX_BYTES = 2**25
"""Of larger files, problems have no lines."""
MAX_LINES = 200
"""Lines that a value in quotes may have: an open quote would reach to the end of the file."""
FAULTS = {
    "rows that are not UTF-8 text": ENCODING_REMEDY,
    "rows with a quote that is not closed, or text after a closing quote": QUOTE_REMEDY,
    "rows with more or fewer cells than the header": "complete or remove these rows",
    "lines that are no JSON objects": "complete or remove these lines",
    "rows without a task": "fill in the task, or remove these rows",
    "rows without an annotator": "fill in the annotator, or remove these rows",
}
NOT_TEXT, QUOTES, CELLS, NO_JSON, NO_TASK, NO_WORKER = FAULTS
KINDS = {"task": "tasks", "worker": "annotators", "label": "classes"}


@dataclass
class Scan:
    """What is in the lines of a file.

    Attributes
    ----------
    kept : list of str
        The lines that a reader takes, the header included.
    faults : dict
        What is wrong with lines that no reader takes (:data:`FAULTS`), to their numbers.
    lines : dict
        Words of a warning to the lines that it is about.
    """

    path: Path
    kept: list[str] = field(default_factory=list)
    faults: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lines: dict[tuple[str, ...], list[int]] = field(default_factory=lambda: defaultdict(list))

    def write(self, folder: Path) -> Path:
        """The lines that a reader takes, as a file of the same name."""
        folder.mkdir()
        place = folder / without_compression(self.path).name
        place.write_text("".join(f"{line}\n" for line in self.kept), encoding="utf-8", newline="")
        return place


def scan(path: Path, options: ReadOptions) -> Scan | None:
    """The lines of a CSV, TSV or JSON Lines file; None for other files, and for large ones."""
    if not path.is_file() or not 0 < path.stat().st_size <= MAX_BYTES:
        return None
    found = Scan(path)
    with decoding(options.encoding):
        importers, head = detect(path)
        is_json = head.kind == "json" and without_compression(path).suffix.lower() in (".jsonl", ".ndjson")
        if head.kind != "table" and not is_json:
            return None
        content = b""
        with refusing(ARROW_ERRORS, f"{path}: cannot be read: {{}}"):
            for block in text_blocks(path):
                content += block
                if len(content) > MAX_BYTES:  # unpacked
                    return None
    lines = [_decoded(line, k, found) for k, line in enumerate(content.splitlines(), 1)]
    rows = list(_objects(lines, found) if is_json else _rows(lines, head.delimiter, found))
    header = list(head.record or {}) if is_json else list(head.header)
    try:
        wanted = {"task": options.task, "worker": options.worker, "label": options.label}
        columns = {} if importers else find_columns(header, wanted, str(path))
    except InputError:  # which reading says, too
        columns = {}
    good = [row for row in rows if not columns or _check_names(row, columns, options, found)]
    found.kept += [text for _, text, _ in good]
    if columns:
        _find_lines(good, columns, options, found)
    return found


Row = tuple[int, str, Mapping[str, Any]]


def _decoded(line: bytes, number: int, found: Scan) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        found.faults[NOT_TEXT].append(number)
        return line.decode("latin-1")


def _objects(lines: Sequence[str], found: Scan) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        try:
            cells = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            cells = line
        if isinstance(cells, dict):
            yield number, line, cells
        elif cells is not None:
            found.faults[NO_JSON].append(number)


def _rows(lines: Sequence[str], delimiter: str, found: Scan) -> Iterator[Row]:
    begin, header = 0, None
    while begin < len(lines):
        cells, end = _cells(lines, begin, delimiter)
        text, number, begin = "\n".join(lines[begin:end]), begin + 1, end
        if header is None:
            header = cells or []
            found.kept.append(text)
        elif cells is None:
            found.faults[QUOTES].append(number)
        elif text and len(cells) != len(header):
            found.faults[CELLS].append(number)
        elif text:
            yield number, text, dict(zip(header, cells, strict=True))


def _cells(lines: Sequence[str], begin: int, delimiter: str) -> tuple[list[str] | None, int]:
    """The cells of the row that begins in a line, None if its quotes are wrong, and where the next row begins."""
    if '"' not in lines[begin]:
        return lines[begin].split(delimiter), begin + 1
    text = (f"{line}\n" for line in lines[begin : begin + MAX_LINES])
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        return next(reader), begin + reader.line_num
    except csv.Error:
        return None, begin + 1


def _check_names(row: Row, columns: Mapping[str, str], options: ReadOptions, found: Scan) -> bool:
    """Whether a row says who labelled what."""
    line, _, cells = row
    task, worker, label = (cells.get(columns[role]) for role in KINDS)
    is_missing = missing_rule(options.missing, options.classes)
    if task is None or not str(task).strip():
        found.faults[NO_TASK].append(line)
    elif (worker is None or not str(worker).strip()) and label is not None and not is_missing(label):
        found.faults[NO_WORKER].append(line)
    else:
        return True
    return False


def _find_lines(rows: Sequence[Row], columns: Mapping[str, str], options: ReadOptions, found: Scan) -> None:
    """The lines of labels that are missing or repeated, of names that look like more frequent ones, and of classes."""
    is_missing = missing_rule(options.missing, options.classes)
    seen: set[tuple[str, str]] = set()
    names: dict[str, dict[Any, list[int]]] = {role: defaultdict(list) for role in KINDS}
    for line, _, cells in rows:
        row = {role: cells.get(column) for role, column in columns.items()}
        if any(isinstance(value, list | dict) for value in row.values()):
            continue
        if row["label"] is None or is_missing(row["label"]):
            found.lines["without a label",].append(line)
            continue
        pair = str(row["task"]), str(row["worker"])
        if pair in seen:
            found.lines["repeat a (task, worker) pair",].append(line)
        seen.add(pair)
        for role, name in row.items():
            names[role][name].append(line)
    for role, kind in KINDS.items():
        groups: list[list[Any]] = []
        with suppress(*ARROW_ERRORS):  # names that are no text, which reading refuses
            groups = lookalikes(as_names(list(names[role])))
        for group in groups:
            rare = sorted(group, key=lambda name: len(names[role][name]))[:-1]
            found.lines[f": {kind} ", " differ "] += [line for name in rare for line in names[role][name]]
    spelled = look if options.merge_spelling else str
    listed = {spelled(name) for name in options.classes or ()}
    for name, lines in names["label"].items():
        if listed and spelled(name) not in listed:
            found.lines[" not among the ", " classes"] += lines
        found.lines["classes that may be slips", f"{str(name)!r} of '"] += lines
        found.lines["classes with fewer than", repr(str(name))] += lines
