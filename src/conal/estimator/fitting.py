"""How a fit is made: arguments read and joined, the method prepared and trained, and what the estimator keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from conal import methods
from conal._arrays import FloatArray, IntArray
from conal._progress import make_progress
from conal._system import process_number
from conal.aggregation.counts import clamped, vote_shares
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import MISSING
from conal.data.joining import TrainingRecord, training_record
from conal.data.problems import check_memory
from conal.data.true_labels import inclusion_of
from conal.errors import DataWarning, InputError, NetworkWarning, warn
from conal.estimator import compute, inputs
from conal.estimator.kept_data import TrainingData
from conal.estimator.results import (
    FittedResults,
    drawn,
    model_section,
    warn_of_collapse,
    warn_of_contradiction,
    warn_of_prior,
)
from conal.methods import CrowdMethod, Problem
from conal.methods.base import read_class_prior
from conal.methods.ensemble import Ensemble
from conal.networks import FeatureScaler, build_backbone
from conal.parameters import parameters_of
from conal.parameters.training import Plan, Settings, is_large, plan, planned_epochs
from conal.report.evidence import AnnotatorPrivacy, Evidence
from conal.report.evidence import about_annotators as described_annotators
from conal.report.exhibits import Exhibits
from conal.report.findings import Findings
from conal.training.batches import CrowdBatches, Instances
from conal.training.checkpoint import Checkpoint, WarmStart
from conal.training.loop import TrainingResult, train
from conal.training.scaling import fit_scaler
from conal.training.selection import AnnotationLikelihood, GoldAccuracy, LastEpoch, Selection, hold_out

if TYPE_CHECKING:
    from conal.estimator.classifier import CrowdClassifier


# The fit itself: arguments become training data, and every member of an ensemble is trained.

NUMBERS = 60
"""Numbers per cell of the annotators' matrices that training and its results keep at once."""


class TrainingInputs(NamedTuple):
    """The arguments of :meth:`CrowdClassifier.fit` as training data.

    Attributes
    ----------
    data : CrowdBatches
        Instances, annotations and known true classes of the training tasks.
    columns : tuple of str
        Names of the features, if they have any.
    validation, monitor
        As in ``fit``; texts have become features.
    annotator_features : (R, F) or None
    """

    data: CrowdBatches
    columns: tuple[str, ...]
    validation: tuple[Any, Any] | None = None
    monitor: Mapping[str, tuple[Any, Any]] = {}
    annotator_features: npt.ArrayLike | None = None


class FitResult(NamedTuple):
    """What a fit or an update has trained, and on what.

    Attributes
    ----------
    result, selection
        The trained method, and how its epoch was selected.
    data, columns
        As in :class:`TrainingInputs`.
    quoted : mapping or None
        Texts by task, where the instances are texts.
    kept : TrainingData
        What an update needs.
    record : TrainingRecord
        The labels, as ``learned_from_`` lists them.
    inclusion : (N,) or None
        Probabilities with which tasks with a true label were drawn.
    refit : callable or None
        Trains every member anew, given the (N,) true labels to use and a title.
    """

    result: TrainingResult
    selection: Selection
    data: CrowdBatches
    columns: tuple[str, ...]
    quoted: Mapping[Any, str] | None
    kept: TrainingData
    record: TrainingRecord
    inclusion: FloatArray | None = None
    refit: Callable[[IntArray, str], list[TrainingResult]] | None = None


