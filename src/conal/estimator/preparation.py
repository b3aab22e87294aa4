"""Before training: how to select the epoch, how to build the method, and what identifies the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from conal import methods
from conal.aggregation.counts import vote_shares
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.errors import DataWarning, InputError, NetworkWarning, warn
from conal.estimator import adapters
from conal.estimator.true_labels import digest_of_truth
from conal.methods import CrowdMethod, Problem
from conal.methods.base import read_class_prior
from conal.methods.ensemble import Ensemble
from conal.networks import FeatureScaler, build_backbone
from conal.parameters.training import Plan, Settings, is_large
from conal.training import (
    AnnotationLikelihood,
    CrowdBatches,
    GoldAccuracy,
    Instances,
    LastEpoch,
    Selection,
    fit_scaler,
    hold_out,
)

if TYPE_CHECKING:
    from conal.estimator.base import CrowdClassifier

__all__ = [
    "about_annotators",
    "build_members",
    "build_method",
    "choose_selection",
    "fingerprint_of",
    "groups_of",
    "make_builder",
    "make_monitors",
    "settings_of",
]

TRIED = 32
"""Instances on which a user's network is tried before it is trained."""
JUDGED_TASKS = 500
"""Tasks whose votes say how to scale features."""


def choose_selection(
    estimator: CrowdClassifier,
    joined: adapters.Joined,
    validation: tuple[Any, Any] | None,
    known: npt.NDArray[np.int64] | None = None,
) -> tuple[Annotations, Selection]:
    """The annotations to train on, and the rule that selects the epoch; tasks of known truth are not held out."""
    instances, crowd, _ = joined
    if not crowd.n_annotations:
        raise InputError("no task with features has a label; at least one label is needed")
    rule = estimator.selection
    if rule == "auto":
        rule = _own_rule(estimator, crowd) if validation is None else "gold"
    if rule == "gold":
        return crowd, _gold_accuracy(joined, validation)
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
            "choose selection='annotations' (--set selection=annotations), or pass validation data (--valid-features, "
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
    method: type[CrowdMethod],
    training: CrowdBatches,
    annotator_features: npt.ArrayLike | None,
    known: npt.NDArray[np.int64] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
    scaler: FeatureScaler | None = None,
) -> Callable[[], CrowdMethod]:
    """A function that makes the untrained method, scaler included, once for every (re)start.

    The scaler is fitted to the instances, unless one is given.
    """
    crowd = training.annotations
    problem = Problem(
        shape=training.instances.shape,
        n_classes=crowd.n_classes,
        n_annotators=crowd.n_annotators,
        n_tasks=len(training.labelled),
        labels_per_annotator=torch.from_numpy(crowd.labels_per_annotator()),
        annotator_features=_annotator_features(annotator_features, crowd.n_annotators),
        annotator_groups=None if groups is None else torch.from_numpy(groups),
        class_prior=_class_prior(estimator, method, crowd),
        n_true_labels=0 if known is None else int((known >= 0).sum()),
    )
    chosen = _scaler(estimator, method, training) if scaler is None else scaler
    warned = False

    def build() -> CrowdMethod:
        nonlocal warned
        made = build_method(estimator, method, problem)
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


def _some_votes(crowd: Annotations) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Some labelled tasks, evenly spaced, and their vote shares."""
    voted = np.flatnonzero(crowd.labels_per_task())
    some = voted[np.unique(np.linspace(0, len(voted) - 1, min(JUDGED_TASKS, len(voted))).astype(np.int64))]
    return some, vote_shares(crowd[some])


def build_method(estimator: CrowdClassifier, method: type[CrowdMethod], problem: Problem) -> CrowdMethod:
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
    return method(problem, backbone, **{name: getattr(estimator, name) for name in (*method.declared, *method.uses)})


def build_members(estimator: CrowdClassifier, method: type[CrowdMethod], problem: Problem) -> CrowdMethod:
    """The untrained method, or as many as the ensemble has."""
    if estimator.ensemble == 1:
        return build_method(estimator, method, problem)
    return Ensemble([build_method(estimator, method, problem) for _ in range(estimator.ensemble)])


def _class_prior(estimator: CrowdClassifier, method: type[CrowdMethod], crowd: Annotations) -> torch.Tensor | None:
    prior = read_class_prior(estimator.class_prior, crowd.classes)
    if prior is not None and method.takes == "gold":
        raise InputError("class_prior: true labels already determine the class shares; use 'estimate'")
    return prior


def settings_of(estimator: CrowdClassifier) -> Settings:
    """What the training loop reads of an estimator's parameters."""
    return Settings(**{name: getattr(estimator, name) for name in Settings.declared})


