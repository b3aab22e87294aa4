"""What is said about tasks with a true label by fits that did not use it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from conal.data.encoding import MISSING
from conal.data.true_labels import parts_of_labels
from conal.estimator import compute, members
from conal.methods import CrowdMethod
from conal.report.sections.rates import MIN_GOLD
from conal.training import CrowdBatches, TrainingResult

__all__ = ["Judgement", "Refits", "judged_by_refits", "planned_refits", "tasks_to_judge"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

USUAL = 5
"""A fit with four fifths of the true labels is nearly as good as one with all of them."""
MOST_TASKS = 20_000
"""With more labelled tasks, a few true labels hardly teach the networks anything about their neighbours."""


class Judgement(NamedTuple):
    """Tasks with a true label, and (n, C) their posteriors by fits that did not use it."""

    tasks: IntArray
    posterior: FloatArray

    def put_into(self, posterior: FloatArray) -> FloatArray:
        """(N, C) a posterior of all tasks, with these rows."""
        made = posterior.copy()
        made[self.tasks] = self.posterior
        return made


class Refits:
    """Fits without a part of the true labels, which take long and run when somebody asks what they say.

    Parameters
    ----------
    count : int
        Number of fits.
    judge : callable
        Makes them.
    """

    def __init__(self, count: int, judge: Callable[[], Judgement]) -> None:
        self.count = count
        self._judge: Callable[[], Judgement] | None = judge
        self._found: Judgement | None = None

    @property
    def are_due(self) -> bool:
        """Whether nobody has asked yet."""
        return self._found is None

    def get(self) -> Judgement:
        """What they say."""
        if self._judge is not None:
            self._found, self._judge = self._judge(), None
        assert self._found is not None  # noqa: S101 - there are fits to make, or they were made
        return self._found

    def __getstate__(self) -> dict[str, Any]:
        """A pickle cannot contain what makes the fits, so that they are made now."""
        return {"count": self.count, "_judge": None, "_found": self.get()}

    def __deepcopy__(self, memo: dict[int, Any]) -> Refits:
        return self


def planned_refits(refits: int | Literal["auto"], method: type[CrowdMethod], n_tasks: int, n_true: int) -> int:
    """The stated number; or, for "auto", 5 for xconal, data of moderate size and true labels that measure something.

    >>> from conal.methods import get
    >>> [planned_refits("auto", get("xconal"), n, 50) for n in (1_000, 1_000_000)]
    [5, 0]
    >>> planned_refits(3, get("conal"), 1_000, 50), planned_refits("auto", get("xconal"), 1_000, 5)
    (3, 0)
    """
    if refits != "auto":
        return refits
    return USUAL if method.judges_true_labels and n_tasks <= MOST_TASKS and n_true >= MIN_GOLD else 0


def tasks_to_judge(batches: CrowdBatches, known: IntArray) -> IntArray:
    """The tasks that have both labels and a true label."""
    return np.flatnonzero((known != MISSING) & (batches.annotations.labels_per_task() > 0))


def judged_by_refits(
    fit: Callable[[IntArray, str], list[TrainingResult]], batches: CrowdBatches, known: IntArray, refits: int
) -> Judgement:
    """Fit again without each part of the true labels, and let this fit judge the part.

    Predictions that leave out one task's true label have still learned from its neighbours, whose labels were inferred
    by networks that knew it. On a few hundred tasks this makes labels look better than they are by some points.

    Parameters
    ----------
    fit : callable
        Trains every member anew, given the (N,) true labels to use and a title.
    batches : CrowdBatches
        The training tasks and all their annotations.
    known : (N,)
        True classes of the tasks, and -1 elsewhere.
    refits : int
        Number of parts, at most that of the tasks. With one, a fit without any true label judges all.
    """
    tasks = tasks_to_judge(batches, known)
    found = np.empty((len(tasks), batches.annotations.n_classes))
    part = parts_of_labels(known[tasks], refits)
    for k in range(refits):
        fewer = known.copy()
        fewer[tasks[part == k]] = MISSING
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit with all true labels has told them
            result = members.merged(fit(fewer, f"without true labels {k + 1}/{refits}"))
            reading = compute.read_training_tasks(result.method, batches, result.class_logits)
        found[part == k] = reading.posterior[tasks[part == k]]
    return Judgement(tasks, found)