def run_fit(
    estimator: CrowdClassifier,
    X: Any,
    y: Any,
    *,
    validation: tuple[Any, Any] | None,
    monitor: Mapping[str, tuple[Any, Any]],
    task_ids: Any,
    annotator_features: npt.ArrayLike | None,
    annotator_info: Any,
    true_labels: Any,
    allow_missing: bool,
    checkpoint: str | PathLike[str] | None,
    resume: bool,
) -> FitResult:
    """Train an estimator's method; see :meth:`CrowdClassifier.fit`."""
    inputs.refuse_labels_alone(X, y)
    takes = methods.get(estimator.method).takes
    crowd = inputs.as_target(y, takes)
    check_memory(crowd, NUMBERS * crowd.n_annotators * crowd.n_classes**2, estimator.method)
    X, estimator.text_features_, quoted = inputs.learn_texts(X, task_ids, estimator)
    validation, monitor = inputs.further_as_numbers(estimator.text_features_, validation, monitor)
    instances, crowd, columns = inputs.aligned(X, crowd, task_ids, allow_missing=allow_missing)
    estimator.annotator_info_, features = about_annotators(annotator_info, annotator_features, crowd)
    known = inputs.truth_for_training(instances, crowd, true_labels, takes)
    data = CrowdBatches(instances, crowd, estimator.batch_size, known=known)
    given = TrainingInputs(data, columns, validation, monitor, features)
    saver = None if checkpoint is None else partial(Checkpoint, Path(checkpoint), resume=resume)
    selection, results = _train(estimator, given, saver)
    return FitResult(
        compute.merged(results),
        selection,
        data,
        columns,
        quoted,
        TrainingData.of(data, [result.method for result in results]),
        training_record("fit", crowd),
        None if known is None else inclusion_of(crowd, true_labels),
        partial(_fit_again, copy.copy(estimator), given),
    )


def _fit_again(
    estimator: CrowdClassifier, given: TrainingInputs, known: IntArray, purpose: str
) -> list[TrainingResult]:
    """The same fit with fewer true labels."""
    data = CrowdBatches(given.data.instances, given.data.annotations, estimator.batch_size, known=known)
    return _train(estimator, given._replace(data=data, monitor={}), None, f" {purpose}")[1]


def _train(
    estimator: CrowdClassifier,
    given: TrainingInputs,
    saver: Callable[[dict[str, str]], Checkpoint] | None,
    purpose: str = "",
) -> tuple[Selection, list[TrainingResult]]:
    """How the epoch is selected, and a result for every member of the ensemble.

    ``saver`` makes a checkpoint from the marks of the run; ``purpose`` is added to the title of the progress bar.
    """
    kept, selection = choose_selection(estimator, given)
    training = CrowdBatches(given.data.instances, kept, estimator.batch_size, known=given.data.known)
    build = make_builder(estimator, training, given.annotator_features)
    planned = plan(settings_of(estimator), len(training.labelled))
    checkpoint = None if saver is None else saver(fingerprint_of(estimator, given, selection, planned))
    monitors = {f"{name}_accuracy": _gold_accuracy(given, pair, name) for name, pair in given.monitor.items()}
    builders = [build] * estimator.ensemble
    results = train_members(estimator, builders, training, selection, purpose, monitors=monitors, checkpoint=checkpoint)
    return selection, results


def train_members(
    estimator: CrowdClassifier,
    builders: Sequence[Callable[[], CrowdMethod]],
    training: CrowdBatches,
    selection: Selection,
    purpose: str,
    *,
    monitors: Mapping[str, GoldAccuracy] | None = None,
    checkpoint: Checkpoint | None = None,
    warm: Sequence[WarmStart | None] = (),
) -> list[TrainingResult]:
    """Train the members of an ensemble one after the other, each with a seed, a bar and a checkpoint of its own."""
    settings, epochs = settings_of(estimator), planned_epochs(estimator.epochs, len(training.labelled))
    results = []
    for number, build in enumerate(builders):
        title = estimator.method + ("" if len(builders) == 1 else f" {number + 1}/{len(builders)}") + purpose
        with make_progress(title, estimator.verbose, total=epochs) as progress:
            result = train(
                build,
                training,
                selection,
                compute.settings_of_member(settings, number),
                monitors=monitors,
                progress=progress,
                checkpoint=None if checkpoint is None else checkpoint.of_member(number),
                warm=warm[number] if warm else None,
                own_network=not isinstance(estimator.backbone, str),
            )
        results.append(result)
    return results


# Before training: how to select the epoch, how to build the method, and what identifies the run.

TRIED = 32
"""Instances on which a user's network is tried before it is trained."""
JUDGED_TASKS = 500
"""Tasks whose votes say how to scale features."""


