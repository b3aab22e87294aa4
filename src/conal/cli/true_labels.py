"""True labels of some tasks, for ``fit`` and ``aggregate``: from a file, or from the export that contains them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli.terminal import say
from conal.errors import InputError
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.data.annotations import Annotations
    from conal.io import AnnotationFile
    from conal.io.true_labels import GoldLabels

__all__ = ["TrueLabels", "offer_truth", "read_sample", "truth_files"]

EXPORT = Path("export")
"""In place of a file: the true labels that the files of labels contain."""

TrueLabels = Annotated[
    Path | None,
    typer.Option(
        help="Table of known true labels (task, label), which are treated as certain; or the word export, for those "
        "that the files of labels contain."
    ),
]


def truth_files(path: Path | None) -> list[Path]:
    """The file to read, if there is one."""
    return [] if path is None or path == EXPORT else [path]


def read_sample(path: Path | None, reading: ReadOptions, file: AnnotationFile, tasks: Annotations) -> Any:
    """Task to true label, for the tasks of these annotations; or a table, if it has probabilities of being drawn."""
    if path is None or path == EXPORT:
        return None if path is None else _exported(file)
    return _read(path, reading, tasks).sample_of(tasks)


def _exported(file: AnnotationFile) -> dict[Any, Any]:
    found = {task: label for task, label in file.true_labels.items() if label is not None}
    if not found:
        raise InputError(
            f"{file.where}: contains no true labels; pass a table of them, as --true-labels gold.csv (for a file that "
            "is called export: ./export)"
        )
    return found


def _read(path: Path, reading: ReadOptions, tasks: Annotations) -> GoldLabels:
    """The columns may be named as in the file of labels, or by their usual names."""
    from conal.io import read_gold

    columns = {"task": reading.task, "label": reading.label}
    return read_gold(
        path, **columns, keep=tasks.classes, missing=reading.missing, fallback_to_aliases=True, partial=True
    )


def offer_truth(path: Path | None, n_found: int, *, quiet: bool) -> None:
    """Say that the files of labels contain true labels, which are not used unasked."""
    if path is None and n_found and not quiet:
        say(f"{n_found:,} true labels found: use them with --true-labels export", err=True)
