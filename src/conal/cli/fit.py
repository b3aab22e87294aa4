"""``conal fit``: files in, a model folder out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli.options import (
    DEFAULT_METHOD,
    AsJson,
    Classes,
    FileFormat,
    LabelColumn,
    Labels,
    OnDuplicate,
    Overwrite,
    Quiet,
    Seed,
    TaskColumn,
    WorkerColumn,
    emit,
    parse_settings,
    split_classes,
)
from conal.errors import DivergenceError, InputError
from conal.registry import names_in_source

if TYPE_CHECKING:
    from conal.estimator import CrowdClassifier
    from conal.io import FeatureTable

__all__ = ["fit"]


def fit(
    labels: Labels,
    features: Annotated[Path, typer.Option(help="Features: .npy, .npz, .parquet or .csv.")],
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
    valid_features: Annotated[Path | None, typer.Option(help="Features of a validation set.")] = None,
    valid_labels: Annotated[Path | None, typer.Option(help="Its true labels, which select the epoch.")] = None,
    method: Annotated[
        str, typer.Option(help=f"One of {', '.join(names_in_source('conal.methods'))}.")
    ] = DEFAULT_METHOD,
    classes: Classes = None,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    file_format: FileFormat = None,
    on_duplicate: OnDuplicate = "last",
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Drop tasks without features and features without a task.")
    ] = False,
    class_prior: Annotated[
        str | None,
        typer.Option(
            help="What you know about the shares of the classes: balanced, or JSON such as "
            """'{"cat": 0.8, "dog": 0.2}'. A wrong statement costs more than a right one gains."""
        ),
    ] = None,
    ensemble: Annotated[int, typer.Option(min=1, help="So many fits, averaged.")] = 1,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", show_default="the method's own")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Instances in a batch.")] = 256,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without a better score.")] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            help="global: one factor; standard: every feature; none; auto chooses; robust also cuts off extremes.",
            show_default="the method's own",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other parameter, such as hidden=[64,32], dropout=0.3, batch_norm=true, lam=1e-4, holdout=0.2, "
            "selection=last; a wrong name lists them all.",
        ),
    ] = None,
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Replace the annotators' names by pseudonyms in all that is written.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not make the page report.html.")] = False,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted fit stopped.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier from crowd labels and features, and write a model folder.

    The folder holds the model, the cleaned labels (labels.csv), what is known about the annotators (annotators.csv),
    the confusion that they share (common_confusion.csv), what to ask next (suggestions.csv), and a page that shows all
    of it (report.html).
    """
    from conal.io.models import check_target
    from conal.io.tables import check_readable

    check_target(out, overwrite=overwrite)
    for path in (labels, features, valid_features, valid_labels):  # before torch is loaded, which takes seconds
        if path is not None:
            check_readable(path)
    if (valid_features is None) != (valid_labels is None):
        raise InputError("--valid-features and --valid-labels go together; give both or neither")
    fixed = {"epochs": epochs, "batch_size": batch_size, "patience": patience}
    from conal.annotations import Annotations
    from conal.estimator import make
    from conal.io import read_features
    from conal.pseudonyms import anonymised
    from conal.report import write_report
    from conal.training.checkpoint import remove_checkpoints

    first = int(os.environ.get("RANK", "0")) == 0  # under torchrun, one process speaks and writes for all
    own: dict[str, Any] = {"seed": seed, "verbose": first and not quiet, "ensemble": ensemble}
    given = {"lr": lr, "scaling": scaling, "class_prior": None if class_prior is None else _read_prior(class_prior)}
    own |= {name: value for name, value in given.items() if value is not None}
    estimator = make(method, **(fixed | own | parse_settings(settings)))
    table = read_features(features, task=task_column, or_usual=True)
    columns = {"task": task_column, "worker": worker_column, "label": label_column}
    target = _read_target(labels, estimator.method, table, columns, split_classes(classes), file_format, on_duplicate)
    if anonymise and isinstance(target, Annotations):
        target = anonymised(target)
    validation = _read_validation(valid_features, valid_labels, task_column)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    _say_about(checkpoint, resume)
    try:
        estimator.fit(
            table,
            target,
            validation=validation,
            allow_missing=allow_missing,
            checkpoint=checkpoint,
            resume=resume,
        )
    except KeyboardInterrupt:
        if checkpoint.exists():
            typer.echo(f"stopped; the state is in {checkpoint}: go on with --resume", err=True)
        raise
    except DivergenceError:
        remove_checkpoints(checkpoint)  # going on from there would fail again
        raise
    if not first:
        return
    estimator.save(out, overwrite=overwrite)
    page = None if no_report else write_report(out)
    remove_checkpoints(checkpoint)
    emit({"out": out, **estimator.metrics_}, _summary(estimator, out, page), as_json=as_json, quiet=quiet)


def _read_prior(text: str) -> Any:
    """A word, or the shares as JSON."""
    return parse_settings([f"class_prior={text}"])["class_prior"]


def _say_about(checkpoint: Path, resume: bool) -> None:
    if resume and not checkpoint.exists():
        typer.echo(f"no checkpoint at {checkpoint}: starting from the beginning", err=True)
    if not resume and checkpoint.exists():
        typer.echo(f"starting anew; the earlier checkpoint {checkpoint} is replaced (--resume would go on)", err=True)


def _read_target(
    path: Path,
    method: str,
    table: FeatureTable,
    columns: dict[str, str | None],
    classes: list[str] | None,
    file_format: str | None,
    on_duplicate: Literal["last", "first", "error"],
) -> Any:
    from conal import methods
    from conal.io import read_annotations, read_gold

    if methods.get(method).takes == "gold":
        gold = read_gold(path, task=columns["task"], label=columns["label"], classes=classes)
        return gold.for_rows(len(table), table.ids)
    return read_annotations(path, format=file_format, classes=classes, on_duplicate=on_duplicate, **columns)


def _read_validation(features: Path | None, labels: Path | None, task: str | None) -> tuple[FeatureTable, Any] | None:
    from conal.io import read_features, read_gold

    if features is None or labels is None:
        return None
    table = read_features(features, task=task, or_usual=True)
    return table, read_gold(labels).for_rows(len(table), table.ids)


def _summary(estimator: CrowdClassifier, out: Path, page: Path | None) -> str:
    metrics = estimator.metrics_
    rules = {
        "validation_accuracy": "by accuracy on the validation labels",
        "holdout_log_likelihood": "by the likelihood of held-out annotations",
        "last": "as the last",
    }
    held_out = metrics["n_tasks_labelled"] - metrics["n_tasks_trained_on"]
    aside = f"; {held_out:,} tasks were held out for it" if held_out else ""
    score = "" if metrics["best_score"] is None else f" ({metrics['best_score']:.4f})"
    return (
        f"{estimator.method}: {metrics['n_annotations']:,} labels by {metrics['n_annotators']:,} annotators on "
        f"{metrics['n_tasks']:,} tasks, {len(estimator.classes_)} classes\n"
        f"epoch {metrics['best_epoch']} of {metrics['epochs']} kept, {rules[metrics['selection']]}{score}{aside}; "
        f"{metrics['seconds']:.1f} s\n"
        f"model, cleaned labels and annotators: {out}" + ("" if page is None else f"\nreport: {page}")
    )
