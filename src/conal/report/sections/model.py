"""How the model was trained and selected, or labels were aggregated, and how to reproduce it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from conal.data.encoding import Names
from conal.data.scales import scale_options
from conal.io.results import ColumnKind
from conal.parameters import Parameter
from conal.report.evidence import Evidence, Plain
from conal.report.findings import Finding, Findings, register
from conal.report.wording import count, percent, short

# How the model was trained and selected, and how to reproduce it.


@register("model")
class Model(Finding):
    """How the model was trained; the last section of the report.

    *Metrics*: Figures about the training; ``metrics.json`` contains them too. Keys: ``method``, ``selection``,
    ``best_epoch``, ``best_score``, ``epochs``, ``epochs_planned`` (not always), ``seconds``, ``restarts``,
    ``lost_classes``, ``n_tasks``, ``n_annotators``, ``n_annotations``, ``n_tasks_labelled``, ``n_tasks_trained_on``,
    ``seed``, ``ensemble`` (not always), ``best_epochs`` (not always), ``n_true_labels`` (not always),
    ``true_labels_sha256`` (not always).

    *ModelSection*: Method, parameters and versions, the history of the training, and the command that fits such a
    model. Keys: ``method``, ``separates_noise``, ``metrics``, ``history``, ``parameters``, ``versions``, ``command``.
    """

    rank = 1000
    table = "history.csv"
    holds: ClassVar[Mapping[str, ColumnKind]] = {"member": "count", "epoch": "count"}

    def applies(self, evidence: Evidence) -> bool:
        """Only evidence of a trained model has this section."""
        return evidence.model is not None

    def section(self, findings: Findings) -> Plain:
        """The section of the model."""
        assert findings.evidence.model is not None  # noqa: S101 - it applies
        return findings.evidence.model

    def columns(self, findings: Findings) -> pa.Table:
        """One row per epoch."""
        history = self.section(findings)["history"]
        names = list(dict.fromkeys(name for row in history for name in row))
        return pa.table({name: [row.get(name) for row in history] for name in names})


def reproducing_command(
    words: Sequence[str],
    parameters: Mapping[str, Any],
    declared: Mapping[str, Parameter],
    *,
    true_labels: bool,
    scale: Names | None,
    annotator_info: bool,
) -> str:
    """The command that gives such a result; users fill in the names of their files.

    Parameters
    ----------
    words : sequence of str
        The beginning.
    parameters : mapping
        As JSON values. Those that differ from their defaults become options, and the seed always does.
    declared : mapping
        What each of them is; one without an option of its own is set by ``--set``.
    scale : (C,), optional
        The classes, where they are a scale.
    """
    words = [*words, *(["--true-labels", "TRUE_LABELS"] if true_labels else [])]
    words += [] if scale is None else scale_options(scale)
    words += ["--annotator-info", "ANNOTATORS"] if annotator_info else []
    for name, value in parameters.items():
        usual = plain_value(declared[name].default) if name in declared else None
        if name != "verbose" and (name == "seed" or value != usual):
            words += _option(name, value, declared.get(name))
    return shlex.join(words)


def _option(name: str, value: Any, declared: Parameter | None) -> list[str]:
    """The parameter's own option if it has one, ``--set`` otherwise."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    flag = "" if declared is None else declared.option.flag
    return [flag, shown] if flag else ["--set", f"{name}={shown}"]


def plain_value(value: Any) -> Any:
    """A parameter's value as JSON has it."""
    if isinstance(value, tuple | list):
        return [plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain_value(item) for name, item in value.items()}
    return value.item() if hasattr(value, "item") else value


def selection_story(model: Plain) -> list[str]:
    """How the model was selected, and what that means for the figures on the page."""
    metrics = model["metrics"]
    lost = metrics.get("lost_classes") or []
    missing = (
        f"The model never predicts {', '.join(short(name) for name in lost)}: ignore the figures of these classes."
    )
    measured = GOLD if model["method"] == "gold" else _measured(metrics.get("n_true_labels", 0))
    story = [_selection(metrics), measured, *([missing] if lost else [])]
    if model["parameters"].get("epochs") == "auto":
        story.insert(1, AUTO.format(metrics.get("epochs_planned", metrics["epochs"]), metrics["n_tasks_trained_on"]))
    if model["parameters"].get("confidence") == "held-out":
        story.append(HELD_OUT)
    return story


