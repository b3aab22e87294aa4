"""Finished runs as text files, one line each, which are kept in the repository and travel between machines."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conal._files import atomic_file
from conal.errors import ConalError, InputError
from conal.experiments.runs import Run, run_of
from conal.experiments.store import Finished, Store, versions

__all__ = ["CARRIED", "FOLDER", "MACHINE", "made_here", "read_runs", "take_runs", "write_runs"]

FOLDER = "runs"
"""Beside the tables: a file for every dataset, ``DATASET.jsonl``."""
MACHINE = "machine"
"""What made a run, among its versions: system, instruction set and processor."""
CARRIED = "carried"
"""There too, of a run by earlier code that the present code cannot alter: the commit of that code."""


def write_runs(store: Store, folder: Path) -> list[Path]:
    """Write all runs of a store, sorted, so that two stores with the same runs make the same files."""
    lines: dict[str, list[str]] = defaultdict(list)
    for found in store.finished():
        lines[found.run.dataset].append(_line(found))
    if lines:
        folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{dataset}.jsonl" for dataset in sorted(lines)]
    for path in paths:
        text = "".join(f"{line}\n" for line in sorted(lines[path.stem]))
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            with atomic_file(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
    return paths


def read_runs(folder: Path) -> Iterator[Finished]:
    """The runs of all files of a folder; none if there is no such folder."""
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                yield _finished(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(
                    f"{path}, line {number}: is not a finished run ({error}); restore the file, or remove the line to "
                    "have the run repeated"
                ) from error


def take_runs(store: Store, found: Iterable[Finished]) -> int:
    """Add runs that a store lacks, or has by other code while these are by the present; return their number."""
    codes, taken = store.codes(), dict[str, Finished]()
    for each in found:
        known = codes.get(each.run.hash)
        if known is None or (known != each.code == present_code(each.run)):
            taken[each.run.hash] = each
            codes[each.run.hash] = each.code  # joined files may have a run twice
    store.put(*taken.values())
    return len(taken)


def made_here(found: Finished) -> bool:
    """Whether these versions on this machine made a run, also if it was carried from another commit."""
    return {**found.made_by, CARRIED: ""} == {**versions(), CARRIED: ""}


def present_code(run: Run) -> str | None:
    """The fingerprint of the code that would make a run now; None if its method or dataset is gone."""
    try:
        return run.code
    except (ConalError, KeyError):
        return None


def _line(found: Finished) -> str:
    """Compact JSON; settings first, so that sorted lines keep runs of a method together."""
    versions = {name: version for name, version in found.made_by.items() if name != MACHINE}
    record = {
        "run": {name: value for name, value in _by_method(found.run).items() if value not in ({}, ())},
        "code": found.code,
        "made_by": " ".join([*(f"{name}={version}" for name, version in sorted(versions.items())), _machine(found)]),
        "figures": dict(sorted(found.figures.items())),
    }
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def _machine(found: Finished) -> str:
    return f"{MACHINE}={found.made_by.get(MACHINE, '').replace(' ', '/')}"


def _by_method(run: Run) -> dict[str, Any]:
    config = run.config
    first = {name: config[name] for name in ("method", "protocol", "dataset", "seed")}
    rest = {name: _sorted(config[name]) for name in sorted(config) if name not in first}
    return first | rest


def _sorted(value: Any) -> Any:
    return {name: _sorted(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


def _finished(record: dict[str, Any]) -> Finished:
    pairs = (part.partition("=") for part in record["made_by"].split(" "))
    made_by = {name: value.replace("/", " ") if name == MACHINE else value for name, _, value in pairs}
    figures = dict(record["figures"])
    figures["seconds"] = float(figures["seconds"])
    return Finished(run_of(record["run"]), figures, str(record["code"]), made_by)
