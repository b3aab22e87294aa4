"""LabelMe scenes and music genres, labelled by people on Amazon Mechanical Turk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, decode_position
from conal.datasets.adversaries import stream
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
from conal.errors import InputError, examples
from conal.io import ReadOptions, features_from, read_annotations, read_table

# LabelMe.

LABELME = "deep_LabelMe.tar.gz"
SCENES = ("highway", "insidecity", "tallbuilding", "street", "forest", "coast", "mountain", "opencountry")
LABELME_PARTS = ("train", "valid", "test")
LABELME_ANSWERS = "answers.npy"


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
    place = inner_folder(data_folder(("labelme", "LabelMe"), folder, archive=LABELME), "prepared", "LabelMe/prepared")
    require_files(place, (LABELME_ANSWERS, *(name for part in LABELME_PARTS for name in _file_names(part))), LABELME)
    train, valid, test = (_read_scenes(place, part) for part in LABELME_PARTS)
    widths = {split.x.shape[1] for split in (train, valid, test)}
    if len(widths) > 1:
        raise InputError(f"{place}: train, valid and test have {sorted(widths)} features; unpack {LABELME} again")
    answers = load_array(place / LABELME_ANSWERS, (2,))
    check_count(place / LABELME_ANSWERS, "rows", len(answers), len(train), LABELME)
    crowd = Annotations.from_matrix(answers, classes=range(len(SCENES)), missing=-1, where=str(place / LABELME_ANSWERS))
    return CrowdDataset("labelme", train.x, crowd.replace(classes=SCENES), train.y, valid, test)


def _file_names(part: str) -> tuple[str, str]:
    return f"data_{part}_vgg16.npy", f"labels_{part}.npy"


def _read_scenes(place: Path, part: str) -> Split:
    features, labels = (place / name for name in _file_names(part))
    x, y = load_array(features, (2, 4)), load_array(labels, (1,))
    check_count(labels, "labels", len(y), len(x), LABELME)
    return Split(x.reshape(len(x), -1).astype(np.float32, copy=False), class_codes(y, len(SCENES), labels))


# Music genres.

MUSIC = "mturk-datasets.tar.gz"
MUSIC_FOLDER = "music_genre_classification"
SONGS, TEST_SONGS, MUSIC_ANSWERS = "music_genre_gold.csv", "music_genre_test.csv", "mturk_answers.csv"


@dataset("music")
def music(folder: Folder = None, *, n_valid: int = 0, seed: int = 0) -> CrowdDataset:
    """Music genres: 30-second clips of 10 genres, 700 training songs with 2,945 labels by 44 people.

    Tasks are named by song. The archive has no validation data: ``n_valid`` holds out some of the training songs.

    Parameters
    ----------
    folder : path, optional
        Holds ``music_genre_gold.csv`` and ``music_genre_test.csv`` (id, features, class) and ``mturk_answers.csv``
        (WorkerID, Input.song, Input.true_label, Answer.pred_label), itself or in
        ``music_genre_classification/``, which is also its name in the data folder
        (:func:`conal.datasets.base.data_folder`).
    n_valid, seed : int
        Number of training songs to hold out as validation data with their true genres, drawn by the seed. Their
        annotations are left out.

    References
    ----------
    Rodrigues, Pereira, Ribeiro. Learning from multiple annotators: distinguishing good from random labelers.
    Pattern Recognition Letters, 2013 (archive ``mturk-datasets.tar.gz``).
    Tzanetakis, Cook. Musical genre classification of audio signals. IEEE TSAP, 2002.

    Examples
    --------
    >>> music("no/such/folder")
    Traceback (most recent call last):
    ...
    conal.errors.InputError: music_genre_classification: no such folder (looked in no/such/folder); unpack ...
    """
    place = inner_folder(data_folder(MUSIC_FOLDER, folder, archive=MUSIC), MUSIC_FOLDER)
    require_files(place, (SONGS, TEST_SONGS, MUSIC_ANSWERS), MUSIC)
    songs, x, genres = _read_songs(place / SONGS)
    _, x_test, genres_test = _read_songs(place / TEST_SONGS)
    if x_test.shape[1] != x.shape[1]:
        raise InputError(
            f"{place / TEST_SONGS}: has {x_test.shape[1]} features, {SONGS} has {x.shape[1]}; unpack {MUSIC} again"
        )
    classes = as_names(sorted(set(genres.tolist())))
    options = ReadOptions(
        format="csv", task="Input.song", worker="WorkerID", label="Answer.pred_label", on_duplicate="error"
    )
    answers = read_annotations(place / MUSIC_ANSWERS, options, classes=classes.tolist())
    unknown = answers.task_ids[decode_position(songs, answers.task_ids) == MISSING]
    if len(unknown):
        raise InputError(
            f"{place / MUSIC_ANSWERS}: {examples(unknown)} not among the songs of {SONGS}; unpack {MUSIC} again"
        )
    annotations = answers.reindex(songs).replace(by_position=True)
    y, y_test = (decode_position(classes, found) for found in (genres, genres_test))
    if (y_test == MISSING).any():
        unknown = genres_test[y_test == MISSING]
        raise InputError(
            f"{place / TEST_SONGS}: {examples(unknown)} not among the genres {classes.tolist()}; unpack {MUSIC} again"
        )
    test = Split(x_test, y_test)
    if not n_valid:
        return CrowdDataset("music", x, annotations, y, None, test)
    if not 0 < n_valid < len(x):
        raise InputError(f"n_valid must be in range({len(x)}), the number of training songs, not {n_valid}")
    order = stream(seed, "split").permutation(len(x))
    train, valid = np.sort(order[n_valid:]), np.sort(order[:n_valid])
    return CrowdDataset("music", x[train], annotations[train], y[train], Split(x[valid], y[valid]), test)


def _read_songs(path: Path) -> tuple[Names, npt.NDArray[np.float32], Names]:
    """Names, features and genres of the songs in a file."""
    table = read_table(path, names=["id", "class"], roles=())
    if table.column_names[0] != "id" or table.column_names[-1] != "class":
        raise InputError(f"{path}: the first and last column are not 'id' and 'class'; unpack {MUSIC} again")
    found = features_from(table.drop_columns(["class"]), where=str(path))
    assert found.ids is not None  # noqa: S101 - from the column "id"
    return found.ids, found.values.astype(np.float32), as_names(table["class"].to_pylist())
