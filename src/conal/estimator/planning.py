"""Who labelled what, as a model folder remembers it, and the plans that can be made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import Names, as_names
from conal.errors import InputError
from conal.metrics.rates import Rate
from conal.planning.crowd_plan import PER_TASK
from conal.planning.gains import Asking, Pairs, cautious, checked_by_others, measured_accuracy
from conal.report.evidence import MEASURED

if TYPE_CHECKING:
    from conal.estimator.fitted import FittedClassifier

__all__ = ["ASKED_TENSOR", "Asked", "By", "asked_of", "asking_of", "restored", "to_tensors"]

FloatArray = npt.NDArray[np.float64]
By = Literal["annotator", "group"]

ASKED_TENSOR = "asked."
"""How the names of these tensors begin."""
ANYONE = "anyone"
"""Who is asked where the folder does not say who labelled what."""


class Asked(NamedTuple):
    """Who labelled what, without the labels, and how often each annotator errs as all do."""

    pairs: Pairs
    common_share: FloatArray


def asked_of(fitted: FittedClassifier) -> Asked | None:
    """What a fitted model remembers of it; None where annotators have pseudonyms, or labels were true ones."""
    from conal.estimator.results import FittedResults

    results = fitted.results_
    if not isinstance(results, FittedResults):
        return fitted.asked_
    if results.discretion is not None or fitted.model_.takes == "gold":
        return None
    crowd = results.annotations
    pairs = Pairs(crowd.indptr, crowd.annotators.astype(np.int64))
    return Asked(pairs, results.findings.evidence.common_share)


def to_tensors(asked: Asked | None) -> dict[str, npt.NDArray[Any]]:
    """For a model folder."""
    if asked is None:
        return {}
    found = {
        "labels_per_task": np.diff(asked.pairs.indptr).astype(np.int32),
        "annotators": asked.pairs.annotators.astype(np.int32),
        "common_share": asked.common_share.astype(np.float32),
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
    return Asked(Pairs(indptr, people.astype(np.int64)), np.clip(share.astype(np.float64), 0, 1))


def asking_of(
    fitted: FittedClassifier, info: Any = None, *, by: By = "annotator", per_task: int = PER_TASK
) -> tuple[Asking, Names]:
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
        return _anyone(fitted, costs, limits, per_task), as_names([ANYONE])
    share = asked.common_share[:, None, None]
    learned = share * fitted.common_confusion_ + (1 - share) * fitted.annotator_confusion_
    met = checked_by_others(asked.pairs, fitted.probas_, len(names))
    given = np.bincount(asked.pairs.annotators, minlength=len(names))
    active = np.where(given > 0, np.inf if limits is None else limits, 0.0)
    confusion = cautious(learned, met, fitted.common_confusion_)
    asking = Asking(fitted.probas_, confusion, asked.pairs, met, costs, active, now=_measured(fitted))
    if by == "annotator":
        return asking, names
    coded = None if about is None else about.coded_groups()
    if coded is None:
        raise InputError(
            "by group: the annotators have no groups; pass a table with a column 'group' as annotator info"
        )
    return asking.in_groups(coded[1], len(coded[0]), per_task), as_names(coded[0])


def _measured(fitted: FittedClassifier) -> Rate | None:
    """The share of right labels of all tasks, where it was measured; of a loaded model, as its report has it."""
    from conal.estimator.results import FittedResults

    if isinstance(fitted.results_, FittedResults):
        return measured_accuracy(fitted.results_.findings.evidence)
    plan = fitted.results_.report.get("plan")
    if plan is None or plan.get("basis") != MEASURED:
        return None
    first = plan["curve"][0]
    return Rate(first["accuracy"], first["low"], first["high"], 0, 0.0)


def _about(fitted: FittedClassifier, info: Any) -> AnnotatorInfo | None:
    if info is None:
        return fitted.annotator_info_
    crowd = Annotations([], [], [], task_ids=[], annotator_ids=fitted.annotator_ids_, classes=fitted.classes_)
    return AnnotatorInfo.of(info, crowd)


def _anyone(fitted: FittedClassifier, costs: FloatArray | None, limits: FloatArray | None, per_task: int) -> Asking:
    """Plans that name nobody: by the common confusion, at the mean cost."""
    n, c = fitted.probas_.shape
    allowed = Pairs(np.arange(n + 1) * per_task, np.zeros(n * per_task, np.int64))
    nobody = Pairs(np.zeros(n + 1, np.int64), np.empty(0, np.int64))
    price = None if costs is None else np.array([costs.mean()])
    room = None if limits is None else np.array([limits.sum()])
    weight = np.full((1, c), float(fitted.model_.labels_per_annotator.sum()) / max(c, 1))
    return Asking(
        fitted.probas_, fitted.common_confusion_[None], nobody, weight, price, room, None, allowed, _measured(fitted)
    )