def choose_selection(estimator: CrowdClassifier, given: TrainingInputs) -> tuple[Annotations, Selection]:
    """The annotations to train on, and the rule that selects the epoch; tasks of known truth are not held out."""
    instances, crowd, known = given.data.instances, given.data.annotations, given.data.known
    if not crowd.n_annotations:
        raise InputError("no task with features has a label; at least one label is needed")
    rule = estimator.selection
    if rule == "auto":
        rule = _own_rule(estimator, crowd) if given.validation is None else "gold"
    if rule == "gold":
        return crowd, _gold_accuracy(given, given.validation)
    candidates = crowd.labels_per_task() > 0
    if known is not None:
        candidates &= known < 0
    few = np.count_nonzero(candidates) < 2
    if rule == "annotations" and few:
        which = "task has" if known is None else "task without a true label has"
        warn(f"only one {which} labels, so none is held out; the last epoch is kept", DataWarning)
    if rule == "annotations" and not few:
        kept = hold_out(crowd, estimator.holdout, estimator.seed, candidates)
        held_out = CrowdBatches(instances, crowd.select(~kept), estimator.batch_size)
        fitted = crowd.select(kept)
        return fitted, AnnotationLikelihood(held_out, CrowdBatches(instances, fitted, estimator.batch_size))
    if estimator.patience is not None and rule == "last":
        raise InputError(
            "patience needs a score, and selection 'last' has none; "
            "choose selection='annotations' (--set selection=annotations), or pass validation data (--valid, "
            "--valid-labels)"
        )
    return crowd, LastEpoch()


def _own_rule(estimator: CrowdClassifier, crowd: Annotations) -> str:
    """How the epoch is chosen where the user gives neither a rule nor true labels.

    On large data the likelihood of held-out annotations prefers early epochs to later ones that are more accurate.
    Methods without a model of the annotators learn their mistakes in the end, and have to be stopped.
    """
    method = methods.get(estimator.method)
    large = is_large(estimator.epochs, int(np.count_nonzero(crowd.labels_per_task())))
    if large and method.models_annotators and estimator.patience is None:
        return "last"
    return method.own_selection or "annotations"


def make_builder(
    estimator: CrowdClassifier,
    training: CrowdBatches,
    annotator_features: npt.ArrayLike | None = None,
    scaler: FeatureScaler | None = None,
) -> Callable[[], CrowdMethod]:
    """A function that makes the untrained method, scaler included, once for every (re)start.

    The scaler is fitted to the instances, unless one is given.
    """
    crowd, method = training.annotations, methods.get(estimator.method)
    groups, known = groups_of(estimator), training.known
    problem = Problem(
        shape=training.instances.shape,
        n_classes=crowd.n_classes,
        n_annotators=crowd.n_annotators,
        n_tasks=len(training.labelled),
        labels_per_annotator=torch.from_numpy(AnnotatorPrivacy(crowd.hide_below).counts(crowd.labels_per_annotator())),
        annotator_features=_annotator_features(annotator_features, crowd.n_annotators),
        annotator_groups=None if groups is None else torch.from_numpy(groups),
        class_prior=_class_prior(estimator, method, crowd),
        n_true_labels=0 if known is None else int((known >= 0).sum()),
    )
    chosen = _scaler(estimator, method, training) if scaler is None else scaler
    warned = False

    def build() -> CrowdMethod:
        nonlocal warned
        made = build_method(estimator, problem)
        made.scaler = chosen
        made.known = None if known is None else torch.from_numpy(known)
        if not isinstance(estimator.backbone, str) and _try_out(made, training.instances) and not warned:
            warned = True
            warn(
                "the backbone returns probabilities: its rows are not negative and sum to 1. conal applies softmax "
                "itself, and hardly learns from probabilities; let the backbone return logits, without a softmax",
                NetworkWarning,
            )
        return made

    return build


def _scaler(estimator: CrowdClassifier, method: type[CrowdMethod], training: CrowdBatches) -> FeatureScaler:
    """Unless the user chose a scaling, his own network gets what he supplied: it may scale by itself."""
    is_own = not isinstance(estimator.backbone, str)
    scaling = estimator.scaling or ("none" if is_own else method.own_scaling)
    channels_first = estimator.backbone == "vgg16"
    return fit_scaler(training.instances, scaling, _some_votes(training.annotations), channels_first=channels_first)


