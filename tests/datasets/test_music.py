"""Music genres, from tiny folders in the archive's layout and, where it is present, from the real one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conal.datasets import CrowdDataset, music
from conal.datasets.music import MusicCounts
from conal.errors import InputError
from helpers.real import annotator_accuracy, load_or_skip, majority_accuracy

TINY = MusicCounts(train=3, test=2, features=2, classes=2, annotators=2, labels=4)
GOLD = "id,feature0,feature1,class\nrock.2.mp3,0.5,1.5,rock\njazz.1.mp3,-1,2e-3,jazz\nrock.1.mp3,3,4,rock\n"
TEST = "id,feature0,feature1,class\njazz.9.mp3,7,8,jazz\nrock.9.mp3,9,10,rock\n"
ANSWERS = (
    "WorkerID,Input.song,Input.true_label,Answer.pred_label\rw2,rock.1.mp3,rock,jazz\rw1,jazz.1.mp3,jazz,jazz\r"
    "w1,rock.1.mp3,rock,rock\rw2,rock.2.mp3,rock,rock"
)


def write(folder: Path, gold: str = GOLD, test: str = TEST, answers: str = ANSWERS) -> Path:
    folder.mkdir(exist_ok=True)
    files = {"music_genre_gold.csv": gold, "music_genre_test.csv": test, "mturk_answers.csv": answers}
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    return folder


@pytest.mark.parametrize("line_end", ["\r", "\n", "\r\n"])
def test_rows_are_songs_whatever_the_line_ends(tmp_path: Path, line_end: str) -> None:
    write(tmp_path / "music_genre_classification", answers=ANSWERS.replace("\r", line_end))
    data = music(tmp_path, expected=TINY)
    ann = data.annotations
    assert ann.task_ids.tolist() == ["rock.2.mp3", "jazz.1.mp3", "rock.1.mp3"]
    assert ann.annotator_ids.tolist() == ["w1", "w2"]
    assert ann.classes.tolist() == ["jazz", "rock"]
    np.testing.assert_array_equal(ann.to_matrix(), [[-1, 1], [0, -1], [1, 0]])
    np.testing.assert_array_equal(data.x, np.array([[0.5, 1.5], [-1, 2e-3], [3, 4]], dtype=np.float32))
    assert data.y_true.tolist() == [1, 0, 1]
    assert ann.by_position


def test_test_songs_are_apart_and_there_is_no_validation(tmp_path: Path) -> None:
    data = music(write(tmp_path), expected=TINY)
    assert data.valid is None
    assert data.test is not None
    np.testing.assert_array_equal(data.test.x, [[7, 8], [9, 10]])
    assert data.test.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": GOLD + "rock.3.mp3,1,2,rock\n"}, "music_genre_gold.csv: found 4 songs, expected 3; unpack mturk"),
        ({"test": TEST + "rock.3.mp3,1,2,rock\n"}, "music_genre_test.csv: found 3 songs, expected 2;"),
        ({"gold": GOLD.replace("jazz\n", "pop\n").replace("3,4,rock", "3,4,folk")}, "found 3 genres, expected 2"),
        ({"gold": GOLD.replace("id,", "id,extra,").replace("mp3,", "mp3,0,")}, "found 3 features, expected 2"),
        ({"gold": GOLD.replace("2e-3", "loud")}, r"music_genre_gold.csv:3: .*'loud'; features must be numbers"),
        ({"gold": GOLD.replace("2e-3,", "")}, "music_genre_gold.csv:3: 3 cells under 4 columns"),
        ({"gold": GOLD.replace("rock.2", "rock.1")}, "1 songs are listed twice"),
        (
            {"gold": GOLD.replace("id,", "song,")},
            "the first and last column are 'song' and 'class', expected 'id' and 'class'",
        ),
        ({"gold": ""}, "is not a table with a header"),
        ({"test": TEST.replace("jazz\n", "polka\n")}, "music_genre_test.csv:2: 'polka' is not one of the genres"),
        ({"answers": ANSWERS + "\rw2,jazz.1.mp3,jazz,rock"}, "mturk_answers.csv: found 5 annotations, expected 4;"),
        ({"answers": ANSWERS.replace("w2,rock.2", "w3,rock.2")}, "found 3 annotators, expected 2;"),
        ({"answers": ANSWERS.replace("rock.2.mp3", "rock.7.mp3")}, "'rock.7.mp3' not among the songs"),
        ({"answers": ANSWERS.replace("jazz,jazz", "jazz,jaz")}, "'jaz' not among the 2 classes; did you mean 'jazz'"),
        ({"answers": ANSWERS + "\rw2,rock.2.mp3,rock,rock"}, "repeat a .task, worker. pair"),
        ({"answers": ANSWERS.replace("WorkerID", "worker")}, r"columns are \['worker'"),
        ({"answers": ANSWERS.split("\r")[0]}, "contains no annotations"),
    ],
)
def test_wrong_files_are_errors(tmp_path: Path, change: dict[str, str], message: str) -> None:
    write(tmp_path, **change)
    with pytest.raises(InputError, match=message):
        music(tmp_path, expected=TINY)


def test_published_counts_are_the_default(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found 2 features, expected 124; unpack mturk-datasets.tar.gz again"):
        music(write(tmp_path))


def test_missing_files_are_listed(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "mturk_answers.csv").unlink()
    with pytest.raises(InputError, match=r"missing mturk_answers.csv; unpack mturk-datasets.tar.gz"):
        music(tmp_path, expected=TINY)


# ---------------------------------------------------------------- the real thing


@pytest.fixture(scope="module")
def real() -> CrowdDataset:
    return load_or_skip("music")


def test_real_counts(real: CrowdDataset) -> None:
    ann = real.annotations
    assert (ann.n_tasks, ann.n_annotators, ann.n_classes, ann.n_annotations) == (700, 44, 10, 2945)
    assert real.test is not None
    assert (real.x.shape, real.test.x.shape) == ((700, 124), (300, 124))
    genres = real.classes[real.y_true].tolist()
    assert all(song.startswith(f"{genre}.") for song, genre in zip(ann.task_ids.tolist(), genres, strict=True))


def test_real_annotators_are_as_good_as_published(real: CrowdDataset) -> None:
    assert annotator_accuracy(real) == pytest.approx(0.732, abs=0.001)


def test_real_majority_vote_is_as_good_as_published(real: CrowdDataset) -> None:
    assert majority_accuracy(real) == pytest.approx(0.704, abs=0.0005)
