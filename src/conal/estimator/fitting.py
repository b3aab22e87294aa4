"""How a fit is made: arguments read and joined, the method prepared, and every member of an ensemble trained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conal import methods
from conal._progress import make_progress
from conal._system import process_number
from conal.data.encoding import MISSING
from conal.data.joining import learnt
from conal.data.problems import check_memory
from conal.estimator import adapters, members, preparation, refits, texts
from conal.estimator.kept_data import TrainingData
from conal.estimator.learned import Learned
from conal.estimator.true_labels import Truth, truth_for_training
from conal.parameters.training import plan
from conal.training import CrowdBatches, Selection, TrainingResult, train
from conal.training.checkpoint import Checkpoint

if TYPE_CHECKING:
    from conal.estimator.base import CrowdClassifier

__all__ = ["Given", "fit_to"]

NUMBERS = 60
"""Numbers per cell of the annotators' matrices that training and its results keep at once."""


class Given(NamedTuple):
    """The arguments of :meth:`CrowdClassifier.fit`."""

    X: Any
    y: Any
    validation: tuple[Any, Any] | None
    monitor: Mapping[str, tuple[Any, Any]]
    task_ids: Any
    annotator_features: npt.ArrayLike | None
    annotator_info: Any
    true_labels: Any
    allow_missing: bool
    checkpoint: str | PathLike[str] | None
    resume: bool


class Read(NamedTuple):
    """The arguments as training data, and the texts among them."""

    joined: adapters.Joined
    validation: tuple[Any, Any] | None
    monitor: Mapping[str, tuple[Any, Any]]
    quoted: Mapping[Any, str] | None
    annotator_features: npt.ArrayLike | None
    known: npt.NDArray[np.int64] | None


def fit_to(estimator: CrowdClassifier, given: Given) -> Learned:
    """Train an estimator's method; see :meth:`CrowdClassifier.fit`."""
    adapters.refuse_labels_alone(given.X, given.y)
    read = _read(estimator, given)
    joined, known = read.joined, read.known
    kept, selection = preparation.choose_selection(estimator, joined, read.validation, known)
    training = CrowdBatches(joined.instances, kept, estimator.batch_size, known=known)
    results = _train(estimator, read, training, selection, _checkpointing(given))
    truth = None
    if known is not None:
        judges = _refits(copy.copy(estimator), read, len(training.labelled))
        if judges is not None and _uses_several_processes(estimator):
            judges.get()  # with the others, which may not be there when somebody asks
        truth = Truth.of(joined.annotations, known, given.true_labels, judges)
    return Learned(
        members.merged(results),
        selection,
        joined,
        read.quoted,
        truth,
        TrainingData.of(joined.instances, joined.annotations, [result.method for result in results]),
        learnt("fit", joined.annotations),
    )


def _read(estimator: CrowdClassifier, given: Given) -> Read:
    """Training data from what the user passed; what makes features of texts is learned on the way."""
    takes = methods.get(estimator.method).takes
    crowd = adapters.as_target(given.y, takes)
    check_memory(crowd, NUMBERS * crowd.n_annotators * crowd.n_classes**2, estimator.method)
    X, estimator.text_features_, quoted = texts.learn_texts(given.X, given.task_ids, estimator)
    validation, monitor = texts.further_as_numbers(estimator.text_features_, given.validation, given.monitor)
    joined = adapters.aligned(X, crowd, given.task_ids, allow_missing=given.allow_missing)
    estimator.annotator_info_, features = preparation.about_annotators(
        given.annotator_info, given.annotator_features, joined.annotations
    )
    known = truth_for_training(joined, given.true_labels, takes)
    return Read(joined, validation, monitor, quoted, features, known)


def _uses_several_processes(estimator: CrowdClassifier) -> bool:
    return process_number() > 1 or estimator.devices * estimator.num_nodes > 1


def _refits(estimator: CrowdClassifier, read: Read, n_tasks: int) -> refits.Refits | None:
    """Fits without a part of the true labels, which say something about the tasks of this part; None without any."""
    joined, known = read.joined, read.known
    assert known is not None  # noqa: S101 - there are true labels

    def fit(fewer: npt.NDArray[np.int64], purpose: str) -> list[TrainingResult]:
        kept, selection = preparation.choose_selection(estimator, joined, read.validation, fewer)
        training = CrowdBatches(joined.instances, kept, estimator.batch_size, known=fewer)
        return _train(estimator, read._replace(known=fewer, monitor={}), training, selection, None, f" {purpose}")

    method, n_true = methods.get(estimator.method), int((known != MISSING).sum())
    batches = CrowdBatches(joined.instances, joined.annotations, estimator.batch_size)
    parts = refits.planned_refits(estimator.refits, method, n_tasks, n_true)
    parts = min(parts, len(refits.tasks_to_judge(batches, known)))
    return refits.Refits(parts, partial(refits.judged_by_refits, fit, batches, known, parts)) if parts else None


def _checkpointing(given: Given) -> Callable[[dict[str, str]], Checkpoint] | None:
    """What makes the checkpoint from the marks of a run; None without one."""
    return None if given.checkpoint is None else partial(Checkpoint, Path(given.checkpoint), resume=given.resume)


def _train(
    estimator: CrowdClassifier,
    read: Read,
    training: CrowdBatches,
    selection: Selection,
    checkpointing: Callable[[dict[str, str]], Checkpoint] | None,
    purpose: str = "",
) -> list[TrainingResult]:
    """A result for every member of the ensemble; ``purpose`` is added to the title of the progress bar."""
    features, known, groups = read.annotator_features, read.known, preparation.groups_of(estimator)
    build = preparation.make_builder(estimator, methods.get(estimator.method), training, features, known, groups)
    settings = preparation.settings_of(estimator)
    planned = plan(settings, len(training.labelled))
    saver = None
    if checkpointing is not None:
        marks = preparation.fingerprint_of(estimator, read.joined, selection, planned, features, known, groups)
        saver = checkpointing(marks)
    monitors = preparation.make_monitors(read.joined, read.monitor)
    results = []
    for number in range(estimator.ensemble):
        title = estimator.method if estimator.ensemble == 1 else f"{estimator.method} {number + 1}/{estimator.ensemble}"
        with make_progress(title + purpose, estimator.verbose, total=planned.epochs) as progress:
            results.append(
                train(
                    build,
                    training,
                    selection,
                    members.settings_of_member(settings, number),
                    monitors=monitors,
                    progress=progress,
                    checkpoint=None if saver is None else saver.of_member(number),
                    own_network=not isinstance(estimator.backbone, str),
                )
            )
    return results
