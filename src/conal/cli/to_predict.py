"""Reads what ``conal predict`` predicts: a table of features or texts, or the tasks of an annotation file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conal.cli.files import read_for_model
from conal.errors import InputError
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from conal.estimator import CrowdClassifier
    from conal.io import AnnotationFile, FeatureTable, TextTable

__all__ = ["PredictFiles", "ToPredict"]


class ToPredict(NamedTuple):
    """Instances as numbers for the model, and the file that they are the tasks of, if it has any to show."""

    instances: FeatureTable
    file: AnnotationFile | None


@dataclass(frozen=True)
class PredictFiles:
    """The files of one prediction: tasks, and their features or texts if these are elsewhere."""

    tasks: Path
    features: Path | None = None
    text: Path | None = None
    text_column: str | None = None

    def check(self, *, takes_text: bool) -> None:
        """Reject options that do not go with the model."""
        if self.features is not None and takes_text:
            raise InputError("--features: this model was trained on texts; pass them with --text, or within the export")
        if self.text is not None and not takes_text:
            raise InputError("--text: this model was trained on features; pass those of the tasks with --features")

    def read(
        self, estimator: CrowdClassifier, reading: ReadOptions, *, unlabelled: bool, allow_missing: bool
    ) -> ToPredict:
        """The instances, all or only those that nobody has labelled."""
        self.check(takes_text=estimator.text_features_ is not None)
        apart = self.features or self.text
        if apart is not None:
            found = self._joined(apart, estimator, reading, allow_missing)
        elif self._is_export(reading):
            found = self._export(estimator, reading)
        else:
            found = self._table(estimator, reading)
        return _unlabelled(found, self.tasks) if unlabelled else found

    def _joined(self, apart: Path, estimator: CrowdClassifier, reading: ReadOptions, allow_missing: bool) -> ToPredict:
        """The tasks of an annotation file, by id with their features or texts in another file."""
        from conal.data.alignment import align
        from conal.io.texts import check_row_order

        file = _import(self.tasks, reading)
        tasks = file.all_tasks()
        table = read_for_model(
            apart,
            estimator,
            task=reading.task,
            text=self.text_column,
            fallback_to_aliases=True,
            check=lambda read: None if tasks.by_position else check_row_order(read, tasks.task_ids),
        )
        joined = align(tasks, len(table), table.ids, allow_missing=allow_missing, unlabelled=False)
        values = table.values if joined.rows is None else table.values[joined.rows]
        return ToPredict(replace(table, values=values, ids=joined.annotations.task_ids), file)

    def _export(self, estimator: CrowdClassifier, reading: ReadOptions) -> ToPredict:
        """The tasks of an export that contains their texts."""
        from conal.estimator.texts import as_numbers
        from conal.io.texts import texts_of

        file = _import(self.tasks, reading)
        if estimator.text_features_ is None:
            raise InputError(
                f"{self.tasks}: is an export ({file.title}), and this model was trained on features; pass those of the "
                "tasks with --features"
            )
        if file.data is None:
            raise InputError(f"{self.tasks}: contains no texts ({file.title}); pass them with --text")
        texts = texts_of(file.data, text=self.text_column, where=str(self.tasks))
        return ToPredict(as_numbers(estimator.text_features_, texts), file)

    def _table(self, estimator: CrowdClassifier, reading: ReadOptions) -> ToPredict:
        """A table of features or texts, as there is one for ``conal fit``."""
        from conal.estimator.texts import as_numbers
        from conal.io import read_texts
        from conal.io.texts import warn_of_row_numbers

        if reading.question is not None or reading.format is not None:
            raise InputError(f"{self.tasks}: is a table; --question and --format apply to exports of platforms")
        if estimator.text_features_ is None:
            table = read_for_model(self.tasks, estimator, task=reading.task, text=self.text_column)
            warn_of_row_numbers(table, known=getattr(estimator, "feature_names_in_", ()))
            return ToPredict(table, None)
        texts = read_texts(self.tasks, text=self.text_column, task=reading.task)
        warn_of_row_numbers(texts)
        return ToPredict(as_numbers(estimator.text_features_, texts), _file_of(self.tasks, texts))

    def _is_export(self, reading: ReadOptions) -> bool:
        """Whether the file is an export with data of its tasks; features and texts are tables as well."""
        from conal.io.importing import detect
        from conal.parameters.reading import PLAIN_FORMATS

        if reading.format is not None:
            return reading.format not in PLAIN_FORMATS
        if not self.tasks.exists() or self.tasks.suffix.lower() in (".npy", ".npz"):
            return False
        found, head = detect(self.tasks)
        return any(importer.shows_tasks for importer in found) or head.kind in ("folder", "zip")


def _import(path: Path, reading: ReadOptions) -> AnnotationFile:
    from conal.io import import_file

    return import_file(path, reading.replace(unlabelled=True))


def _file_of(path: Path, texts: TextTable) -> AnnotationFile:
    """A table of texts as a file whose tasks nobody has labelled."""
    import pyarrow as pa

    from conal.data.annotations import Annotations
    from conal.io import AnnotationFile
    from conal.io.results import name_column

    names = list(range(len(texts))) if texts.ids is None else name_column(texts.ids)
    data = pa.table({"task": names, "text": list(texts.texts)})
    nobody = Annotations([], [], [], task_ids=[], annotator_ids=[], classes=[])
    return AnnotationFile(path, "table", "a table of texts", nobody, data=data)


def _unlabelled(found: ToPredict, path: Path) -> ToPredict:
    """Only the instances that nobody has labelled."""
    if found.file is None or found.file.format == "table":
        raise InputError(f"{path}: is a table, in which no task has labels; remove --unlabelled")
    kept = _without_labels(found.file, found.instances)
    if not kept.any():
        raise InputError(f"{path}: every task has a label; remove --unlabelled to predict them all")
    table = found.instances
    return found._replace(instances=replace(table, values=table.values[kept], ids=_names(table)[kept]))


def _without_labels(file: AnnotationFile, table: FeatureTable) -> npt.NDArray[np.bool_]:
    import numpy as np

    crowd = file.annotations
    labelled = set(crowd.task_ids[crowd.labels_per_task() > 0].tolist())
    return np.array([name not in labelled for name in _names(table).tolist()], dtype=bool)


def _names(table: FeatureTable) -> Any:
    import numpy as np

    return np.arange(len(table)) if table.ids is None else table.ids
