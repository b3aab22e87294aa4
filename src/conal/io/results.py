"""Tables of results: labels of tasks, quality of annotators, confusion matrices."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray, IntArray
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names, as_names, name_column, numbers_or_text, text_column
from conal.data.scales import score_columns
from conal.errors import ModelFolderError
from conal.io.limits import ARROW_ERRORS, first_line
from conal.io.tables import open_delimited, read_table, with_long_rows

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator


# Tables with a row for every annotator: group, cost per label, and features.

ROLES = ("worker", "task", "group")
"""Roles of columns whose text must stay as it is; ``id`` is a usual name of tasks, and here of annotators."""


def read_annotator_info(path: str | PathLike[str], crowd: Annotations, *, worker: str | None = None) -> AnnotatorInfo:
    """What the file says about the annotators of a crowd; see :meth:`AnnotatorInfo.of`."""
    table = read_table(Path(path), names=[worker], roles=ROLES)
    return AnnotatorInfo.of(table, crowd, worker=worker, where=str(path))


# Tables of results: labels of tasks, quality of annotators, confusion matrices.


ColumnKind = Literal["task", "annotator", "class", "count"]
"""What a column of a table of results may contain; all others contain floats, or text."""
NamesOf = Mapping[str, Names]
"""Kind of column to the names that it may contain."""


def label_table(
    tasks: Names,
    probas: FloatArray,
    classes: Names,
    codes: IntArray | None = None,
    labelled: npt.NDArray[np.bool_] | None = None,
    *,
    levels: IntArray | None = None,
) -> pa.Table:
    """One row per task: its label, the label's probability, and ``proba_<class>`` for every class.

    The label is the most probable class, unless ``codes`` say which class won, as where ties were drawn by lot. Label
    and probability are empty where a task is not ``labelled``. On a scale, whose ``levels`` (C,) say the place of each
    class, mean, median, low and high follow the probability.
    """
    winners = probas.argmax(1) if codes is None else codes
    unknown = None if labelled is None else ~labelled
    columns = {
        "task": name_column(tasks),
        "label": name_column(classes).take(pa.array(winners, mask=unknown)),
        "probability": pa.array(probas[np.arange(len(probas)), winners], mask=unknown),
    }
    columns |= {} if levels is None else score_columns(probas, classes, levels, unknown)
    return pa.table(columns | dict(zip(proba_columns(classes), probas.T, strict=True)))


def proba_columns(classes: Names) -> list[str]:
    """``proba_<class>`` for every class; classes that look the same, such as 1 and "1", get underscores.

    >>> proba_columns(np.array([1, "1"], dtype=object))
    ['proba_1', 'proba_1_']
    """
    columns: list[str] = []
    for name in classes.tolist():
        column = f"proba_{name}"
        while column in columns:
            column += "_"
        columns.append(column)
    return columns


def annotator_table(crowd: Annotations, quality: pa.Array, codes: IntArray) -> pa.Table:
    """One row per annotator: labels given, quality, and the share of labels that equal the inferred ``codes``.

    Where abstentions were listed, also their number.
    """
    columns = {
        "worker": name_column(crowd.annotator_ids),
        "num_examples_labeled": pa.array(crowd.labels_per_annotator()),
        "annotator_quality": quality,
        "agreement_with_consensus": mean_by_annotator(crowd, (codes[crowd.tasks] == crowd.labels).astype(float)),
    }
    if crowd.abstentions is not None:
        columns["num_examples_refused"] = pa.array(crowd.abstentions.labels_per_annotator())
    return pa.table(columns)


def confusion_table(crowd: Annotations, confusion: FloatArray, abstention: FloatArray | None = None) -> pa.Table:
    """One row per annotator, true and observed class: ``confusion[r, c, l]`` = P(r says l | true c).

    With ``abstention[r, c]`` = P(r declines | true c), declining is a further observed label, and the probabilities of
    all labels are lower by it.
    """
    seen = crowd.classes
    if abstention is not None and crowd.abstentions is not None:
        confusion = np.concatenate([confusion * (1 - abstention)[..., None], abstention[..., None]], axis=-1)
        seen = as_names([*crowd.classes.tolist(), " / ".join(crowd.abstentions.classes.tolist())])
    workers, true, observed = np.unravel_index(np.arange(confusion.size), confusion.shape)
    silent = np.repeat(crowd.labels_per_annotator() == 0, confusion[0].size)
    return pa.table(
        {
            "worker": name_column(crowd.annotator_ids).take(pa.array(workers)),
            "true": name_column(crowd.classes).take(pa.array(true)),
            "observed": name_column(seen).take(pa.array(observed)),
            "probability": pa.array(confusion.ravel(), mask=silent),
        }
    )


def mean_by_annotator(crowd: Annotations, values: FloatArray) -> pa.Array:
    """The mean of a figure of each annotation over those of every annotator; empty for those without labels."""
    total = np.bincount(crowd.annotators, weights=values, minlength=crowd.n_annotators)
    return where_labelled(crowd, total / np.maximum(crowd.labels_per_annotator(), 1))


def labelled_tasks(aggregator: Aggregator) -> npt.NDArray[np.bool_]:
    """(N,) which tasks have a label or a known true label; of the others, aggregation knows only the class prior."""
    return np.asarray((aggregator.annotations_.labels_per_task() > 0) | (aggregator.known_codes_ >= 0))


def where_labelled(crowd: Annotations, values: FloatArray) -> pa.Array:
    """A figure per annotator; empty for annotators without labels."""
    return pa.array(values, mask=crowd.labels_per_annotator() == 0)


def read_results(path: Path, kinds: Mapping[str, ColumnKind], names: NamesOf) -> pa.Table:
    """Read a CSV file of a model folder with its original types.

    CSV has no types: Arrow alone would read the class ``007`` as 7, and probabilities of 0 and 1 as integers.

    Parameters
    ----------
    kinds : mapping
        What columns contain, where they do not contain floats.
    names : mapping
        Kind of column to the names that it may contain; others are text unless all of them are numbers.
    """
    import pyarrow.csv as pv

    types = {column: pa.int64() if kind == "count" else pa.string() for column, kind in kinds.items()}

    def read(block_size: int | None) -> pa.Table:
        _, blocks, parse = open_delimited(path, ",", block_size)
        return pv.read_csv(path, blocks, parse, pv.ConvertOptions(column_types=types))

    try:
        table = with_long_rows(read)
    except ARROW_ERRORS as error:
        raise ModelFolderError(f"{path}: cannot be read ({first_line(error)}); fit the model again") from error
    columns = {column: _typed(table[column], kinds.get(column), names) for column in table.column_names}
    return pa.table(columns)


def _typed(column: pa.ChunkedArray, kind: ColumnKind | None, names: NamesOf) -> pa.ChunkedArray:
    if kind is None and pa.types.is_string(column.type):  # an empty cell is no text
        import pyarrow.compute as pc

        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if kind is None:
        numeric = pa.types.is_integer(column.type) or pa.types.is_null(column.type)
        return column.cast(pa.float64()) if numeric else column
    if kind == "count":
        return column
    return _as_names(column, names[kind]) if kind in names else numbers_or_text(column)


def _as_names(column: pa.ChunkedArray, names: Names) -> pa.ChunkedArray:
    """Texts replaced by their names; empty texts are null, and a column with an unknown text is unchanged."""
    import pyarrow.compute as pc

    known = name_column(names)
    if pa.types.is_boolean(known.type):
        column = pc.utf8_capitalize(column)  # earlier versions wrote true and false
    at = pc.index_in(column, value_set=text_column(known))
    unknown = pc.and_(pc.is_null(at), pc.not_equal(column, ""))
    return column if pc.any(unknown, min_count=0).as_py() or not len(column) else known.take(at)
