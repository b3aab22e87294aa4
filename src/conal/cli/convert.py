"""``conal convert``: from any annotation file to a table, or to tasks or predictions for Label Studio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli.options import AsJson, Labels, Overwrite, Quiet, Reading, emit
from conal.cli.places import check_results
from conal.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.data.annotations import Annotations
    from conal.io import AnnotationFile

__all__ = ["convert"]

ENDINGS = {"csv": (".csv",), "crowd-kit": (".csv",), "parquet": (".parquet", ".pq"), "label-studio": (".json",)}
"""File name endings of each format."""


def convert(
    *,
    labels: Labels,
    to: Annotated[
        Literal["csv", "parquet", "crowd-kit", "label-studio"],
        typer.Option(
            help="Output format. csv, parquet and crowd-kit (a CSV) have the columns task, worker, label; "
            "label-studio is JSON to import."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output file.")],
    inferred: Annotated[
        Path | None,
        typer.Option(
            "--labels", help="Inferred labels (task, label, probability) to write as Label Studio predictions."
        ),
    ] = None,
    gold_out: Annotated[
        Path | None, typer.Option(help="Output table of the true labels in the file (task, label).")
    ] = None,
    no_annotations: Annotated[
        bool, typer.Option("--no-annotations", help="Label Studio: write tasks and predictions, but no annotations.")
    ] = False,
    new_tasks: Annotated[
        bool,
        typer.Option(
            "--new-tasks",
            help="Label Studio: write whole tasks, for a project without them, also if the labels are an export of "
            "Label Studio. By default, --labels then writes predictions for the tasks of that project.",
        ),
    ] = False,
    reading: Reading,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Convert any annotation file that conal reads to a table, or to tasks or predictions for Label Studio.

    With --labels, an export of Label Studio becomes predictions for the tasks of its project (import/predictions of
    Label Studio's API); any other file becomes new tasks. Label Studio assigns annotations to users by e-mail address
    or number and rejects unknown users. Use --no-annotations if the annotators are not Label Studio users.
    """
    from conal.io import import_file

    _check(to, out, with_tasks=inferred is not None or no_annotations or new_tasks)
    check_results(files=[out], tables=[gold_out], sources=[labels, inferred], overwrite=overwrite)
    file = import_file(labels, reading)
    file.warn_of_dropped(unlabelled=to != "label-studio")
    if gold_out is not None and not file.gold:
        raise InputError(f"{labels}: contains no true labels ({file.title}); remove --gold-out")
    tables = {} if gold_out is None else {gold_out: _gold_table(dict(file.gold))}
    predictions_only = inferred is not None and file.control is not None and not new_tasks
    records = None
    if to == "label-studio":
        with_annotations = not no_annotations
        records = _records(file, inferred, predictions_only=predictions_only, with_annotations=with_annotations)
    count = _write(file, out, tables, records)
    note = ""
    if records is not None and predictions_only:
        note = f" ({count:,} predictions for the project's own tasks; send them to its import/predictions)"
    crowd = file.annotations
    text = (
        f"{file.title}: {crowd.n_annotations:,} labels by {crowd.n_annotators:,} annotators on {crowd.n_tasks:,} tasks"
        f"\n{to}: {out}{note}"
    )
    emit({"out": out, "gold": gold_out, "to": to, **_figures(file)}, text, as_json=as_json, quiet=quiet)


def _check(to: str, out: Path, *, with_tasks: bool) -> None:
    if out.suffix.lower() not in ENDINGS[to]:
        raise InputError(f"{out}: --to {to} writes {' or '.join(ENDINGS[to])}; choose a name with this ending")
    if to != "label-studio" and with_tasks:
        raise InputError("--labels, --no-annotations and --new-tasks need --to label-studio")


def _write(
    file: AnnotationFile, out: Path, tables: dict[Path, pa.Table], records: Iterable[dict[str, Any]] | None
) -> int:
    """Write the tables and, for Label Studio, the records; all files appear together. The number of records."""
    from conal.io.atomic import atomic_files
    from conal.io.label_studio_tasks import fill_label_studio
    from conal.io.tables import fill_table, tell_of_formulas, warn_of_words

    if records is None:
        tables = {out: file.annotations.to_table()} | tables
        warn_of_words(file.annotations, out)
    tell_of_formulas(tables)
    places = list(dict.fromkeys([out, *tables]))
    count = 0
    with atomic_files(places) as temporaries:
        for place, temporary in zip(places, temporaries, strict=True):
            if place in tables:
                fill_table(tables[place], temporary, place)
            else:
                count = fill_label_studio(records or (), temporary)
    return count


def _records(
    file: AnnotationFile, inferred: Path | None, *, predictions_only: bool, with_annotations: bool
) -> Iterator[dict[str, Any]]:
    """Tasks, or predictions for the tasks of the project that the file is an export of."""
    from conal.io.label_studio_tasks import label_studio_predictions, label_studio_tasks

    predictions = {} if inferred is None else _read_inferred(inferred, file.all_tasks())
    if predictions_only:
        return label_studio_predictions(file, predictions)
    return label_studio_tasks(file, predictions, with_annotations=with_annotations)


def _figures(file: AnnotationFile) -> dict[str, Any]:
    crowd = file.annotations
    return {
        "format": file.format,
        "n_annotations": crowd.n_annotations,
        "n_tasks": crowd.n_tasks,
        "n_annotators": crowd.n_annotators,
        "n_gold": len(file.gold),
        "dropped": dict(file.dropped),
    }


def _read_inferred(path: Path, crowd: Annotations) -> dict[Any, tuple[Any, float | None]]:
    """Task to inferred label and its probability, if the file has it."""
    from conal.data.encoding import spelling
    from conal.io import gold_from_table, read_table
    from conal.io.tables import blank_to_null

    table = read_table(path)
    if "label" in table.column_names:  # empty for tasks without any label
        table = table.filter(blank_to_null(table["label"]).is_valid())
    gold = gold_from_table(table, label="label", keep=crowd.classes, where=str(path))
    known = gold.for_tasks(crowd)
    scores: dict[Any, float | None] = {}
    if "probability" in table.column_names and gold.task_ids is not None:
        named = zip(gold.task_ids.tolist(), table["probability"].to_pylist(), strict=True)
        scores = {spelling(task): score for task, score in named}
    return {task: (label, scores.get(spelling(task))) for task, label in known.items()}


def _gold_table(gold: dict[Any, Any]) -> pa.Table:
    import pyarrow as pa

    from conal.data.encoding import as_names
    from conal.io.results import name_column

    return pa.table({"task": name_column(as_names(gold)), "label": name_column(as_names(gold.values()))})
