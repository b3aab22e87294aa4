"""What is known beside the labels: true labels of tasks, and groups and costs of annotators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.cleaning import Labels, match_classes, read_labels, remedy_for
from conal.data.encoding import MISSING, Names, as_names, name_column
from conal.data.frames import find_column, is_name_column
from conal.data.matching import match_names, warn_of_lookalikes
from conal.data.true_labels import INCLUSION, inclusion_values, labels_by_task, matched_codes
from conal.errors import DataWarning, InputError, examples, warn
from conal.io.features import ids_from, read_matrix
from conal.io.limits import VALUE_ERRORS, refusing
from conal.io.tables import UNTYPED, coerce_classes, decoded, read_table, refuse_line_ends, table_kind


@dataclass(frozen=True)
class GoldLabels:
    """One true label per task, in the user's names.

    Attributes
    ----------
    labels : (n,) array
        True labels.
    task_ids : (n,) array or None
        Task of each label; None where the file has no task column and rows go with feature rows.
    drawn : (n,) array or None
        How likely each task was to be drawn for a true label; None for a random sample.
    """

    labels: Names
    task_ids: Names | None
    where: str
    drawn: npt.NDArray[np.float64] | None = None

    def for_rows(self, n_rows: int, feature_ids: Sequence[Any] | Names | None) -> Names:
        """The label of each feature row, joined by id where both sides have ids, else by row."""
        ids = None if feature_ids is None else as_names(feature_ids)
        if self.task_ids is None or (ids is None and self.task_ids.dtype.kind not in "iu"):
            if len(self.labels) != n_rows or self.task_ids is not None:
                raise InputError(
                    f"{self.where}: {len(self.labels):,} labels for {n_rows:,} feature rows, and no common ids to "
                    "join them by; pass one label per feature row, or ids in both files"
                )
            return self.labels
        wanted = np.arange(n_rows) if ids is None else ids
        at = match_names(self.task_ids, wanted, "tasks", "features", self.where)
        lost = wanted[at == MISSING].tolist()
        if lost:
            raise InputError(f"{self.where}: {len(lost):,} feature rows have no label: {examples(lost)}")
        return self.labels[at]

    def for_tasks(self, crowd: Annotations) -> dict[Any, Any]:
        """Task id to true label in the annotations' own names; labels of other tasks are left out and counted."""
        return labels_by_task(crowd, matched_codes(crowd, self._ids_for(crowd), self.labels, self.where))

    def sample_of(self, crowd: Annotations) -> dict[Any, Any] | pa.Table:
        """As :meth:`for_tasks`, or as a table with the probabilities by which the tasks were drawn, if there are."""
        known = self.for_tasks(crowd)
        if self.drawn is None:
            return known
        tasks, labels = as_names(list(known)), as_names(list(known.values()))
        at = match_names(self._ids_for(crowd), tasks, "tasks", "the labels", self.where)
        columns = {"task": name_column(tasks), "label": name_column(labels)}
        return pa.table(columns | {INCLUSION: pa.array(self.drawn[at])})

    def _ids_for(self, crowd: Annotations) -> Names:
        if self.task_ids is not None:
            return self.task_ids
        if crowd.by_position and crowd.n_tasks == len(self.labels):
            return crowd.task_ids
        raise InputError(
            f"{self.where}: {len(self.labels):,} true labels without task ids; add a column 'task' with the task ids"
        )


def read_gold(
    path: str | PathLike[str],
    *,
    task: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | Names | None = None,
    keep: Sequence[Any] | Names | None = None,
    missing: Any = None,
    fallback_to_aliases: bool = False,
    partial: bool = False,
) -> GoldLabels:
    """Read true labels: a table with a label (or truth, gold, class) column and, if any, task ids; or ``.npy``.

    With ``fallback_to_aliases``, a file without the columns that were named may have one of their usual names instead.
    ``keep`` lists classes that a word for "missing", such as NA, may be; ``classes`` does so too, and refuses others;
    ``missing`` lists the values that mean "missing" in place of these words (:mod:`conal.data.cleaning`). With
    ``partial``, tasks without a label are left out and counted, as in a plan of which a part is done.
    """
    path = Path(path)
    if path.suffix.lower() == ".npy":
        labels = read_labels(read_matrix(path).ravel(), missing=missing, classes=classes if keep is None else keep)
        return _checked(labels, None, classes, str(path))
    untyped = table_kind(path, None) in UNTYPED
    table = read_table(path, names=(task, label))
    if fallback_to_aliases:
        task, label = (name if name in table.column_names else None for name in (task, label))
    reading = {"classes": classes, "keep": keep, "missing": missing, "untyped": untyped, "partial": partial}
    found = gold_from_table(table, task=task, label=label, **reading, where=str(path))
    if untyped:
        refuse_line_ends(path, task=found.task_ids, label=found.labels)
    return found


