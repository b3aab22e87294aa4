"""Read the files of public archives, with exact error messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.errors import InputError

__all__ = ["check_count", "class_codes", "inner_folder", "load_array", "require_files"]


def inner_folder(folder: Path, *names: str) -> Path:
    """The first of these folders inside ``folder``, or ``folder`` itself where there is none."""
    return next((folder / name for name in names if (folder / name).is_dir()), folder)


def require_files(folder: Path, names: Iterable[str], archive: str) -> None:
    """Check that every file exists; the error lists missing files."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder}: missing {', '.join(missing)}; unpack {archive} there again, or pass the folder with the files"
        )


def check_count(where: Path, what: str, found: int, expected: int | tuple[int, ...], archive: str) -> None:
    """Check a published count; the error has both numbers.

    >>> check_count(Path("answers.npy"), "annotators", 58, 59, "deep_LabelMe.tar.gz")
    Traceback (most recent call last):
    ...
    conal.errors.InputError: answers.npy: found 58 annotators, expected 59; unpack deep_LabelMe.tar.gz again
    """
    allowed = expected if isinstance(expected, tuple) else (expected,)
    if found not in allowed:
        wanted = " or ".join(f"{number:,}" for number in allowed)
        raise InputError(f"{where}: found {found:,} {what}, expected {wanted}; unpack {archive} again")


def load_array(path: Path, n_dims: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array in a ``.npy`` file, which may contain numbers only and must have one of these numbers of dimensions."""
    try:
        array = np.load(path, allow_pickle=False)  # a pickle could run anything
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path}: is not a NumPy array of numbers ({error}); unpack its archive again") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf" or array.ndim not in n_dims:
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "an .npz archive"
        wanted = " or ".join(str(n) for n in n_dims)
        raise InputError(f"{path}: found {found}, expected numbers in {wanted} dimensions; unpack its archive again")
    return array


def class_codes(values: npt.NDArray[Any], n_classes: int, where: Path, lowest: int = 0) -> npt.NDArray[np.int64]:
    """Whole numbers from ``lowest`` to ``n_classes - 1``, which may arrive as floats.

    >>> class_codes(np.array([0.0, 7.0]), 8, Path("labels_train.npy"))
    array([0, 7])
    """
    bad = values[~np.isin(values, np.arange(lowest, n_classes))]
    if bad.size:
        raise InputError(
            f"{where}: found {bad.size:,} values such as {bad.flat[0]}, "
            f"expected whole numbers from {lowest} to {n_classes - 1}; unpack its archive again"
        )
    return values.astype(np.int64)
