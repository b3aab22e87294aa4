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
    from conal.io import AnnotationFile


SETTINGS = options.settable(ReadOptions, also=options.READING)
ENDINGS = {"csv": (".csv",), "parquet": (".parquet", ".pq")}
"""File name endings of tables."""


# Options that no other command has.

To = Annotated[
    Literal["csv", "parquet", "label-studio"],
    typer.Option(
        help="Output format. csv and parquet have the columns task, worker, label, as crowd-kit reads them; "
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
    from conal.io import import_file, write_annotations

    given = options.parse_settings(settings)
    reading = options.taken(
        ReadOptions, given, task=task_column, worker=worker_column, label=label_column, question=question
    )
    options.refuse_unknown(given, SETTINGS)
    _check(to, out, with_tasks=inferred is not None or no_annotations or new_tasks)
    check_results(files=[out], sources=[*labels, inferred], overwrite=overwrite)
    file = import_file(labels, reading)
    file.warn_of_dropped(unlabelled=to in ENDINGS)
    note = ""
    if to in ENDINGS:
        write_annotations(file.annotations, out)
    else:
        note = _write_tasks(file, out, inferred, new_tasks=new_tasks, with_annotations=not no_annotations)
    crowd = file.annotations
    files = file.contributions()
    lines = [
        f"{file.title}: {crowd.n_annotations:,} labels by {crowd.n_annotators:,} annotators on {crowd.n_tasks:,} tasks",
        *options.file_summaries(files),
        f"{to}: {out}{note}",
    ]
    result = {"out": out, "to": to, "files": files, **_figures(file)}
    options.emit(result, "\n".join(lines), as_json=as_json, quiet=quiet)


def _check(to: str, out: Path, *, with_tasks: bool) -> None:
    from conal.io import platform_files

    check_ending(out, to, *ENDINGS.get(to, (platform_files.ENDING,)))
    if to in ENDINGS and with_tasks:
        raise InputError("--labels, --no-annotations and --new-tasks need --to label-studio")


def _write_tasks(
    file: AnnotationFile, out: Path, inferred: Path | None, *, new_tasks: bool, with_annotations: bool
) -> str:
    """Write tasks, or predictions for the tasks of the project that the file is an export of; what to do with them."""
    from conal._files import atomic_file
    from conal.io.platform_files import fill_prelabels, prelabels, read_predictions

    named = file.columns.get("task")
    predictions, is_list = (None, False) if inferred is None else read_predictions(inferred, file.all_tasks(), named)
    records, note = prelabels(
        file, predictions, new_tasks=new_tasks, with_annotations=with_annotations, only_predicted=is_list
    )
    with atomic_file(out) as temporary:
        count = fill_prelabels(records, temporary)
    return f" ({count:,} {note})"


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
