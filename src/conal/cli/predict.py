"""``conal predict``: a model folder and features to a table of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conal.cli.options import AsJson, Overwrite, Quiet, TaskColumn, emit
from conal.errors import InputError

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    features: Annotated[Path, typer.Argument(help="Features: .npy, .npz, .parquet or .csv.")],
    out: Annotated[Path, typer.Option(help="Table to write: .csv, .tsv, .parquet or .jsonl.")],
    task_column: TaskColumn = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of every feature row.

    The table has a row per instance: task (its id, or its row number), label, the label's probability, and one
    column proba_CLASS for each class.
    """
    import numpy as np
    import pyarrow as pa

    from conal.estimator import load
    from conal.estimator.summary import label_table
    from conal.io import read_features, write_table
    from conal.io.atomic import check_place
    from conal.io.tables import file_kind

    file_kind(out, None)  # what cannot be written is better refused before the work than after it
    check_place(out)
    if out.is_file() and not overwrite:
        raise InputError(f"{out}: exists already; choose another place, or allow it with --overwrite")
    estimator = load(model)
    table = read_features(features, task=task_column)
    probas = estimator.predict_proba(table)
    labels = estimator.classes_[probas.argmax(1)].tolist()
    tasks = np.arange(len(table)) if table.ids is None else table.ids
    write_table(label_table(pa.array(tasks.tolist()), probas, estimator.classes_), out)
    counts = {str(name): labels.count(name) for name in estimator.classes_.tolist()}
    text = f"{len(labels):,} predictions: {out}\n" + ", ".join(f"{name} {count:,}" for name, count in counts.items())
    emit({"out": out, "n": len(labels), "counts": counts}, text, as_json=as_json, quiet=quiet)
