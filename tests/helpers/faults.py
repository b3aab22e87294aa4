"""Writers of results, in processes that are killed or whose disk fails at a chosen step.

``python -m helpers.faults FOLDER CASES`` tries a fault at every step of every case, and prints what is left as JSON.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conal._files import atomic_file, atomic_files, atomic_folder
from conal.errors import InputError

__all__ = [
    "FILES",
    "RESULTS",
    "WRITERS",
    "Fault",
    "everything",
    "in_child",
    "texts",
    "write_file",
    "write_folder",
    "write_group",
]

STEPS = ("mkdir", "open", "chmod", "fsync", "replace", "rename", "rmdir")
"""Functions of ``os`` by which everything is written, moved and removed."""
FILES = ("a.csv", "b.csv", "deep/c.csv")

Write = Callable[[Path, str], None]


class Fault:
    """What happens instead of the n-th step: the process is killed, or the disk fails."""

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind, self.count = at, kind, 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                if self.kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.EIO, "the disk failed")
            return function(*arguments, **options)

        return step


def in_child(act: Callable[[], None], fault: Fault | None = None) -> int:
    """Run in a process of its own; its exit code, or minus the signal that ended it.

    3 is an error of the failed disk, 4 is success before it failed.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if fault is not None:
                for name in STEPS:
                    setattr(os, name, fault.wrap(getattr(os, name)))
            act()
            code = 4 if fault is not None and fault.count < fault.at else 0
        except (OSError, InputError) as error:
            code = 3 if "the disk failed" in str(error) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write_file(folder: Path, text: str) -> None:
    with atomic_file(folder / "a.csv") as aside:
        aside.write_text(text)


def write_group(folder: Path, text: str) -> None:
    with atomic_files([folder / name for name in FILES]) as asides:
        for aside in asides:
            aside.write_text(text)


def write_folder(folder: Path, text: str) -> None:
    with atomic_folder(folder / "model") as aside:
        (aside / "x").write_text(text)
        (aside / "y").write_text(text)


WRITERS: dict[str, Write] = {
    "file": write_file,
    "group": write_group,
    "folder": write_folder,
}
RESULTS: dict[Write, tuple[str, ...]] = {
    write_file: ("a.csv",),
    write_group: FILES,
    write_folder: ("model/x", "model/y"),
}


def texts(folder: Path, write: Write) -> list[str | None]:
    """What each file of the result contains; None where there is none."""
    paths = [folder / name for name in RESULTS[write]]
    return [path.read_text() if path.exists() else None for path in paths]


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def faults(folder: Path, kind: str, write: Write, before: str) -> Iterator[dict[str, Any]]:
    """A fault at the first step, at the second, and so on, until the writer ends before it."""
    for at in itertools.count(1):
        place = folder / str(at)
        place.mkdir(parents=True)
        if before == "old":
            write(place, "old")
        code = in_child(lambda place=place: write(place, "new"), Fault(at, kind))  # type: ignore[misc]
        left = {"code": code, "found": texts(place, write), "files": sorted(everything(place))}
        write(place, "again")
        yield left | {"found again": texts(place, write)}
        if code == 4:
            break


def main(folder: Path, cases: list[Any]) -> dict[str, list[dict[str, Any]]]:
    """Case to what is left after a fault at every step."""
    os.fsync = lambda fd: None  # a step like all others, but the disk is real and slow
    found = {}
    for number, case in enumerate(cases):
        kind, write, before = case
        found[json.dumps(case)] = list(faults(folder / str(number), kind, WRITERS[write], before))
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]))))  # noqa: T201 - for the test that started it
