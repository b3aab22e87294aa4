"""``conal predict``: a model folder and features to a table of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conal.cli.files import read_for_model
from conal.cli.options import AsJson, Overwrite, Quiet, TaskColumn, TextColumn, emit
from conal.cli.places import check_results
from conal.cli.terminal import one_line

__all__ = ["predict"]


def predict(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    features: Annotated[
        Path,
        typer.Argument(
            help="Features: .npy, .npz, .parquet or .csv; or, for a text model, texts: .csv, .tsv, .parquet or .jsonl."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output table: .csv, .tsv, .parquet or .jsonl.")],
    columns: TaskColumn,
    text_column: TextColumn = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of every feature row, or of every text.

    The table has one row per instance: task (id or row number), label, probability of the label, and one column
    proba_CLASS per class.
    """
    import numpy as np

    from conal.estimator import load
    from conal.io import write_table
    from conal.io.results import label_table

    check_results(tables=[out], sources=[features], model=model, overwrite=overwrite)
    estimator = load(model)
    table = read_for_model(features, estimator, task=columns.task, text=text_column)
    probas = estimator.predict_proba(table)
    labels = estimator.classes_[probas.argmax(1)].tolist()
    tasks = np.arange(len(table)) if table.ids is None else table.ids
    write_table(label_table(tasks, probas, estimator.classes_), out)
    counts = {str(name): labels.count(name) for name in estimator.classes_.tolist()}
    text = f"{len(labels):,} predictions: {out}\n" + ", ".join(
        f"{one_line(name)} {count:,}" for name, count in counts.items()
    )
    emit({"out": out, "n": len(labels), "counts": counts}, text, as_json=as_json, quiet=quiet)
