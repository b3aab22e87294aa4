"""How a fit is made: arguments read and joined, the method prepared and trained, and what the estimator keeps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
from conal.data.true_labels import without_each_part
from conal.errors import DataWarning, InputError, NetworkWarning, warn
from conal.estimator import inputs
from conal.estimator.kept_data import TrainingData
from conal.estimator.results import (
    FittedResults,
    Refits,
    drawn,
    model_section,
    predict_training_tasks,
    warn_of_collapse,
    warn_of_contradiction,
    warn_of_prior,
)
from conal.methods import CrowdMethod, Problem
from conal.methods.base import read_class_prior
from conal.methods.ensemble import Ensemble
from conal.metrics.rates import MIN_GOLD
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

Refit = Callable[[IntArray, str], list[TrainingResult]]
"""Trains every member anew, given the (N,) true labels to use and a title."""


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


def fit_again(estimator: CrowdClassifier, given: TrainingInputs, known: IntArray, purpose: str) -> list[TrainingResult]:
    """The same fit with fewer true labels."""
    data = CrowdBatches(given.data.instances, given.data.annotations, estimator.batch_size, known=known)
    return train_all(estimator, given._replace(data=data, monitor={}), None, f" {purpose}")[1]


def train_all(
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
                settings_of_member(settings, number),
                monitors=monitors,
                progress=progress,
                checkpoint=None if checkpoint is None else checkpoint.of_member(number),
                warm=warm[number] if warm else None,
                own_network=not isinstance(estimator.backbone, str),
            )
        results.append(result)
    return results


# Fits of an ensemble: a seed for each, and the combined result.

SPAWN = 0xE5
"""Keeps the members' seeds apart from those of restarts."""


def settings_of_member(settings: Settings, number: int) -> Settings:
    """The first member equals a fit without an ensemble; the other seeds are drawn from its seed."""
    if number == 0:
        return settings
    seed = np.random.SeedSequence(settings.seed, spawn_key=(SPAWN, number)).generate_state(1)[0]
    return replace(settings, seed=int(seed))


def merged(results: Sequence[TrainingResult]) -> TrainingResult:
    """One result: the averaged model, and the course of all trainings."""
    first = results[0]
    if len(results) == 1:
        return first
    method = Ensemble([result.method for result in results])
    method.scaler = first.method.scaler
    lost = sorted(set.intersection(*(set(result.lost_classes) for result in results)))
    scores = [result.best_score for result in results if result.best_score is not None]
    return TrainingResult(
        method.eval(),
        torch.stack([result.class_logits for result in results], 1),
        [{"member": k + 1} | row for k, result in enumerate(results) for row in result.history],
        first.best_epoch,
        float(np.mean(scores)) if scores else None,
        sum(result.restarts for result in results),
        lost,
        {"ensemble": len(results), "best_epochs": [result.best_epoch for result in results]},
    )


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


def set_fitted_state(
    estimator: CrowdClassifier,
    results: Sequence[TrainingResult],
    data: CrowdBatches,
    selection: Selection,
    columns: Sequence[str],
    quoted: Mapping[Any, str] | None,
    *,
    inclusion: FloatArray | None = None,
    refit: Refit | None = None,
) -> None:
    """Set everything that a fitted estimator has, but ``learned_from_``; warn where the labels are in doubt.

    Parameters
    ----------
    results, selection
        What was trained, a result for every member, and how the epoch was selected.
    data, columns
        As in :class:`TrainingInputs`.
    quoted : mapping or None
        Texts by task, where the instances are texts.
    inclusion : (N,), optional
        Probabilities with which tasks with a true label were drawn.
    refit : callable, optional
        Trains every member anew.
    """
    result, crowd = merged(results), data.annotations
    estimator.feature_names_in_ = columns
    estimator.model_ = result.method
    estimator.classes_ = crowd.classes
    estimator.ordinal_ = crowd.ordinal
    estimator.annotator_ids_ = crowd.annotator_ids
    estimator.task_ids_ = crowd.task_ids
    estimator.instance_shape_ = data.instances.shape
    estimator.n_features_in_ = int(np.prod(estimator.instance_shape_))
    estimator.history_ = result.history
    estimator.metrics_ = _metrics(estimator, result, data, selection)
    _set_labels(estimator, result, data, quoted, inclusion, refit)
    trained = [member.method for member in results]
    estimator.kept_ = None if crowd.hide_below else TrainingData.of(data, trained)  # labels by people


