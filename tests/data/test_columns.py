"""Finding the columns that people mean."""

from __future__ import annotations

import re

import pytest

from conal.data.frames import ALIASES, MORE_ALIASES, find_annotators, find_column, find_columns
from conal.errors import InputError

ROLES = {"task": None, "worker": None, "label": None}


@pytest.mark.parametrize(("role", "alias"), [(role, alias) for role in ALIASES for alias in ALIASES[role]])
def test_every_alias_is_found(role: str, alias: str) -> None:
    assert find_column(["x", alias, "y"], role, None, "f") == alias


@pytest.mark.parametrize(("role", "alias"), [(role, alias) for role in MORE_ALIASES for alias in MORE_ALIASES[role]])
def test_further_names_count_in_tables_of_labels_where_there_is_no_other(role: str, alias: str) -> None:
    assert find_column(["x", alias, "y"], role, None, "f") is None
    assert find_column(["x", alias, "y"], role, None, "f", more=True) == alias
    usual = ALIASES[role][0]
    assert find_column([usual, alias, "y"], role, None, "f", more=True) == usual


def test_several_further_names_are_an_error_that_names_them() -> None:
    with pytest.raises(InputError, match=r"columns 'model', 'judge' could all be the worker; .*\(--worker-column\)"):
        find_columns(["item", "model", "judge", "verdict"], ROLES, "a.csv")


def test_ids_of_annotators_come_before_further_names() -> None:
    assert find_annotators(["model", "id", "group"], "f") == "id"
    assert find_annotators(["model", "group"], "f") == "model"


@pytest.mark.parametrize("spelling", ["WorkerId", "worker id", "WORKER_ID", "worker.id", "Worker-ID", " worker_id\t"])
def test_spelling_does_not_matter_and_is_kept(spelling: str) -> None:
    assert find_column(["item", spelling], "worker", None, "f") == spelling


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["task", "worker", "label"], ["task", "worker", "label"]),
        (["label", "worker", "task"], ["task", "worker", "label"]),
        (["id", "annotator", "answer", "comment"], ["id", "annotator", "answer"]),
        (["id", "item", "Task", "worker", "label"], ["Task", "worker", "label"]),  # the canonical name wins
        (["task", "user", "worker", "response", "label"], ["task", "worker", "label"]),
    ],
)
def test_roles(columns: list[str], found: list[str]) -> None:
    assert find_columns(columns, ROLES, "f") == dict(zip(ROLES, found, strict=True))


def test_a_named_column_wins_over_the_usual_ones() -> None:
    found = find_columns(["task", "worker", "label", "emotion"], {**ROLES, "label": "emotion"}, "f")
    assert found == {"task": "task", "worker": "worker", "label": "emotion"}


def test_a_named_column_must_be_there_as_spelled() -> None:
    with pytest.raises(InputError, match=r"a\.csv: no column 'emotion'; it has 'task', 'Emotion'"):
        find_columns(["task", "Emotion"], {"label": "emotion"}, "a.csv")


@pytest.mark.parametrize("role", ["task", "worker", "label"])
def test_a_missing_column_is_named_with_the_columns_that_are_there(role: str) -> None:
    columns = [name for name in ROLES if name != role]
    expected = (
        f"a.csv: no column for the {role}; it has {', '.join(map(repr, columns))}. "
        f"Rename one to '{role}', or set {role}= (--{role}-column)"
    )
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        find_columns(columns, ROLES, "a.csv")


@pytest.mark.parametrize("columns", [["id", "item"], ["task", "Task"]])
def test_several_candidates_are_an_error(columns: list[str]) -> None:
    listed = ", ".join(map(repr, columns))
    expected = f"a.csv: columns {listed} could all be the task; choose one with task= (--task-column)"
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        find_column(columns, "task", None, "a.csv")


def test_true_labels_are_named_by_the_label_option() -> None:
    with pytest.raises(InputError, match=r"could all be the truth; choose one with label= \(--label-column\)"):
        find_column(["gold", "class"], "truth", None, "a.csv")


def test_no_candidate_is_none() -> None:
    assert find_column(["a", "b"], "task", None, "f") is None
    assert find_column([], "task", None, "f") is None


def test_columns_called_by_number_are_compared_too() -> None:
    assert find_column([0, 1, "item"], "task", None, "f") == "item"  # type: ignore[list-item]


def test_one_column_cannot_be_two_things() -> None:
    with pytest.raises(InputError, match=r"x\.csv: column 'w' cannot be both task and worker"):
        find_columns(["w", "label"], {"task": "w", "worker": "w", "label": None}, "x.csv")
