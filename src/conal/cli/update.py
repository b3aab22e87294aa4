"""``conal update``: further labels for a folder of ``conal aggregate --save`` or a model folder."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli.aggregate import inferred_labels
from conal.cli.fit import Features, NoReport, Text
from conal.cli.inputs import check_results, read_for_model
from conal.cli.options import (
    AboutAnnotators,
    AsJson,
    Overwrite,
    OwnEncoder,
    Quiet,
    Reading,
    TextColumn,
    emit,
    file_summaries,
)
from conal.errors import InputError
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.io import AnnotationFile
    from conal.parameters.reading import ReadOptions

__all__ = ["update", "update_model"]


# ``conal update``: further labels for a folder of ``conal aggregate --save`` or a model folder of ``conal fit``.


def update(
    *,
    model: Annotated[
        Path, typer.Argument(help="Folder of conal aggregate --save, or model folder of conal fit --keep-data.")
    ],
    labels: Annotated[list[Path], typer.Argument(help="New crowd labels alone, in any format that conal fit takes.")],
    features: Features = None,
    text: Text = None,
    text_column: TextColumn = None,
    encoder: OwnEncoder = None,
    annotator_info: AboutAnnotators = None,
    out: Annotated[
        Path | None, typer.Option(help="Output table of the labels of all tasks: .csv, .tsv, .parquet or .jsonl.")
    ] = None,
    enough: Annotated[
        float,
        typer.Option(
            help="Probability above which a task needs no more labels; enough_labels.csv in the folder lists these "
            "tasks. It is the model's belief, which is too high where annotators err alike."
        ),
    ] = 0.95,
    reading: Reading,
    no_report: NoReport = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add new labels to a folder, and fit again from where the model is.

    Labels may be of known and new tasks, by known and new annotators; classes are fixed. A label takes the place of an
    older one by the same annotator for the same task. Labels that are all known already are refused. A model folder
    needs --features or --text of the new tasks.
    """
    from conal._files import claimed
    from conal.io.model_folder import AGGREGATOR, ModelFolder, check_target
    from conal.updates import check_level

    began = time.perf_counter()
    check_level(enough)
    check_results(tables=[out], sources=[*labels, features, text, annotator_info], model=model, overwrite=overwrite)
    kind = ModelFolder(model).config["format"]
    with claimed(model, partial(check_target, model, kind, overwrite=True)):
        if kind == AGGREGATOR:
            _refuse_instances(features, text, text_column, encoder)
            result = _update_aggregator(model, labels, annotator_info, out, enough, reading)
        else:
            instances = {"features": features, "text": text, "text_column": text_column, "encoder": encoder}
            result = update_model(
                model, labels, instances, annotator_info, out, enough, reading, no_report=no_report, verbose=not quiet
            )
    result["seconds"] = time.perf_counter() - began
    emit(result, _summary(result), as_json=as_json, quiet=quiet)


def _refuse_instances(*given: Path | str | None) -> None:
    if any(option is not None for option in given):
        raise InputError("--features and --text are for model folders; an aggregator has labels alone, so leave it out")


def _update_aggregator(
    folder: Path,
    labels: list[Path],
    annotator_info: Path | None,
    out: Path | None,
    enough: float,
    reading: ReadOptions,
) -> dict[str, Any]:
    from conal.io.results import read_annotator_info
    from conal.io.tables import write_tables
    from conal.updates import load, save

    fitted = load(folder)
    file = read_new_labels(labels, reading)
    info = None
    if annotator_info is not None:
        from conal.data.joining import append_labels

        whole = append_labels(fitted.annotations_, file.annotations, where=file.where).annotations
        info = read_annotator_info(annotator_info, whole, worker=reading.worker)
    before = fitted.annotations_
    fitted.update(file.annotations, annotator_info=info, where=file.where)
    if out is not None:  # before the folder: whenever the command ends, it can be repeated
        write_tables({out: inferred_labels(fitted)})
    n_enough = save(fitted, folder, enough=enough, overwrite=True)
    return {
        "model": folder,
        "method": fitted.name,
        "out": out,
        "files": file.contributions(),
        **figures_of(fitted, before, fitted.annotations_, file),
        "enough": enough,
        "n_enough": n_enough,
        "enough_measured": _measured(fitted, enough),
    }


def read_new_labels(labels: list[Path], reading: ReadOptions) -> AnnotationFile:
    """The files of new labels as one."""
    from conal.io import import_file

    file = import_file(labels, reading)
    file.warn_of_dropped()
    return file


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


