"""DataFrames and matrices as input: columns of tasks, annotators and labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.encoding import unmasked
from conal.errors import DataWarning, InputError, examples, warn

# Find the columns of tasks, annotators and labels.
#
# Names are compared without case, blanks, dots, dashes and underscores: ``WorkerId`` is ``worker_id``.

_COLUMNS = """
task: task task_id id item item_id unit unit_id question example example_id
worker: worker worker_id annotator annotator_id user user_id rater rater_id coder performer
label: label answer response annotation
truth: truth true_label gold gold_label ground_truth label class
text: text texts sentence content body comment review tweet message document utterance post passage paragraph
time: time timestamp created_at submitted_at submit_time completed_at complete_time answered_at updated_at
left: left model_a response_a option_a item_a left_item
right: right model_b response_b option_b item_b right_item
winner: winner preferred preference
group: group
cost: cost cost_per_label
limit: limit capacity max_labels
"""
_MORE_COLUMNS = """
task: question_id sentence_id text_id document_id doc_id sample_id record_id image image_id file_name filename
worker: judge judge_id grader evaluator reviewer labeler labeller model model_id model_name
label: category rating verdict grade judgment judgement choice vote
truth: category rating verdict grade judgment judgement choice vote
"""


def _by_role(lines: str) -> dict[str, tuple[str, ...]]:
    return {role: tuple(names.split()) for role, names in (line.split(":") for line in lines.strip().splitlines())}


ALIASES = _by_role(_COLUMNS)
"""Column names that are understood for each role; the first is the canonical one."""
MORE_ALIASES = _by_role(_MORE_COLUMNS)
"""Names that count in tables of labels, where there is none of the others: elsewhere they may be features."""


NAME_ROLES = ("task", "worker", "label", "truth")
"""Roles of columns that contain names; columns of texts may contain anything."""

TRUTH_COLUMNS = ("truth", "true_label", "gold", "gold_label", "ground_truth", "target", "expected", "y_true")
"""Names of columns of true labels in wide tables. ``label`` and ``class`` may be something else there."""

KEYWORDS = {"truth": "label"}
"""Roles that are named by another role's keyword: a file of true labels has no other label column."""


def find_columns(columns: Sequence[str], wanted: Mapping[str, str | None], where: str) -> dict[str, str]:
    """The column for each role: the one named, else the canonical name, else the only alias, also of further ones.

    >>> find_columns(["WorkerId", "item", "answer"], {"task": None, "worker": None, "label": None}, "x.csv")
    {'task': 'item', 'worker': 'WorkerId', 'label': 'answer'}
    """
    found = {}
    for role, name in wanted.items():
        column = find_column(columns, role, name, where, more=True)
        if column is None:
            raise InputError(
                f"{where}: no column for the {role}; it has {', '.join(map(repr, columns))}. "
                f"Rename one to {ALIASES[role][0]!r}, or set {_option(role)}"
            )
        found[role] = column
    twice = [role for role in found if list(found.values()).count(found[role]) > 1]
    if twice:
        raise InputError(f"{where}: column {found[twice[0]]!r} cannot be both {' and '.join(twice)}; choose another")
    return found


def find_column(columns: Sequence[str], role: str, name: str | None, where: str, *, more: bool = False) -> str | None:
    """The column for one role, or None where there is none; several candidates are an error.

    With ``more``, names that are usual in tables of labels alone count too, if there is no other.
    """
    if name is not None:
        if name not in columns:
            raise InputError(f"{where}: no column {name!r}; it has {', '.join(map(repr, columns))}")
        return name
    candidates = [column for column in columns if is_name_column(column, [role])]
    canonical = [column for column in candidates if _plain(column) == _plain(ALIASES[role][0])]
    if len(canonical) == 1:
        return canonical[0]
    if more and not candidates:
        candidates = [column for column in columns if is_name_column(column, [role], more=True)]
    if len(candidates) > 1:
        raise InputError(
            f"{where}: columns {', '.join(map(repr, candidates))} could all be the {role}; "
            f"choose one with {_option(role)}"
        )
    return candidates[0] if candidates else None


def find_first(columns: Sequence[str], role: str) -> str | None:
    """The column with the first usual name that there is, since a file may have several; None without one.

    >>> find_first(["task", "updated_at", "created_at"], "time")
    'created_at'
    """
    plain = {_plain(column): column for column in reversed(columns)}
    return next((plain[name] for name in map(_plain, ALIASES[role]) if name in plain), None)


def find_annotators(columns: Sequence[str], where: str) -> str | None:
    """The column of ids in a table with a row per annotator, which may be called ``id`` there; None without one.

    >>> find_annotators(["id", "group"], "users.csv")
    'id'
    """
    usual = find_column(columns, "worker", None, where)
    usual = usual or next((name for name in columns if _plain(name) == "id"), None)
    return usual or find_column(columns, "worker", None, where, more=True)


