"""Refused answers are read beside the labels: no classes, not missing, and they stay with their tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conal import Annotations
from conal.data.joining import align, join_annotations
from conal.errors import DataWarning, InputError
from conal.io import read_annotations, write_annotations

ROWS = [("a", "v", 1), ("a", "w", "refused"), ("b", "v", 2), ("b", "w", 1), *[("c", "w", "refused")] * 2]


def crowd_of(rows: list[tuple[Any, ...]] = ROWS, **options: Any) -> Annotations:
    return Annotations.from_triples(*map(list, zip(*rows, strict=True)), **({"abstain": "refused"} | options))


def refused(crowd: Annotations) -> set[tuple[Any, Any, Any]]:
    found = crowd.abstentions
    assert found is not None
    assert found.task_ids.tolist() == crowd.task_ids.tolist()
    assert found.annotator_ids.tolist() == crowd.annotator_ids.tolist()
    table = found.to_table().to_pydict()
    return set(zip(*table.values(), strict=True))


def test_they_are_no_classes_and_counted_once() -> None:
    crowd = crowd_of()
    assert crowd.classes.tolist() == [1, 2]
    assert crowd.n_annotations == 3
    assert refused(crowd) == {("a", "w", "refused"), ("c", "w", "refused")}
    assert crowd.abstentions is not None
    assert crowd.abstentions.n_annotations == 2
    assert crowd_of(ROWS[:5], abstain=None).classes.tolist() == [1, 2, "refused"]
    with pytest.warns(DataWarning, match="dropped 3 rows without a label"):
        assert crowd_of(abstain=None, missing="refused").abstentions is None


def test_who_answers_after_all_has_answered() -> None:
    assert refused(crowd_of([*ROWS, ("a", "w", 2)])) == {("c", "w", "refused")}


def test_several_words_and_words_that_are_usually_missing() -> None:
    rows = [("a", "v", "x"), ("a", "w", "NA"), ("b", "w", "?"), ("b", "v", "y"), ("c", "v", "null")]
    with pytest.warns(DataWarning, match=r"dropped 1 rows without a label \(1 'null'\)"):
        crowd = crowd_of(rows, abstain=["NA", "?"])
    assert refused(crowd) == {("a", "w", "NA"), ("b", "w", "?")}


def test_what_cannot_be_meant() -> None:
    with pytest.raises(InputError, match="'refused' cannot be both a class and an abstention"):
        crowd_of(classes=[1, 2, "refused"])
    with pytest.raises(InputError, match="'refused' cannot be both missing and an abstention"):
        crowd_of(missing=["refused"])
    with pytest.warns(DataWarning, match="no label is 'declined'; check abstain"):
        crowd_of([("a", "v", 1), ("b", "v", 2)], abstain="declined")
    with pytest.raises(InputError, match="have no worker"):
        crowd_of([("a", "v", 1), ("b", None, "refused")])
    with pytest.raises(InputError, match="every label is missing"):
        crowd_of([("a", "v", "refused")])


def test_frames_and_matrices() -> None:
    frame = pd.DataFrame(ROWS, columns=["task", "worker", "label"])
    assert Annotations.from_frame(frame, abstain="refused") == crowd_of()
    matrix = Annotations.from_matrix([[0, "?"], [1, -1]], abstain="?", annotator_ids=["v", "w"])
    assert refused(matrix) == {(0, "w", "?")}
    assert matrix.to_matrix().tolist() == [[0, -1], [1, -1]]


def test_they_stay_with_their_tasks_and_annotators() -> None:
    crowd = crowd_of()
    assert refused(crowd[[2, 1]]) == {("c", "w", "refused")}
    assert refused(crowd.reindex(["c", "d", "a"])) == {("a", "w", "refused"), ("c", "w", "refused")}
    assert refused(crowd.select([False, True, True])) == refused(crowd)
    assert refused(align(crowd, 4, ["d", "c", "b", "a"])[0]) == refused(crowd)
    assert refused(crowd.as_ordinal()) == refused(crowd)
    assert crowd != crowd.replace(abstentions=None)


def test_several_sets_are_joined() -> None:
    other = crowd_of([("a", "w", 2), ("c", "v", "refused"), ("e", "x", 1), ("c", "w", "refused")])
    joined = join_annotations([crowd_of(), other])
    assert refused(joined) == {("c", "w", "refused"), ("c", "v", "refused")}
    plain = Annotations.from_triples([7], ["v"], [1])
    assert refused(join_annotations([crowd_of(), plain])) == refused(crowd_of())


# -------------------------------------------------------------------- files


def test_a_table_with_numbers_and_a_word(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("task,worker,label\n" + "\n".join(",".join(map(str, row)) for row in ROWS), encoding="utf-8")
    crowd = read_annotations(path, abstain=["refused"])
    assert crowd == crowd_of()
    assert crowd.classes.dtype.kind == "i"
    assert refused(read_annotations(path, abstain=["refused"], classes=["1", "2"])) == refused(crowd_of())


def test_a_wide_table(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("task,v,w\na,1,refused\nb,2,1\nc,,refused\nd,,\n", encoding="utf-8")
    with pytest.warns(DataWarning, match="left out 1 tasks without a label"):
        crowd = read_annotations(path, abstain=["refused"])
    assert crowd.classes.tolist() == [1, 2]
    assert refused(crowd) == {("a", "w", "refused"), ("c", "w", "refused")}
    assert crowd.to_matrix()[:2].tolist() == [[0, -1], [1, 0]]


def test_a_matrix_file(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([[0, 9], [1, 1]]))
    crowd = read_annotations(tmp_path / "m.npy", abstain=["9"])
    assert refused(crowd) == {(0, 1, "9")}
    assert crowd.classes.tolist() == [0, 1]


def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    write_annotations(crowd_of(), tmp_path / "t.csv")
    assert read_annotations(tmp_path / "t.csv", abstain="refused") == crowd_of()
    words = Annotations.from_matrix([["x", "?"], ["y", "x"]], abstain="?")
    write_annotations(words, tmp_path / "t.parquet")
    assert refused(read_annotations(tmp_path / "t.parquet", abstain=["?"])) == {(0, 1, "?")}
