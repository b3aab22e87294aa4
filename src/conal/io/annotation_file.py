"""The content of an annotation file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from conal.data.annotations import Annotations
from conal.errors import DataWarning, InputError, warn
from conal.io.remedies import UNLABELLED, remedy
from conal.io.tables import coerce_classes
from conal.parameters.reading import ReadOptions

__all__ = ["AnnotationFile", "annotations_from"]


@dataclass(frozen=True)
class AnnotationFile:
    """The content of an annotation file.

    Attributes
    ----------
    path : path
    format, title : str
        Name of the format, and what people call it.
    annotations : Annotations
    question : str or None
        The control or question that was read, where the format has such.
    gold : dict
        Task to true label, where the file carries some.
    dropped : dict
        Reason to the number of annotations (or tasks) that were left out for it.
    data : Arrow table or None
        Data of the tasks, such as their texts: ``task`` and a column per field.
    """

    path: Path
    format: str
    title: str
    annotations: Annotations
    question: str | None = None
    gold: Mapping[Any, Any] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    data: pa.Table | None = None

    def warn_of_dropped(self, *, unlabelled: bool = True) -> None:
        """Warn about dropped annotations, with the reasons; about tasks without a label only where they are dropped."""
        dropped = {reason: n for reason, n in self.dropped.items() if unlabelled or reason != UNLABELLED}
        if dropped:
            warn(f"{self.path} ({self.title}): left out {_counted(dropped)}", DataWarning)


def annotations_from(
    tasks: Any, workers: Any, labels: Any, options: ReadOptions, *, where: object, dropped: Mapping[str, int]
) -> Annotations:
    """The annotations in three equally long columns, once classes are matched and repeated pairs resolved.

    Of two labels by one worker for one task the older comes first, where the format has times. If there is no label at
    all, the error says what was ``dropped``.
    """
    if not len(labels):
        _refuse_empty(where, dropped)
    classes = None if options.classes is None else coerce_classes(options.classes, _typed(labels))
    try:
        return Annotations.from_triples(
            tasks, workers, labels, classes=classes, on_duplicate=options.on_duplicate, where=str(where)
        )
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise InputError(f"{where}: a name contains an incomplete character ({half!r}); export it again") from error


def _refuse_empty(where: object, dropped: Mapping[str, int]) -> NoReturn:
    reasons = f" ({_counted(dropped)})" if dropped else ""
    most = max(dropped, key=dropped.__getitem__, default="")
    advice = remedy(most, otherwise="finish labelling and export again")
    raise InputError(f"{where}: contains no usable annotation{reasons}; {advice}")


def _counted(reasons: Mapping[str, int]) -> str:
    """``3 skipped, 1 draft``, the most frequent first.

    >>> _counted({"draft": 1, "skipped": 1200})
    '1,200 skipped, 1 draft'
    """
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count:,} {reason}" for reason, count in ordered)


def _typed(labels: Any) -> pa.ChunkedArray:
    """The labels' type, to which classes given as text are converted; mixed types stay text."""
    if isinstance(labels, pa.ChunkedArray):
        return labels
    try:
        return pa.chunked_array([pa.array(labels)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return pa.chunked_array([pa.array([], pa.string())])
