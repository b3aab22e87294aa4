"""``conal predict``: a model folder and instances to a table of labels, or to predictions for a platform."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli import options
from conal.cli.fit import InstanceOptions
from conal.cli.inputs import check_ending, check_results, if_there, read_instances, texts_by_task
from conal.cli.options import class_name
from conal.errors import InputError
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.estimator import CrowdClassifier
    from conal.io import AnnotationFile, FeatureTable, TextTable


SETTINGS = options.settable(ReadOptions, InstanceOptions, also=("worker", "label", *options.READING))


# Options that no other command has.

Tasks = Annotated[
    Path,
    typer.Argument(
        help="Features: .npy, .npz, .parquet or .csv; for a text model, texts: .csv, .tsv, .parquet or .jsonl, or "
        "an export of an annotation platform that contains them."
    ),
]
To = Annotated[
    Literal["label-studio"] | None,
    typer.Option(
        help="Write predictions for Label Studio (.json): for the project's own tasks if they were exported from there."
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(help="Features of the tasks, by id; the tasks are then a file of labels or an export."),
]
Unlabelled = Annotated[
    bool, options.on_off("--unlabelled", help="Predict only the tasks of an export that nobody has labelled.")
]
NewTasks = Annotated[bool, options.on_off("--new-tasks", help="With --to: write whole tasks, for another project.")]


def predict(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit.")],
    tasks: Tasks,
    out: Annotated[Path, typer.Option(help="Output table: .csv, .tsv, .parquet or .jsonl; or the file for --to.")],
    to: To = None,
    features: Features = None,
    text: Annotated[Path | None, typer.Option(help="Texts of the tasks, by id, likewise.")] = None,
    unlabelled: Unlabelled = False,
    new_tasks: NewTasks = False,
    task_column: options.TaskColumn = None,
    question: options.Question = None,
    settings: Annotated[list[str] | None, options.set_option(SETTINGS)] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict the class of every feature row, of every text, or of every task of an export.

    The table has one row per instance: task (id or row number), label, probability of the label, and one column
    proba_CLASS per class; mean, median, low and high too if the model was fitted with --ordinal.
    """
    from conal.estimator import load
    from conal.io import write_table
    from conal.io.model_folder import with_own_names
    from conal.io.platform_files import check_classes
    from conal.io.tables import decoding

    given = options.parse_settings(settings)
    reading = options.taken(ReadOptions, given, task=task_column, question=question)
    wanted = options.taken(InstanceOptions, given)
    options.refuse_unknown(given, SETTINGS)
    _check(to, out, new_tasks=new_tasks)
    places = {"tables": [out]} if to is None else {"files": [out]}
    check_results(**places, sources=[tasks, features, text], model=model, overwrite=overwrite)
    estimator = load(model)
    with decoding(reading.encoding):
        instances, file = PredictFiles(estimator, tasks, features, text, wanted, reading).read()
    if unlabelled:
        instances = _unlabelled(instances, file, tasks)
    table = _table(instances.ids, estimator.predict_proba(instances), estimator)
    note = ""
    if to is None:
        own = {} if reading.task is None else {"tasks_called": reading.task}
        write_table(with_own_names(table, {**estimator.columns_, **own}), out)
    else:
        if file is None:
            raise InputError(
                f"{tasks}: contains features alone, and --to {to} needs the tasks; pass the export, and its features "
                "with --features"
            )
        check_classes(estimator.classes_.tolist(), file)
        note = _write(table, file, out, new_tasks=new_tasks)
    labels = table["label"].to_pylist()
    counts = {str(name): labels.count(name) for name in estimator.classes_.tolist()}
    summary = f"{len(labels):,} predictions: {out}{note}\n" + ", ".join(
        f"{class_name(name)} {count:,}" for name, count in counts.items()
    )
    options.emit({"out": out, "n": len(labels), "counts": counts}, summary, as_json=as_json, quiet=quiet)


def _check(to: str | None, out: Path, *, new_tasks: bool) -> None:
    from conal.io.platform_files import ENDING

    if to is None and new_tasks:
        raise InputError("--new-tasks needs --to label-studio")
    if to is not None:
        check_ending(out, to, ENDING)


def _table(ids: Any, probas: Any, estimator: CrowdClassifier) -> pa.Table:
    import numpy as np

    from conal.data.scales import levels_of
    from conal.io.model_folder import label_table

    classes = estimator.classes_
    levels = levels_of(classes, stated=True) if estimator.ordinal_ else None
    return label_table(np.arange(len(probas)) if ids is None else ids, probas, classes, levels=levels)


def _write(table: pa.Table, file: AnnotationFile, out: Path, *, new_tasks: bool) -> str:
    """Write predictions for Label Studio; what to do with them."""
    from conal._files import atomic_file
    from conal.io.platform_files import Prediction, fill_prelabels, prelabels

    columns = (table[name].to_pylist() for name in ("task", "label", "probability"))
    predictions = {task: Prediction(label, score) for task, label, score in zip(*columns, strict=True)}
    records, note = prelabels(file, predictions, new_tasks=new_tasks, only_predicted=True)
    with atomic_file(out) as temporary:
        count = fill_prelabels(records, temporary)
    return f" ({count:,} {note})"


# Reads what ``conal predict`` predicts: a table of features or texts, or the tasks of an annotation file.


ToPredict = tuple["FeatureTable", "AnnotationFile | None"]
"""Instances as numbers for the model, and the file that they are the tasks of, if it has any to show."""