def gold_from_table(
    table: pa.Table,
    *,
    task: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | Names | None = None,
    keep: Sequence[Any] | Names | None = None,
    missing: Any = None,
    untyped: bool = False,
    partial: bool = False,
    where: str = "true labels",
) -> GoldLabels:
    """True labels from an Arrow table with a label (or truth, gold, class) column and, if any, task ids."""
    column = _truth_column(table.column_names, label, where)
    others = [name for name in table.column_names if name != column]
    task_column = find_column(others, "task", task, where, more=True)
    values = decoded(table[column], f"{where}: column {column!r}")
    known = classes if keep is None else keep
    labels = read_labels(values, missing=missing, classes=known, untyped=untyped, where=where)
    ids = None if task_column is None else ids_from(table[task_column], where)
    here = np.full(len(labels.codes), True)
    if partial and ids is not None:
        here = _labelled(labels, where, planned=INCLUSION in table.column_names)
        labels, ids = labels._replace(codes=labels.codes[here]), ids[here]
    found = _checked(labels, ids, classes, where)
    if INCLUSION not in table.column_names:
        return found
    with refusing(VALUE_ERRORS, f"{where}: column {INCLUSION!r} cannot be read ({{}}); write numbers"):
        drawn = table[INCLUSION].to_pylist()
    return replace(found, drawn=inclusion_values(drawn, where)[here])


def _truth_column(columns: Sequence[str], label: str | None, where: str) -> str:
    """The column that is named or has a usual name; or else the only one that is neither ids nor probabilities."""
    found = find_column(columns, "truth", label, where, more=True)
    named = [name for name in columns if is_name_column(name, ["task", "worker", "time"], more=True)]
    others = [name for name in columns if name != INCLUSION and name not in named]
    if found is None and len(others) != 1:
        raise InputError(
            f"{where}: which column has the true labels? It has {', '.join(map(repr, columns))}; call it 'label'"
        )
    return others[0] if found is None else found


def _labelled(labels: Labels, where: str, *, planned: bool) -> npt.NDArray[np.bool_]:
    """(n,) the rows that have a label; the others are counted. All, where none has."""
    here = labels.codes != MISSING
    if here.all() or not here.any():
        return np.full(len(here), True)
    rest = "; rates are right only if it is by chance which tasks have none" if planned else ""
    without = f"{int((~here).sum()):,} of {len(here):,} tasks have no true label and are left out"
    warn(f"{where}: {without}{rest}", DataWarning)
    return np.asarray(here)


def _checked(labels: Labels, ids: Names | None, classes: Sequence[Any] | Names | None, where: str) -> GoldLabels:
    missing = np.flatnonzero(labels.codes == MISSING)
    if len(missing):
        raise InputError(
            f"{where}: {len(missing):,} true labels are missing, the first in row {missing[0] + 1}; "
            f"{remedy_for(labels, 'complete or remove them')}"
        )
    names, codes = match_classes(labels.names, labels.codes, coerce_classes(classes, labels.names), where)
    repeated = [] if ids is None else _repeated(ids)
    if repeated:
        raise InputError(
            f"{where}: {len(repeated):,} tasks have several labels, such as {examples(repeated[:1])} "
            f"({examples(names[codes[ids == repeated[0]]])}); pass one true label per task. If these are crowd labels, "
            "use a crowd method"
        )
    if ids is not None:
        warn_of_lookalikes(ids, "tasks", where)
    return GoldLabels(names[codes], ids, where)


def _repeated(ids: Names) -> list[Any]:
    return [name for name, count in Counter(ids.tolist()).items() if count > 1]


# Tables with a row for every annotator: group, cost per label, and features.

ROLES = ("worker", "task", "group")
"""Roles of columns whose text must stay as it is; ``id`` is a usual name of tasks, and here of annotators."""


def read_annotator_info(path: str | PathLike[str], crowd: Annotations, *, worker: str | None = None) -> AnnotatorInfo:
    """What the file says about the annotators of a crowd; see :meth:`AnnotatorInfo.of`."""
    table = read_table(Path(path), names=[worker], roles=ROLES)
    return AnnotatorInfo.of(table, crowd, worker=worker, where=str(path))
