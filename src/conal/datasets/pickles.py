"""Read CIFAR-10's pickles without executing them.

A pickle is a program: it names functions and calls them. This reader knows a handful of names, those by which NumPy
stores an array of bytes, and gives each a stand-in of our own that only records what it is handed. Any other name is
an error, so nothing outside this file is ever called.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.errors import InputError

__all__ = ["read_batch"]


class _ByteType:
    """Stands for ``numpy.dtype``: one unsigned byte is the only number type of a batch."""

    __slots__ = ()

    def __init__(self, name: Any, align: Any = False, copy: Any = True) -> None:
        if name not in ("u1", b"u1"):
            raise InputError(f"contains numbers of type {name!r}, expected unsigned bytes 'u1'")

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which a single byte does not have."""


class _Bytes:
    """Stands for ``numpy.ndarray``: a shape and the bytes that fill it."""

    __slots__ = ("array",)

    array: npt.NDArray[np.uint8]

    def fill(self, shape: Any, raw: Any, order: Any) -> None:
        if order not in ("C", "F") or not isinstance(raw, bytes | bytearray):
            raise InputError("contains an array that is not plain bytes")
        flat = np.frombuffer(bytearray(raw), dtype=np.uint8)
        self.array = flat.reshape(tuple(shape), order=order)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, raw = state
        if not isinstance(dtype, _ByteType):
            raise InputError("contains an array without a number type")
        self.fill(shape, raw, "F" if is_fortran else "C")


class _Function:
    """Stands for a function. A class, since a pickle can set attributes of whatever lacks ``__setstate__``."""

    __slots__ = ()

    @staticmethod
    def __setstate__(state: Any) -> None:
        raise InputError("sets attributes of a function")


class _Reconstruct(_Function):
    """Stands for the function that makes an empty array, which is filled afterwards."""

    __slots__ = ()

    def __new__(cls, subtype: Any, shape: Any, code: Any) -> _Bytes:  # type: ignore[misc]
        return _Bytes()


class _FromBuffer(_Function):
    """Stands for the function that makes an array at once, as protocol 5 does."""

    __slots__ = ()

    def __new__(cls, raw: Any, dtype: Any, shape: Any, order: Any, *more: Any) -> _Bytes:  # type: ignore[misc]
        if not isinstance(dtype, _ByteType):
            raise InputError("contains an array without a number type")
        filled = _Bytes()
        filled.fill(shape, raw, order)
        return filled


class _Latin1(_Function):
    """Stands for ``codecs.encode``, through which Python 3 writes bytes into protocol 2."""

    __slots__ = ()

    def __new__(cls, text: Any, encoding: Any = "latin1") -> bytes:  # type: ignore[misc]
        if not isinstance(text, str) or encoding != "latin1":
            raise InputError(f"encodes text as {encoding!r}")
        return text.encode("latin1")


_STAND_INS: Mapping[tuple[str, str], type[object]] = {
    ("numpy", "ndarray"): _Bytes,
    ("numpy", "dtype"): _ByteType,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _FromBuffer,
    ("numpy._core.numeric", "_frombuffer"): _FromBuffer,
    ("_codecs", "encode"): _Latin1,
}


class _BatchUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[object]:
        if (module, name) not in _STAND_INS:
            raise InputError(f"asks for {module}.{name}, which no CIFAR-10 batch needs")
        return _STAND_INS[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise InputError("refers to something outside the file")


def read_batch(path: Path) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Pixels (n, 3072) and labels of one batch of ``cifar-10-batches-py``, as Python 2 or 3 wrote it."""
    try:
        with path.open("rb") as file:
            batch = _BatchUnpickler(file, encoding="bytes").load()
        entries = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        pixels, labels = entries["data"].array, entries["labels"]
        if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
            raise InputError("its labels are not a list of whole numbers")
    except Exception as error:  # a damaged pickle can fail in any way
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path}: is not a CIFAR-10 batch ({reason}); take the file from cifar-10-python.tar.gz"
        ) from error
    return pixels, labels
