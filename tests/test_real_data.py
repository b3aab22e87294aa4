"""CoNAL on the paper's real crowds, where the data are at hand."""

from __future__ import annotations

import pytest

import conal
from conal.datasets import CrowdDataset
from conal.errors import InputError


def load(name: str) -> CrowdDataset:
    try:
        return conal.datasets.load(name)
    except InputError as error:
        pytest.skip(f"{name} is not here: {str(error).splitlines()[0]}")


@pytest.mark.slow
def test_labelme() -> None:
    data = load("labelme")
    assert data.valid is not None
    assert data.test is not None
    clf = conal.CoNAL(verbose=False).fit(
        data.x, data.annotations, validation=(data.valid.x, data.classes[data.valid.y])
    )
    assert clf.score(data.test.x, data.classes[data.test.y]) > 0.84


@pytest.mark.slow
def test_music_without_any_gold_label() -> None:
    data = load("music")
    assert data.test is not None
    clf = conal.CoNAL(batch_norm=True, verbose=False).fit(data.x, data.annotations)
    assert clf.score(data.test.x, data.classes[data.test.y]) > 0.65
