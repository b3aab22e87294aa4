"""``conal convert``: from any annotation file to a table, or to tasks or predictions for Label Studio."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli import options
from conal.cli.inputs import check_ending, check_results
from conal.errors import InputError
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.io import AnnotationFile
    from conal.io.platform_files import Records


SETTINGS = options.settable(ReadOptions, also=options.READING)
ENDINGS = {"csv": (".csv",), "crowd-kit": (".csv",), "parquet": (".parquet", ".pq")}
"""File name endings of tables."""


# Options that no other command has.

To = Annotated[
    Literal["csv", "parquet", "crowd-kit", "label-studio"],
    typer.Option(
        help="Output format. csv, parquet and crowd-kit (a CSV) have the columns task, worker, label; "
        "label-studio is a file to import there."
    ),
]
Inferred = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="Inferred labels (task, label, probability) to write as predictions; or a work list, suggestions.csv.",
    ),
]
GoldOut = Annotated[Path | None, typer.Option(help="Output table of the true labels in the file (task, label).")]
NoAnnotations = Annotated[
    bool, options.on_off("--no-annotations", help="Label Studio: write tasks and predictions, but no annotations.")
]
NewTasks = Annotated[
    bool,
    options.on_off(
        "--new-tasks",
        help="Write whole tasks, for a project without them, also if the labels are an export of Label Studio. "
        "By default, --labels then writes predictions for the tasks of that project.",
    ),
]


def convert(
    *,
    labels: options.Labels,
    to: To,
    out: Annotated[Path, typer.Option(help="Output file.")],
    inferred: Inferred = None,
    gold_out: GoldOut = None,
    no_annotations: NoAnnotations = False,
    new_tasks: NewTasks = False,
    settings: Annotated[list[str] | None, options.set_option(SETTINGS)] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    task_column: options.TaskColumn = None,
    worker_column: options.WorkerColumn = None,
    label_column: options.LabelColumn = None,
    question: options.Question = None,
) -> None:
    """Convert any annotation files that conal reads to a table, or to tasks or predictions for Label Studio.

    With --labels, an export of Label Studio becomes predictions for the tasks of its project (import/predictions of
    Label Studio's API); any other file becomes new tasks. A work list (suggestions.csv) becomes predictions of its
    tasks alone, whose source says whom to ask.

    Label Studio assigns annotations to users by e-mail address or number and rejects unknown users. Use
    --no-annotations if the annotators are not Label Studio users.
    """
    from conal.io import import_file

    given = options.parse_settings(settings)
    reading = options.taken(
        ReadOptions, given, task=task_column, worker=worker_column, label=label_column, question=question
    )
    options.refuse_unknown(given, SETTINGS)
    _check(to, out, with_tasks=inferred is not None or no_annotations or new_tasks)
    check_results(files=[out], tables=[gold_out], sources=[*labels, inferred], overwrite=overwrite)
    file = import_file(labels, reading)
    file.warn_of_dropped(unlabelled=to in ENDINGS)
    if gold_out is not None and not file.true_labels:
        raise InputError(f"{file.where}: contains no true labels ({file.title}); remove --gold-out")
    tables = {} if gold_out is None else {gold_out: _gold_table(dict(file.true_labels))}
    records, note = None, ""
    if to not in ENDINGS:
        records, note = _records(file, inferred, new_tasks=new_tasks, with_annotations=not no_annotations)
    count = _write(file, out, tables, records)
    note = note and f" ({count:,} {note})"
    crowd = file.annotations
    files = file.contributions()
    lines = [
        f"{file.title}: {crowd.n_annotations:,} labels by {crowd.n_annotators:,} annotators on {crowd.n_tasks:,} tasks",
        *options.file_summaries(files),
        f"{to}: {out}{note}",
    ]
    result = {"out": out, "gold": gold_out, "to": to, "files": files, **_figures(file)}
    options.emit(result, "\n".join(lines), as_json=as_json, quiet=quiet)


def _check(to: str, out: Path, *, with_tasks: bool) -> None:
    from conal.io import platform_files

    check_ending(out, to, *ENDINGS.get(to, (platform_files.ENDING,)))
    if to in ENDINGS and with_tasks:
        raise InputError("--labels, --no-annotations and --new-tasks need --to label-studio")


def _write(file: AnnotationFile, out: Path, tables: dict[Path, pa.Table], records: Records | None) -> int:
    """Write the tables and, for Label Studio, the records, all before the first file appears. The number of records."""
    from conal._files import atomic_files
    from conal.io.platform_files import fill_prelabels
    from conal.io.tables import annotation_rows, fill_table

    if records is None:
        tables = {out: annotation_rows(file.annotations)} | tables
    places = list(dict.fromkeys([out, *tables]))
    count = 0
    with atomic_files(places) as temporaries:
        for place, temporary in zip(places, temporaries, strict=True):
            if place in tables:
                fill_table(tables[place], temporary, place)
            else:
                count = fill_prelabels(records or (), temporary)
    return count


def _records(
    file: AnnotationFile, inferred: Path | None, *, new_tasks: bool, with_annotations: bool
) -> tuple[Records, str]:
    """What Label Studio imports: tasks, or predictions for the tasks of the project that the file is an export of."""
    from conal.io.platform_files import prelabels, read_predictions

    named = file.columns.get("task")
    predictions, is_list = (None, False) if inferred is None else read_predictions(inferred, file.all_tasks(), named)
    return prelabels(file, predictions, new_tasks=new_tasks, with_annotations=with_annotations, only_predicted=is_list)


def _figures(file: AnnotationFile) -> dict[str, Any]:
    crowd = file.annotations
    return {
        "format": file.format,
        "n_annotations": crowd.n_annotations,
        "n_tasks": crowd.n_tasks,
        "n_annotators": crowd.n_annotators,
        "n_gold": len(file.true_labels),
        "dropped": dict(file.dropped),
    }


def _gold_table(gold: dict[Any, Any]) -> pa.Table:
    import pyarrow as pa

    from conal.data.encoding import as_names, name_column

    return pa.table({"task": name_column(as_names(gold)), "label": name_column(as_names(gold.values()))})