HELD_OUT = (
    "Inferred labels are said to be as sure as labels that were left out allow. The model's own posterior claims more, "
    "because it takes annotators for independent."
)
ESTIMATES = "Figures that they measure say so; probabilities, gains and all other figures are the model's beliefs."
AUTO = "{:,} epochs were planned. The number follows from the number of labelled tasks, {:,} (setting 'auto')."
GOLD = (
    "The method 'gold' treats the labels as true. The qualities on this page only say how well the classifier agrees "
    "with them."
)


def _measured(n_true_labels: int) -> str:
    if not n_true_labels:
        return (
            "Qualities, probabilities and gains are the model's beliefs. It cannot see a mistake that nearly everybody "
            "makes and that the features do not show."
        )
    given = count(n_true_labels, "true label was", "true labels were")
    return f"{given} supplied, trained on and taken as certain. {ESTIMATES}"


def _selection(metrics: Plain) -> str:
    kept = f"Epoch {metrics['best_epoch']} of {metrics['epochs']} was kept"
    if metrics["selection"] == "validation_accuracy":
        return (
            f"{kept}: the one with the best accuracy on the true labels of a validation set "
            f"({percent(metrics['best_score'], 1)}). This accuracy is slightly too high, because it selected the "
            "epoch. For an unbiased figure, use labels that took no part in the selection."
        )
    if metrics["selection"] == "holdout_log_likelihood":
        held_out = metrics["n_tasks_labelled"] - metrics["n_tasks_trained_on"]
        return (
            f"{kept}: it has the best likelihood of the held-out annotations of {held_out:,} tasks. {_unused(metrics)} "
            "The model was not trained on these tasks, so their cleaned labels depend more on the crowd."
        )
    return f"{kept}, the last, as planned before training. Nothing was selected by results. {_unused(metrics)}"


def _unused(metrics: Plain) -> str:
    return "No true label selected it." if metrics.get("n_true_labels") else "No true label was used."


# How labels were inferred without a classifier, and how to reproduce it.


@register("aggregation")
class Aggregation(Finding):
    """How the labels were inferred; the last section of a report about labels alone.

    *AggregationSection*: Aggregator, parameters and versions, how it ended, and the command that gives the same
    labels. ``converged`` and ``n_iter`` are None for aggregators that do not iterate. Keys: ``method``,
    ``separates_noise``, ``converged``, ``n_iter``, ``n_true_labels``, ``parameters``, ``versions``, ``command``.
    """

    rank = 1000

    def applies(self, evidence: Evidence) -> bool:
        """Only evidence of an aggregator has this section."""
        return evidence.aggregation is not None

    def section(self, findings: Findings) -> Plain:
        """The section of the aggregator."""
        assert findings.evidence.aggregation is not None  # noqa: S101 - it applies
        return findings.evidence.aggregation


def aggregation_story(section: Plain) -> list[str]:
    """How the labels were inferred, and what that means for the figures on the page."""
    known = section["n_true_labels"]
    given = count(known, "true label was", "true labels were")
    return [
        "The labels were inferred from the annotations alone, without features and without a classifier."
        + _ending(section),
        *([f"{given} given and taken as certain. {ESTIMATES}"] if known else []),
        "Annotations alone cannot show a mistake that most people make on the same tasks. A classifier also learns "
        "from the features.",
    ]


def _ending(section: Plain) -> str:
    if section["converged"] is None:
        return ""
    iterations = count(section["n_iter"], "iteration", "iterations")
    if section["converged"]:
        return f" The estimate converged after {iterations}."
    return f" The estimate had not converged after {iterations}: figures may change with a higher n_iter."
