"""Secret keys in files that only their owner can read."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from conal._files import check_place
from conal.data.annotator_info import KEY_BYTES, new_key
from conal.errors import InputError

__all__ = ["kept_key"]


def kept_key(path: Path) -> bytes:
    """The key in a file; a file that does not exist is created with a new key, readable by its owner only."""
    check_place(path)
    if not path.exists():
        _create(path)
    try:
        text = path.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is not a key that conal wrote ({error}); name another file, or none yet") from error
    if len(key) != KEY_BYTES:
        raise InputError(f"{path}: has {len(key)} bytes, a key has {KEY_BYTES}; name another file, or none yet")
    return key


def _create(path: Path) -> None:
    """Whole or not at all; if another process was faster, its key stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # readable by its owner only
    except OSError as error:
        raise InputError(f"{path}: cannot be written, {error}; choose another place") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{new_key().hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
