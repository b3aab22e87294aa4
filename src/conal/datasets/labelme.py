"""LabelMe scenes, labelled by people on Amazon Mechanical Turk."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from conal.data.annotations import Annotations
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


@dataset("labelme")
def labelme(folder: Folder = None) -> CrowdDataset:
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
    train, valid, test = (_read_split(place, part) for part in PARTS)
    widths = {split.x.shape[1] for split in (train, valid, test)}
    if len(widths) > 1:
        raise InputError(f"{place}: train, valid and test have {sorted(widths)} features; unpack {ARCHIVE} again")
    answers = load_array(place / ANSWERS, (2,))
    check_count(place / ANSWERS, "rows", len(answers), len(train), ARCHIVE)
    crowd = Annotations.from_matrix(answers, classes=range(len(CLASSES)), missing=-1, where=str(place / ANSWERS))
    return CrowdDataset("labelme", train.x, crowd.replace(classes=CLASSES), train.y, valid, test)


def _file_names(part: str) -> tuple[str, str]:
    return f"data_{part}_vgg16.npy", f"labels_{part}.npy"


def _read_split(place: Path, part: str) -> Split:
    features, labels = (place / name for name in _file_names(part))
    x, y = load_array(features, (2, 4)), load_array(labels, (1,))
    check_count(labels, "labels", len(y), len(x), ARCHIVE)
    return Split(x.reshape(len(x), -1).astype(np.float32, copy=False), class_codes(y, len(CLASSES), labels))
