"""Plans for the common confusion: which rows, which tasks, whom; and what they bring in the mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conal.data.encoding import as_names
from conal.errors import InputError
from conal.planning.common_plan import CommonPlan, common_plan
from conal.planning.gains import LabelingProblem, Pairs

N, R, C = 60, 4, 3


def problem(**options: Any) -> LabelingProblem:
    """Forty tasks of class 0, fifteen of class 1 and five of class 2, each labelled by annotator 0."""
    posterior = np.full((N, C), 0.02)
    posterior[np.arange(N), np.repeat(range(C), [40, 15, 5])] = 0.96
    posterior[59] = [0.3, 0.3, 0.4]
    given = Pairs.of(np.arange(N), np.zeros(N), N)
    return LabelingProblem(posterior, np.full((R, C, C), 1 / 3), given, np.ones((R, C)), **options)


COMMON = np.array([[0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.0, 0.3, 0.7]])


def planned(budget: float, of: LabelingProblem, common: np.ndarray = COMMON, per_task: int = 3) -> CommonPlan:
    names = {"task_ids": np.arange(N), "people": as_names([f"w{r}" for r in range(R)])}
    return common_plan(of, common, budget, per_task=per_task, **names)


def test_labels_are_about_rare_classes_and_sure_tasks_by_all_alike() -> None:
    table = planned(8, problem()).table
    tasks, ask = table["task"].to_pylist(), table["ask"].to_pylist()
    assert set(tasks) == {55, 56, 57, 58}  # of the rarest class; 59 is not sure
    assert "w0" not in ask  # who labelled them all
    assert {name: ask.count(name) for name in set(ask)} == {"w1": 3, "w2": 3, "w3": 2}
    assert len(set(zip(tasks, ask, strict=True))) == 8


def test_gains_are_what_the_errors_lose() -> None:
    found = planned(25, problem())
    lost = C**2 * (found.error**2 - found.error_after**2)
    assert sum(found.table["expected_gain"].to_pylist()) == pytest.approx(lost)
    row = 1 - 0.7**2 - 0.3**2
    met = [40 * 0.96**2, 15 * 0.96**2, 4 * 0.96**2 + 0.4**2]
    assert found.error == pytest.approx(np.sqrt(sum(row / (n + 1) for n in met) / C**2))


def test_a_row_without_confusion_is_not_asked_about() -> None:
    certain = COMMON.copy()
    certain[2] = [0, 0, 1]
    tasks = planned(10, problem(), certain).table["task"].to_pylist()
    assert all(40 <= task < 55 for task in tasks)


def test_costs_limits_and_the_number_per_task_are_kept() -> None:
    limited = problem(costs=np.array([1.0, 2.0, 1.0, 1.0]), limits=np.array([0.0, 3.0, 2.0, 50.0]))
    found = planned(20, limited, per_task=1).table
    ask = found["ask"].to_pylist()
    assert ask.count("w2") <= 2
    assert ask.count("w1") <= 3
    assert "w0" not in ask
    assert found["total_cost"].to_pylist()[-1] <= 20
    tasks = found["task"].to_pylist()
    assert len(set(tasks)) == len(tasks)


def test_more_budget_than_can_be_asked_ends() -> None:
    found = planned(1e6, problem(), per_task=5)
    assert found.table.num_rows == N * 3  # everybody but annotator 0, once


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="budget"):
        planned(0, problem())
    with pytest.raises(InputError, match="single annotators"):
        planned(5, problem(allowed=Pairs.of([0], [1], N)))
