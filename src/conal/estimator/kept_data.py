"""What an update needs of the fit before it: labels, features, and what was inferred on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal.data.annotations import Annotations
from conal.data.joining import digest_of_labels
from conal.errors import InputError, ModelFolderError
from conal.estimator.members import members_of
from conal.io.model_folder import DATA, ModelFolder
from conal.methods import CrowdMethod
from conal.training import Instances
from conal.updates import labels_from, labels_to

if TYPE_CHECKING:
    from conal.estimator.fitted import FittedClassifier

__all__ = ["Parts", "Remembered", "TrainingData", "data_tensors", "with_digest"]

MAX_BYTES = 8 * 2**30
"""Features that a folder keeps at most."""
WORKING = ("posterior", "fold_of")
"""Tensors with a row per task that a training goes on from."""
REMEDY = "fit old and new labels together, this time with conal fit --keep-data (save(folder, keep_data=True))"


class Remembered(NamedTuple):
    """Instances, their annotations, and the working state of every member of an ensemble."""

    instances: Instances
    annotations: Annotations
    working: list[dict[str, Tensor]]


class TrainingData:
    """The data of a fit, in memory or in a model folder. They are no part of a pickle or copy."""

    def __init__(
        self, found: Remembered | None = None, source: tuple[ModelFolder, FittedClassifier] | None = None
    ) -> None:
        self._found, self._source = found, source

    @classmethod
    def of(cls, instances: Instances, annotations: Annotations, trained: Sequence[CrowdMethod]) -> TrainingData:
        """The data that methods have just been trained on."""
        working = [
            {name: tensor.detach().cpu().clone() for name, tensor in method.working_state().items() if name in WORKING}
            for method in trained
        ]
        return cls(Remembered(instances, annotations, working))

    @classmethod
    def stored(cls, folder: ModelFolder, made: FittedClassifier) -> TrainingData | None:
        """The data in a folder, which are read when somebody asks for them; None where it has none."""
        return cls(source=(folder, made)) if DATA in folder.files else None

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainingData, ()

    def get(self) -> Remembered:
        """The data; an error if they are gone."""
        if self._found is None and self._source is not None:
            self._found = _read(*self._source)
        if self._found is None:
            raise InputError(f"a copied or pickled estimator does not contain its training data; {REMEDY}")
        return self._found


class Parts:
    """Several sources of instances, one after the other, indexed as one array."""

    def __init__(self, parts: Sequence[Instances]) -> None:
        self.parts = list(parts)
        self.ends = np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        of = np.searchsorted(self.ends, at, side="right")
        pieces = [(np.flatnonzero(of == k), k) for k in np.unique(of)]
        taken = [self.parts[k].take(at[rows] - (self.ends[k] - len(self.parts[k]))).numpy() for rows, k in pieces]
        made = np.empty((len(at), *taken[0].shape[1:]), dtype=np.result_type(*taken))
        for (rows, _), values in zip(pieces, taken, strict=True):
            made[rows] = values
        return made


def data_tensors(fitted: FittedClassifier) -> dict[str, npt.NDArray[Any]]:
    """All that a folder keeps for updates."""
    if fitted.kept_ is None:
        raise InputError(f"this estimator does not have the data that it was trained on; {REMEDY}")
    instances, crowd, working = fitted.kept_.get()
    if crowd.abstentions is not None:
        raise InputError("refused answers cannot be kept for updates; leave out --keep-data (keep_data=True)")
    first, kind = instances.take(np.array([0])), fitted.model_.scaler.dtype
    kind = kind if first.is_floating_point() else first.dtype
    size = len(instances) * first.numel() * kind.itemsize
    if size > MAX_BYTES:
        raise InputError(
            f"the features take {size / 2**30:.1f} GB, and a folder keeps at most {MAX_BYTES / 2**30:.0f}; leave out "
            "--keep-data, and update the estimator in the process that fitted it, or fit again"
        )
    tensors = {f"crowd.{name}": array for name, array in labels_to(crowd).items()}
    tensors["features"] = np.concatenate([chunk.to(kind).numpy() for chunk in instances.chunks()])
    for number, state in enumerate(working):
        tensors |= {f"working.{number}.{name}": tensor.numpy() for name, tensor in state.items()}
    return tensors


def with_digest(fitted: FittedClassifier) -> list[dict[str, Any]]:
    """What the estimator has learned from, each with its digest."""
    history = [dict(entry) for entry in fitted.learned_from_]
    if history and history[0]["sha256"] is None and fitted.kept_ is not None:
        history[0]["sha256"] = digest_of_labels(fitted.kept_.get().annotations) if len(history) == 1 else "unknown"
    return history


def _read(folder: ModelFolder, made: FittedClassifier) -> Remembered:
    tensors = folder.tensors(DATA)
    try:
        names = made.task_ids_, made.annotator_ids_, made.classes_
        labels = {name.removeprefix("crowd."): array for name, array in tensors.items() if name.startswith("crowd.")}
        crowd = labels_from(labels, names, made.ordinal_)
        features = tensors["features"]
        if features.shape != (crowd.n_tasks, *made.instance_shape_):
            raise ValueError(f"features of shape {features.shape} for {crowd.n_tasks:,} tasks")
        if features.dtype.kind == "f" and not np.isfinite(features).all():
            raise ValueError("features must be finite numbers")
        working = [dict(_working(tensors, number, crowd, made)) for number in range(made.ensemble)]
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFolderError(f"{folder.path / DATA}: does not match the model: {error}; {REMEDY}") from error
    return Remembered(Instances(features), crowd, working)


def _working(
    tensors: Mapping[str, npt.NDArray[Any]], number: int, crowd: Annotations, made: FittedClassifier
) -> Iterator[tuple[str, Tensor]]:
    n_folds = getattr(members_of(made.model_)[number], "n_folds", 0)
    sizes = {"posterior": (crowd.n_tasks, crowd.n_classes), "fold_of": (crowd.n_tasks,)}
    for name, shape in sizes.items():
        found = tensors.get(f"working.{number}.{name}")
        if found is None:
            continue
        if found.shape != shape or not np.isfinite(found).all():
            raise ValueError(f"{name} of shape {found.shape} for {crowd.n_tasks:,} tasks")
        if name == "fold_of" and (found.min(initial=0) < 0 or found.max(initial=0) >= n_folds):
            raise ValueError("there is no such fold")
        yield name, torch.from_numpy(found)
