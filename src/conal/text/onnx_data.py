"""Files beside an ONNX model that hold a part of its weights, by the names that the model gives them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from conal.errors import InputError

__all__ = ["external_files"]

CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""Messages of ONNX that lead to a tensor, and in which fields they have each other (onnx.proto)."""
KEY, VALUE = 1, 2
LOCATION = b"location"
DEEPEST = 100
"""Messages inside of each other, as in protobuf itself."""
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


class Field(NamedTuple):
    """A field of a message: its number, and where its content begins and ends."""

    number: int
    start: int
    end: int


def external_files(model: Path) -> list[Path]:
    """The files that tensors of this model are in; one that is missing or outside of the model's folder is an error."""
    if not model.stat().st_size:
        raise InputError(f"{model}: is empty; copy the encoder again")
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            names = sorted(set(_locations(data, Field(0, 0, len(data)), "model", 0)))
            places = [name.decode("utf-8") for name in names]
        except ValueError as error:  # which UnicodeDecodeError is, too
            raise InputError(f"{model}: is no ONNX model ({error}); copy the encoder again") from error
    return [_place(model, name) for name in places]


def _place(model: Path, name: str) -> Path:
    plain = PurePosixPath(name.replace("\\", "/"))
    if plain.is_absolute() or PureWindowsPath(name).drive or ".." in plain.parts:
        raise InputError(f"{model}: has weights in {name!r}, outside of its folder; use another encoder")
    place = model.parent / plain
    if "\0" in name or not place.is_file():
        raise InputError(f"{model}: has weights in {name!r}, and there is no such file; copy the encoder again")
    return place


def _locations(data: mmap.mmap, message: Field, kind: str, depth: int) -> Iterator[bytes]:
    """The locations of external data in a message and in those inside of it."""
    if depth > DEEPEST:
        raise ValueError("too many messages inside of each other")
    if kind == "entry":
        found = {field.number: data[field.start : field.end] for field in _fields(data, message)}
        if found.get(KEY) == LOCATION:
            yield found.get(VALUE, b"")
        return
    for field in _fields(data, message):
        child = CHILDREN[kind].get(field.number)
        if child is not None:
            yield from _locations(data, field, child, depth + 1)


def _fields(data: mmap.mmap, message: Field) -> Iterator[Field]:
    """The fields of a message that have content of their own length; numbers are passed over."""
    at = message.start
    while at < message.end:
        tag, at = _varint(data, at, message.end)
        wire = tag & 7
        if wire == VARINT:
            _, at = _varint(data, at, message.end)
        elif wire in (FIXED_64, FIXED_32):
            at += 8 if wire == FIXED_64 else 4
        elif wire == BYTES:
            length, at = _varint(data, at, message.end)
            if at + length > message.end:
                raise ValueError("a field goes beyond its message")
            yield Field(tag >> 3, at, at + length)
            at += length
        else:
            raise ValueError(f"there is no type {wire}")


def _varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    """A number of 7 bits per byte, and where the next one begins."""
    value = 0
    for k in range(10):
        if at + k >= end:
            break
        byte = data[at + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value, at + k + 1
    raise ValueError("a number does not end")
