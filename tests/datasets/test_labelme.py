"""LabelMe, from tiny folders in the archive's layout and, where it is present, from the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal.datasets import CrowdDataset, labelme
from conal.datasets.mechanical_turk import SCENES
from conal.errors import InputError
from helpers.real import annotator_accuracy, load_or_skip, majority_accuracy

ANSWERS = np.array([[0, -1, 1], [-1, 7, -1], [2, 2, -1], [-1, -1, 3]])


def write(folder: Path, n_train: int, shape: tuple[int, ...], answers: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for part, n in (("train", n_train), ("valid", 3), ("test", 5)):
        np.save(folder / f"data_{part}_vgg16.npy", rng.random((n, *shape), dtype=np.float32))
        np.save(folder / f"labels_{part}.npy", np.arange(n) % 8)
    np.save(folder / "answers.npy", answers)
    return folder


def test_originals(tmp_path: Path) -> None:
    write(tmp_path / "prepared", 4, (6,), ANSWERS)
    data = labelme(tmp_path)
    assert data.valid is not None
    assert data.test is not None
    assert (data.x.shape, data.valid.x.shape, data.test.x.shape) == ((4, 6), (3, 6), (5, 6))
    np.testing.assert_array_equal(data.annotations.to_matrix(), ANSWERS)
    assert data.classes.tolist() == list(SCENES)
    assert data.y_true.tolist() == [0, 1, 2, 3]
    assert data.annotations.by_position
    assert data.truth is None


def test_augmented_copies_are_flattened(tmp_path: Path) -> None:
    folder = write(tmp_path, 40, (2, 2, 3), np.repeat(ANSWERS, 10, axis=0).astype(float))  # the archive contains floats
    data = labelme(folder)
    assert data.x.shape == (40, 12)
    np.testing.assert_array_equal(data.x[7], np.load(folder / "data_train_vgg16.npy")[7].ravel())
    np.testing.assert_array_equal(data.annotations[30:40].to_matrix(), np.repeat(ANSWERS[3:], 10, axis=0))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("data_train_vgg16.npy", np.zeros((5, 6)), "labels_train.npy: found 4 labels, expected 5;"),
        ("data_test_vgg16.npy", np.zeros((6, 6)), "labels_test.npy: found 5 labels, expected 6;"),
        ("data_test_vgg16.npy", np.zeros((5, 7)), r"have \[6, 7\] features"),
        ("labels_test.npy", np.zeros(4), "labels_test.npy: found 4 labels, expected 5;"),
        ("labels_test.npy", np.full(5, 8), "labels_test.npy: found 5 values such as 8, .* from 0 to 7"),
        ("labels_test.npy", np.zeros((5, 1)), r"found float64 of shape \(5, 1\), expected numbers in 1 dimensions"),
        ("answers.npy", ANSWERS[:3], "answers.npy: found 3 rows, expected 4;"),
        ("answers.npy", ANSWERS + 0.5, "row 1: -0.5, 0.5, 1.5 and 3 more not among the 8 classes"),
    ],
)
def test_wrong_numbers_are_errors_that_quote_both(tmp_path: Path, name: str, array: Any, message: str) -> None:
    write(tmp_path, 4, (6,), ANSWERS)
    np.save(tmp_path / name, array)
    with pytest.raises(InputError, match=message):
        labelme(tmp_path)


def test_missing_files_are_listed(tmp_path: Path) -> None:
    write(tmp_path, 4, (6,), ANSWERS)
    (tmp_path / "answers.npy").unlink()
    (tmp_path / "labels_valid.npy").unlink()
    with pytest.raises(InputError, match=r"missing answers.npy, labels_valid.npy; unpack deep_LabelMe.tar.gz"):
        labelme(tmp_path)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 4, (6,), ANSWERS)
    np.save(tmp_path / "answers.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"answers.npy: cannot be read as NumPy numbers or text"):
        labelme(tmp_path)


# ---------------------------------------------------------------- the real thing


@pytest.fixture(scope="module")
def real() -> CrowdDataset:
    return load_or_skip("labelme")


def test_real_counts(real: CrowdDataset) -> None:
    ann = real.annotations
    copies = ann.n_tasks // 1000
    assert (ann.n_tasks, ann.n_annotators, ann.n_classes) == (1000 * copies, 59, 8)
    assert ann.n_annotations == pytest.approx(2547 * copies, rel=0.01 * (copies > 1))


def test_real_annotators_are_as_good_as_published(real: CrowdDataset) -> None:
    assert annotator_accuracy(real) == pytest.approx(0.692, abs=0.0005)


def test_real_majority_vote_is_as_good_as_published(real: CrowdDataset) -> None:
    assert majority_accuracy(real) == pytest.approx(0.766, abs=0.0005)
