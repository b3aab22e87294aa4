"""The expert's plan: probabilities that are known and hold, and tasks in doubt first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conal.errors import InputError
from conal.planning.expert_plan import expert_plan, inclusion_probabilities, systematic_sample, with_exhibits

RNG = np.random.default_rng(0)


def table(n: int = 200, *, classifier: bool = True) -> pa.Table:
    """Labels of which the first ten are contradicted, and the next ten uncertain."""
    entropy, apart = np.full(n, 0.01), np.full(n, 0.02)
    apart[:10], entropy[10:20] = 0.95, 1.5
    columns = {"task": [f"t{k}" for k in range(n)], "probability": 1 - entropy / 2}
    columns |= {f"proba_{c}": np.full(n, 1 / 3) for c in "abc"}
    columns |= {"contradiction": apart} if classifier else {}
    return pa.table(columns | {"entropy": entropy})


def test_probabilities_sum_to_the_size_and_everything_can_be_drawn() -> None:
    score = RNG.random(300) ** 8
    pi = inclusion_probabilities(score, 40, 0.25)
    assert pi.sum() == pytest.approx(40)
    assert pi.max() <= 1
    assert pi.min() > 0.02
    below = pi < 1
    mixed = 0.25 / 300 + 0.75 * score / score.sum()
    ratio = pi[below] / mixed[below]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
    assert (inclusion_probabilities(np.zeros(10), 10, 0.5) == 1).all()


def test_tasks_are_drawn_as_often_as_their_probabilities_say() -> None:
    pi = inclusion_probabilities(RNG.random(12) ** 2, 5, 0.3)
    rng = np.random.default_rng(1)
    drawn = np.zeros(12)
    for _ in range(8000):
        found = systematic_sample(pi, rng)
        assert len(set(found.tolist())) == 5
        drawn[found] += 1
    np.testing.assert_allclose(drawn / 8000, pi, atol=4 * np.sqrt(0.25 / 8000))


def test_doubtful_tasks_come_first_with_their_reasons() -> None:
    found = expert_plan(table(), 24, seed=3)
    assert found.column_names == ["task", "ask", "reason", "inclusion_probability", "expected_gain"]
    assert found.num_rows == 24
    assert len(set(found["task"].to_pylist())) == 24
    rows = {row["task"]: row for row in found.to_pylist()}
    contradicted = [rows[f"t{k}"] for k in range(10) if f"t{k}" in rows]
    assert len(contradicted) >= 8
    assert all(row["inclusion_probability"] > 0.9 for row in contradicted)
    assert {row["reason"] for row in contradicted} == {"crowd and classifier contradict each other"}
    assert {rows[f"t{k}"]["reason"] for k in range(10, 20) if f"t{k}" in rows} == {"the label is uncertain"}
    others = [row for row in rows.values() if int(row["task"][1:]) >= 20]
    assert others
    assert {row["reason"] for row in others} == {"random"}
    assert all(0 < row["inclusion_probability"] <= 1 for row in rows.values())
    assert rows["t0"]["expected_gain"] == pytest.approx(0.005)
    assert expert_plan(table(), 24, seed=3).equals(found)


def test_without_a_classifier_the_uncertain_ones_are_asked() -> None:
    found = expert_plan(table(classifier=False), 10, random_share=0.01)
    assert set(found["task"].to_pylist()) == {f"t{k}" for k in range(10, 20)}


def test_all_at_random_is_a_random_sample() -> None:
    found = expert_plan(table(), 20, random_share=1.0)
    assert set(found["reason"].to_pylist()) == {"random"}
    np.testing.assert_allclose(found["inclusion_probability"].to_numpy(), 0.1)


def test_known_tasks_are_left_out() -> None:
    known = np.arange(200) < 10
    assert not {f"t{k}" for k in range(10)} & set(expert_plan(table(), 50, leave_out=known)["task"].to_pylist())


def test_a_task_with_a_true_label_is_never_asked_about() -> None:
    known = [None if k % 4 else "a" for k in range(200)]
    labels = table().append_column("true_label", pa.array(known))
    asked = expert_plan(labels, 149, leave_out=np.arange(200) == 1)["task"].to_pylist()
    assert sorted(asked) == sorted(f"t{k}" for k in range(200) if k % 4 and k != 1)
    with pytest.raises(InputError, match="151 tasks are asked for, but there are 150 that have no true label"):
        expert_plan(labels, 151)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InputError, match="201 tasks are asked for, but there are 200; ask for fewer"):
        expert_plan(table(), 201)
    with pytest.raises(InputError, match="random_share must be"):
        expert_plan(table(), 5, random_share=0.0)


def test_the_expert_sees_what_the_report_shows_of_a_task() -> None:
    plan = pa.table({"task": ["a", "b", "c"]})
    rows: list[dict[str, Any]] = [
        {"task": "b", "text": "older", "link": "https://x.org/b"},
        {"task": "b", "text": "newer", "picture": 3},
        {"task": "elsewhere", "picture_link": "https://x.org/picture"},
    ]
    found = with_exhibits(plan, rows)
    assert found.column_names == ["task", "text", "link"]  # no task of the plan has a picture's address
    assert found["text"].to_pylist() == [None, "newer", None]
    assert found["link"].to_pylist() == [None, "https://x.org/b", None]
    assert with_exhibits(plan, []).equals(plan)
