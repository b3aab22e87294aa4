"""What a trained model says: predictions, tables, the report, warnings, and how the model was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor, nn

from conal._arrays import FloatArray
from conal._system import versions
from conal.aggregation.counts import vote_shares
from conal.aggregation.guard import collapse_of
from conal.data.annotations import Annotations
from conal.data.encoding import Names
from conal.errors import CollapseWarning, ContradictionWarning, InputError, PriorWarning, warn
from conal.io.images import Drawing, Source, drawing_of
from conal.methods import Batch, CrowdMethod
from conal.methods.base import BatchPrediction
from conal.methods.em import EMMethod
from conal.methods.ensemble import Ensemble
from conal.parameters import parameters_of
from conal.report.evidence import Evidence, Plain, Report, plain_names
from conal.report.exhibits import Exhibits, exhibited
from conal.report.findings import Findings
from conal.report.sections.model import plain_value, reproducing_command
from conal.report.sections.suspicion import contradiction
from conal.training.batches import CrowdBatches, Instances
from conal.training.selection import predict_proba

if TYPE_CHECKING:
    from conal.estimator.classifier import CrowdClassifier


def members_of(model: CrowdMethod) -> list[CrowdMethod]:
    """The members of an ensemble, or the model alone."""
    return model.each if isinstance(model, Ensemble) else [model]


# Predictions of a trained method for instances and annotations, computed in chunks.


def class_probas(model: CrowdMethod, instances: Instances) -> FloatArray:
    """(n, C) class probabilities from features alone."""
    return _normalised(predict_proba(model, instances))


def posterior(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n, C) P(true class | features and annotations)."""
    model.eval()
    return _normalised(torch.cat([model.infer(batch) for batch in batches.in_order()]))


def predict_training_tasks(
    model: CrowdMethod, batches: CrowdBatches, class_logits: Tensor | None = None
) -> BatchPrediction[FloatArray]:
    """Predictions for the training tasks; ``class_logits``, if given, avoids a pass of the network.

    Where the method itself inferred the labels of a task in training, that posterior is taken, and where it has
    networks that were not trained on the task, their prediction.
    """
    model.eval()
    parts = [
        model.predict_batch(batch, None if class_logits is None else class_logits[batch.instances])
        for batch in batches.in_order()
    ]
    found = _normalised(torch.cat([part.posterior for part in parts]))
    _replace(found, model.training_posterior())
    classifier = _normalised(torch.cat([part.class_proba for part in parts]))
    _replace(classifier, model.training_class_proba())
    rates = [part.omega for part in parts if part.omega is not None]
    omega = torch.cat(rates).double().numpy() if model.separates_noise else None
    return BatchPrediction(classifier, found, omega)


def _replace(found: FloatArray, own: Tensor | None) -> None:
    """Put in the method's own probabilities of the training tasks, for tasks that have any."""
    if own is not None:
        better = _normalised(own.cpu())
        trained = np.isfinite(better).all(1)
        found[trained] = better[trained]


def log_likelihood(model: CrowdMethod, batches: CrowdBatches) -> float:
    """Mean log P(label | features) of the annotations."""
    if not len(batches.labelled):
        raise InputError("there are no annotations to score")
    model.eval()
    return float(torch.cat([model.score_annotations(batch) for batch in batches.labelled_in_order()]).double().mean())


def pair_rates(model: CrowdMethod, batches: CrowdBatches) -> FloatArray:
    """(n_annotations,) omega of every annotation, in their order."""
    model.eval()
    rates = [model.common_noise_rate(batch) for batch in batches.labelled_in_order()]
    return torch.cat([torch.empty(0), *rates]).double().numpy()


def row_rates(model: CrowdMethod, instances: Instances, annotators: npt.NDArray[np.int64]) -> FloatArray:
    """(n,) omega of (instance k, annotator k), by the model's annotator codes; -1 is unknown."""
    model.eval()
    codes = torch.from_numpy(annotators)
    rates, start = [], 0
    for x in instances.chunks():
        rows = torch.arange(len(x))
        batch = Batch(x, rows + start, rows, codes[start : start + len(x)], torch.zeros_like(rows))
        rates.append(model.common_noise_rate(batch))
        start += len(x)
    return torch.cat(rates).double().numpy()


