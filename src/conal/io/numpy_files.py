"""Arrays from ``.npy`` and ``.npz``; a header that promises more than the file has is refused."""

from __future__ import annotations

import math
import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from conal.errors import InputError
from conal.io.limits import ARRAY_BYTES, NUMPY_ERRORS, ZIP_ERRORS, refuse_bomb, refusing, unpacked_limit

Array = npt.NDArray[Any]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def map_npy(path: Path) -> Array:
    """A ``.npy`` file, mapped into memory."""
    with path.open("rb") as file:
        _check_header(file, path.stat().st_size, path)
    with refusing(NUMPY_ERRORS, f"{path}: cannot be read as NumPy numbers or text: {{}}"):
        return npy.open_memmap(path, mode="r")


def read_npy(path: Path) -> Array:
    """A ``.npy`` file in memory."""
    with path.open("rb") as file:
        return _read(file, path.stat().st_size, path)


def read_npz(path: Path) -> dict[str, Array]:
    """Name to array of a ``.npz`` archive."""
    advice = "save it again with numpy.savez"
    broken = refusing(ZIP_ERRORS, f"{path}: cannot be read as a .npz archive: {{}}; {advice}")
    with broken, zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
        limit = unpacked_limit(path.stat().st_size, ARRAY_BYTES)
        if sum(info.file_size for info in members) > limit:
            refuse_bomb(path, limit)
        return {info.filename.removesuffix(".npy"): _read_member(archive, info, path) for info in members}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Array:
    where = f"{path}: {info.filename}"
    with archive.open(info) as file:
        return _read(file, info.file_size, where)


def _read(file: IO[bytes], size: int, where: object) -> Array:
    _check_header(file, size, where)
    file.seek(0)
    with refusing((*NUMPY_ERRORS, *ZIP_ERRORS), f"{where}: cannot be read as NumPy numbers or text: {{}}"):
        array = np.asarray(npy.read_array(file, allow_pickle=False))
    if array.dtype.kind == "U":
        _check_text(array, where)
    return array


def _check_text(array: Array, where: object) -> None:
    """NumPy takes any 32 bits for a character; Python and UTF-8 do not."""
    codes = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if (codes > sys.maxunicode).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise InputError(f"{where}: contains characters that do not exist; the file is damaged, write it again")


def _check_header(file: IO[bytes], size: int, where: object) -> None:
    """Reject what the header promises and the file does not have; NumPy would take the memory first."""
    with refusing((*NUMPY_ERRORS, *ZIP_ERRORS), f"{where}: cannot be read as NumPy numbers or text: {{}}"):
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the format is for records")
        shape, _, kind = _HEADERS[version](file)
        start = file.tell()
    if kind.hasobject:
        raise InputError(f"{where}: cannot be read as NumPy numbers or text: it contains Python objects")
    expected = math.prod(shape) * max(1, kind.itemsize)
    if min(shape, default=0) < 0 or expected > size - start:
        raise InputError(
            f"{where}: cannot be read as NumPy numbers or text: {kind} of shape {shape} takes {expected:,} bytes, and "
            f"there are {size - start:,}; the file was cut off or damaged, write it again"
        )