def _metrics(
    estimator: CrowdClassifier, result: TrainingResult, data: CrowdBatches, selection: Selection
) -> dict[str, Any]:
    crowd, known = data.annotations, data.known
    n_trained_on = result.method.problem.n_tasks
    found = {
        "method": estimator.method,
        "selection": selection.name,
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
        "n_tasks_labelled": len(data.labelled),
        "n_tasks_trained_on": n_trained_on,
        "seed": int(estimator.seed),
        **result.members,
    }
    if known is None:
        return found
    truth = inputs.digest_of_truth(crowd, known)
    return found | {"n_true_labels": int((known != MISSING).sum()), "true_labels_sha256": truth}


def _set_labels(
    estimator: CrowdClassifier,
    result: TrainingResult,
    data: CrowdBatches,
    quoted: Mapping[Any, str] | None,
    inclusion: FloatArray | None,
    refit: Refit | None,
) -> None:
    """What the model says about the training tasks, and the results that are computed from it."""
    model, crowd, known = result.method, data.annotations, data.known
    found = predict_training_tasks(model, data, result.class_logits)
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
        quoted,
        model_section(estimator, names_hidden=crowd.hide_below > 0),
        privacy=AnnotatorPrivacy(crowd.hide_below),
        known=known,
        inclusion=inclusion,
        unseen=None if known is None else _unseen(estimator, result.method, data, refit, found.posterior),
        common_of_annotators=model.common_of_annotators().detach().double().numpy(),
        common_meaning=model.common_meaning,
        tempered=model.tempered,
        held_out=model.training_class_proba() is not None,
        **described_annotators(estimator.annotator_info_),
    )
    exhibits = drawn(data.instances, crowd.task_ids) if quoted is None else Exhibits()
    estimator.results_ = FittedResults(Findings(evidence, seed=estimator.metrics_["seed"]), exhibits)
    if not (warn_of_contradiction(evidence) or result.lost_classes):
        warn_of_collapse(estimator.method, model, crowd, estimator.probas_, known)


def _unseen(
    estimator: CrowdClassifier, model: CrowdMethod, data: CrowdBatches, refit: Refit | None, posterior: FloatArray
) -> Refits | FloatArray | None:
    """(N, C) what is said of tasks with a true label without it: by refits, or by a method that can; None otherwise."""
    has_truth = data.known != MISSING
    judged = np.flatnonzero(has_truth & (data.annotations.labels_per_task() > 0))
    n_true = int(np.count_nonzero(has_truth))
    parts = planned_refits(estimator.refits, methods.get(estimator.method), model.problem.n_tasks, n_true)
    parts = min(parts, len(judged))
    if parts and refit is not None:
        refits = Refits(parts, partial(judged_by_refits, refit, data, judged, parts, posterior))
        if process_number() > 1 or estimator.devices * estimator.num_nodes > 1:
            refits()  # with the other processes, which may not be there when somebody asks
        return refits
    found = model.unseen_posterior()
    if found is None:
        return None
    unseen = posterior.copy()
    unseen[found[0].numpy()] = found[1].double().numpy()
    return unseen


# What is said about tasks with a true label by fits that did not use it.


USUAL_REFITS = 5
"""A fit with four fifths of the true labels is nearly as good as one with all of them."""
MOST_TASKS = 20_000
"""With more labelled tasks, a few true labels hardly teach the networks anything about their neighbours."""


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
    return USUAL_REFITS if method.judges_true_labels and n_tasks <= MOST_TASKS and n_true >= MIN_GOLD else 0


def judged_by_refits(
    refit: Refit, data: CrowdBatches, judged: IntArray, parts: int, posterior: FloatArray
) -> FloatArray:
    """(N, C) the posterior, in which a fit without each part of the true labels judges the part.

    Predictions that leave out one task's true label have still learned from its neighbours, whose labels were inferred
    by networks that knew it. On a few hundred tasks this makes labels look better than they are by some points.

    Parameters
    ----------
    data : CrowdBatches
        The training tasks, all their annotations and true labels.
    judged : (n,)
        The tasks that have both labels and a true label.
    parts : int
        Number of parts, at most that of the tasks. With one, a fit without any true label judges all.
    posterior : (N, C)
        By the fit with all true labels; it is not changed.
    """
    assert data.known is not None  # noqa: S101 - some are judged
    found = posterior.copy()
    for k, (fewer, part) in enumerate(without_each_part(data.known, judged, parts), 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit with all true labels has told them
            result = merged(refit(fewer, f"without true labels {k}/{parts}"))
            found[part] = predict_training_tasks(result.method, data, result.class_logits).posterior[part]
    return found
