"""Findings about a crowd from an aggregator: labels alone, without a classifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from conal._arrays import FloatArray
from conal._system import versions
from conal.aggregation.base import Aggregator
from conal.aggregation.common_confusion import CommonConfusion
from conal.aggregation.group_confusion import GroupConfusion
from conal.data.annotations import Annotations
from conal.data.annotator_info import AnnotatorInfo
from conal.data.encoding import MISSING
from conal.data.true_labels import labels_by_task, without_each_part
from conal.errors import ConalWarning
from conal.metrics.rates import MIN_GOLD
from conal.parameters import parameters_of
from conal.report.evidence import AnnotatorPrivacy, Evidence, Plain, Refit, about_annotators
from conal.report.findings import Findings
from conal.report.sections.model import plain_value, reproducing_command

POOLED = "It is the confusion of all annotators' labels together."
ECONOMICAL = (
    "It is the most economical split: what a matrix for everybody can explain. The labels alone do not tell how "
    "mistakes divide between this matrix and the annotators' own."
)
LIBRARIES = ("numpy", "scipy")
"""Libraries that figures depend on, beside conal itself."""
MAX_WORK = 2_000_000
"""Labels times annotators up to which the labels are aggregated again without every annotator."""
MAX_LABELS = 1_000_000
"""Labels up to which they are aggregated again without each part of the true labels."""
PARTS = 5
"""Parts of the true labels, each of which is judged by a fit without it."""


def findings_of_labels(fitted: Aggregator, privacy: AnnotatorPrivacy | None = None) -> Findings:
    """The findings of a fitted aggregator, with as much about single annotators as ``privacy`` or the labels say.

    An aggregator that separates common from individual confusion supplies both. For others, the common confusion is
    the mean of the annotators' matrices, weighted by their numbers of labels.

    >>> from conal.aggregation import MajorityVote
    >>> found = findings_of_labels(MajorityVote().fit([[0, 0, 1], [1, 1, 1]]))
    >>> found.report["crowd"]["n_annotations"], "model" in found.report
    (6, False)
    """
    privacy = privacy or AnnotatorPrivacy(fitted.annotations_.hide_below)
    common, individual, omega = _confusion(fitted)
    evidence = Evidence(
        fitted.annotations_,
        fitted.probas_,
        None,
        common,
        individual,
        omega,
        aggregation=_section(fitted, separates_noise=omega is not None),
        labels=fitted.codes_,
        known=fitted.known_codes_,
        inclusion=fitted.inclusion_,
        unseen=unseen_posterior(fitted),
        common_meaning=POOLED if omega is None else ECONOMICAL,
        refit=_refit_of(fitted),
        **_about(fitted, names_hidden=privacy.hides_names),
        privacy=privacy,
    )
    return Findings(evidence, seed=int(fitted.get_params().get("seed", 0)))


def _about(fitted: Aggregator, *, names_hidden: bool) -> dict[str, Any]:
    """What is known about the annotators; groups that the aggregator was given or learned where there are no others."""
    known = about_annotators(fitted.annotator_info_, names_hidden=names_hidden)
    if known.get("groups") is None and isinstance(fitted, GroupConfusion):
        groups = tuple(fitted.groups_[k] for k in fitted.group_of_.tolist())
        info = AnnotatorInfo(fitted.annotator_ids_, groups, known.get("costs"))
        known |= about_annotators(info, names_hidden=names_hidden)
    return known


def _refit_of(fitted: Aggregator) -> Refit | None:
    """How the same aggregator would label other annotations; None where it takes too long to ask often."""
    crowd = fitted.annotations_
    pays = fitted.again().quick and crowd.n_annotations * crowd.n_annotators <= MAX_WORK
    known = labels_by_task(crowd, fitted.known_codes_)

    def refit(others: Annotations, with_truth: bool) -> FloatArray:
        return _fitted_again(fitted, others, known if with_truth else None)

    return refit if pays else None


def unseen_posterior(fitted: Aggregator) -> FloatArray | None:
    """(N, C) the posterior, but tasks with a true label are judged by a fit without it: one for each part of them.

    None where there are too few to measure anything, or where it would take too long.
    """
    crowd, known = fitted.annotations_, fitted.known_codes_
    tasks = np.flatnonzero((known != MISSING) & (crowd.labels_per_task() > 0))
    if len(tasks) < MIN_GOLD or not fitted.quick or crowd.n_annotations > MAX_LABELS:
        return None
    found = fitted.probas_.copy()
    for fewer, part in without_each_part(known, tasks, PARTS):
        judge = _fitted_again(fitted, crowd, labels_by_task(crowd, fewer))
        found[part] = judge[part]
    return found


def _fitted_again(fitted: Aggregator, crowd: Annotations, known: Mapping[Any, Any] | None) -> FloatArray:
    """(N, C) the posterior of the same aggregator for other annotations of the same tasks, or other true labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)  # users saw the warnings about all labels
        return fitted.again().fit(crowd, true_labels=known, annotator_info=fitted.annotator_info_).probas_


def _confusion(fitted: Aggregator) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """The common (C, C) and the annotators' own (R, C, C) confusion, and omega (P,) where they are separate."""
    if isinstance(fitted, CommonConfusion):
        return fitted.common_confusion_, fitted.annotator_confusion_, fitted.annotation_omega_
    given = fitted.annotations_.labels_per_annotator()
    pooled = np.einsum("r,rcl->cl", given / max(given.sum(), 1), fitted.confusion_)
    return np.asarray(pooled), fitted.confusion_, None


def _section(fitted: Aggregator, *, separates_noise: bool) -> Plain:
    parameters = {name: plain_value(value) for name, value in fitted.get_params().items()}
    n_true_labels = int((fitted.known_codes_ >= 0).sum())
    return {
        "method": fitted.name,
        "separates_noise": separates_noise,
        "converged": getattr(fitted, "converged_", None),
        "n_iter": getattr(fitted, "n_iter_", None),
        "n_true_labels": n_true_labels,
        "parameters": parameters,
        "versions": versions(*LIBRARIES),
        "command": reproducing_command(
            ["conal", "aggregate", "LABELS", "--out", "CLEANED", "--report", "FOLDER", "--method", fitted.name],
            parameters,
            parameters_of(fitted),
            true_labels=n_true_labels > 0,
            scale=fitted.classes_ if fitted.annotations_.ordinal else None,
            annotator_info=fitted.annotator_info_ is not None,
        ),
    }
