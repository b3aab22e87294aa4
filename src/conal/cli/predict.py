"""``conal predict``: a model folder and instances to a table of labels, or to predictions for a platform."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli.fit_options import AllowMissing
from conal.cli.options import AsJson, Exports, Overwrite, OwnEncoder, Quiet, TextColumn, emit
from conal.cli.places import check_results
from conal.cli.terminal import class_name
from conal.cli.to_predict import PredictFiles
from conal.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.estimator import CrowdClassifier
    from conal.io import AnnotationFile

__all__ = ["predict"]


def predict(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    tasks: Annotated[
        Path,
        typer.Argument(
            help="Features: .npy, .npz, .parquet or .csv; for a text model, texts: .csv, .tsv, .parquet or .jsonl, or "
            "an export of an annotation platform that contains them."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output table: .csv, .tsv, .parquet or .jsonl; or the file for --to.")],
    to: Annotated[
        Literal["label-studio", "argilla", "doccano"] | None,
        typer.Option(
            help="Write predictions for this annotation platform: of Label Studio (.json) and Argilla (.json), for the "
            "project's own tasks if they were exported from there; of doccano (.jsonl), new documents."
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="Features of the tasks, by id; the tasks are then a file of labels or an export."),
    ] = None,
    text: Annotated[Path | None, typer.Option(help="Texts of the tasks, by id, likewise.")] = None,
    text_column: TextColumn = None,
    encoder: OwnEncoder = None,
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="Predict only the tasks of an export that nobody has labelled.")
    ] = False,
    new_tasks: Annotated[
        bool, typer.Option("--new-tasks", help="With --to: write whole tasks, for another project.")
    ] = False,
    reading: Exports,
    allow_missing: AllowMissing = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of every feature row, of every text, or of every task of an export.

    The table has one row per instance: task (id or row number), label, probability of the label, and one column
    proba_CLASS per class; mean, median, low and high too if the model was fitted with --ordinal.
    """
    from conal.estimator import load
    from conal.io import write_table
    from conal.io.platform_files import check_classes

    _check(to, out, new_tasks=new_tasks)
    places = {"tables": [out]} if to is None else {"files": [out]}
    check_results(**places, sources=[tasks, features, text], model=model, overwrite=overwrite)
    estimator = load(model, encoder=encoder)
    files = PredictFiles(tasks, features, text, text_column)
    instances, file = files.read(estimator, reading, unlabelled=unlabelled, allow_missing=allow_missing)
    table = _table(instances.ids, estimator.predict_proba(instances), estimator)
    note = ""
    if to is None:
        write_table(table, out)
    else:
        file = _with_tasks(to, file, tasks)
        check_classes(estimator.classes_.tolist(), file)
        note = _write(to, table, file, out, new_tasks=new_tasks)
    labels = table["label"].to_pylist()
    counts = {str(name): labels.count(name) for name in estimator.classes_.tolist()}
    summary = f"{len(labels):,} predictions: {out}{note}\n" + ", ".join(
        f"{class_name(name)} {count:,}" for name, count in counts.items()
    )
    emit({"out": out, "n": len(labels), "counts": counts}, summary, as_json=as_json, quiet=quiet)


def _check(to: str | None, out: Path, *, new_tasks: bool) -> None:
    from conal.io.platform_files import ENDINGS

    if to is None and new_tasks:
        raise InputError("--new-tasks needs --to label-studio, --to argilla or --to doccano")
    if to is not None and out.suffix.lower() != ENDINGS[to]:
        raise InputError(f"{out}: --to {to} writes {ENDINGS[to]}; choose a name with this ending")


def _table(ids: Any, probas: Any, estimator: CrowdClassifier) -> pa.Table:
    import numpy as np

    from conal.data.scales import levels_of
    from conal.io.results import label_table

    classes = estimator.classes_
    levels = levels_of(classes, stated=True) if estimator.ordinal_ else None
    return label_table(np.arange(len(probas)) if ids is None else ids, probas, classes, levels=levels)


def _with_tasks(to: str, file: AnnotationFile | None, tasks: Path) -> AnnotationFile:
    if file is None:
        raise InputError(
            f"{tasks}: contains features alone, and --to {to} needs the tasks; pass the export, and its features with "
            "--features"
        )
    return file


def _write(to: str, table: pa.Table, file: AnnotationFile, out: Path, *, new_tasks: bool) -> str:
    """Write predictions for a platform; what to do with them."""
    from conal._files import atomic_file
    from conal.io.platform_files import Prediction, fill_prelabels, prelabels

    columns = (table[name].to_pylist() for name in ("task", "label", "probability"))
    predictions = {task: Prediction(label, score) for task, label, score in zip(*columns, strict=True)}
    made = prelabels(to, file, predictions, new_tasks=new_tasks, only_predicted=True)
    with atomic_file(out) as temporary:
        count = fill_prelabels(to, made.records, temporary)
    return f" ({count:,} {made.note})"
