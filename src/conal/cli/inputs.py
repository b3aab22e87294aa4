"""What ``conal fit`` is trained on, read from the files that the user named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from conal.errors import InputError

if TYPE_CHECKING:
    from conal.io import FeatureTable

__all__ = ["FitData", "FitFiles", "LabelOptions"]


@dataclass(frozen=True)
class LabelOptions:
    """How a file of labels is to be read."""

    task: str | None = None
    worker: str | None = None
    label: str | None = None
    classes: list[str] | None = None
    file_format: str | None = None
    on_duplicate: Literal["last", "first", "error"] = "last"


class FitData(NamedTuple):
    """What ``fit`` takes: instances, labels, and a validation set where there is one."""

    instances: FeatureTable
    target: Any
    validation: tuple[FeatureTable, Any] | None


@dataclass(frozen=True)
class FitFiles:
    """The files of one fit."""

    labels: Path
    features: Path
    valid_features: Path | None = None
    valid_labels: Path | None = None

    def check(self) -> None:
        """Refuse what cannot be read; before torch is loaded, which takes seconds."""
        from conal.io.tables import check_readable

        for path in (self.labels, self.features, self.valid_features, self.valid_labels):
            if path is not None:
                check_readable(path)
        if (self.valid_features is None) != (self.valid_labels is None):
            raise InputError("--valid-features and --valid-labels go together; give both or neither")

    def read(self, takes: str, options: LabelOptions) -> FitData:
        """Everything that a method that ``takes`` true labels ("gold") or annotations ("crowd") is trained on."""
        from conal.io import read_features

        table = read_features(self.features, task=options.task, or_usual=True)
        return FitData(table, _read_target(self.labels, takes, table, options), self._read_validation(options.task))

    def _read_validation(self, task: str | None) -> tuple[FeatureTable, Any] | None:
        from conal.io import read_features, read_gold

        if self.valid_features is None or self.valid_labels is None:
            return None
        table = read_features(self.valid_features, task=task, or_usual=True)
        return table, read_gold(self.valid_labels).for_rows(len(table), table.ids)


def _read_target(path: Path, takes: str, table: FeatureTable, options: LabelOptions) -> Any:
    from conal.io import read_annotations, read_gold

    if takes == "gold":
        gold = read_gold(path, task=options.task, label=options.label, classes=options.classes)
        return gold.for_rows(len(table), table.ids)
    return read_annotations(
        path,
        format=options.file_format,
        task=options.task,
        worker=options.worker,
        label=options.label,
        classes=options.classes,
        on_duplicate=options.on_duplicate,
    )