def _right(result: dict[str, Any]) -> str:
    """What is known about the labels of tasks that have enough."""
    rate = result.get("enough_measured")
    if rate is None:
        return (
            f"the model believes in theirs with a probability of at least {result['enough']:g}; nothing was measured, "
            "and such beliefs are too high where annotators err alike"
        )
    from conal.report.section import interval, percent  # loading scipy takes a tenth of a second

    ends = interval(rate["low"], rate["high"])
    return (
        f"{percent(rate['value'])} of theirs are right ({ends}), measured by {rate['n_gold']:,} true labels, where the "
        f"model believes at least {percent(result['enough'])}"
    )


def _measured(fitted: Aggregator, enough: float) -> dict[str, Any] | None:
    """How many labels of the tasks that have enough are right, by true labels; None where too few tell."""
    from conal.updates import measured_right

    if (fitted.known_codes_ >= 0).sum() == 0:
        return None
    from conal.report.labels_alone import unseen_posterior

    unseen = unseen_posterior(fitted)
    rate = None if unseen is None else measured_right(fitted, unseen, enough)
    return None if rate is None else rate._asdict()


def _summary(result: dict[str, Any]) -> str:
    known = f" ({result['n_known_labels']:,} more repeat or replace old ones)" if result["n_known_labels"] else ""
    lines = [
        f"{result['method']}: {result['n_new_labels']:,} new labels{known}, {result['n_new_tasks']:,} new tasks; now "
        f"{result['n_tasks']:,} tasks and {result['n_annotators']:,} annotators after {result['n_updates']:,} updates",
        *file_summaries(result["files"]),
        f"{result['n_enough']:,} tasks have enough labels: {_right(result)}",
    ]
    lines.append(f"{result['seconds']:.1f} s; folder: {result['model']}")
    return "\n".join(lines + ([f"labels: {result['out']}"] if result["out"] is not None else []))


# ``conal update`` of a model folder: new labels, and features or texts of new tasks.


def update_model(
    folder: Path,
    labels: list[Path],
    instances: dict[str, Any],
    annotator_info: Path | None,
    out: Path | None,
    enough: float,
    reading: ReadOptions,
    *,
    no_report: bool,
    verbose: bool,
) -> dict[str, Any]:
    """Update the model in a folder, and replace the folder."""
    from conal.estimator import load
    from conal.estimator.folder import save
    from conal.io.results import read_annotator_info
    from conal.io.tables import write_tables
    from conal.io.texts import check_row_order
    from conal.report.page import render
    from conal.updates import ENOUGH, enough_table

    fitted = load(folder, encoder=instances["encoder"])
    fitted.verbose = verbose
    file = read_new_labels(labels, reading)
    path = _path(fitted, instances)
    X = None
    if path is not None:
        X = read_for_model(path, fitted, task=reading.task, text=instances["text_column"], fallback_to_aliases=True)
        check_row_order(X, file.annotations.task_ids)
    before = None if fitted.kept_ is None else fitted.kept_.annotations
    info = None
    if annotator_info is not None and before is not None:
        from conal.data.joining import append_labels

        whole = append_labels(before, file.annotations, where=file.where).annotations
        info = read_annotator_info(annotator_info, whole, worker=reading.worker)
    fitted.update(X, file.annotations, annotator_info=info, where=file.where)
    assert before is not None and fitted.kept_ is not None  # noqa: S101, PT018 - update needs and sets it
    after = fitted.kept_.annotations
    done = enough_table(after, fitted.probas_, fitted.classes_, enough)
    page = None if no_report else render(fitted.results_.report)
    if out is not None:  # before the folder: whenever the command ends, it can be repeated
        write_tables({out: fitted.tables_["labels.csv"]})
    save(fitted, folder, page=page, keep_data=True, more_tables={ENOUGH: done}, overwrite=True)
    return {
        "model": folder,
        "method": fitted.method,
        "out": out,
        "files": file.contributions(),
        **figures_of(fitted, before, after, file),
        "epochs": fitted.metrics_["epochs"],
        "enough": enough,
        "n_enough": done.num_rows,
    }


def _path(fitted: Any, instances: dict[str, Any]) -> Path | None:
    """The file of features, or of texts for a model of texts."""
    features, text = instances["features"], instances["text"]
    if fitted.text_features_ is None and text is not None:
        raise InputError("--text: this model was trained on features; pass --features of the new tasks")
    if fitted.text_features_ is not None and features is not None:
        raise InputError("--features: this model was trained on texts; pass --text of the new tasks")
    found: Path | None = features if text is None else text
    return found
