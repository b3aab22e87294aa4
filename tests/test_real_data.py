"""CoNAL on the paper's real crowds, where the data are at hand."""

from __future__ import annotations

import pytest

import conal
from helpers.real import load_or_skip


@pytest.mark.slow
def test_labelme() -> None:
    data = load_or_skip("labelme")
    assert data.valid is not None
    assert data.test is not None
    clf = conal.CoNAL(verbose=False).fit(
        data.x, data.annotations, validation=(data.valid.x, data.classes[data.valid.y])
    )
    assert clf.score(data.test.x, data.classes[data.test.y]) > 0.84


@pytest.mark.slow
def test_music_without_any_gold_label() -> None:
    data = load_or_skip("music")
    assert data.test is not None
    clf = conal.CoNAL(batch_norm=True, verbose=False).fit(data.x, data.annotations)
    assert clf.score(data.test.x, data.classes[data.test.y]) > 0.65
