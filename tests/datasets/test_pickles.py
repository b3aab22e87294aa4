"""A batch is read, and nothing that a pickle says is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conal.datasets.cifar10 import read_batch
from conal.errors import InputError

PIXELS = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
LABELS = [3, 1, 4, 1]


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    return path


def python_2_pickle(pixels: npt.NDArray[np.uint8], labels: list[int]) -> bytes:
    """Protocol 2 as Python 2 wrote it: byte strings, and NumPy's names of that time."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    def number(value: int) -> bytes:
        return b"J" + value.to_bytes(4, "little", signed=True)

    raw = pixels.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n"
        + b"cnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R"
        + b"(" + number(1) + number(pixels.shape[0]) + number(pixels.shape[1]) + b"\x86"
        + b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
        + b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
        + b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    )  # fmt: skip
    listed = b"](" + b"".join(number(label) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + listed + b"u."


def test_python_2_batch(tmp_path: Path) -> None:
    content = python_2_pickle(PIXELS, LABELS)
    pixels, labels = read_batch(written(tmp_path, content))
    np.testing.assert_array_equal(pixels, PIXELS)
    assert pixels.dtype == np.uint8
    assert labels == LABELS


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("keys", [(b"data", b"labels"), ("data", "labels")])
def test_present_day_batch(tmp_path: Path, protocol: int, order: Any, keys: tuple[Any, Any]) -> None:
    batch = {keys[0]: np.asarray(PIXELS, order=order), keys[1]: LABELS}
    pixels, labels = read_batch(written(tmp_path, pickle.dumps(batch, protocol=protocol)))
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels == LABELS
    pixels[0, 0] = 1  # ours to change


class Malicious:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_system_call_is_refused_and_not_made(tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "trace"
    batch = {b"data": Malicious(os.system, f"touch {trace}"), b"labels": LABELS}
    content = pickle.dumps(batch, protocol=protocol)
    with pytest.raises(InputError, match=r"data_batch_1: is not a CIFAR-10 batch \(asks for \w+\.system, which no"):
        read_batch(written(tmp_path, content))
    assert not trace.exists()
    pickle.loads(content)  # noqa: S301  the same bytes do harm where they are trusted
    assert trace.exists()


class Filled:
    """An array as NumPy pickles one, with a state of our choice."""

    def __init__(self, *state: Any) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        reduced: Any = PIXELS.__reduce__()
        return *reduced[:2], self.state


class FromBuffer:
    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __reduce__(self) -> Any:
        return PIXELS.__reduce_ex__(5)[0], self.arguments


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Filled(1, (2,), None, False, b"ab"), "contains an array without a number type"),
        (Filled(1, (2,), np.dtype("u1"), False, [97, 98]), "contains an array that is not plain bytes"),
        (Filled(1, (3,), np.dtype("u1"), False, b"ab"), "cannot reshape array of size 2"),
        (FromBuffer(b"ab", None, (2,), "C"), "contains an array without a number type"),
        (FromBuffer(b"ab", np.dtype("u1"), (2,), "K"), "contains an array that is not plain bytes"),
    ],
)
def test_arrays_of_anything_but_bytes_are_refused(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_batch(written(tmp_path, pickle.dumps({b"data": data, b"labels": LABELS})))


@pytest.mark.parametrize("function", [eval, getattr, open, np.load, np.frombuffer, pickle.loads])
def test_every_other_name_is_refused(tmp_path: Path, function: Any) -> None:
    content = pickle.dumps({b"data": Malicious(function, "1"), b"labels": LABELS})
    with pytest.raises(InputError, match="which no CIFAR-10 batch needs"):
        read_batch(written(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "EOFError"),
        (b"not a pickle at all", "is not a CIFAR-10 batch"),
        (pickle.dumps([1, 2]), "is not a CIFAR-10 batch"),
        (pickle.dumps({b"labels": LABELS}), "KeyError: 'data'"),
        (pickle.dumps({b"data": [1], b"labels": LABELS}), "is not a CIFAR-10 batch"),
        (pickle.dumps({b"data": PIXELS, b"labels": "3141"}), "labels are not a list of whole numbers"),
        (pickle.dumps({b"data": PIXELS.astype(float), b"labels": LABELS}), "numbers of type 'f8', expected unsigned"),
        (pickle.dumps({b"data": np.array([{}]), b"labels": LABELS}), "numbers of type 'O8'"),
        (python_2_pickle(PIXELS, LABELS)[:-30], "is not a CIFAR-10 batch"),
        (b"\x80\x02U\x01xQ.", "refers to something outside the file"),
        (b"\x80\x02cnumpy\nndarray\n)R(U\x01aU\x01bd\x86b.", "is not a CIFAR-10 batch"),
        (b"\x80\x02c_codecs\nencode\nU\x01aU\x05rot13\x86R.", "encodes text as"),
        (b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n}U\x08__code__K\x01sb.", "sets attributes of a function"),
        (b"\x80\x02cnumpy\nndarray\n}U\x05arrayK\x01sb.", "is not a CIFAR-10 batch"),
    ],
)
def test_damaged_batches_are_errors(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_batch(written(tmp_path, content))
