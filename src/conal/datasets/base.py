"""Crowd datasets: what they contain, how they are registered, and where their files are found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conal._registry import Registry
from conal.data.annotations import Annotations
from conal.data.encoding import Names
from conal.datasets.crowd import CrowdTruth
from conal.errors import InputError
from conal.io.features import read_npy

# Read the files of public archives, with exact error messages.


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


def check_count(where: Path, what: str, found: int, expected: int, archive: str) -> None:
    """Check that two files of an archive have the same number of something; the error has both."""
    if found != expected:
        raise InputError(f"{where}: found {found:,} {what}, expected {expected:,}; unpack {archive} again")


def load_array(path: Path, n_dims: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array in a ``.npy`` file, which may contain numbers only and must have one of these numbers of dimensions."""
    array = read_npy(path)
    if array.dtype.kind not in "biuf" or array.ndim not in n_dims:
        wanted = " or ".join(str(n) for n in n_dims)
        raise InputError(
            f"{path}: found {array.dtype} of shape {array.shape}, expected numbers in {wanted} dimensions; unpack its "
            "archive again"
        )
    return array


def class_codes(values: npt.NDArray[Any], n_classes: int, where: Path) -> npt.NDArray[np.int64]:
    """Whole numbers from 0 to ``n_classes - 1``, which may arrive as floats.

    >>> class_codes(np.array([0.0, 7.0]), 8, Path("labels_train.npy"))
    array([0, 7])
    """
    bad = values[~np.isin(values, np.arange(n_classes))]
    if bad.size:
        raise InputError(
            f"{where}: found {bad.size:,} values such as {bad.flat[0]}, expected whole numbers from 0 to "
            f"{n_classes - 1}; unpack its archive again"
        )
    return values.astype(np.int64)


# Crowd datasets: what they contain, how they are registered, and where their files are found.

Folder = str | os.PathLike[str] | None

DATA_VARIABLE = "CONAL_DATA"
SHARED_DATA = Path("..", "shared", "data")

dataset_registry: Registry[Callable[..., CrowdDataset]] = Registry("dataset", "conal.datasets")
dataset = dataset_registry.register
"""Register a function that returns a :class:`CrowdDataset` under a name."""


@dataclass(frozen=True, eq=False)
class Split:
    """Instances with their true labels, for model selection or for testing.

    Parameters
    ----------
    x : (n, ...) array
        Features or images, one row per instance.
    y : (n,) int64
        True labels as class *codes*: positions in the dataset's ``classes``.

    Examples
    --------
    >>> split = Split(np.zeros((2, 3), dtype=np.float32), np.array([0, 1]))
    >>> len(split)
    2
    """

    x: npt.NDArray[Any]
    y: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.y.ndim != 1 or len(self.x) != len(self.y):
            raise InputError(f"split: {len(self.x)} rows of features, labels of shape {self.y.shape}; pass one of each")

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class CrowdDataset:
    """Training instances labelled by a crowd, and gold data for validation and testing.

    A crowd of R annotators labelled N training instances: annotator r gave instance i the label ``y_i^r``. Most
    annotators labelled few instances. Learners see ``x`` and ``annotations`` only.

    Parameters
    ----------
    name : str
        Name of the dataset.
    x : (N, ...) float32 features or uint8 images
        The training instances; row ``i`` is task ``i`` of ``annotations``.
    annotations : Annotations
        The crowd's labels, ``by_position``.
    y_true : (N,) int64
        True class codes of the training instances. For evaluation only: no learner may see them.
    valid, test : Split, optional
        Gold instances for model selection and for testing.
    truth : CrowdTruth, optional
        What a simulated crowd was drawn from; None for a crowd of people.

    Examples
    --------
    >>> ann = Annotations.from_matrix([[0, 1], [1, -1]])
    >>> data = CrowdDataset("tiny", np.zeros((2, 3), dtype=np.float32), ann, np.array([0, 1]))
    >>> data.classes.tolist()
    [0, 1]
    """

    name: str
    x: npt.NDArray[Any]
    annotations: Annotations
    y_true: npt.NDArray[np.int64]
    valid: Split | None = None
    test: Split | None = None
    truth: CrowdTruth | None = None

    def __repr__(self) -> str:
        parts = [f"{self.name!r}", f"x of shape {self.x.shape}", repr(self.annotations)]
        parts += [f"{len(split):,} {name}" for name, split in (("valid", self.valid), ("test", self.test)) if split]
        return f"CrowdDataset({', '.join(parts)})"

    def __post_init__(self) -> None:
        sizes = len(self.x), self.annotations.n_tasks, len(self.y_true)
        if len(set(sizes)) > 1:
            raise InputError(
                f"{self.name}: {sizes[0]} rows of features, {sizes[1]} annotated tasks and {sizes[2]} true labels; "
                "pass one of each per instance"
            )
        if not self.annotations.by_position:
            raise InputError(
                f"{self.name}: task i must be row i of the features; pick tasks by row with annotations[rows]"
            )

    @property
    def classes(self) -> Names:
        """The classes in the order of their codes."""
        return self.annotations.classes


def data_folder(name: str | tuple[str, ...], folder: Folder = None, *, archive: str = "its archive") -> Path:
    """Where the files of a dataset are: ``folder``, or ``name`` below the data folder.

    The data folder is the one in the environment variable ``CONAL_DATA``, then ``../shared/data`` as seen from
    the current directory.

    Parameters
    ----------
    name : str or tuple of str
        Name of the dataset's folder, or several names, the preferred one first.
    folder : path, optional
        Look here and nowhere else.
    archive : str
        The public archive that contains the files, for the error message.
    """
    names = (name,) if isinstance(name, str) else name
    places = [root / each for root in _data_roots() for each in names] if folder is None else [Path(folder)]
    for place in places:
        if place.is_dir():
            return place
    looked = ", ".join(str(place) for place in places)
    raise InputError(
        f"{names[0]}: no such folder (looked in {looked}); unpack {archive} and pass folder=, "
        f"or set {DATA_VARIABLE} to the folder that contains {names[0]}"
    )


def _data_roots() -> list[Path]:
    chosen = os.environ.get(DATA_VARIABLE)
    return [Path(chosen), SHARED_DATA] if chosen else [SHARED_DATA]
