"""Music genres, labelled by people on Amazon Mechanical Turk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from conal.data.encoding import MISSING, Names, as_names, decode_position
from conal.datasets.adversaries import stream
from conal.datasets.base import CrowdDataset, Folder, Split, data_folder, dataset, inner_folder, require_files
from conal.errors import InputError, examples
from conal.io import features_from, read_annotations, read_table

ARCHIVE = "mturk-datasets.tar.gz"
FOLDER = "music_genre_classification"
TRAIN, TEST, ANSWERS = "music_genre_gold.csv", "music_genre_test.csv", "mturk_answers.csv"


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
    place = inner_folder(data_folder(FOLDER, folder, archive=ARCHIVE), FOLDER)
    require_files(place, (TRAIN, TEST, ANSWERS), ARCHIVE)
    songs, x, genres = _read_songs(place / TRAIN)
    _, x_test, genres_test = _read_songs(place / TEST)
    if x_test.shape[1] != x.shape[1]:
        raise InputError(
            f"{place / TEST}: has {x_test.shape[1]} features, {TRAIN} has {x.shape[1]}; unpack {ARCHIVE} again"
        )
    classes = as_names(sorted(set(genres.tolist())))
    answers = read_annotations(
        place / ANSWERS,
        format="csv",
        task="Input.song",
        worker="WorkerID",
        label="Answer.pred_label",
        classes=classes.tolist(),
        on_duplicate="error",
    )
    unknown = answers.task_ids[decode_position(songs, answers.task_ids) == MISSING]
    if len(unknown):
        raise InputError(
            f"{place / ANSWERS}: {examples(unknown)} not among the songs of {TRAIN}; unpack {ARCHIVE} again"
        )
    annotations = answers.reindex(songs).replace(by_position=True)
    y, y_test = (_codes(place / name, found, classes) for name, found in ((TRAIN, genres), (TEST, genres_test)))
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
        raise InputError(f"{path}: the first and last column are not 'id' and 'class'; unpack {ARCHIVE} again")
    found = features_from(table.drop_columns(["class"]), where=str(path))
    assert found.ids is not None  # noqa: S101 - from the column "id"
    return found.ids, found.values.astype(np.float32), as_names(table["class"].to_pylist())


def _codes(path: Path, genres: Names, classes: Names) -> npt.NDArray[np.int64]:
    codes = decode_position(classes, genres)
    if (codes == MISSING).any():
        unknown = genres[codes == MISSING]
        raise InputError(f"{path}: {examples(unknown)} not among the genres {classes.tolist()}; unpack {ARCHIVE} again")
    return codes