def _some_votes(crowd: Annotations) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Some labelled tasks, evenly spaced, and their vote shares."""
    voted = np.flatnonzero(crowd.labels_per_task())
    some = voted[np.unique(np.linspace(0, len(voted) - 1, min(JUDGED_TASKS, len(voted))).astype(np.int64))]
    return some, vote_shares(crowd[some])


def build_method(estimator: CrowdClassifier, problem: Problem) -> CrowdMethod:
    """The untrained method around its backbone, as the estimator's parameters describe it."""
    backbone = build_backbone(
        estimator.backbone,
        problem.shape,
        problem.n_classes,
        hidden=estimator.hidden,
        dropout=estimator.dropout,
        input_dropout=estimator.input_dropout,
        batch_norm=estimator.batch_norm,
    )
    method = methods.get(estimator.method)
    return method(
        problem, backbone, **{name: getattr(estimator, name) for name in (*parameters_of(method), *method.reads)}
    )


def build_members(estimator: CrowdClassifier, problem: Problem) -> CrowdMethod:
    """The untrained method, or as many as the ensemble has."""
    if estimator.ensemble == 1:
        return build_method(estimator, problem)
    return Ensemble([build_method(estimator, problem) for _ in range(estimator.ensemble)])


def _class_prior(estimator: CrowdClassifier, method: type[CrowdMethod], crowd: Annotations) -> torch.Tensor | None:
    prior = read_class_prior(estimator.class_prior, crowd.classes)
    if prior is not None and method.takes == "gold":
        raise InputError("class_prior: true labels already determine the class shares; use 'estimate'")
    return prior


def settings_of(estimator: CrowdClassifier) -> Settings:
    """What the training loop reads of an estimator's parameters."""
    return Settings(**{name: getattr(estimator, name) for name in parameters_of(Settings)})


def groups_of(estimator: CrowdClassifier) -> IntArray | None:
    """(R,) group of every annotator; None where nothing was said about groups."""
    found = None if estimator.annotator_info_ is None else estimator.annotator_info_.coded_groups()
    return None if found is None else found[1]


FREE_ON_RESUME = {"epochs", "patience", "devices", "num_nodes", "refits", "verbose"}
"""Parameters that may change when an interrupted training is resumed."""


def fingerprint_of(
    estimator: CrowdClassifier, given: TrainingInputs, selection: Selection, planned: Plan
) -> dict[str, str]:
    """What must be the same for a checkpoint to be continued; "auto" is the number that it stands for."""
    crowd, groups = given.data.annotations, groups_of(estimator)
    stated = sorted(parameters_of(estimator).keys() - FREE_ON_RESUME)
    params = {name: _mark(getattr(estimator, name)) for name in stated}
    if "epochs" in methods.get(estimator.method).reads or planned.schedule != "constant":
        params["epochs"] = _mark(planned.epochs)  # training goes another way if it is to be longer
    params |= {"warmup_epochs": f"{planned.warmup_epochs:g}", "schedule": _mark(planned.schedule)}
    marks = {**params, "method": estimator.method, "selection": selection.name}
    if isinstance(selection, GoldAccuracy):
        marks["validation"] = inputs.digest(selection.codes) + inputs.digest_features(selection.instances)
    if given.annotator_features is not None:
        marks["annotator features"] = inputs.digest(np.asarray(given.annotator_features, dtype=np.float32))
    if groups is not None:
        marks["annotator groups"] = inputs.digest(groups)
    if given.data.known is not None:
        marks["true labels"] = inputs.digest_of_truth(crowd, given.data.known)
    names = repr([crowd.classes.tolist(), crowd.annotator_ids.tolist()]).encode()
    return {
        **marks,
        "annotations": inputs.digest(crowd.tasks, crowd.annotators, crowd.labels),
        "classes or annotators": inputs.digest(np.frombuffer(names, dtype=np.uint8)),
        "features": inputs.digest_features(given.data.instances),
    }


