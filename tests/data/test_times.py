"""Times of labels: they are read, follow their labels, and survive what is done to annotations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conal.data.annotations import Annotations
from conal.data.joining import join_annotations
from conal.errors import InputError


def crowd() -> Annotations:
    """Task t<i> was labelled by worker w<r> on day 10 i + r, in a shuffled order."""
    pairs = [(i, r) for i in range(4) for r in range(3)]
    np.random.default_rng(0).shuffle(pairs)
    return Annotations.from_triples(
        [f"t{i}" for i, _ in pairs],
        [f"w{r}" for _, r in pairs],
        [(i + r) % 2 for i, r in pairs],
        times=[np.datetime64("2026-01-01") + np.timedelta64(10 * i + r, "D") for i, r in pairs],
    )


def days(found: Annotations) -> list[int]:
    assert found.times is not None
    return [int(day) for day in (found.times - np.datetime64("2026-01-01")) // np.timedelta64(1, "D")]


def expected(found: Annotations) -> list[int]:
    table = found.to_table().to_pylist()
    return [10 * int(row["task"][1:]) + int(row["worker"][1:]) for row in table]


def test_times_follow_their_labels() -> None:
    made = crowd()
    for found in (
        made,
        made[[3, 1, 1]],
        made.reindex(["t3", "t0", "new"]),
        made.select(made.labels == 1),
        made.replace(classes=["no", "yes"]),
        join_annotations([made[:2], made[2:]]),
    ):
        assert days(found) == expected(found)
    assert made[[3, 1, 1]] == made[[3, 1, 1]].replace()
    table = made.to_table()
    assert table["time"].to_pylist()[0].year == 2026
    assert Annotations.from_frame(table) == made
    assert made != made.replace(times=None)
    assert made.replace(times=None).times is None


def test_one_part_without_times_has_none() -> None:
    made = crowd()
    found = join_annotations([made[:2], made[2:].replace(times=None)])
    assert found.times is not None
    assert np.isnat(found.times).sum() == 6


def test_of_two_labels_the_kept_one_has_its_time() -> None:
    with pytest.warns(UserWarning, match="repeat a"):
        found = Annotations.from_triples([1, 1], ["a", "a"], ["x", "y"], times=["2026-01-02", "2026-01-03"])
    assert found.times is not None
    assert str(found.times[0])[:10] == "2026-01-03"


def test_files_and_frames_keep_times(tmp_path: Path) -> None:
    rows = {"task": [2, 1], "worker": ["a", "b"], "label": ["x", "y"]}
    frame = pd.DataFrame({**rows, "created_at": ["2026-11-17T10:00:00Z", "2026-11-17T09:00:00Z"], "note": ["", ""]})
    wanted = np.array(["2026-11-17T09:00:00", "2026-11-17T10:00:00"], dtype="datetime64[us]")
    assert np.all(Annotations.from_frame(frame).times == wanted)
    for ending in ("csv", "parquet", "jsonl"):
        path = tmp_path / f"labels.{ending}"
        if ending == "csv":
            frame.to_csv(path, index=False)
        elif ending == "parquet":
            frame.assign(created_at=pd.to_datetime(frame["created_at"])).to_parquet(path)
        else:
            frame.to_json(path, orient="records", lines=True)
        assert np.all(Annotations.read(path).times == wanted), ending
    words = frame.assign(created_at=["soon", "later"])
    assert Annotations.from_frame(words).times is None


def test_times_must_be_as_many_as_labels() -> None:
    with pytest.raises(InputError, match="1 times for 2 labels"):
        crowd().select(np.arange(12) < 2).replace(times=["2026-01-01"])
    with pytest.raises(InputError, match="3 times for 2 labels"):
        Annotations.from_triples([1, 2], ["a", "a"], ["x", "y"], times=[1, 2, 3])
