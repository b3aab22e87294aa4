"""Music genres, from tiny folders in the archive's layout and, where it is present, from the real one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conal.datasets import CrowdDataset, music
from conal.errors import InputError
from helpers.real import annotator_accuracy, load_or_skip, majority_accuracy

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
    data = music(tmp_path)
    ann = data.annotations
    assert ann.task_ids.tolist() == ["rock.2.mp3", "jazz.1.mp3", "rock.1.mp3"]
    assert ann.annotator_ids.tolist() == ["w1", "w2"]
    assert ann.classes.tolist() == ["jazz", "rock"]
    np.testing.assert_array_equal(ann.to_matrix(), [[-1, 1], [0, -1], [1, 0]])
    np.testing.assert_array_equal(data.x, np.array([[0.5, 1.5], [-1, 2e-3], [3, 4]], dtype=np.float32))
    assert data.y_true.tolist() == [1, 0, 1]
    assert ann.by_position


def test_test_songs_are_apart_and_there_is_no_validation(tmp_path: Path) -> None:
    data = music(write(tmp_path))
    assert data.valid is None
    assert data.test is not None
    np.testing.assert_array_equal(data.test.x, [[7, 8], [9, 10]])
    assert data.test.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": GOLD.replace("2e-3", "loud")}, r"music_genre_gold.csv: column 'feature1' has 'loud' in row 1"),
        ({"gold": GOLD.replace("2e-3,", "")}, "music_genre_gold.csv: .*Expected 4 columns, got 3"),
        ({"gold": GOLD.replace("rock.2", "rock.1")}, r"music_genre_gold.csv: 1 ids occur more than once"),
        ({"gold": GOLD.replace("id,", "song,")}, "the first and last column are not 'id' and 'class'"),
        ({"gold": ""}, "music_genre_gold.csv: is empty"),
        ({"test": TEST.replace("jazz\n", "polka\n")}, "music_genre_test.csv: 'polka' not among the genres"),
        (
            {"test": TEST.replace("id,", "id,extra,").replace("mp3,", "mp3,0,")},
            "music_genre_test.csv: has 3 features, ",
        ),
        ({"answers": ANSWERS.replace("rock.2.mp3", "rock.7.mp3")}, "'rock.7.mp3' not among the songs"),
        ({"answers": ANSWERS.replace("jazz,jazz", "jazz,jaz")}, "'jaz' not among the 2 classes; did you mean 'jazz'"),
        ({"answers": ANSWERS + "\rw2,rock.2.mp3,rock,rock"}, "repeat a .task, worker. pair"),
        ({"answers": ANSWERS.replace("WorkerID", "worker")}, "no column 'WorkerID'"),
        ({"answers": ANSWERS.split("\r")[0]}, "mturk_answers.csv: "),
    ],
)
def test_wrong_files_are_errors(tmp_path: Path, change: dict[str, str], message: str) -> None:
    write(tmp_path, **change)
    with pytest.raises(InputError, match=message):
        music(tmp_path)


def test_missing_files_are_listed(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "mturk_answers.csv").unlink()
    with pytest.raises(InputError, match=r"missing mturk_answers.csv; unpack mturk-datasets.tar.gz"):
        music(tmp_path)


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
