"""Transactions: results are written in a staging folder beside their place, made durable, and then put into place.

A single result is committed by the rename that puts it into place, a group by the file ``commit``. Who finds a staging
folder (:mod:`conal.io.staging`) that nobody has locked finishes a committed group, undoes everything else
(:func:`recover`), and removes the folder.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from conal.errors import InputError
from conal.io.file_system import make_durable, sync_folder
from conal.io.interruptions import uninterrupted
from conal.io.staging import Staging

__all__ = ["claimed", "recover", "together", "transaction"]

PATIENCE = 60.0
"""Seconds to wait for another process that writes the same result."""
GLANCE = 2.0
"""Seconds to wait for one that may only be looking whether there is something to recover."""
WAIT = 0.05
"""Seconds between two attempts."""


@contextmanager
def transaction(targets: Sequence[Path], prepare: Callable[[Path], None]) -> Iterator[list[Path]]:
    """Temporary paths that replace the targets together when the block ends without an error.

    Parameters
    ----------
    targets : sequence of Path
        Where the results go: files, or one folder. Symbolic links have been followed.
    prepare : callable
        Makes the empty file or folder at a temporary path.
    """
    whole = _whole.get()
    stagings: list[Staging] = []
    try:
        for target in sorted(targets):  # everywhere in this order, so that two processes never wait for each other
            _open(target, PATIENCE, stagings)
        for staging in stagings:
            prepare(staging.new)
        found = {staging.target: staging.new for staging in stagings}
        yield [found[target] for target in targets]
        if whole is None:
            _commit(stagings)
        else:
            whole += stagings
            stagings = []
    finally:
        with uninterrupted():
            _end(stagings)


@contextmanager
def together() -> Iterator[None]:
    """Commit all transactions inside of the block as one, when it ends without an error."""
    stagings: list[Staging] = []
    token = _whole.set(stagings)
    try:
        yield
        _commit(stagings)
    finally:
        _whole.reset(token)
        with uninterrupted():
            _end(stagings)


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Keep other processes from writing here; an error before the work starts if one does so already.

    All processes of one run look whether a killed run left something here, and lock the place for that moment. A lock
    that is soon gone is one of theirs.
    """
    made = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    opened: list[Staging] = []
    key = _as_mine(target)
    try:
        _open(target, GLANCE, opened)
        _claims[key] = opened[0]
        yield
    finally:
        with uninterrupted():
            _claims.pop(key, None)
            for staging in opened:
                staging.leave()
            with suppress(OSError):  # a folder that is in use stays
                for parent in made:
                    parent.rmdir()


def recover(target: Path) -> None:
    """Finish or undo what a process left that was killed. Nothing happens while a process is still writing."""
    asked = Staging(target)
    if not asked.exists():
        return
    held: list[Staging] = []
    try:
        for place in sorted({target, *asked.group_places()}):
            member = Staging(place)
            if member.exists():
                if not member.try_lock():
                    return
                held.append(member)
        _settle(_same_group(held, target))
    finally:
        for member in held:
            member.unlock()


_whole: ContextVar[list[Staging] | None] = ContextVar("_whole", default=None)
"""What was written so far of results that belong together."""
_claims: dict[tuple[int, int, Path], Staging] = {}
"""Places that a thread of this process has claimed: it may write there."""


def _as_mine(target: Path) -> tuple[int, int, Path]:
    return os.getpid(), threading.get_ident(), target  # a process that was forked has the claims, but not their locks


def _open(target: Path, patience: float, opened: list[Staging]) -> None:
    """Add the target's staging folder, locked by this process and empty, to those that are open."""
    own = _claims.get(_as_mine(target))
    if own is not None:
        opened.append(own)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    staging, end = Staging(target), time.monotonic() + patience
    while True:
        recover(target)
        with uninterrupted():  # a folder that is made is one that is removed
            if staging.try_lock():
                if staging.is_empty():
                    opened.append(staging)
                    return
                staging.unlock()  # what is in it could not be removed, or its writer has been killed just now
        if time.monotonic() >= end:
            raise InputError(
                f"{target}: is being written by another process; wait until it ends, or choose another place "
                f"(if there is none, delete {staging.folder})"
            )
        time.sleep(WAIT)


def _commit(stagings: Sequence[Staging]) -> None:
    for staging in stagings:
        make_durable(staging.new)
    if len(stagings) > 1:
        mark = uuid.uuid4().hex
        for staging in stagings:
            staging.write_group(mark, [each.target for each in stagings])
    for staging in stagings:
        sync_folder(staging.folder)
    if len(stagings) > 1:
        stagings[0].commit()
    for staging in stagings:
        staging.install(alone=len(stagings) == 1)
    for parent in {staging.target.parent for staging in stagings}:
        sync_folder(parent)


def _end(stagings: Sequence[Staging]) -> None:
    """After success, an error or Ctrl-C: what is on the disk decides, as it does after a kill."""
    try:
        _settle(stagings)
    finally:
        for staging in stagings:
            if staging not in _claims.values():
                staging.unlock()


def _settle(stagings: Sequence[Staging]) -> None:
    """Finish a committed group or undo everything, and remove the staging folders."""
    committed = any(staging.is_committed() for staging in stagings)
    for staging in stagings:
        staging.settle(committed=committed)
    for staging in sorted(stagings, key=Staging.is_committed):  # the commit is needed until the others are gone
        if staging in _claims.values():
            staging.clear()
        else:
            staging.remove()


def _same_group(held: Sequence[Staging], target: Path) -> list[Staging]:
    """Those that belong to the transaction of this target; anybody can write a path into a file, so ids decide."""
    marks = {staging.target: staging.group().get("id") for staging in held}
    return [each for each in held if each.target == target or marks[each.target] == marks[target] is not None]