def _mark(value: Any) -> str:
    """A text that identifies parameters, equal in every process."""
    if isinstance(value, torch.nn.Module):
        weights = (tensor.detach().cpu().numpy() for tensor in value.state_dict().values())
        return f"{type(value).__qualname__} {inputs.digest(*weights)}"
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, list | tuple | np.ndarray):
        return repr([_mark(item) for item in value])
    return repr(value.item() if isinstance(value, np.generic) else value)


def _gold_accuracy(given: TrainingInputs, pair: tuple[Any, Any] | None, name: str = "validation") -> GoldAccuracy:
    if pair is None:
        raise InputError("selection='gold' needs validation=(X, y_true); or use selection='annotations'")
    features = inputs.as_features(pair[0], where=f"{name} features", columns=given.columns)
    checked = inputs.as_instances(features, given.data.instances.shape, f"{name} features")
    labels = inputs.true_labels(pair[1], features, f"{name} labels")
    codes = inputs.as_codes(labels, given.data.annotations.classes, f"{name} labels")
    if len(codes) != len(checked):
        raise InputError(f"{name}: {len(checked):,} feature rows but {len(codes):,} labels; pass one for each")
    return GoldAccuracy(checked, codes)


@torch.no_grad()
def _try_out(method: CrowdMethod, instances: Instances) -> bool:
    """Check that a custom backbone turns some instances into as many rows of class logits; True if of probabilities."""
    expected = (min(TRIED, len(instances)), method.problem.n_classes)
    x = instances.take(np.arange(expected[0]))
    try:
        features = method.eval().backbone(method.scaler(x))
        if not isinstance(features, torch.Tensor):
            raise InputError(f"the backbone returns {type(features).__name__}; expected a tensor of class logits")
        found = tuple(method.class_logits(method.scaler(x)).shape)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the backbone cannot take instances of shape {instances.shape}: {error}") from error
    if found != expected:
        raise InputError(
            f"the backbone returns {found} for {expected[0]} instances; expected {expected}, one logit per class"
        )
    return tuple(features.shape) == expected and _are_probabilities(features)


