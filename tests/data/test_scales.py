"""Scales: the order of classes, the statement that there is one, and posteriors as numbers."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from conal import Annotations
from conal.aggregation import DawidSkene
from conal.data.joining import align
from conal.data.scales import class_values, levels_of, posterior_scores, score_columns
from conal.errors import InputError
from conal.io import read_annotations

GRADES = ["poor", "fair", "good"]


def graded() -> Annotations:
    return Annotations.from_triples([0, 0, 1, 2], ["a", "b", "a", "b"], ["good", "fair", "poor", "fair"])


# -------------------------------------------------------------------- the order


def test_numbers_have_their_own_order_also_as_text() -> None:
    assert levels_of(np.array([10, 9, 11]), stated=False).tolist() == [1, 0, 2]
    assert levels_of(np.array(["10", "9", "-1"], dtype=object), stated=False).tolist() == [2, 1, 0]
    assert class_values(np.array(["1", "x"], dtype=object)) is None
    assert class_values(np.array(["1", "nan"], dtype=object)) is None


def test_other_classes_need_a_stated_order() -> None:
    with pytest.raises(InputError, match=r"order of the classes 'fair', 'good', 'poor' is not known.*--classes LOWEST"):
        graded().as_ordinal()
    stated = graded().as_ordinal(GRADES)
    assert stated.ordinal
    assert stated.classes.tolist() == GRADES
    assert stated.levels().tolist() == [0, 1, 2]
    assert stated.to_table().to_pydict() == graded().to_table().to_pydict()
    assert Annotations.from_matrix([["no", "yes"]]).as_ordinal().ordinal  # two have only one distance


def test_numbers_are_sorted_however_they_are_listed() -> None:
    crowd = Annotations.from_matrix([[3, 1], [2, 3]], classes=[3, 1, 2])
    assert crowd.levels().tolist() == [2, 0, 1]
    scale = crowd.as_ordinal([5, 4, 3, 2, 1])
    assert scale.classes.tolist() == [1, 2, 3, 4, 5]
    assert scale.classes[scale.to_matrix()].tolist() == [[3, 1], [2, 3]]


def test_a_label_outside_the_scale_is_refused() -> None:
    with pytest.raises(InputError, match="'poor' not among the 2 classes"):
        graded().as_ordinal(["fair", "good"])


def test_the_statement_survives_what_derives_from_it() -> None:
    scale = graded().as_ordinal(GRADES)
    kept = [scale[[1, 0]], scale.reindex([2, 5]), scale.select([True, False, True, True])]
    kept.append(pickle.loads(pickle.dumps(scale)))  # noqa: S301 - our own
    kept.append(align(scale, 4, [2, 1, 0, 7])[0])
    assert all(each.ordinal and each.classes.tolist() == GRADES for each in kept)
    assert not graded()[[0]].ordinal
    assert graded() != graded().replace(ordinal=True)


# -------------------------------------------------------------------- files


def written(folder: Path, labels: list[str], first: int = 0) -> Path:
    path = folder / "labels.csv"
    rows = [f"{task},{worker},{label}" for task, (worker, label) in enumerate(zip("abab", labels, strict=True), first)]
    path.write_text("task,worker,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_the_option_of_files(tmp_path: Path) -> None:
    path = written(tmp_path, ["2", "10", "1", "3"])
    assert read_annotations(path, ordinal=True).classes.tolist() == [1, 2, 3, 10]
    found = read_annotations(path, ordinal=True, classes=["1", "2", "3", "4", "10"])
    assert (found.classes.tolist(), found.ordinal) == ([1, 2, 3, 4, 10], True)
    assert not read_annotations(path).ordinal
    words = written(tmp_path, ["poor", "good", "fair", "poor"])
    with pytest.raises(InputError, match=r"labels\.csv: the order of the classes"):
        read_annotations(words, ordinal=True)
    assert read_annotations(words, ordinal=True, classes=GRADES).classes.tolist() == GRADES


def test_two_files_are_one_scale(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    paths = [written(tmp_path, ["1", "2", "1", "2"]), written(tmp_path / "one", ["7", "2", "1", "2"], first=4)]
    found = read_annotations(paths, ordinal=True)
    assert (found.ordinal, found.classes.tolist()) == (True, [1, 2, 7])


# -------------------------------------------------------------------- posteriors


def by_hand(row: np.ndarray, values: np.ndarray) -> tuple[float, float, float, float]:
    """Mean and quantiles of one distribution, one value after the other."""
    order = np.argsort(values)
    ends = []
    for at in (0.5, 0.025, 0.975):
        total = 0.0
        for k in order:
            total += row[k]
            if total >= at - 1e-9:
                ends.append(values[k])
                break
    return (float(sum(row * values)), *ends)


def test_scores_are_those_of_the_posterior() -> None:
    rng = np.random.default_rng(0)
    values = np.array([4, 1, 7, 2, 30])
    probas = rng.dirichlet(np.full(5, 0.4), size=200)
    found = score_columns(probas, values, levels_of(values, stated=False))
    wanted = [by_hand(row, values) for row in probas]
    for name, column in zip(("mean", "median", "low", "high"), zip(*wanted, strict=True), strict=True):
        np.testing.assert_allclose(found[name].to_numpy(), column)


def test_places_stand_for_classes_that_are_no_numbers() -> None:
    names = np.array(GRADES, dtype=object)
    found = score_columns(np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]), names, np.arange(3), np.array([False, True]))
    assert found["mean"].to_pylist() == [1.75, None]
    assert found["median"].to_pylist() == ["poor", None]
    assert found["high"].to_pylist() == ["good", None]


def test_rounding_leaves_no_quantile_out() -> None:
    probas = np.full((1, 10), 0.1)
    found = posterior_scores(probas, np.arange(10), np.arange(10), confidence=1 - 1e-15)
    assert (found.median[0], found.low[0], found.high[0]) == (4, 0, 9)


def test_every_aggregator_has_scores_on_a_scale() -> None:
    crowd = Annotations.from_matrix([["poor", "poor"], ["good", "fair"]]).as_ordinal(GRADES)
    fitted = DawidSkene().fit(crowd)
    assert fitted.scores_["task"].to_pylist() == [0, 1]
    np.testing.assert_allclose(fitted.scores_["mean"].to_numpy(), fitted.probas_ @ [1, 2, 3])
    with pytest.raises(InputError, match="order of the classes"):
        _ = DawidSkene().fit(graded()).scores_
