"""The arguments of ``fit`` and ``predict`` as matching instances and annotations."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from conal._arrays import IntArray
from conal._progress import make_progress
from conal.data.annotations import Annotations
from conal.data.cleaning import read_labels
from conal.data.encoding import MISSING, Names, as_names, decode_position, encode
from conal.data.frames import column_names, find_column, open_frame
from conal.data.joining import RowIndex, align
from conal.data.matching import match_names, refuse_lookalikes
from conal.data.true_labels import known_codes, labels_by_task
from conal.errors import DataWarning, InputError, examples, warn
from conal.io import FeatureTable, features_from, gold_from_table
from conal.io.features import TextTable, is_text, texts_from
from conal.parameters.training import ClassifierParameters
from conal.report.evidence import plain_names
from conal.text import TextFeatures
from conal.text.features import STEPS
from conal.training.batches import Instances

# Convert texts to features before training and prediction; methods and networks see only numbers.

MAX_UNKNOWN_SHARE = 0.5
"""Share of texts without a known term above which they are hardly of the kind that was trained on."""


def learn_texts(
    X: Any, task_ids: Any, parameters: ClassifierParameters
) -> tuple[Any, TextFeatures | None, Mapping[Any, str] | None]:
    """Features of the texts X, by directions that are learned from them; other X as they are.

    For texts, also what makes features of them, and the texts by task name.
    """
    if not is_text(X):
        return X, None, None
    features = TextFeatures(parameters.text_components, seed=int(parameters.seed))
    table = texts_from(X, task_ids=task_ids)
    _warn_of_empty(table)
    with make_progress("texts", parameters.verbose, total=STEPS) as progress:
        numbers = _feature_table(features.fit_transform(table.texts, progress=progress), table)
    return numbers, features, texts_by_name(table)


def texts_by_name(table: TextTable) -> dict[Any, str]:
    """Texts by task name, as JSON has it; by row number where there are no ids."""
    names = range(len(table)) if table.ids is None else plain_names(table.ids)
    return dict(zip(names, table.texts, strict=True))


def as_numbers(fitted: TextFeatures | None, X: Any, where: str = "texts") -> Any:
    """Features of the texts X, for a model with these text features; X itself for other models."""
    if fitted is None:
        if is_text(X):
            raise InputError(f"{where}: the model was trained on features, not on texts; pass it the same features")
        return X
    if isinstance(X, FeatureTable):  # already converted
        return X
    if not is_text(X):
        raise InputError(f"{where}: the model was trained on texts; pass it a list of texts, or a frame with a column")
    table = texts_from(X, where=where)
    _warn_of_empty(table)
    features = fitted.transform(table.texts)
    _warn_of_unknown(features, table)
    return _feature_table(features, table)


def further_as_numbers(
    fitted: TextFeatures | None,
    validation: tuple[Any, Any] | None,
    monitor: Mapping[str, tuple[Any, Any]],
) -> tuple[tuple[Any, Any] | None, dict[str, tuple[Any, Any]]]:
    """The same for validation sets and other data; nothing is learned from their texts."""

    def converted(name: str, pair: Any) -> tuple[Any, Any]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            called = "validation" if pair is validation else f"monitor {name!r}"
            raise InputError(f"{called} must be a pair (X, y_true): features, and one true label for each row")
        return as_numbers(fitted, pair[0], f"{name} texts"), pair[1]

    others = {name: converted(name, pair) for name, pair in monitor.items()}
    return None if validation is None else converted("validation", validation), others


def _feature_table(features: npt.NDArray[np.float32], table: TextTable) -> FeatureTable:
    return FeatureTable(features, table.ids, where=table.where, checked=True)


def _is_empty(texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    return np.array([not text.strip() for text in texts])


def _warn_of_empty(table: TextTable) -> None:
    count = int(_is_empty(table.texts).sum())
    if count:
        warn(f"{table.where}: {count:,} of {len(table):,} texts are empty; they carry no information", DataWarning)


def _warn_of_unknown(features: npt.NDArray[np.float32], table: TextTable) -> None:
    unknown = ~features.any(1) & ~_is_empty(table.texts)
    if unknown.mean() > MAX_UNKNOWN_SHARE:
        warn(
            f"{table.where}: {int(unknown.sum()):,} of {len(table):,} texts contain no known term, such as "
            f"{table.texts[int(unknown.argmax())][:40]!r}; are they in the language of the training texts?",
            DataWarning,
        )


# Convert the arguments of ``fit`` and ``predict`` to matching instances and annotations.


Joined = tuple[Instances, Annotations, tuple[str, ...]]
"""Matching instances and annotations, where task i is instance i, and the names of the features, if any."""


def as_features(
    X: Any, task_ids: Any = None, where: str = "features", columns: Sequence[str] = ()
) -> FeatureTable | Dataset[Any]:
    """Checked features with their ids, their ``columns`` in the model's order; or an unchanged torch Dataset."""
    if isinstance(X, Dataset):
        return X
    table = features_from(X, task_ids=task_ids, where=where)
    if not columns or not table.columns or tuple(columns) == table.columns:
        return table
    missing = [name for name in columns if name not in table.columns]
    if missing:
        unknown = [name for name in table.columns if name not in columns]
        raise InputError(
            f"{table.where}: features {examples(missing)}, on which the model was trained, are missing; "
            f"unknown features: {examples(unknown) or 'none'}"
        )
    order = [table.columns.index(name) for name in columns]
    return replace(table, values=table.values[:, order], columns=tuple(columns))