def _normalised(probas: Tensor) -> FloatArray:
    """In double precision rows sum to one, as scikit-learn's metrics expect."""
    values = probas.double().numpy()
    return np.asarray(values / values.sum(1, keepdims=True))


class Refits:
    """Fits without a part of the true labels, which take long and run when somebody asks what they say.

    Parameters
    ----------
    count : int
        Number of fits.
    judge : callable
        Makes them, and gives the (N, C) posterior of all tasks: by these fits where there is a true label.
    """

    def __init__(self, count: int, judge: Callable[[], FloatArray]) -> None:
        self.count = count
        self._judge = judge

    @cached_property
    def found(self) -> FloatArray:
        """What they say."""
        return self._judge()

    def __call__(self) -> FloatArray:
        return self.found

    def __getstate__(self) -> dict[str, Any]:
        """A pickle cannot contain what makes the fits, so that they are made now."""
        return {"count": self.count, "found": self.found}

    def __deepcopy__(self, memo: dict[int, Any]) -> Refits:
        return self


# What the report of a fitted estimator shows of the tasks: features that are pictures are drawn.

SAMPLE = 100
"""Instances that are looked at to see whether they are pictures."""


class DrawnInstances:
    """Pictures of tasks, drawn from the features when they are asked for.

    The features stay where they are. A pickled estimator does not contain them, and so has no pictures.
    """

    def __init__(self, instances: Instances | None, task_ids: Names, drawing: Drawing) -> None:
        self.instances, self.task_ids, self.drawing = instances, task_ids, drawing
        self._places: dict[Any, int] | None = None

    def of(self, task: Any) -> Source | None:
        """The picture of a training task."""
        if self.instances is None:
            return None
        if self._places is None:
            self._places = {name: k for k, name in enumerate(plain_names(self.task_ids))}
        place = self._places.get(task)
        return None if place is None else self.drawing.draw(self.instances.take(np.array([place]))[0].numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        return DrawnInstances, (None, self.task_ids[:0], self.drawing)


def drawn(instances: Instances, task_ids: Names) -> Exhibits:
    """The instances as pictures, if they look like such."""
    step = max(1, len(instances) // SAMPLE)
    sample = instances.take(np.arange(0, len(instances), step)[:SAMPLE]).numpy()
    drawing = drawing_of(sample)
    return Exhibits() if drawing is None else Exhibits(pictures=(DrawnInstances(instances, task_ids, drawing),))


# After training: warnings where the inferred labels may be wrong.

MAX_PRIOR_FACTOR = 2.0
"""By more than this a class's share should not differ from the votes' unnoticed, where a prior is stated."""
TINY = 1e-3


def warn_of_prior(model: CrowdMethod, probas: npt.NDArray[np.float64], crowd: Annotations) -> None:
    """Warn if a class prior moves the inferred shares far from the vote shares."""
    if model.problem.class_prior is None:
        return
    labelled = crowd.labels_per_task() > 0
    votes, inferred = vote_shares(crowd)[labelled].mean(0), probas[labelled].mean(0)
    factor = (inferred + TINY) / (votes + TINY)
    far = np.flatnonzero((factor > MAX_PRIOR_FACTOR) | (factor < 1 / MAX_PRIOR_FACTOR))
    if len(far):
        moved = ", ".join(f"{crowd.classes[c]!r} from {votes[c]:.1%} to {inferred[c]:.1%}" for c in far[:5])
        warn(
            f"class_prior is far from the vote shares: {moved}. Either most annotators miss or overuse these classes, "
            "or the prior is wrong, and a wrong prior costs more than a right one gains: check some of these tasks by "
            "hand, or use class_prior='estimate'",
            PriorWarning,
        )


def warn_of_contradiction(evidence: Evidence) -> bool:
    """Warn if the inferred labels contradict both the votes and Dawid-Skene widely; whether they do."""
    found = contradiction(evidence)
    if found is not None:
        warn(found["text"], ContradictionWarning)
    return found is not None


def warn_of_collapse(
    name: str,
    model: CrowdMethod,
    crowd: Annotations,
    probas: npt.NDArray[np.float64],
    known: npt.NDArray[np.int64] | None = None,
) -> None:
    """Warn if EM has lost, exchanged or overgrown a class, as the aggregators' guard does.

    EM alone is led astray in this way: what it infers is what it learns from next. A class prior that the user states
    may well change the shares.
    """
    member = members_of(model)[0]
    if not isinstance(member, EMMethod) or model.problem.class_prior is not None:
        return
    found = collapse_of(crowd, probas, known)
    if found is not None:
        doubt = "This may be wrong" if found.certain else "This may be right or wrong"
        warn(
            f"{name}: {found.sentence}. {doubt}: compare the labels with those of conal aggregate --method "
            "dawid-skene, and with some that you give yourself; then try another seed, state the class shares "
            "(class_prior), or use the method 'dl-ds'",
            CollapseWarning,
        )


# How a model was made: parameters, software versions, and the command that fits such a model.

CUSTOM = "custom"
"""Placeholder for a custom backbone, of which only the weights are stored."""
LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn")
"""Libraries that figures depend on, beside conal itself."""


def model_section(fitted: CrowdClassifier, *, names_hidden: bool = False) -> Plain:
    """The model section of the report."""
    parameters = plain_parameters(fitted)
    kind = "features" if fitted.text_features_ is None else "text"
    words = ["conal", "fit", "LABELS", f"--{kind}", kind.upper(), "--out", "FOLDER", "--method", fitted.method]
    if fitted.metrics_["selection"] == "validation_accuracy":
        words += [f"--valid-{kind}", f"VALID_{kind.upper()}", "--valid-labels", "VALID_LABELS"]
    return {
        "method": fitted.method,
        "separates_noise": fitted.model_.separates_noise,
        "metrics": fitted.metrics_,
        "history": fitted.history_,
        "parameters": parameters,
        "versions": versions(*LIBRARIES),
        "command": reproducing_command(
            words,
            parameters,
            parameters_of(fitted),
            true_labels="n_true_labels" in fitted.metrics_,
            scale=fitted.classes_ if fitted.ordinal_ else None,
            annotator_info=fitted.annotator_info_ is not None,
        )
        + (" --anonymise" if names_hidden else ""),
    }


def plain_parameters(estimator: CrowdClassifier) -> dict[str, Any]:
    """The parameters as JSON values."""
    parameters = estimator.get_params(deep=False)
    if isinstance(parameters["backbone"], nn.Module) or callable(parameters["backbone"]):
        parameters["backbone"] = CUSTOM
    parameters["hidden"] = [int(units) for units in parameters["hidden"]]
    if not isinstance(parameters["class_prior"], str):
        pairs = dict(parameters["class_prior"]).items()
        parameters["class_prior"] = [[plain_value(name), float(share)] for name, share in pairs]
    return {name: plain_value(value) for name, value in parameters.items()}


# Results about the training data: tables and the report, after ``fit`` and after ``load``.


class StoredResults(NamedTuple):
    """The results of a model folder."""

    tables: Mapping[str, pa.Table]
    report: Report


@dataclass(eq=False)
class FittedResults:
    """The results of a training, computed on first access, so predictions alone do not need them.

    Parameters
    ----------
    findings : Findings
        What is behind tables and report.
    exhibits : Exhibits
        What the report shows beside its figures, such as pictures of the tasks.
    """

    findings: Findings
    exhibits: Exhibits = field(default_factory=Exhibits)

    @property
    def evidence(self) -> Evidence:
        """What the findings are made of."""
        return self.findings.evidence

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """File name to table; each table is computed on first access."""
        return self.findings.tables

    @cached_property
    def report(self) -> Report:
        """The content of ``report.json``."""
        return exhibited(self.findings.report, self.exhibits)

    @property
    def refits_due(self) -> int:
        """Number of fits that are made when somebody asks for the rates by true labels, and were not made yet."""
        unseen = self.evidence.unseen
        return unseen.count if isinstance(unseen, Refits) and "found" not in vars(unseen) else 0
