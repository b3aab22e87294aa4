"""What models are trained on and asked about, read from the files that the user named."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from conal.errors import InputError

if TYPE_CHECKING:
    from conal.estimator import CrowdClassifier
    from conal.io import AnnotationFile, FeatureTable, TextTable

__all__ = ["FitData", "FitFiles", "LabelOptions", "check_results", "read_for_model"]


@dataclass(frozen=True)
class LabelOptions:
    """How a file of labels is to be read."""

    task: str | None = None
    worker: str | None = None
    label: str | None = None
    classes: list[str] | None = None
    format: str | None = None
    question: str | None = None
    keep_rejected: bool = False
    on_duplicate: Literal["last", "first", "error"] = "last"

    def keywords(self) -> dict[str, Any]:
        """What :func:`conal.io.import_file` is told."""
        return asdict(self)

    def read(self, path: Path) -> AnnotationFile:
        """The annotations of a file, and what its tasks show where it says so; what was left out is told."""
        from conal.io import import_file

        file = import_file(path, **self.keywords())
        file.tell_losses()
        return file


class FitData(NamedTuple):
    """What ``fit`` takes: instances, labels, and a validation set where there is one."""

    instances: FeatureTable | TextTable
    target: Any
    validation: tuple[FeatureTable | TextTable, Any] | None

    def anonymised(self) -> FitData:
        """The same with pseudonyms for annotators; true labels have none."""
        from conal.data.annotations import Annotations
        from conal.data.pseudonyms import anonymised

        return self._replace(target=anonymised(self.target)) if isinstance(self.target, Annotations) else self


@dataclass(frozen=True)
class FitFiles:
    """The files of one fit: labels with features or texts, and the same of a validation set."""

    labels: Path
    features: Path | None = None
    text: Path | None = None
    text_column: str | None = None
    valid_features: Path | None = None
    valid_text: Path | None = None
    valid_labels: Path | None = None

    def check(self, out: Path) -> None:
        """Refuse what cannot be read or does not go together; before torch is loaded, which takes seconds."""
        from conal.io.tables import check_readable

        if (self.features is None) == (self.text is None):
            raise InputError("give the instances as --features or as --text, one of the two")
        if self.text is None and (self.text_column is not None or self.valid_text is not None):
            raise InputError("--text-column and --valid-text are for models of texts; give --text too")
        if self.text is not None and self.valid_features is not None:
            raise InputError("--valid-features does not go with --text; give the texts as --valid-text")
        valid = self.valid_features or self.valid_text
        for path in (self.labels, self.features, self.text, valid, self.valid_labels):
            if path is None:
                continue
            if not (path == self.labels and path.is_dir()):  # doccano's exports are folders
                check_readable(path)
            if path.resolve().is_relative_to(out.resolve()):
                raise InputError(f"{path}: is read from, and lies in {out}, which would be replaced; move one of them")
        if (valid is None) != (self.valid_labels is None):
            name = "--valid-features" if self.text is None else "--valid-text"
            raise InputError(f"{name} and --valid-labels go together; give both or neither")

    def read(self, takes: str, options: LabelOptions) -> FitData:
        """Everything that a method that ``takes`` true labels ("gold") or annotations ("crowd") is trained on."""
        from conal.io import read_gold
        from conal.io.texts import texts_of

        validation = self._read_validation(options.task)
        if takes == "gold":
            table = self._read_instances(self.features, self.text, options.task)
            gold = read_gold(self.labels, task=options.task, label=options.label, classes=options.classes)
            return FitData(table, gold.for_rows(len(table), table.ids), validation)
        file = options.read(self.labels)
        if self.text == self.labels and file.data is not None:  # an export that holds the texts itself
            shown = texts_of(file.data, text=self.text_column, where=str(self.labels))
            return FitData(shown, file.annotations, validation)
        return FitData(self._read_instances(self.features, self.text, options.task), file.annotations, validation)

    def _read_instances(self, features: Path | None, text: Path | None, task: str | None) -> FeatureTable | TextTable:
        from conal.io import read_features, read_texts

        if features is not None:
            return read_features(features, task=task, or_usual=True)
        if text is None:
            raise InputError("give the instances as --features or as --text")
        return read_texts(text, text=self.text_column, task=task, or_usual=True)

    def _read_validation(self, task: str | None) -> tuple[FeatureTable | TextTable, Any] | None:
        from conal.io import read_gold

        if self.valid_labels is None:
            return None
        table = self._read_instances(self.valid_features, self.valid_text, task)
        return table, read_gold(self.valid_labels).for_rows(len(table), table.ids)


def check_results(results: list[Path | None], sources: list[Path | None], *, overwrite: bool) -> None:
    """Every table's place must be free and another one, and no result may replace what it is made from."""
    from conal.io.tables import check_table_place

    read = {path.resolve() for path in sources if path is not None}
    taken: set[Path] = set()
    for path in results:
        if path is None:
            continue
        check_table_place(path, overwrite=overwrite or path.resolve() in read)
        if path.resolve() in read:
            raise InputError(f"{path}: is read from, and a result would replace it; choose another place")
        if path.resolve() in taken:
            raise InputError(f"{path}: is to hold two tables; choose a place of its own for each")
        taken.add(path.resolve())


def read_for_model(
    path: Path, estimator: CrowdClassifier, *, task: str | None, text: str | None = None, or_usual: bool = False
) -> FeatureTable:
    """Features for a trained model; a model of texts is given a file of texts, and makes them itself."""
    from conal.estimator.texts import as_numbers
    from conal.io import read_features, read_texts

    if estimator.text_features_ is None:
        if text is not None:
            raise InputError("--text-column: the model was trained on features, not on texts; leave it out")
        return read_features(path, task=task, or_usual=or_usual)
    made: FeatureTable = as_numbers(estimator.text_features_, read_texts(path, text=text, task=task, or_usual=or_usual))
    return made
