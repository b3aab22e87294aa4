"""What a model folder keeps for updates and plans: labels, features, and what is known about annotators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conal._arrays import FloatArray
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names, as_names
from conal.errors import InputError, ModelFolderError
from conal.estimator.results import FittedResults, members_of
from conal.io.model_folder import DATA, ModelFolder
from conal.methods import CrowdMethod
from conal.metrics.rates import Rate
from conal.planning.crowd_plan import PER_TASK
from conal.planning.gains import LabelingProblem, Pairs, cautious, checked_by_others, measured_accuracy
from conal.report.evidence import MEASURED
from conal.training.batches import CrowdBatches, Instances
from conal.updates import labels_from, labels_to

if TYPE_CHECKING:
    from conal.estimator.classifier import CrowdClassifier

# Who labelled what, as a model folder remembers it, and the plans that can be made of it.

By = Literal["annotator", "group"]

ASKED_TENSOR = "asked."
"""How the names of these tensors begin."""


Asked = tuple[Pairs, FloatArray]
"""Who labelled what, without the labels, and how often each annotator errs as all do."""


def asked_of(fitted: CrowdClassifier) -> Asked | None:
    """What a fitted model remembers of it; None where annotators have pseudonyms, or labels were true ones."""
    results = fitted.results_
    if not isinstance(results, FittedResults):
        return fitted.asked_
    if results.evidence.privacy.hides_names or fitted.model_.takes == "gold":
        return None
    crowd = results.evidence.annotations
    return Pairs(crowd.indptr, crowd.annotators.astype(np.int64)), results.evidence.common_share


def to_tensors(asked: Asked | None) -> dict[str, npt.NDArray[Any]]:
    """For a model folder."""
    if asked is None:
        return {}
    pairs, share = asked
    found = {
        "labels_per_task": np.diff(pairs.indptr).astype(np.int32),
        "annotators": pairs.annotators.astype(np.int32),
        "common_share": share.astype(np.float32),
    }
    return {ASKED_TENSOR + name: array for name, array in found.items()}


def restored(tensors: Mapping[str, npt.NDArray[Any]], n_tasks: int, n_annotators: int) -> Asked | None:
    """The same from a model folder, checked; None for folders without it."""
    found = {name.removeprefix(ASKED_TENSOR): tensors[name] for name in tensors if name.startswith(ASKED_TENSOR)}
    if not found:
        return None
    given, people, share = found["labels_per_task"], found["annotators"], found["common_share"]
    right = given.shape == (n_tasks,) and people.ndim == 1 and share.shape == (n_annotators,)
    right = right and all(array.dtype.kind == "i" for array in (given, people)) and np.isfinite(share).all()
    if not right or (given < 0).any() or given.sum() != len(people) or (people < 0).any():
        raise ValueError("the tensors of who labelled what do not belong together")
    if (people >= n_annotators).any():
        raise ValueError("somebody labelled a task who is not among the annotators")
    indptr = np.concatenate([[0], np.cumsum(given, dtype=np.int64)])
    return Pairs(indptr, people.astype(np.int64)), np.clip(share.astype(np.float64), 0, 1)


def labeling_problem_of(
    fitted: CrowdClassifier, info: Any = None, *, by: By = "annotator", per_task: int = PER_TASK
) -> tuple[LabelingProblem, Names]:
    """What a plan is made from, and what those are called who can be asked: annotators, or groups of them.

    Parameters
    ----------
    info : frame or AnnotatorInfo, optional
        Groups, costs and limits of the annotators; by default those that the model was fitted with.
    by : {"annotator", "group"}
        Whom to ask: single annotators, or anybody of a group.
    """
    asked, names = asked_of(fitted), fitted.annotator_ids_
    about = _about(fitted, info)
    costs, limits = (None, None) if about is None else (about.costs, about.limits)
    if asked is None:
        raise InputError(
            "this model does not remember who labelled what, as it was fitted with pseudonyms or to true labels alone; "
            "suggestions.csv lists the tasks that need labels most, and --experts plans true labels"
        )
    pairs, share = asked[0], asked[1][:, None, None]
    common = fitted.model_.common_of_annotators().detach().double().numpy()
    learned = share * common + (1 - share) * fitted.annotator_confusion_
    counts = checked_by_others(pairs, fitted.probas_, len(names))
    given = np.bincount(pairs.annotators, minlength=len(names))
    active = np.where(given > 0, np.inf if limits is None else limits, 0.0)
    confusion = cautious(learned, counts, fitted.common_confusion_)
    problem = LabelingProblem(fitted.probas_, confusion, pairs, counts, costs, active, now=_measured(fitted))
    if by == "annotator":
        return problem, names
    coded = None if about is None else about.coded_groups()
    if coded is None:
        raise InputError(
            "by group: the annotators have no groups; pass a table with a column 'group' as annotator info"
        )
    return problem.in_groups(coded[1], len(coded[0]), per_task), as_names(coded[0])


def _measured(fitted: CrowdClassifier) -> Rate | None:
    """The share of right labels of all tasks, where it was measured; of a loaded model, as its report has it."""
    if isinstance(fitted.results_, FittedResults):
        return measured_accuracy(fitted.results_.findings.evidence)
    plan = fitted.results_.report.get("plan")
    if plan is None or plan.get("basis") != MEASURED:
        return None
    first = plan["curve"][0]
    return Rate(first["accuracy"], first["low"], first["high"], 0, 0.0)


def _about(fitted: CrowdClassifier, info: Any) -> AnnotatorInfo | None:
    if info is None:
        return fitted.annotator_info_
    crowd = Annotations([], [], [], task_ids=[], annotator_ids=fitted.annotator_ids_, classes=fitted.classes_)
    return AnnotatorInfo.of(info, crowd)


# What an update needs of the fit before it: labels, features, and what was inferred on the way.

MAX_BYTES = 8 * 2**30
"""Features that a folder keeps at most."""
WORKING = ("posterior", "fold_of")
"""Tensors with a row per task that a training goes on from."""
REMEDY = "fit old and new labels together, this time with conal fit --keep-data (save(folder, keep_data=True))"


Remembered = tuple[Instances, Annotations, list[dict[str, Tensor]]]
"""Instances, their annotations, and the working state of every member of an ensemble."""


class TrainingData:
    """The data of a fit, in memory or read from a model folder when somebody asks. They are no part of a pickle."""

    def __init__(self, read: Callable[[], Remembered] | None = None) -> None:
        self._read = read

    @classmethod
    def of(cls, data: CrowdBatches, trained: Sequence[CrowdMethod]) -> TrainingData:
        """The data that methods have just been trained on."""
        working = [
            {name: tensor.detach().cpu().clone() for name, tensor in method.working_state().items() if name in WORKING}
            for method in trained
        ]
        return cls(lambda: (data.instances, data.annotations, working))

    @classmethod
    def stored(cls, folder: ModelFolder, made: CrowdClassifier) -> TrainingData | None:
        """The data in a folder; None where it has none."""
        return cls(partial(_read, folder, made)) if DATA in folder.files else None

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainingData, ()

    @cached_property
    def found(self) -> Remembered:
        """The data; an error if they are gone."""
        if self._read is None:
            raise InputError(f"a copied or pickled estimator does not contain its training data; {REMEDY}")
        return self._read()


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


def data_tensors(fitted: CrowdClassifier) -> dict[str, npt.NDArray[Any]]:
    """All that a folder keeps for updates."""
    if fitted.kept_ is None:
        raise InputError(f"this estimator does not have the data that it was trained on; {REMEDY}")
    instances, crowd, working = fitted.kept_.found
    if crowd.abstentions is not None:
        raise InputError("abstentions cannot be kept for updates; leave out --keep-data (keep_data=True)")
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


def _read(folder: ModelFolder, made: CrowdClassifier) -> Remembered:
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
    return Instances(features), crowd, working


def _working(
    tensors: Mapping[str, npt.NDArray[Any]], number: int, crowd: Annotations, made: CrowdClassifier
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
