"""Fitted estimators without the annotators' names, and without annotators who gave few labels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from conal._arrays import IntArray
from conal.data.annotator_info import AnnotatorInfo, mentions, pseudonyms, renamed
from conal.data.encoding import Names, as_names, decode_position
from conal.errors import InputError, PrivacyWarning, warn
from conal.estimator.classifier import CrowdClassifier
from conal.estimator.fitting import build_members
from conal.estimator.results import FittedResults
from conal.methods import CrowdMethod, Problem
from conal.networks.draws import drawing_from
from conal.report.evidence import AnnotatorPrivacy, about_annotators, plain_names
from conal.report.findings import Findings

Fitted = TypeVar("Fitted", bound=CrowdClassifier)


def anonymised(fitted: Fitted, key: bytes, hide_below: int) -> Fitted:
    """A copy of a fitted estimator with pseudonyms for the annotators, in their order.

    The model has no row for annotators with fewer than ``hide_below`` labels: it treats them as unknown ones. If all
    have fewer, they share one row, their mean. Training tasks, labels and probabilities stay as they are.
    """
    results = fitted.results_
    if not isinstance(results, FittedResults):
        raise InputError("a loaded model cannot be made anonymous: its tables are complete; fit it again")
    if fitted.model_.takes == "gold":  # true labels have no annotators
        return fitted
    names = pseudonyms(fitted.annotator_ids_, key)
    _warn_of_mentions(fitted, results)
    evidence = results.evidence
    crowd, rows = renamed(evidence.annotations, names)
    order = np.argsort(names)
    privacy = AnnotatorPrivacy(hide_below)
    made = copy.copy(fitted)
    about = None if fitted.annotator_info_ is None else fitted.annotator_info_.selected(order, names[order])
    made.kept_, made.learned_from_ = None, ()  # labels by people
    section = evidence.model
    assert section is not None  # noqa: S101 - of a trained model
    hidden = replace(
        evidence,
        annotations=crowd,
        individual=evidence.individual[order],
        omega=None if evidence.omega is None else evidence.omega[rows],
        model={**section, "command": f"{section['command']} --anonymise"},
        privacy=privacy,
        **about_annotators(about, names_hidden=True),
    )
    made.results_ = FittedResults(Findings(hidden, results.findings.seed), replace(results.exhibits, names={}))
    visible = order[privacy.visible(evidence.annotations.labels_per_annotator()[order])]
    if len(visible):
        made.model_, made.annotator_ids_ = _with_rows(fitted, _rounded(visible, privacy)), names[visible]
        made.annotator_info_ = None if about is None else _about_visible(about, names[visible])
    else:
        made.annotator_info_ = None
        made.model_ = _with_rows(fitted, _averaged(fitted.model_.labels_per_annotator))
        made.annotator_ids_ = as_names([f"annotators with fewer than {hide_below} labels"])
    return made


def _about_visible(about: AnnotatorInfo, names: Names) -> AnnotatorInfo | None:
    """What the folder says about the annotators who are shown; None if it is nothing."""
    found = about.shareable().selected(decode_position(about.annotators, names), names)
    return None if found.groups is None and found.costs is None else found


def _warn_of_mentions(fitted: CrowdClassifier, results: FittedResults) -> None:
    """Tell where ids, texts and other names contain an annotator's name, without repeating it."""
    names = fitted.annotator_ids_
    ids = plain_names(fitted.task_ids_)
    shown = results.exhibits
    texts = [(results.evidence.texts or {}).get(task) or shown.texts.get(str(task), "") for task in ids]
    addresses = [f"{shown.address(task) or ''} {shown.picture_links.get(str(task), '')}" for task in ids]
    found = {
        "task ids": _places(mentions(names, ids), "row", "labels.csv"),
        "texts": _places(mentions(names, texts), "tasks in row", "labels.csv"),
        "addresses": _places(mentions(names, addresses), "tasks in row", "labels.csv"),
        "classes": _places(mentions(names, fitted.classes_.tolist()), "class", "common_confusion.csv"),
        "groups of annotators": _places(mentions(names, _groups(fitted)), "group", "report.json"),
        "names of features": _places(
            mentions(names, getattr(fitted, "feature_names_in_", ())), "feature", "config.json"
        ),
    }
    for what, where in found.items():
        if where:
            warn(
                f"{what} contain names of annotators ({where}); only annotators get pseudonyms, so replace these names "
                "in your files and fit again before you share the result",
                PrivacyWarning,
            )


