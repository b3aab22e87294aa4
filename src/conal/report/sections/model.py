"""How the model was trained and selected, or labels were aggregated, and how to reproduce it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from conal.data.encoding import Names
from conal.data.scales import scale_options
from conal.io.model_folder import ColumnKind
from conal.parameters import Parameter
from conal.report.evidence import Evidence, Plain
from conal.report.findings import Finding, Findings, register

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