def groups_of(estimator: CrowdClassifier) -> npt.NDArray[np.int64] | None:
    """(R,) group of every annotator; None where nothing was said about groups."""
    found = None if estimator.annotator_info_ is None else estimator.annotator_info_.coded_groups()
    return None if found is None else found[1]


def fingerprint_of(
    estimator: CrowdClassifier,
    joined: adapters.Joined,
    selection: Selection,
    planned: Plan,
    annotator_features: npt.ArrayLike | None = None,
    known: npt.NDArray[np.int64] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
) -> dict[str, str]:
    """What must be the same for a checkpoint to be continued; "auto" is the number that it stands for."""
    instances, crowd, _ = joined
    free = {name for name, found in estimator.declared.items() if found.free_on_resume}
    params = {name: _mark(getattr(estimator, name)) for name in sorted(estimator.declared) if name not in free}
    if "epochs" in methods.get(estimator.method).uses or planned.schedule != "constant":
        params["epochs"] = _mark(planned.epochs)  # training goes another way if it is to be longer
    params |= {"warmup_epochs": f"{planned.warmup_epochs:g}", "schedule": _mark(planned.schedule)}
    marks = {**params, "method": estimator.method, "selection": selection.name}
    if isinstance(selection, GoldAccuracy):
        marks["validation"] = adapters.digest(selection.codes) + adapters.digest_features(selection.instances)
    if annotator_features is not None:
        marks["annotator features"] = adapters.digest(np.asarray(annotator_features, dtype=np.float32))
    if groups is not None:
        marks["annotator groups"] = adapters.digest(groups)
    if known is not None:
        marks["true labels"] = digest_of_truth(crowd, known)
    names = repr([crowd.classes.tolist(), crowd.annotator_ids.tolist()]).encode()
    return {
        **marks,
        "annotations": adapters.digest(crowd.tasks, crowd.annotators, crowd.labels),
        "classes or annotators": adapters.digest(np.frombuffer(names, dtype=np.uint8)),
        "features": adapters.digest_features(instances),
    }


def _mark(value: Any) -> str:
    """A text that identifies parameters, equal in every process."""
    if isinstance(value, torch.nn.Module):
        weights = (tensor.detach().cpu().numpy() for tensor in value.state_dict().values())
        return f"{type(value).__qualname__} {adapters.digest(*weights)}"
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, list | tuple | np.ndarray):
        return repr([_mark(item) for item in value])
    return repr(value.item() if isinstance(value, np.generic) else value)


def make_monitors(joined: adapters.Joined, wanted: Mapping[str, tuple[Any, Any]]) -> dict[str, GoldAccuracy]:
    """Column of the history to the accuracy that goes there."""
    return {f"{name}_accuracy": _gold_accuracy(joined, given, name) for name, given in wanted.items()}


def _gold_accuracy(joined: adapters.Joined, given: tuple[Any, Any] | None, name: str = "validation") -> GoldAccuracy:
    if given is None:
        raise InputError("selection='gold' needs validation=(X, y_true); or use selection='annotations'")
    features = adapters.as_features(given[0], where=f"{name} features", columns=joined.columns)
    checked = adapters.as_instances(features, joined.instances.shape, f"{name} features")
    labels = adapters.true_labels(given[1], features, f"{name} labels")
    codes = adapters.as_codes(labels, joined.annotations.classes, f"{name} labels")
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
    return found, found.standardised_features() if features is None else features


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