def _are_probabilities(rows: torch.Tensor) -> bool:
    """Whether no number is negative and every row sums to one.

    >>> logits = torch.tensor([[0.0, 1.0], [2.0, -1.0]])
    >>> _are_probabilities(logits), _are_probabilities(logits.softmax(-1)), _are_probabilities(logits.log_softmax(-1))
    (False, True, False)
    """
    sums = rows.float().sum(-1)
    return bool((rows >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)


def about_annotators(
    info: Any, features: npt.ArrayLike | None, crowd: Annotations
) -> tuple[AnnotatorInfo | None, npt.ArrayLike | None]:
    """What is known about the annotators, in their order, and the features to train with; only one may have some."""
    if info is None:
        return None, features
    found = AnnotatorInfo.of(info, crowd)
    if found.features is not None and features is not None:
        raise InputError("annotator_features and annotator_info both have features of the annotators; pass one of them")
    shown = found.shareable() if crowd.hide_below else found
    return shown, found.standardised_features() if features is None else features


def _annotator_features(values: npt.ArrayLike | None, n_annotators: int) -> torch.Tensor | None:
    if values is None:
        return None
    features = torch.as_tensor(np.asarray(values, dtype=np.float32))
    if not torch.isfinite(features).all():
        raise InputError("annotator_features contains NaN or infinity; impute or remove it")
    if features.ndim != 2 or len(features) != n_annotators:
        raise InputError(
            f"annotator_features has shape {tuple(features.shape)}; expected ({n_annotators}, F), "
            "one row for each of annotations.annotator_ids"
        )
    return features


# What an estimator keeps of a fit or an update: the model, what it says about the tasks, and figures.


def set_fitted_state(estimator: CrowdClassifier, learned: FitResult) -> None:
    """Set everything that a fitted estimator has, but ``learned_from_``; warn where the labels are in doubt."""
    result, crowd = learned.result, learned.data.annotations
    estimator.feature_names_in_ = learned.columns
    estimator.model_ = result.method
    estimator.classes_ = crowd.classes
    estimator.ordinal_ = crowd.ordinal
    estimator.annotator_ids_ = crowd.annotator_ids
    estimator.task_ids_ = crowd.task_ids
    estimator.instance_shape_ = learned.data.instances.shape
    estimator.n_features_in_ = int(np.prod(estimator.instance_shape_))
    estimator.history_ = result.history
    estimator.metrics_ = _metrics(estimator, learned)
    _set_labels(estimator, learned)
    estimator.kept_ = None if crowd.hide_below else learned.kept  # labels by people


def _metrics(estimator: CrowdClassifier, learned: FitResult) -> dict[str, Any]:
    result, crowd, known = learned.result, learned.data.annotations, learned.data.known
    n_trained_on = result.method.problem.n_tasks
    found = {
        "method": estimator.method,
        "selection": learned.selection.name,
        "best_epoch": result.best_epoch,
        "best_score": result.best_score,
        "epochs": max((int(row["epoch"]) for row in result.history), default=0),
        "epochs_planned": planned_epochs(estimator.epochs, n_trained_on),
        "seconds": sum(row["seconds"] for row in result.history),
        "restarts": result.restarts,
        "lost_classes": crowd.classes[result.lost_classes].tolist(),
        "n_tasks": crowd.n_tasks,
        "n_annotators": crowd.n_annotators,
        "n_annotations": crowd.n_annotations,
        "n_tasks_labelled": len(learned.data.labelled),
        "n_tasks_trained_on": n_trained_on,
        "seed": int(estimator.seed),
        **result.members,
    }
    if known is None:
        return found
    truth = inputs.digest_of_truth(crowd, known)
    return found | {"n_true_labels": int((known != MISSING).sum()), "true_labels_sha256": truth}


def _set_labels(estimator: CrowdClassifier, learned: FitResult) -> None:
    """What the model says about the training tasks, and the results that are computed from it."""
    model, crowd, known = learned.result.method, learned.data.annotations, learned.data.known
    found = compute.predict_training_tasks(model, learned.data, learned.result.class_logits)
    estimator.probas_ = found.posterior if known is None else clamped(found.posterior, known)
    warn_of_prior(model, estimator.probas_, crowd)
    estimator.labels_ = estimator.classes_[estimator.probas_.argmax(1)]
    common, individual = (matrix.detach().double().numpy() for matrix in model.confusion_matrices())
    evidence = Evidence(
        crowd,
        estimator.probas_,
        found.class_proba,
        common,
        individual,
        found.omega,
        learned.quoted,
        model_section(estimator, names_hidden=crowd.hide_below > 0),
        privacy=AnnotatorPrivacy(crowd.hide_below),
        known=known,
        inclusion=learned.inclusion,
        unseen=None if known is None else _unseen(estimator, learned, known, found.posterior),
        common_meaning=model.common_meaning,
        tempered=model.tempered,
        held_out=model.training_class_proba() is not None,
        **described_annotators(estimator.annotator_info_),
    )
    exhibits = drawn(learned.data.instances, crowd.task_ids) if learned.quoted is None else Exhibits()
    estimator.results_ = FittedResults(Findings(evidence, seed=estimator.metrics_["seed"]), exhibits)
    if not (warn_of_contradiction(evidence) or learned.result.lost_classes):
        warn_of_collapse(estimator.method, model, crowd, estimator.probas_, known)


def _unseen(
    estimator: CrowdClassifier, learned: FitResult, known: IntArray, posterior: FloatArray
) -> compute.Refits | FloatArray | None:
    """(N, C) what is said of tasks with a true label without it: by refits, or by a method that can; None otherwise."""
    method, n_tasks = methods.get(estimator.method), learned.result.method.problem.n_tasks
    parts = compute.planned_refits(estimator.refits, method, n_tasks, int((known != MISSING).sum()))
    parts = min(parts, len(compute.tasks_to_judge(known, learned.data.annotations)))
    if parts and learned.refit is not None:
        judge = partial(compute.judged_by_refits, learned.refit, learned.data, known, parts, posterior)
        refits = compute.Refits(parts, judge)
        if process_number() > 1 or estimator.devices * estimator.num_nodes > 1:
            refits()  # with the other processes, which may not be there when somebody asks
        return refits
    found = learned.result.method.unseen_posterior()
    if found is None:
        return None
    unseen = posterior.copy()
    unseen[found[0].numpy()] = found[1].double().numpy()
    return unseen
