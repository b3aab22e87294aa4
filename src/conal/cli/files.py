"""Reads the user's files: training data, and instances to predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conal._files import real_path
from conal.cli.exhibits import exhibits_of
from conal.cli.true_labels import read_sample, truth_files
from conal.errors import InputError
from conal.parameters.reading import ReadOptions
from conal.parameters.showing import ShowOptions

if TYPE_CHECKING:
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo
    from conal.estimator import CrowdClassifier
    from conal.io import AnnotationFile, FeatureTable, TextTable
    from conal.report.exhibits import Exhibits

__all__ = ["FitData", "FitFiles", "read_for_model"]


class FitData(NamedTuple):
    """The training data of ``fit``: instances, labels, a validation set, what the report shows, what each file has.

    ``true_labels`` are those of training tasks, and ``n_true_found`` is the number in the files of labels.
    """

    instances: FeatureTable | TextTable
    target: Any
    validation: tuple[FeatureTable | TextTable, Any] | None
    exhibits: Exhibits | None = None
    files: Sequence[dict[str, Any]] = ()
    true_labels: Any = None
    n_true_found: int = 0
    annotator_info: AnnotatorInfo | None = None


@dataclass(frozen=True)
class FitFiles:
    """The files of one fit: labels with features or texts, and the same of a validation set.

    With features and texts, the features are trained on, and the report shows the texts.
    """

    labels: Sequence[Path]
    features: Path | None = None
    text: Path | None = None
    text_column: str | None = None
    valid_features: Path | None = None
    valid_text: Path | None = None
    valid_labels: Path | None = None
    true_labels: Path | None = None
    annotator_info: Path | None = None

    def check(self, out: Path) -> None:
        """Reject unreadable files and options that exclude each other, before torch is loaded, which takes seconds."""
        from conal.io.tables import check_readable

        if self.features is None and self.text is None:
            raise InputError("pass either --features or --text; for labels alone, use conal aggregate")
        if self.text is None and (self.text_column is not None or self.valid_text is not None):
            raise InputError("--text-column and --valid-text need --text")
        if self.features is None and self.valid_features is not None:
            raise InputError("--valid-features needs --features; with --text alone, pass --valid-text")
        if self.features is not None and self.valid_text is not None:
            raise InputError(
                "--valid-text cannot be combined with --features, which are trained on; pass --valid-features"
            )
        valid = self.valid_features or self.valid_text
        tables = self.features, self.text, valid, self.valid_labels, self.annotator_info
        for path in (*self.labels, *tables, *truth_files(self.true_labels)):
            if path is None:
                continue
            if not (path in self.labels and path.is_dir()):  # doccano's exports are folders
                check_readable(path)
            if real_path(path).is_relative_to(real_path(out)):
                raise InputError(f"{path}: is an input file inside {out}, which would be replaced; move one of them")
        if (valid is None) != (self.valid_labels is None):
            name = "--valid-text" if self.features is None else "--valid-features"
            raise InputError(f"{name} and --valid-labels go together; pass both or neither")

    def read(self, takes: str, reading: ReadOptions, show: ShowOptions) -> FitData:
        """The training data for a method that ``takes`` true labels ("gold") or annotations ("crowd")."""
        from conal.data.problems import warn_of_problems
        from conal.io import import_file
        from conal.io.task_items import items_of
        from conal.io.texts import check_row_order

        validation = self._read_validation(reading)
        if takes == "gold":
            if self.true_labels is not None:
                raise InputError("--true-labels: the method gold takes the labels themselves as true; leave it out")
            if self.annotator_info is not None:
                raise InputError("--annotator-info: true labels have no annotators; leave it out")
            table = self._read_instances(self.features, self.text, reading.task)
            tasks = range(len(table)) if table.ids is None else table.ids.tolist()
            shown = exhibits_of(show, tasks, ["gold"], texts=self._shown_texts(None, reading))
            return FitData(table, self._read_gold(table, reading), validation, shown)
        file = import_file(self.labels, reading)
        file.warn_of_dropped(unlabelled=False)
        crowd = file.annotations
        warn_of_problems(crowd, file.where)
        file.warn_of_single_labels()
        names = crowd.task_ids.tolist(), crowd.annotator_ids.tolist()
        items = items_of(file.data, self.text_column)
        shown = exhibits_of(show, *names, file=file, items=items, texts=self._shown_texts(file, reading))
        texts = self._read_texts_of(file, reading.task) if self.features is None else None
        instances = texts or self._read_instances(self.features, self.text, reading.task)
        if not crowd.by_position:
            check_row_order(instances, crowd.task_ids)
        known = read_sample(self.true_labels, reading, file, _with_unlabelled(crowd, instances))
        info = self._read_annotator_info(crowd, reading)
        return FitData(instances, crowd, validation, shown, file.contributions(), known, len(file.true_labels), info)

    def _read_annotator_info(self, crowd: Annotations, reading: ReadOptions) -> AnnotatorInfo | None:
        from conal.io.results import read_annotator_info

        if self.annotator_info is None:
            return None
        return read_annotator_info(self.annotator_info, crowd, worker=reading.worker)

    def _read_gold(self, table: FeatureTable | TextTable, reading: ReadOptions) -> Any:
        from conal.io import read_gold

        if len(self.labels) > 1:
            raise InputError("the method gold takes one file of true labels; put them into one")
        columns: dict[str, Any] = {"task": reading.task, "label": reading.label}
        gold = read_gold(self.labels[0], **columns, classes=reading.classes, missing=reading.missing)
        return gold.for_rows(len(table), table.ids)

    def _read_texts_of(self, file: AnnotationFile, task: str | None) -> TextTable | None:
        """Texts in the files of labels; None for other files, and for one table, which is read as a table of texts."""
        from conal.io import read_texts
        from conal.io.texts import join_texts, texts_of

        if self.text not in self.labels:
            return None
        if not file.parts:
            return None if file.data is None else texts_of(file.data, text=self.text_column, where=file.where)
        tables = [
            read_texts(part.path, text=self.text_column, task=task, fallback_to_aliases=True)
            if part.data is None
            else texts_of(part.data, text=self.text_column, where=part.where)
            for part in file.parts
        ]
        return join_texts(tables, where=file.where)

    def _shown_texts(self, file: AnnotationFile | None, reading: ReadOptions) -> dict[str, str]:
        """Texts that are not trained on, by task."""
        from conal.io import read_texts

        if self.features is None or self.text is None:
            return {}
        table = None if file is None else self._read_texts_of(file, reading.task)
        table = table or read_texts(self.text, text=self.text_column, task=reading.task, fallback_to_aliases=True)
        names = range(len(table)) if table.ids is None else table.ids.tolist()
        return {str(name): text for name, text in zip(names, table.texts, strict=True)}

    def _read_instances(self, features: Path | None, text: Path | None, task: str | None) -> FeatureTable | TextTable:
        from conal.io import read_features, read_texts

        if features is not None:
            return read_features(features, task=task, fallback_to_aliases=True)
        if text is None:
            raise InputError("pass either --features or --text; for labels alone, use conal aggregate")
        return read_texts(text, text=self.text_column, task=task, fallback_to_aliases=True)

    def _read_validation(self, reading: ReadOptions) -> tuple[FeatureTable | TextTable, Any] | None:
        from conal.io import read_gold
        from conal.io.texts import check_row_order

        if self.valid_labels is None:
            return None
        table = self._read_instances(self.valid_features, self.valid_text, reading.task)
        gold = read_gold(self.valid_labels, keep=reading.classes, missing=reading.missing)
        if gold.task_ids is not None:
            check_row_order(table, gold.task_ids)
        return table, gold.for_rows(len(table), table.ids)


def _with_unlabelled(crowd: Annotations, instances: FeatureTable | TextTable) -> Annotations:
    """The annotations with all tasks that have features: a true label needs no others."""
    if instances.ids is None or instances.ids.dtype.kind != crowd.task_ids.dtype.kind:
        return crowd
    labelled = set(crowd.task_ids.tolist())
    others = [name for name in instances.ids.tolist() if name not in labelled]
    return crowd.reindex([*crowd.task_ids.tolist(), *others]) if others else crowd


def read_for_model(
    path: Path,
    estimator: CrowdClassifier,
    *,
    task: str | None,
    text: str | None = None,
    fallback_to_aliases: bool = False,
    check: Callable[[FeatureTable | TextTable], None] = lambda read: None,
) -> FeatureTable:
    """Features for a trained model, after a check of what was read; a text model computes them from texts."""
    from conal.estimator.texts import as_numbers
    from conal.io import read_features, read_texts

    if estimator.text_features_ is None:
        if text is not None:
            raise InputError("--text-column: this model was trained on features, not on texts; remove the option")
        table = read_features(path, task=task, fallback_to_aliases=fallback_to_aliases)
        check(table)
        return table
    texts = read_texts(path, text=text, task=task, fallback_to_aliases=fallback_to_aliases)
    check(texts)
    made: FeatureTable = as_numbers(estimator.text_features_, texts)
    return made
