"""Annotations that grow: the same labels as all of them together, with old codes kept."""

from __future__ import annotations

import numpy as np
import pytest

from conal.data.annotations import Annotations
from conal.data.joining import append_labels, join_annotations
from conal.errors import DataWarning, InputError


def crowd(seed: int, tasks: int, annotators: int, n: int, *, times: bool = False, classes: int = 3) -> Annotations:
    rng = np.random.default_rng(seed)
    pairs = rng.choice(tasks * annotators, n, replace=False)
    made = Annotations(
        pairs // annotators,
        pairs % annotators,
        rng.integers(0, classes, n),
        task_ids=[f"t{k}" for k in range(tasks)],
        annotator_ids=[f"w{k}" for k in range(annotators)],
        classes=list("xyz")[:classes],
    )
    return made.replace(times=rng.integers(0, 10**9, n).astype("datetime64[us]")) if times else made


def rows(found: Annotations) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in found.to_table().to_pylist()}


@pytest.mark.parametrize("seed", range(6))
def test_grown_annotations_are_those_of_both_and_keep_old_codes(seed: int) -> None:
    old, new = crowd(seed, 12, 5, 30), crowd(seed + 50, 20, 8, 25)
    with pytest.warns(DataWarning, match="repeat a"):
        expected = join_annotations([old, new], classes=list("xyz"))
    with pytest.warns(DataWarning, match="take the place"):
        growth, changed = append_labels(old, new)
    found = growth
    assert rows(found) == rows(expected)
    assert found.task_ids[: old.n_tasks].tolist() == old.task_ids.tolist()
    assert found.annotator_ids[: old.n_annotators].tolist() == old.annotator_ids.tolist()
    # Nothing tells it from annotations that the constructor made.
    assert found == found.replace()
    assert np.array_equal(found.indptr, found.replace().indptr)
    assert found.indptr.dtype == np.int64
    labelled = set(new.task_ids[new.tasks].tolist())
    assert labelled <= set(found.task_ids[changed].tolist())
    assert set(found.task_ids[changed].tolist()) <= labelled | (set(new.task_ids) - set(old.task_ids))


def test_times_are_kept_where_they_are_known() -> None:
    old, new = crowd(0, 9, 4, 20, times=True), crowd(1, 12, 6, 20)
    with pytest.warns(DataWarning, match="take the place"):
        found = append_labels(old, new)[0]
    assert found.times is not None
    assert found == found.replace()
    known = {row[:2]: row[3] for row in rows(old)}
    replaced = {row[:2] for row in rows(new)}
    for task, worker, _, time in rows(found):
        assert time == (None if (task, worker) in replaced else known[task, worker])


def test_numbers_and_their_text_are_one_name() -> None:
    old = Annotations.from_triples([1, 2], [10, 11], ["x", "y"])
    growth, _ = append_labels(old, Annotations.from_triples(["2", "1"], ["10", "11"], ["x", "y"]))
    assert growth.shape == (2, 2)
    assert growth.task_ids.dtype == np.int64
    mixed = append_labels(old, Annotations.from_triples(["2", "b"], ["10", "eve"], ["x", "y"]))[0]
    assert mixed.task_ids.tolist() == ["1", "2", "b"]
    assert mixed.annotator_ids.tolist() == ["10", "11", "eve"]


def test_new_classes_known_labels_and_refusals_are_refused() -> None:
    old = Annotations.from_triples([1, 2], ["a", "b"], ["x", "y"])
    with pytest.raises(InputError, match=r"'z' not among the 2 classes .*fit old and new labels together"):
        append_labels(old, Annotations.from_triples([1], ["c"], ["z"]))
    with pytest.raises(InputError, match="all 2 labels are known already"):
        append_labels(old, old)
    refused = Annotations.from_triples([1, 2], ["c", "c"], ["x", "?"], abstain="?")
    with pytest.raises(InputError, match="abstentions cannot be updated"):
        append_labels(old, refused)


def test_a_newcomer_who_looks_like_a_known_annotator_is_refused() -> None:
    old = Annotations.from_triples([1, 2], ["ann", "bob"], ["x", "y"])
    message = r"new labels: annotators are spelled differently here and in the labels so far: 'Ann' and 'ann' differ"
    with pytest.raises(InputError, match=message):
        append_labels(old, Annotations.from_triples([3], ["Ann"], ["x"]))
    append_labels(old, Annotations.from_triples([3], ["ann"], ["x"]))