def as_instances(
    X: Any, shape: tuple[int, ...] | None = None, where: str = "features", columns: Sequence[str] = ()
) -> Instances:
    """Instances in row order; another ``shape`` than the model was trained on is an error."""
    features = as_features(X, where=where, columns=columns)
    instances = Instances(features.values if isinstance(features, FeatureTable) else features)
    if shape is not None and len(instances) and instances.shape != shape:
        raise InputError(
            f"{getattr(features, 'where', where)}: instances have shape {instances.shape}, the model was trained on "
            f"{shape}; use the same features in the same order"
        )
    return instances


def refuse_labels_alone(X: Any, y: Any) -> None:
    """A classifier without features is an error that says what takes labels alone."""
    if X is None or (y is None and isinstance(X, Annotations)):
        raise InputError(
            "there are no features or texts: fit(X, annotations); for labels alone, use an aggregator: "
            "conal.aggregation.make('dawid-skene').fit(annotations) (conal aggregate)"
        )


def as_target(y: Any, takes: str) -> Annotations:
    """The training target of a method: true labels for "gold", annotations for "crowd"."""
    return as_gold(y) if takes == "gold" else Annotations.of(y, where="y")


def with_classes(crowd: Annotations, classes: Names) -> Annotations:
    """Annotations with the model's classes; labels of other classes are dropped with a warning."""
    if np.array_equal(crowd.classes, classes):
        return crowd
    position = match_names(classes, crowd.classes, "classes", "labels", "those that the model was trained on")
    codes = position[crowd.labels]
    known = codes >= 0
    if not known.all():
        warn(
            f"left out {int((~known).sum()):,} labels of classes that are unknown to the model: "
            f"{examples(crowd.classes[position < 0])}",
            DataWarning,
        )
    return crowd.select(known).replace(labels=codes[known], classes=classes)


def as_gold(y: Any) -> Annotations:
    """True labels as the annotations of one annotator called "gold"; None, NaN and "" mean "not labelled"."""
    if y is None or isinstance(y, Annotations) or np.ndim(y) != 1:
        raise InputError(
            "method 'gold' takes one true label per row of X: fit(X, y_true); for crowd labels, use another method"
        )
    encoded = read_labels(y, missing="", where="y")
    labelled = np.flatnonzero(encoded.codes != MISSING)
    if not len(labelled):
        raise InputError("y contains no labels")
    return Annotations(
        labelled,
        np.zeros(len(labelled)),
        encoded.codes[labelled],
        task_ids=np.arange(len(encoded.codes)),
        annotator_ids=["gold"],
        classes=encoded.names,
        by_position=True,
    )


def is_labels(y: Any) -> bool:
    """Whether ``y`` is one label per row, or a frame of true labels, rather than annotations."""
    if isinstance(y, Annotations):
        return False
    if (names := column_names(y)) is not None:
        worker, truth = (find_column(names, role, None, "y") for role in ("worker", "truth"))
        return worker is None and truth is not None
    return np.ndim(y) == 1


def is_annotations(data: Any, annotator_ids: Names) -> bool:
    """Whether this is annotations in any form, rather than a sequence of these ids, which may be tuples."""
    if isinstance(data, Annotations) or column_names(data) is not None:
        return True
    return np.ndim(data) == 2 and not any(isinstance(name, tuple) for name in annotator_ids.tolist())


def true_labels(y: Any, X: Any, where: str) -> Any:
    """One label per row of X; a frame with a label column is joined by task id where both have ids."""
    if column_names(y) is None:
        if getattr(y, "ndim", 1) > 1:
            raise InputError(f"{where}: expected one true label for each row, got an array of shape {tuple(y.shape)}")
        return y
    features = as_features(X)
    ids = features.ids if isinstance(features, FeatureTable) else None
    gold = gold_from_table(open_frame(y, where).to_arrow(), where=where)
    if isinstance(ids, RowIndex):
        known = gold.task_ids is not None and (decode_position(gold.task_ids, ids.values) != MISSING).all()
        ids = ids.values if known else None
    return gold.for_rows(len(features), ids)  # type: ignore[arg-type]


