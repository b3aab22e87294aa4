"""Music genres, labelled by people on Amazon Mechanical Turk."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
    data_folder,
    dataset,
    inner_folder,
    require_files,
)
from conal.errors import InputError, examples

ARCHIVE = "mturk-datasets.tar.gz"
FOLDER = "music_genre_classification"
TRAIN, TEST, ANSWERS = "music_genre_gold.csv", "music_genre_test.csv", "mturk_answers.csv"
ANSWER_COLUMNS = ["WorkerID", "Input.song", "Input.true_label", "Answer.pred_label"]


@dataclass(frozen=True)
class MusicCounts:
    """Expected counts of the archive.

    Parameters
    ----------
    train, test : int
        Songs.
    features, classes : int
        Numbers per song, genres.
    annotators, labels : int
        The crowd, and how many labels it gave.
    """

    train: int = 700
    test: int = 300
    features: int = 124
    classes: int = 10
    annotators: int = 44
    labels: int = 2945


MUSIC = MusicCounts()


class _Songs(NamedTuple):
    ids: list[str]
    x: npt.NDArray[np.float32]
    genres: list[str]


@dataset("music")
def music(folder: Folder = None, *, n_valid: int = 0, seed: int = 0, expected: MusicCounts = MUSIC) -> CrowdDataset:
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
    expected : MusicCounts
        Any other number of songs, features, genres, annotators or labels is an error.

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
    train = _read_songs(place / TRAIN, expected.features)
    test = _read_songs(place / TEST, expected.features)
    check_count(place / TRAIN, "songs", len(train.ids), expected.train, ARCHIVE)
    check_count(place / TEST, "songs", len(test.ids), expected.test, ARCHIVE)
    classes = as_names(sorted(set(train.genres)))
    check_count(place / TRAIN, "genres", len(classes), expected.classes, ARCHIVE)
    annotations = _read_answers(place / ANSWERS, train.ids, classes)
    check_count(place / ANSWERS, "annotations", annotations.n_annotations, expected.labels, ARCHIVE)
    check_count(place / ANSWERS, "annotators", annotations.n_annotators, expected.annotators, ARCHIVE)
    y_true = _genre_codes(place / TRAIN, train.genres, classes)
    y_test = _genre_codes(place / TEST, test.genres, classes)
    data = CrowdDataset("music", train.x, annotations, y_true, None, Split(test.x, y_test))
    return _hold_out(data, n_valid, seed) if n_valid else data


def _hold_out(data: CrowdDataset, n_valid: int, seed: int) -> CrowdDataset:
    if not 0 < n_valid < len(data.x):
        raise InputError(f"n_valid must be in range({len(data.x)}), the number of training songs, not {n_valid}")
    order = stream(seed, "split").permutation(len(data.x))
    train, valid = np.sort(order[n_valid:]), np.sort(order[:n_valid])
    held_out = Split(data.x[valid], data.y_true[valid])
    return CrowdDataset(data.name, data.x[train], data.annotations[train], data.y_true[train], held_out, data.test)


def _read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows; a file opened as text takes CR, LF and CRLF line ends alike."""
    try:
        with path.open(encoding="utf-8") as file:
            header, *rows = csv.reader(file)
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path}: is not a table with a header ({error}); unpack {ARCHIVE} again") from error
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{path}:{number}: {len(row)} cells under {len(header)} columns; unpack {ARCHIVE} again")
    return header, rows


def _read_songs(path: Path, n_features: int) -> _Songs:
    header, rows = _read_rows(path)
    if header[0] != "id" or header[-1] != "class":
        raise InputError(
            f"{path}: the first and last column are {header[0]!r} and {header[-1]!r}, expected 'id' and 'class'"
        )
    check_count(path, "features", len(header) - 2, n_features, ARCHIVE)
    x = np.empty((len(rows), n_features), dtype=np.float32)
    for number, row in enumerate(rows):
        try:
            x[number] = row[1:-1]
        except ValueError as error:
            raise InputError(f"{path}:{number + 2}: {error}; features must be numbers") from error
    ids = [row[0] for row in rows]
    if len(set(ids)) < len(ids):
        raise InputError(f"{path}: {len(ids) - len(set(ids))} songs are listed twice; unpack {ARCHIVE} again")
    return _Songs(ids, x, [row[-1] for row in rows])


def _read_answers(path: Path, songs: list[str], classes: Names) -> Annotations:
    """The annotations, tasks in the order of the songs."""
    header, rows = _read_rows(path)
    if header != ANSWER_COLUMNS:
        raise InputError(f"{path}: columns are {header}, expected {ANSWER_COLUMNS}")
    workers, tasks, _, labels = zip(*rows, strict=True) if rows else ((), (), (), ())
    found = Annotations.from_triples(
        tasks, workers, labels, classes=classes.tolist(), on_duplicate="error", where=str(path)
    )
    position = decode_position(as_names(songs), found.task_ids)
    if (position == MISSING).any():
        unknown = found.task_ids[position == MISSING]
        raise InputError(f"{path}: {examples(unknown)} not among the songs of {TRAIN}; unpack {ARCHIVE} again")
    return Annotations(
        position[found.tasks],
        found.annotators,
        found.labels,
        task_ids=as_names(songs),
        annotator_ids=found.annotator_ids,
        classes=found.classes,
        by_position=True,
    )


def _genre_codes(path: Path, genres: list[str], classes: Names) -> npt.NDArray[np.int64]:
    codes = decode_position(classes, as_names(genres))
    if (codes == MISSING).any():
        number = int(np.flatnonzero(codes == MISSING)[0])
        raise InputError(f"{path}:{number + 2}: {genres[number]!r} is not one of the genres {classes.tolist()}")
    return codes