@dataclass(frozen=True)
class PredictFiles:
    """The files of one prediction for a model: tasks, and their features or texts if these are elsewhere."""

    model: CrowdClassifier
    tasks: Path
    features: Path | None
    text: Path | None
    wanted: InstanceOptions
    reading: ReadOptions

    def read(self) -> ToPredict:
        """The instances."""
        takes_text = self.model.text_features_ is not None
        if self.features is not None and takes_text:
            raise InputError("--features: this model was trained on texts; pass them with --text, or within the export")
        if self.text is not None and not takes_text:
            raise InputError("--text: this model was trained on features; pass those of the tasks with --features")
        apart = self.features or self.text
        if apart is not None:
            return self._joined(apart)
        return self._export() if self._is_export() else self._table()

    def _joined(self, apart: Path) -> ToPredict:
        """The tasks of an annotation file, by id with their features or texts in another file."""
        from conal.data.joining import align
        from conal.estimator.inputs import as_numbers
        from conal.io.features import check_row_order

        file = self._import()
        tasks = file.all_tasks()
        read = self._read(apart)
        if not tasks.by_position:
            check_row_order(read, tasks.task_ids)
        table = as_numbers(self.model.text_features_, read)
        missing = self.wanted.allow_missing
        joined, rows = align(tasks, len(table), table.ids, allow_missing=missing, unlabelled=False)
        values = table.values if rows is None else table.values[rows]
        return replace(table, values=values, ids=joined.task_ids), file

    def _export(self) -> ToPredict:
        """The tasks of an export that contains their texts."""
        from conal.estimator.inputs import as_numbers
        from conal.io.features import texts_of

        file = self._import()
        if self.model.text_features_ is None:
            raise InputError(
                f"{self.tasks}: is an export ({file.title}), and this model was trained on features; pass those of the "
                "tasks with --features"
            )
        if file.data is None:
            raise InputError(f"{self.tasks}: contains no texts ({file.title}); pass them with --text")
        known = self.model.columns_.get("text")
        column = self.wanted.text_column or (known if known in file.data.column_names else None)
        texts = texts_of(file.data, text=column, where=str(self.tasks))
        return as_numbers(self.model.text_features_, texts), file

    def _table(self) -> ToPredict:
        """A table of features or texts, as there is one for ``conal fit``."""
        from conal.estimator.inputs import as_numbers
        from conal.io.features import warn_of_row_numbers

        plain = ReadOptions(task=self.reading.task, encoding=self.reading.encoding)
        of_exports = [name for name, value in vars(self.reading).items() if value != getattr(plain, name)]
        if of_exports:
            raise InputError(
                f"{self.tasks}: is a table; {of_exports[0]} applies to exports of platforms, so leave it out"
            )
        table = self._read(self.tasks, fallback_to_aliases=False)
        warn_of_row_numbers(table, known=getattr(self.model, "feature_names_in_", ()))
        file = None if self.model.text_features_ is None else _file_of(self.tasks, table)
        return as_numbers(self.model.text_features_, table), file

    def _read(self, path: Path, *, fallback_to_aliases: bool = True) -> Any:
        known = self.model.columns_
        texts = self.model.text_features_ is not None
        column = self.wanted.text_column or (if_there(path, known.get("text")) if texts else None)
        task = self.reading.task or if_there(path, known.get("task"))
        options: dict[str, Any] = {"texts": texts, "task": task, "text_column": column}
        return read_instances(path, **options, fallback_to_aliases=fallback_to_aliases)

    def _is_export(self) -> bool:
        """Whether the file is an export with data of its tasks; features and texts are tables as well."""
        from conal.io.importing import detect
        from conal.parameters.reading import PLAIN_FORMATS

        if self.reading.format is not None:
            return self.reading.format not in PLAIN_FORMATS
        if not self.tasks.exists() or self.tasks.suffix.lower() in (".npy", ".npz"):
            return False
        found, head = detect(self.tasks)
        return any(importer.shows_tasks for importer in found) or head.kind in ("folder", "zip")

    def _import(self) -> AnnotationFile:
        from conal.io import import_file

        return import_file(self.tasks, replace(self.reading, unlabelled=True), usual=self.model.columns_)


def _file_of(path: Path, texts: TextTable) -> AnnotationFile:
    """A table of texts as a file whose tasks nobody has labelled."""
    from conal.data.annotations import Annotations
    from conal.io import AnnotationFile

    fields = {name: {"text": text} for name, text in texts_by_task(texts).items()}
    nobody = Annotations([], [], [], task_ids=[], annotator_ids=[], classes=[])
    return AnnotationFile(path, "table", "a table of texts", nobody, fields=fields)


def _unlabelled(table: FeatureTable, file: AnnotationFile | None, path: Path) -> FeatureTable:
    """Only the instances that nobody has labelled."""
    import numpy as np

    if file is None or file.format == "table":
        raise InputError(f"{path}: is a table, in which no task has labels; remove --unlabelled")
    crowd, names = file.annotations, np.arange(len(table)) if table.ids is None else table.ids
    labelled = set(crowd.task_ids[crowd.labels_per_task() > 0].tolist())
    kept = np.array([name not in labelled for name in names.tolist()], dtype=bool)
    if not kept.any():
        raise InputError(f"{path}: every task has a label; remove --unlabelled to predict them all")
    return replace(table, values=table.values[kept], ids=names[kept])
