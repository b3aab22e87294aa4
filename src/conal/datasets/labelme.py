"""LabelMe scenes, labelled by people on Amazon Mechanical Turk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, as_names
from conal.datasets.base import (
    CrowdDataset,
    Folder,
    Split,
    check_count,
    class_codes,
    data_folder,
    dataset,
    inner_folder,
    load_array,
    require_files,
)
from conal.errors import InputError

ARCHIVE = "deep_LabelMe.tar.gz"
CLASSES = ("highway", "insidecity", "tallbuilding", "street", "forest", "coast", "mountain", "opencountry")
PARTS = ("train", "valid", "test")
ANSWERS = "answers.npy"


@dataclass(frozen=True)
class LabelMeCounts:
    """Expected counts of the archive.

    Parameters
    ----------
    originals : int
        Training images.
    copies : int
        Augmented images per original, in the archive as published.
    valid, test : int
        Gold images, which are not augmented.
    annotators, labels : int
        The crowd, and how many labels it gave to the originals.
    """

    originals: int = 1000
    copies: int = 10
    valid: int = 500
    test: int = 1188
    annotators: int = 59
    labels: int = 2547


LABELME = LabelMeCounts()


@dataset("labelme")
def labelme(folder: Folder = None, *, expected: LabelMeCounts = LABELME) -> CrowdDataset:
    """LabelMe: 8 kinds of scenes, 1,000 training images with 2,547 labels by 59 people.

    Features are those of VGG-16. The public archive contains (10000, 4, 4, 512) of ten augmented images per original,
    which are flattened to 8,192 features, and gives each copy the answers for its original; (1000, 512) of the
    originals alone is accepted as well.

    Parameters
    ----------
    folder : path, optional
        Holds ``answers.npy`` (instances x annotators, -1 = not annotated), ``data_{train,valid,test}_vgg16.npy`` and
        ``labels_{train,valid,test}.npy``, itself or in ``prepared/``. Default: ``labelme`` in the data folder
        (:func:`conal.datasets.base.data_folder`).
    expected : LabelMeCounts
        Any other number of instances, annotators or labels is an error. The number of labels is checked where the
        folder contains only the originals.

    References
    ----------
    Rodrigues, Pereira. Deep Learning from Crowds. AAAI 2018 (archive ``deep_LabelMe.tar.gz``).
    Russell, Torralba, Murphy, Freeman. LabelMe: a database and web-based tool for image annotation. IJCV 2008.

    Examples
    --------
    >>> labelme("no/such/folder")
    Traceback (most recent call last):
    ...
    conal.errors.InputError: labelme: no such folder (looked in no/such/folder); unpack deep_LabelMe.tar.gz ...
    """
    place = inner_folder(data_folder(("labelme", "LabelMe"), folder, archive=ARCHIVE), "prepared", "LabelMe/prepared")
    require_files(place, (ANSWERS, *(name for part in PARTS for name in _file_names(part))), ARCHIVE)
    train, valid, test = (_read_split(place, part, expected) for part in PARTS)
    widths = {split.x.shape[1] for split in (train, valid, test)}
    if len(widths) > 1:
        raise InputError(f"{place}: train, valid and test have {sorted(widths)} features; unpack {ARCHIVE} again")
    answers = class_codes(load_array(place / ANSWERS, (2,)), len(CLASSES), place / ANSWERS, lowest=MISSING)
    _check_answers(place / ANSWERS, answers, len(train), expected)
    return CrowdDataset("labelme", train.x, _annotations(answers), train.y, valid, test)


def _file_names(part: str) -> tuple[str, str]:
    return f"data_{part}_vgg16.npy", f"labels_{part}.npy"


def _read_split(place: Path, part: str, expected: LabelMeCounts) -> Split:
    features, labels = (place / name for name in _file_names(part))
    x, y = load_array(features, (2, 4)), load_array(labels, (1,))
    counts = {
        "train": (expected.originals, expected.originals * expected.copies),
        "valid": (expected.valid,),
        "test": (expected.test,),
    }
    check_count(features, "images", len(x), counts[part], ARCHIVE)
    check_count(labels, "labels", len(y), len(x), ARCHIVE)
    return Split(_flat_features(x), class_codes(y, len(CLASSES), labels))


def _flat_features(x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return x.reshape(len(x), -1).astype(np.float32, copy=False)


def _check_answers(where: Path, answers: npt.NDArray[np.int64], n_train: int, expected: LabelMeCounts) -> None:
    check_count(where, "rows", len(answers), n_train, ARCHIVE)
    check_count(where, "annotators", answers.shape[1], expected.annotators, ARCHIVE)
    if n_train == expected.originals:
        check_count(where, "annotations", int((answers != MISSING).sum()), expected.labels, ARCHIVE)


def _annotations(answers: npt.NDArray[np.int64]) -> Annotations:
    tasks, annotators = np.nonzero(answers != MISSING)
    return Annotations(
        tasks,
        annotators,
        answers[tasks, annotators],
        task_ids=np.arange(answers.shape[0]),
        annotator_ids=np.arange(answers.shape[1]),
        classes=as_names(CLASSES),
        by_position=True,
    )