def aligned(
    X: Any,
    annotations: Annotations,
    task_ids: Any = None,
    *,
    allow_missing: bool = False,
    unlabelled: bool = True,
    columns: Sequence[str] = (),
) -> Joined:
    """Instances and annotations, joined so that task i is instance i; see :func:`~conal.data.joining.align`."""
    missing = {"allow_missing": allow_missing, "unlabelled": unlabelled}
    if annotations.n_classes < 2:
        raise InputError(
            f"annotations contain a single class ({examples(annotations.classes)}); a classifier needs two. "
            "If there are classes that nobody chose, list them with classes= (--classes)"
        )
    features = as_features(X, task_ids, columns=columns)
    if not isinstance(features, FeatureTable):
        n_rows = len(features)  # type: ignore[arg-type]
        joined, rows = align(annotations, n_rows, task_ids, **missing)
        return Instances(features, rows), joined, ()
    if annotations.by_position and features.ids is not None and len(features) == annotations.n_tasks:
        known = decode_position(features.ids, annotations.task_ids) != MISSING
        if not known.any():  # a matrix has no ids of its own: its rows are the features' rows
            if annotations.task_ids.dtype == object and not isinstance(features.ids, RowIndex):
                refuse_lookalikes(features.ids, annotations.task_ids, "tasks", "features", "here and in the labels")
            return Instances(features.values), annotations, features.columns
    joined, rows = align(annotations, len(features), features.ids, **missing)
    return Instances(features.values, rows), joined, features.columns


def as_codes(y: Any, classes: Names, where: str) -> npt.NDArray[np.int64]:
    """Class codes of true labels; -1 for classes that the model does not have, with a warning."""
    found, names = encode(y)
    if (found == MISSING).any():
        raise InputError(f"{where}: {int((found == MISSING).sum()):,} labels are missing")
    position = match_names(classes, names, "classes", where, "the annotations")
    codes: npt.NDArray[np.int64] = position[found]
    unknown = names[position == MISSING].tolist()
    if len(unknown) == len(names):
        raise InputError(
            f"{where}: labels {examples(unknown)} are not among the classes {examples(classes)}; "
            "use the same names and types as in the annotations"
        )
    if unknown:
        warn(
            f"{where}: {int((codes == MISSING).sum()):,} labels have classes that no annotator used "
            f"({examples(unknown)}); they count as errors",
            DataWarning,
        )
    return codes


def digest(*arrays: npt.NDArray[Any]) -> str:
    """A digest of everything in the arrays."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def digest_features(instances: Instances) -> str:
    """A digest of the features' shape and of a sample of rows: there may be too many rows to read twice."""
    sample = np.unique(np.linspace(0, len(instances) - 1, num=min(64, len(instances))).astype(np.int64))
    return f"{len(instances)} {instances.shape} {digest(instances.take(sample).numpy())}"


# True labels of some training tasks: read, joined to the tasks, and compared with the votes.


def truth_for_training(instances: Instances, crowd: Annotations, labels: Any, takes: str) -> IntArray | None:
    """(N,) true classes of the training tasks, as positions in their classes, and -1 elsewhere; None without any.

    A warning lists labels that contradict every vote, and classes that no annotator used.
    """
    if labels is None:
        return None
    if takes == "gold":
        raise InputError("true_labels: the method 'gold' takes the true labels of all rows as y; leave them out")
    known = known_codes(crowd, _truth_by_task(instances, crowd, labels))
    if (known == MISSING).all():
        return None
    _warn_of_contradicted(crowd, known)
    return known


def digest_of_truth(crowd: Annotations, known: IntArray) -> str:
    """A digest of tasks and their true labels, whatever their order."""
    pairs = labels_by_task(crowd, known).items()
    return digest(np.frombuffer(repr(sorted(map(repr, pairs))).encode(), dtype=np.uint8))


def _truth_by_task(instances: Instances, crowd: Annotations, labels: Any) -> Any:
    """True labels by task; a bare sequence has one for every row of the features, some of them missing."""
    if hasattr(labels, "items") or column_names(labels) is not None:
        return labels
    if isinstance(labels, str) or np.ndim(labels) != 1:
        return labels  # which is refused
    n_rows = len(instances.source)
    if len(labels) != n_rows:
        raise InputError(
            f"true_labels: {len(labels):,} for {n_rows:,} rows of features; pass one for each (None where it is "
            "unknown), or a mapping of task ids to labels"
        )
    read = read_labels(labels, missing="", where="true_labels")
    values = [read.names[code] if code != MISSING else None for code in read.codes.tolist()]
    rows = np.arange(n_rows) if instances.rows is None else instances.rows
    return dict(zip(crowd.task_ids.tolist(), as_names([values[k] for k in rows]).tolist(), strict=True))


def _warn_of_contradicted(crowd: Annotations, known: IntArray) -> None:
    votes = crowd.votes()
    judged = np.flatnonzero((known != MISSING) & (votes.sum(1) > 0))
    against = judged[votes[judged, known[judged]] == 0]
    if not len(against):
        return
    shown = [
        f"{task!r} ({examples(crowd.classes[known[[i]]])}, votes for {examples(crowd.classes[votes[i] > 0])})"
        for i, task in zip(against[:3], crowd.task_ids[against[:3]].tolist(), strict=True)
    ]
    rest = "" if len(against) <= 3 else f" and {len(against) - 3:,} more"
    warn(
        f"true_labels: {len(against):,} of {len(judged):,} contradict every vote of their task: "
        f"{', '.join(shown)}{rest}. They are taken as true; check that ids and classes are right",
        DataWarning,
    )