def _groups(fitted: CrowdClassifier) -> list[str]:
    about = fitted.annotator_info_
    return [] if about is None or about.groups is None else sorted(set(about.groups))


def _places(found: list[int], what: str, file: str, limit: int = 3) -> str:
    if not found:
        return ""
    shown = ", ".join(str(k + 1) for k in found[:limit])
    rest = f" and {len(found) - limit:,} more" if len(found) > limit else ""
    return f"{what} {shown}{rest} of {file}"


def _with_rows(fitted: CrowdClassifier, change: Callable[[Tensor, int], Tensor]) -> CrowdMethod:
    """A copy of the fitted method with other annotators: ``change`` takes a tensor and its axis of annotators."""
    model = copy.deepcopy(fitted.model_)
    axes = annotator_axes(fitted)
    for module, prefix in ((module, f"{name}." if name else "") for name, module in model.named_modules()):
        for name, parameter in module.named_parameters(recurse=False):
            if prefix + name in axes:
                parameter.data = change(parameter.data, axes[prefix + name])
        for name, buffer in module.named_buffers(recurse=False):
            if prefix + name in axes:
                setattr(module, name, change(buffer, axes[prefix + name]))
        if isinstance(module, CrowdMethod):
            module.problem = _problem(module)
    return model


def _problem(method: CrowdMethod) -> Problem:
    """The method's problem, for the annotators whom its tensors have rows for."""
    features = getattr(getattr(method, "auxiliary", None), "annotator_features", None)
    return method.problem.with_annotators(method.labels_per_annotator, features)


def annotator_axes(fitted: CrowdClassifier) -> dict[str, int]:
    """Name to axis of the tensors with a row per annotator: those that are longer for one annotator more."""
    problem = fitted.model_.problem
    features = problem.annotator_features
    larger = problem.with_annotators(
        _one_more(problem.labels_per_annotator), None if features is None else _one_more(features)
    )
    with drawing_from(torch.Generator(), torch_too=True):  # initial weights are drawn and thrown away
        reference = build_members(fitted, larger).state_dict()
    axes = {}
    for name, tensor in fitted.model_.state_dict().items():
        sizes = zip(tensor.shape, reference[name].shape, strict=False) if tensor.ndim == reference[name].ndim else ()
        longer = [axis for axis, (size, more) in enumerate(sizes) if more == size + 1]
        if longer:
            axes[name] = longer[0]
    return axes


def _one_more(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows[-1:]])


def _taken(rows: IntArray) -> Callable[[Tensor, int], Tensor]:
    index = torch.from_numpy(rows)
    return lambda tensor, axis: tensor.index_select(axis, index)


def _rounded(rows: IntArray, privacy: AnnotatorPrivacy) -> Callable[[Tensor, int], Tensor]:
    """These rows, and numbers of labels as tables show them; nobody gets none, which would mean an unknown one."""
    take = _taken(rows)

    def change(tensor: Tensor, axis: int) -> Tensor:
        chosen = take(tensor, axis)
        if chosen.is_floating_point():
            return chosen
        return torch.from_numpy(privacy.counts(chosen.numpy())).clamp(min=privacy.hide_below)

    return change


def _averaged(labels: Tensor) -> Callable[[Tensor, int], Tensor]:
    """One row: the mean over all annotators by their numbers of labels, which are summed."""

    def change(tensor: Tensor, axis: int) -> Tensor:
        if not tensor.is_floating_point():
            return tensor.sum(axis, keepdim=True)
        shape = [-1 if k == axis else 1 for k in range(tensor.ndim)]
        weights = (labels / labels.sum()).to(tensor.dtype).view(shape)
        return (tensor * weights).sum(axis, keepdim=True)

    return change
