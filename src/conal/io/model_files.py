"""Files of a model folder: JSON, tensors and digests, read as if anybody might have written them."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.errors import ModelFolderError, examples
from conal.io.json_names import name_to_json

__all__ = [
    "TensorShape",
    "Tensors",
    "compact_json",
    "digest_of_file",
    "digest_of_json",
    "load_json",
    "load_tensors",
    "save_tensors",
    "tensor_shapes",
    "write_json",
]

MAX_JSON = 2**28
"""Bytes of a JSON file: a quarter of a gigabyte is enough for the ids of ten million tasks."""
MAX_HEADER = 10**8
"""Bytes of the header of the weights, as safetensors has it."""
Tensors = Mapping[str, npt.NDArray[Any]]


class TensorShape(NamedTuple):
    """A tensor as the header of the weights describes it: safetensors' name of its type, and its shape."""

    dtype: str
    shape: tuple[int, ...]


def open_file(path: Path) -> Any:
    """Open a file of the folder for reading: a link could lead anywhere, and a pipe would never end."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ELOOP or path.is_symlink():
            raise ModelFolderError(
                f"{path}: is a symbolic link, which conal does not follow; copy the file itself into the folder"
            ) from error
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); fit the model again") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ModelFolderError(f"{path}: is not a file; fit the model again")
    return os.fdopen(handle, "rb")


def load_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_JSON:
            raise ModelFolderError(
                f"{path}: has more than {MAX_JSON:,} bytes, which no model needs; fit the model again"
            )
        try:
            text = file.read().decode("utf-8")
            content = json.loads(text)
            if "\\ud" in text or "\\uD" in text:  # JSON can spell half a character, which no file can contain
                json.dumps(content, ensure_ascii=False).encode("utf-8")
        except (ValueError, OSError, RecursionError) as error:
            raise ModelFolderError(f"{path}: cannot be read ({error}); fit the model again") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path}: does not contain a JSON object; fit the model again")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object for people, such as ``config.json``."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, default=name_to_json) + "\n", encoding="utf-8")


def compact_json(content: Mapping[str, Any]) -> str:
    """A document of a model folder, such as ``report.json``."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=name_to_json)
    return text + "\n"


def save_tensors(tensors: Tensors, path: Path) -> None:
    """Write tensors with safetensors; a failure is an :class:`OSError`, as it is for other files."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.asarray(array, order="C") for name, array in tensors.items()}, path)
    except SafetensorError as error:  # such as a full disk
        raise OSError(f"{path.name} cannot be written: {error}") from error


def load_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All tensors of a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:  # also types that NumPy does not have
        raise ModelFolderError(f"{path}: cannot be read ({error}); fit the model again") from error


def tensor_shapes(path: Path) -> dict[str, TensorShape]:
    """Types and shapes of the tensors in a file, from its header: nothing else is read."""
    with open_file(path) as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            header: Any = json.loads(file.read(size)) if size <= MAX_HEADER else None
            room = os.fstat(file.fileno()).st_size - 8 - size
            return {name: _tensor_shape(entry, room) for name, entry in header.items() if name != "__metadata__"}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelFolderError(f"{path}: cannot be read ({error}); fit the model again") from error


def _tensor_shape(entry: Mapping[str, Any], room: int) -> TensorShape:
    """One entry of the header of the weights; what it describes must be in the file."""
    begin, end = map(int, entry["data_offsets"])
    shape = tuple(map(int, entry["shape"]))
    if not 0 <= begin <= end <= room or min(shape, default=0) < 0 or math.prod(shape) > 2 * (end - begin):
        raise ValueError(f"a tensor of shape {examples([shape])} in {end - begin:,} bytes")
    return TensorShape(str(entry["dtype"]), shape)


def digest_of_json(content: Mapping[str, Any]) -> str:
    """The digest of a JSON object, however its file is laid out."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_file(path: Path) -> str:
    """The digest of a file, read in blocks."""
    found = hashlib.sha256()
    with open_file(path) as file:
        for block in iter(partial(file.read, 2**20), b""):
            found.update(block)
    return found.hexdigest()
