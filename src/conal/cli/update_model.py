"""``conal update`` of a model folder: new labels, and features or texts of new tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conal.cli.files import read_for_model
from conal.cli.update import figures_of, read_new_labels
from conal.errors import InputError
from conal.parameters.reading import ReadOptions

__all__ = ["update_model"]


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
    before = None if fitted.kept_ is None else fitted.kept_.get().annotations
    info = None
    if annotator_info is not None and before is not None:
        from conal.data.joining import grown

        whole = grown(before, file.annotations, where=file.where).annotations
        info = read_annotator_info(annotator_info, whole, worker=reading.worker)
    fitted.update(X, file.annotations, annotator_info=info, where=file.where)
    assert before is not None and fitted.kept_ is not None  # noqa: S101, PT018 - update needs and sets it
    after = fitted.kept_.get().annotations
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
