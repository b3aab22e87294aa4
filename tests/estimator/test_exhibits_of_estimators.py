"""Exhibits of fitted estimators: drawn features, pickles without them, and pseudonyms."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import conal
from conal.errors import InputError
from conal.report.exhibits import Exhibits, people_rows, task_rows

PEOPLE = ["annabel", "bartholomew", "cornelius"]


def spots(n: int = 60) -> tuple[npt.NDArray[np.float32], conal.Annotations]:
    """Pictures of spots on the left or right, and three people's labels of them."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=n)
    y, x = np.mgrid[:10, :10]
    at = np.where(z == 0, 2.5, 6.5)[:, None, None] + rng.normal(size=(n, 1, 1))
    pictures = np.exp(-((x - at) ** 2 + (y - rng.uniform(2, 8, size=(n, 1, 1))) ** 2) / 6)
    labels = np.where(rng.random((n, 3)) < 0.7, z[:, None], 1 - z[:, None])
    t, a = np.nonzero(labels >= 0)
    crowd = conal.Annotations(t, a, labels[t, a], task_ids=range(n), annotator_ids=PEOPLE, classes=["left", "right"])
    return pictures.astype(np.float32), crowd


@pytest.fixture(scope="module")
def fitted() -> conal.CoNAL:
    x, crowd = spots()
    return conal.CoNAL(epochs=3, verbose=False).fit(x.reshape(60, 100), crowd)


def test_features_that_are_pictures_are_drawn(fitted: conal.CoNAL) -> None:
    rows = list(task_rows(fitted.results_.report))
    assert rows
    assert all("picture" in row for row in rows)
    assert fitted.results_.report["pictures"]["thumbnails"][0]["width"] == 90  # nine times ten pixels


def test_a_pickle_does_not_contain_the_features(fitted: conal.CoNAL) -> None:
    other = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - made here
    (source,) = other.results_.exhibits.pictures
    assert source.instances is None
    assert source.of(0) is None
    x, _ = spots()
    assert np.array_equal(other.predict(x.reshape(60, 100)), fitted.predict(x.reshape(60, 100)))


def test_names_and_texts_are_shown(tmp_path: Path) -> None:
    x, crowd = spots()
    clf = conal.CoNAL(epochs=3, verbose=False).fit(x, crowd)
    clf.exhibit(Exhibits(texts={"7": "sent by annabel"}, names={"bartholomew": "Bart Young"}))
    names = {row["worker"]: row.get("name") for row in people_rows(clf.results_.report)}
    assert (names[PEOPLE[0]], names[PEOPLE[1]]) == (None, "Bart Young")
    assert "picture" in next(iter(task_rows(clf.results_.report)))  # drawn as before
    clf.save(tmp_path / "m")
    with pytest.raises(InputError, match="a loaded model has its report already"):
        conal.load(tmp_path / "m").exhibit(Exhibits())
