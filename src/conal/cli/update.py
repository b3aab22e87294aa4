"""``conal update``: further labels for a folder of ``conal aggregate --save`` or a model folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from conal.cli import options
from conal.cli.aggregate import inferred_labels
from conal.cli.inputs import check_results, if_there, read_info, read_instances
from conal.errors import InputError
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo
    from conal.io import AnnotationFile, FeatureTable, TextTable


SETTINGS = options.settable(ReadOptions, options.TextOptions, also=options.READING)


def update(
    *,
    model: Annotated[
        Path, typer.Argument(help="Folder of conal aggregate --save, or model folder of conal fit --keep-data.")
    ],
    labels: Annotated[list[Path], typer.Argument(help="New crowd labels alone, in any format that conal fit takes.")],
    features: options.Features = None,
    text: options.Text = None,
    annotator_info: options.AboutAnnotators = None,
    out: Annotated[
        Path | None, typer.Option(help="Output table of the labels of all tasks: .csv, .tsv, .parquet or .jsonl.")
    ] = None,
    settings: Annotated[list[str] | None, options.set_option(SETTINGS)] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    task_column: options.TaskColumn = None,
    worker_column: options.WorkerColumn = None,
    label_column: options.LabelColumn = None,
    question: options.Question = None,
    no_report: options.NoReport = False,
) -> None:
    """Add new labels to a folder, and fit again from where the model is.

    Labels may be of known and new tasks, by known and new annotators; classes are fixed. A label takes the place of an
    older one by the same annotator for the same task. Labels that are all known already are refused. A model folder
    needs --features or --text of the new tasks.
    """
    from conal.io.model_folder import AGGREGATOR, ModelFolder, check_target
    from conal.io.tables import decoding

    began = time.perf_counter()
    given = options.parse_settings(settings)
    reading = options.taken(
        ReadOptions, given, task=task_column, worker=worker_column, label=label_column, question=question
    )
    wanted = options.taken(options.TextOptions, given)
    options.refuse_unknown(given, SETTINGS)
    check_results(tables=[out], sources=[*labels, features, text, annotator_info], model=model, overwrite=overwrite)
    kind = ModelFolder(model).config["format"]
    new = NewLabels(model, labels, features, text, annotator_info, out, wanted, reading)
    check_target(model, kind, overwrite=True)
    with decoding(reading.encoding):
        if kind == AGGREGATOR:
            result = _update_aggregator(new)
        else:
            result = _update_model(new, with_page=not no_report, verbose=not quiet)
    result["seconds"] = time.perf_counter() - began
    options.emit(result, _summary(result), as_json=as_json, quiet=quiet)


class NewLabels(NamedTuple):
    """A folder, what is to be added to it, and where all labels are written beside it."""

    folder: Path
    labels: list[Path]
    features: Path | None
    text: Path | None
    annotator_info: Path | None
    out: Path | None
    wanted: options.TextOptions
    reading: ReadOptions

    def read(self, fitted: Any) -> AnnotationFile:
        """The files of new labels as one; of columns that are called as before, options need not say so."""
        from conal.io import import_file

        file = import_file(self.labels, self.reading, usual=fitted.columns_)
        file.warn_of_dropped()
        return file

    def read_info(self, before: Annotations | None, file: AnnotationFile) -> AnnotatorInfo | None:
        """What is known about the annotators of old and new labels."""
        from conal.data.joining import append_labels

        if self.annotator_info is None or before is None:
            return None
        whole, _ = append_labels(before, file.annotations, where=file.where)
        return read_info(self.annotator_info, whole, self.reading)

    def read_instances(self, fitted: Any, file: AnnotationFile) -> FeatureTable | TextTable | None:
        """Features of new tasks, or their texts for a model of texts."""
        from conal.io.features import check_row_order

        if fitted.text_features_ is None and self.text is not None:
            raise InputError("--text: this model was trained on features; pass --features of the new tasks")
        if fitted.text_features_ is not None and self.features is not None:
            raise InputError("--features: this model was trained on texts; pass --text of the new tasks")
        path, texts, known = self.text or self.features, fitted.text_features_ is not None, fitted.columns_
        if path is None:
            return None
        text = self.wanted.text_column or (if_there(path, known.get("text")) if texts else None)
        task = self.reading.task or if_there(path, known.get("task"))
        X = read_instances(path, texts=texts, task=task, text_column=text)
        check_row_order(X, file.annotations.task_ids)
        return X


def _update_aggregator(new: NewLabels) -> dict[str, Any]:
    from conal.io.tables import write_tables
    from conal.updates import load, save

    if any((new.features, new.text, new.wanted.text_column)):
        raise InputError("--features and --text are for model folders; an aggregator has labels alone, so leave it out")
    fitted = load(new.folder)
    file = new.read(fitted)
    before = fitted.annotations_
    fitted.update(file.annotations, annotator_info=new.read_info(before, file), where=file.where)
    if new.out is not None:  # before the folder: whenever the command ends, it can be repeated
        write_tables({new.out: inferred_labels(fitted)})
    save(fitted, new.folder, overwrite=True)
    return {
        "model": new.folder,
        "method": fitted.name,
        "out": new.out,
        "files": file.contributions(),
        **figures_of(fitted, before, fitted.annotations_, file),
    }


def _update_model(new: NewLabels, *, with_page: bool, verbose: bool) -> dict[str, Any]:
    from conal.estimator import load
    from conal.estimator.folder import save
    from conal.io.model_folder import with_own_names
    from conal.io.tables import write_tables
    from conal.report.page import render

    fitted = load(new.folder)
    fitted.verbose = verbose
    file = new.read(fitted)
    X = new.read_instances(fitted, file)
    before = None if fitted.kept_ is None else fitted.kept_.found[1]
    fitted.update(X, file.annotations, annotator_info=new.read_info(before, file), where=file.where)
    assert before is not None and fitted.kept_ is not None  # noqa: S101, PT018 - update needs and sets it
    after = fitted.kept_.found[1]
    page = render(fitted.results_.report) if with_page else None
    if new.out is not None:  # before the folder: whenever the command ends, it can be repeated
        write_tables({new.out: with_own_names(fitted.tables_["labels.csv"], fitted.columns_)})
    save(fitted, new.folder, page=page, keep_data=True, overwrite=True)
    return {
        "model": new.folder,
        "method": fitted.method,
        "out": new.out,
        "files": file.contributions(),
        **figures_of(fitted, before, after, file),
        "epochs": fitted.metrics_["epochs"],
    }


def figures_of(
    fitted: Aggregator | Any, before: Annotations, after: Annotations, file: AnnotationFile
) -> dict[str, Any]:
    """How much there is now, and how much of it is new; labels by the same annotator for the same task are not."""
    new = after.n_annotations - before.n_annotations
    return {
        "n_new_labels": new,
        "n_known_labels": file.annotations.n_annotations - new,
        "n_new_tasks": after.n_tasks - before.n_tasks,
        "n_tasks": after.n_tasks,
        "n_annotators": after.n_annotators,
        "n_updates": sum(entry["kind"] == "update" for entry in fitted.learned_from_),
    }


def _summary(result: dict[str, Any]) -> str:
    known = f" ({result['n_known_labels']:,} more repeat or replace old ones)" if result["n_known_labels"] else ""
    lines = [
        f"{result['method']}: {result['n_new_labels']:,} new labels{known}, {result['n_new_tasks']:,} new tasks; now "
        f"{result['n_tasks']:,} tasks and {result['n_annotators']:,} annotators after {result['n_updates']:,} updates",
        *options.file_summaries(result["files"]),
        f"{result['seconds']:.1f} s; folder: {result['model']}",
    ]
    return "\n".join(lines + ([f"labels: {result['out']}"] if result["out"] is not None else []))
