"""What follows from the noisy counts: matrices, intervals that hold, groups, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal import privacy
from conal.data.annotations import Annotations
from conal.errors import InputError
from conal.privacy import PrivateRelease, positions, private_release, share_intervals

ROWS = [("t1", "ann", "a"), ("t2", "ann", "b"), ("t1", "bob", "b"), ("t2", "bob", "b"), ("t3", "bob", "a")]
TRUTH = {"t1": "a", "t2": "b"}


def release(crowd: Annotations | None = None, truth: dict[Any, Any] = TRUTH, **options: Any) -> PrivateRelease:
    tasks, people, labels = zip(*ROWS, strict=True)
    given: dict[str, Any] = {"epsilon": 100.0, "max_labels": 2} | options
    return private_release(crowd or Annotations.from_triples(tasks, people, labels), truth, **given)


def made(counts: Any, groups: tuple[str, ...] = (), epsilon: float = 1.0) -> PrivateRelease:
    counts = np.asarray(counts, dtype=float)
    classes = np.array(["a", "b"], dtype=object)
    return PrivateRelease(classes, groups, counts, np.array([3, 1]), epsilon, 1)


def test_with_little_noise_the_counts_are_those_of_the_labels() -> None:
    np.testing.assert_allclose(release().common_counts, [[1.0, 1.0], [0.0, 2.0]], atol=0.2)
    np.testing.assert_allclose(release().common_confusion, [[0.5, 0.5], [0.0, 1.0]], atol=0.1)


def test_groups_divide_the_counts_and_add_up_to_the_common_ones() -> None:
    found = release(groups={"ann": "human", "cat": "llm"})
    assert found.groups == ("human", "llm")  # from the table: whether anybody of them gave a label is not told
    np.testing.assert_allclose(found.counts, [[[1, 0], [0, 1]], [[0, 0], [0, 0]], [[0, 1], [0, 1]]], atol=0.2)
    np.testing.assert_allclose(found.common_counts, found.counts.sum(0))
    table = found.tables()["private_group_confusion.csv"].to_pydict()
    assert table["group"] == ["human"] * 4 + ["llm"] * 4
    with pytest.raises(InputError, match="no group 'robots'; there are human, llm"):
        found.group_confusion("robots")


def test_tables_by_hand() -> None:
    found = made([[[30.0, 10.0], [-2.0, 8.0]]])
    table = found.table().to_pydict()
    assert table["probability"] == [0.75, 0.25, 0.0, 1.0]
    assert table["count"] == [30.0, 10.0, -2.0, 8.0]
    assert table["count_sd"] == [pytest.approx(2**0.5)] * 4
    shares = found.shares().to_pydict()
    assert shares["label_share"] == [28 / 46, 18 / 46]
    assert shares["true_share"] == [0.75, 0.25]
    assert shares["labels_sd"] == [2.0, 2.0]
    halves = made([[[15.0, 5.0], [-1.0, 4.0]]] * 2, groups=("g",))  # the same sums of cells with twice the noise
    assert halves.table().to_pydict()["count_sd"] == [2.0] * 4
    wider = halves.table().to_pydict()
    assert wider["high"][1] - wider["low"][1] > 1.2 * (table["high"][1] - table["low"][1])


def test_a_row_that_noise_has_swallowed_is_unknown() -> None:
    found = made([[[-1.0, -2.0], [50.0, 50.0]]])
    table = found.table().to_pydict()
    assert table["probability"][:2] == [None, None]
    assert np.isnan(found.common_confusion[0]).all()
    assert (table["low"][0], table["high"][0]) == (0.0, 1.0)
    json.dumps(found.document(), allow_nan=False)


@pytest.mark.parametrize("counts", [[40.0, 8.0, 2.0], [4.0, 1.0, 0.0]])
def test_intervals_hold_the_exact_share_as_often_as_they_say(counts: list[float]) -> None:
    rng, scale, n = np.random.default_rng(4), 3.0, 400
    exact = np.array(counts) / sum(counts)
    held = np.zeros(3)
    for _ in range(n):
        noisy = np.array(counts) + rng.laplace(scale=scale, size=3)
        low, high = share_intervals(noisy, scale, summed=1)
        held += (low <= exact + 1e-9) & (exact - 1e-9 <= high)
    # Four standard errors below 95 %; the interval of 90 % would not reach it.
    assert (held / n > 0.95 - 4 * (0.95 * 0.05 / n) ** 0.5).all()
    assert (held / n).min() < 0.99


def test_intervals_are_as_narrow_as_the_noise_allows() -> None:
    low, high = share_intervals(np.array([5e6, 5e6]), 10.0, summed=1)
    # The difference of two Laplace variables, halved, over the total.
    draws = np.random.default_rng(0).laplace(size=(2, 10**5))
    wanted = np.quantile(np.abs(draws[0] - draws[1]) / 2, 0.95) * 10 / 1e7
    np.testing.assert_allclose(high - 0.5, wanted, rtol=0.08)
    np.testing.assert_allclose(0.5 - low, wanted, rtol=0.08)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("odd", ["x", "7.10", "007", "NA", "1e3"])
def test_odd_names_of_one_person_change_nothing_for_the_others(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names in a file are numbers or text depending on all of them; how others' labels are counted must not."""
    monkeypatch.setattr(privacy, "noisy_counts", lambda counts, sensitivity, epsilon: counts)
    lines = ["task,worker,label", "1,10,0", "2.0,10,1", "2.0,11,0"]
    found = []
    for name, more in (("plain", []), ("odd", [f"{odd},12,0", f"1,12,{odd}", f"1,{odd},{odd}"])):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([*lines, *more]) + "\n", encoding="utf-8")
        references: list[dict[Any, Any]] = [{1: 0, 2: 1}, {"1": "0", "2.0": "1"}]
        found += [release(Annotations.read(path), truth).counts.tolist() for truth in references]
    assert found[0] == found[1] == found[2] == found[3]


def test_what_cannot_be_released_is_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": 1e-320}, r"epsilon must be .*a number from 1e-09 to 100"),
        ({"epsilon": float("inf")}, "epsilon must be"),
        ({"max_labels": 0}, "max_labels must be"),
        ({"truth": {}}, "needs true labels of at least 2 classes"),
        ({"truth": {"t1": "a"}}, "at least 2 classes"),
        ({"classes": ["a", "c"]}, "true labels 'b' are not among the classes"),
        ({"truth": {1: "a", "1": "b"}}, "the task '1' is listed twice"),
    ]
    for options, problem in cases:
        with pytest.raises(InputError, match=problem):
            release(**options)
    with pytest.raises(InputError, match="class '1' is listed twice"):
        positions([1, "1"], "class")