def _option(role: str) -> str:
    keyword = KEYWORDS.get(role, role)
    flag = "--set text_column=NAME" if keyword == "text" else f"--{keyword}-column"
    return f"{keyword}= ({flag})"


def is_name_column(column: str, roles: Iterable[str], *, more: bool = False) -> bool:
    """Whether a column has a usual name of ids or classes, such as task, worker or label."""
    plain = _plain(column)
    return any(plain in _plain_aliases(role, more) for role in roles)


def is_truth_column(column: object) -> bool:
    """Whether a column of a wide table has a usual name of true labels, which are no annotator's.

    >>> is_truth_column("Ground Truth"), is_truth_column("label")
    (True, False)
    """
    return _plain(column) in map(_plain, TRUTH_COLUMNS)


def warn_of_truth(columns: Sequence[Any], where: str, remedy: str) -> None:
    """Say that columns of true labels are left out of a wide table, and how to use the first of them."""
    warn(
        f"{where}: {examples(columns)} is no annotator, as its name is that of true labels; left out. To use "
        f"the labels of {columns[0]!r}, {remedy}; if it is an annotator, rename the column",
        DataWarning,
    )


@cache
def _plain_aliases(role: str, more: bool) -> frozenset[str]:
    return frozenset(map(_plain, ALIASES[role] + (MORE_ALIASES.get(role, ()) if more else ())))


def _plain(name: object) -> str:
    return re.sub(r"[\s._\-]", "", str(name)).casefold()  # pandas has columns called 0, 1, 2


# Input of DataFrames (pandas, polars, Arrow) and matrices.

FRAMES = ("pandas", "polars", "modin", "cudf")
"""Libraries of frames, beside Arrow, whose frames are taken and given back."""


def column_names(data: Any) -> list[str] | None:
    """The names of a frame's columns; None if it is not a frame."""
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        raise InputError("a lazy frame has no rows yet; call .collect() on it")
    names = data.column_names if isinstance(data, pa.Table) else getattr(data, "columns", None)
    return None if names is None else [str(name) for name in names]


def open_frame(frame: Any, where: str) -> Any:
    """A pandas or polars frame or an Arrow table, wrapped by narwhals; anything else is an error."""
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(f"{where}: {error}; pass a pandas or polars DataFrame or an Arrow table") from error
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"{where}: several columns have the same name: {' '.join(str(error).split())}") from error


def frame_column(series: Any) -> object:
    """A column as Arrow, or as a list of objects where Arrow has no type for them."""
    import narwhals as nw

    try:
        if series.dtype != nw.Object:  # polars hands Arrow the addresses of its objects, pandas makes lists of tuples
            column = series.to_arrow()
            if not isinstance(column.type, pa.BaseExtensionType):  # in which Arrow has the periods of pandas as numbers
                return column
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        pass  # mixed categories
    return series.to_list()


def matrix_cells(matrix: Any, where: str) -> npt.NDArray[Any]:
    """The cells of a matrix, with their types; None where they are masked."""
    try:
        if isinstance(matrix, np.ma.MaskedArray) or _has_masked_rows(matrix):
            return unmasked(np.ma.array(matrix))
        values = np.asarray(matrix)
    except ValueError as error:
        raise InputError(f"{where}: expected tasks x annotators, but the rows are not equally long") from error
    if values.dtype.kind in "US" and not isinstance(matrix, np.ndarray):
        return np.asarray(matrix, dtype=object)  # NumPy made text of the NaN and -1 among the labels
    if values.dtype.kind in "iuf" and isinstance(matrix, list | tuple):
        objects = np.asarray(matrix, dtype=object)
        if any(isinstance(cell, bool | np.bool_) for cell in objects.flat):
            return objects  # NumPy made numbers of the truth values
    return values


def _has_masked_rows(matrix: Any) -> bool:
    return isinstance(matrix, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in matrix)


def kind_of_frame(*inputs: Any) -> str | None:
    """The library of the first frame or series among the inputs, such as "pandas"; None if there is none.

    >>> kind_of_frame([1, 2], pa.table({"x": [1]}))
    'pyarrow'
    """
    import narwhals as nw

    for data in inputs:
        opened = nw.from_native(data, eager_only=True, allow_series=True, pass_through=True)
        if isinstance(opened, nw.DataFrame | nw.Series):
            return str(opened.implementation.value)
    return None


def to_frame(table: pa.Table, kind: str) -> Any:
    """An Arrow table as a frame of another library.

    >>> to_frame(pa.table({"x": [1, 2]}), "pandas")["x"].tolist()
    [1, 2]
    """
    import narwhals as nw

    if kind in ("arrow", "pyarrow"):
        return table
    if kind not in FRAMES:
        raise InputError(f"frame={kind!r}: there is no such kind of frame; use 'pandas', 'polars' or 'arrow'")
    try:
        return nw.from_arrow(table, backend=cast(Any, kind)).to_native()
    except ModuleNotFoundError as error:
        raise InputError(f"frame={kind!r}: {error.name} is not installed; install it, or use 'arrow'") from error
