"""Finished runs in one SQLite file: a run is stored with all its results, or not at all."""

from __future__ import annotations

import json
import platform
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

from conal.errors import InputError
from conal.experiments.runs import Run, run_of

__all__ = ["Finished", "Store", "rounded", "versions"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    hash TEXT PRIMARY KEY,
    config TEXT NOT NULL,
    figures TEXT NOT NULL,
    seconds REAL NOT NULL,
    versions TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    code TEXT NOT NULL DEFAULT ''
)
"""
ADDED = "ALTER TABLE runs ADD COLUMN code TEXT NOT NULL DEFAULT ''"
"""For stores of versions that kept no fingerprint of the code."""


DIGITS = 7


class Finished(NamedTuple):
    """A run with its results, and what made them."""

    run: Run
    figures: dict[str, Any]
    code: str
    """Fingerprint of the code."""
    made_by: dict[str, str]
    """Versions of the software, and the machine."""


class Store:
    """Results of runs by the hash of their configuration.

    Every result is a separate transaction: if a process dies, finished runs are safe and nothing is half-written.

    Parameters
    ----------
    path : path
        The file; created if it does not exist.

    Examples
    --------
    >>> with Store(":memory:") as store:
    ...     store.add(Run("synthetic", "dl-mv"), {"test_accuracy": 0.9, "seconds": 1.5})
    ...     store.get(Run("synthetic", "dl-mv"))["test_accuracy"]
    0.9
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, timeout=60)
            with self._connection:
                columns = self._columns_of_runs()
                self._connection.execute(SCHEMA)
                if columns and "code" not in columns:
                    self._connection.execute(ADDED)
        except sqlite3.Error as error:
            raise InputError(f"{path}: is not a store of results ({error}); choose another place") from error

    def _columns_of_runs(self) -> set[str]:
        """Columns of an existing store, none of a new one; a database of something else is left alone."""
        with closing(self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")) as found:
            tables = {row[0] for row in found}
        with closing(self._connection.execute("PRAGMA table_info(runs)")) as found:
            columns = {row[1] for row in found}
        if tables and not {"hash", "config", "figures", "seconds", "versions", "finished"} <= columns:
            raise sqlite3.DatabaseError("it is a database of something else")
        return columns

    @contextmanager
    def _at_work(self) -> Iterator[sqlite3.Connection]:
        """One transaction; a full or damaged disk is an error with a message, and finished runs are kept."""
        try:
            with self._connection:
                yield self._connection
        except sqlite3.Error as error:
            raise OSError(f"{self.path}: {error}; finished runs are kept, run the same command again") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()

    def add(self, run: Run, figures: dict[str, Any]) -> None:
        """Store the results of a finished run; they replace those of other code, but not those of the same."""
        self.put(Finished(run, rounded(json.loads(_json(figures))), run.code, versions()))

    def put(self, *found: Finished) -> None:
        """Store finished runs, all or none, as they are, in place of runs by other code."""
        rows = [
            (run.hash, _json(run.config), _json(figures), float(figures["seconds"]), _json(made_by), code)
            for run, figures, code, made_by in found
        ]
        with self._at_work() as connection:
            connection.executemany(
                "DELETE FROM runs WHERE hash = ? AND code <> ?", [(each.run.hash, each.code) for each in found]
            )
            connection.executemany(
                "INSERT OR IGNORE INTO runs (hash, config, figures, seconds, versions, code) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def finished(self) -> Iterator[Finished]:
        """All finished runs."""
        with self._at_work() as connection:
            rows = connection.execute("SELECT config, figures, code, versions FROM runs").fetchall()
        for config, figures, code, made_by in rows:
            yield Finished(run_of(json.loads(config)), json.loads(figures), code, json.loads(made_by))

    def get(self, run: Run) -> dict[str, Any] | None:
        """The figures of a run; None if it has not been finished."""
        with self._at_work() as connection:
            row = connection.execute("SELECT figures FROM runs WHERE hash = ?", (run.hash,)).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def require(self, run: Run) -> dict[str, Any]:
        """The figures of a run; an error if it has not been finished."""
        found = self.get(run)
        if found is None:
            raise InputError(f"{self.path}: {run.dataset} {run.method} seed {run.seed} has not run yet")
        return found

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """The runs that have not been finished, each once, in order."""
        done = self.codes()
        return [run for key, run in {run.hash: run for run in runs}.items() if key not in done]

    def stale(self, runs: Iterable[Run]) -> list[Run]:
        """The finished runs that other code than the present made, each once, in order."""
        done = self.codes()
        return [run for key, run in {run.hash: run for run in runs}.items() if done.get(key, run.code) != run.code]

    def waiting(self, runs: Iterable[Run], *, stale: bool) -> list[Run]:
        """The runs that are to be done: those that are missing and, if these are repeated, those of other code."""
        runs = list(runs)
        return self.missing(runs) + (self.stale(runs) if stale else [])

    def codes(self) -> dict[str, str]:
        """Fingerprints of the code that made the finished runs, by their hashes; empty where it was not kept."""
        with self._at_work() as connection:
            return dict(connection.execute("SELECT hash, code FROM runs").fetchall())

    def __len__(self) -> int:
        with self._at_work() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM runs").fetchone()[0])


def rounded(value: Any) -> Any:
    """Plain data with numbers of seven digits: more than a test set tells, and half the size as text.

    >>> rounded({"accuracy": 0.8712121212121212, "epochs": 100, "each": [1 / 3]})
    {'accuracy': 0.8712121, 'epochs': 100, 'each': [0.3333333]}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


@cache
def versions() -> dict[str, str]:
    """Versions of the software that made the results, and the machine."""
    import numpy as np
    import torch

    from conal import __version__

    return {
        "conal": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": " ".join(
            [platform.system(), platform.machine(), torch.backends.cpu.get_cpu_capability(), *_processor()]
        ),
    }


def _processor() -> list[str]:
    """Name, family and model of the processor, where Linux tells: on another, the same software rounds differently.

    Virtual machines hide names, so that processors of different generations may be called the same.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    parts = (line.partition(":") for line in reversed(lines))
    told = {name.strip(): value.strip() for name, _, value in parts}  # of the first core
    found = [told.get("model name", ""), *(f"{each} {told[each]}" for each in ("cpu family", "model") if each in told)]
    return [each.replace("/", " ") for each in found if each]


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    return str(value) if isinstance(value, Path) else dict(value)
