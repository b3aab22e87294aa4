"""Features and texts without a column of ids: are their rows really the tasks, in this order?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conal.data.encoding import Names, spelling
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.features import FeatureTable, may_be_ids
from conal.io.texts import TextTable

__all__ = ["check_row_order", "warn_of_row_numbers"]

REMEDY = "call the column of ids 'task'"


def check_row_order(table: FeatureTable | TextTable, task_ids: Names) -> None:
    """Say that rows of a table without ids are taken for tasks by their numbers; an error where that cannot be meant.

    It cannot where a column has the ids of all tasks, or where no task is a row number. Bare arrays, which have no
    columns, are meant so.
    """
    columns = table.columns if isinstance(table, FeatureTable) else table.other_columns
    if table.ids is not None or not columns:
        return
    tasks = {spelling(name) for name in task_ids.tolist()}
    rows = [str(row) for row in range(len(table))]
    harmless = rows if isinstance(table, TextTable) or len(columns) == 1 else None  # else they would be a feature
    for name, values in _could_be_ids(table):
        if values != harmless and tasks <= set(values) and len(set(values)) == len(values):
            raise InputError(f"{table.where}: column {name!r} has the tasks' ids, but is not called so; {REMEDY}")
    if tasks.isdisjoint(rows):
        raise InputError(
            f"{table.where}: has no column of task ids (it has {examples(columns)}), and tasks such as "
            f"{examples(task_ids[:1])} are no row numbers (0 to {len(rows) - 1:,}); {REMEDY}"
        )
    numbers = f"0 to {len(rows) - 1:,}"
    warn(f"{table.where}: has no column of task ids; its rows are tasks {numbers}, in this order", DataWarning)


def warn_of_row_numbers(table: FeatureTable | TextTable, known: Sequence[str] = ()) -> None:
    """Say that row numbers stand for ids, where a column that is not used might have them.

    ``known`` are the columns of features that a model uses.
    """
    if table.ids is not None:
        return
    unused = [name for name, values in _could_be_ids(table) if name not in known and len(set(values)) == len(values)]
    if unused:
        warn(
            f"{table.where}: has no column of task ids, so that tasks are called 0 to {len(table) - 1:,}, and "
            f"{examples(unused)} counts for nothing; if these are the ids, {REMEDY}",
            DataWarning,
        )


def _could_be_ids(table: FeatureTable | TextTable) -> Iterator[tuple[str, list[str]]]:
    """Columns as files spell them; of features those of whole numbers of which none occurs twice at the beginning."""
    if isinstance(table, TextTable):
        if table.others is not None:
            for name in table.others.column_names:
                yield name, [spelling(value) for value in table.others[name].to_pylist()]
        return
    for name, values in zip(table.columns, table.values.T if table.columns else (), strict=True):
        if may_be_ids(values):
            yield name, [str(int(value)) for value in values.tolist()]
