"""What to look at again: labels that are likely wrong, ambiguous tasks, classifier against crowd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.findings.evidence import Evidence, entropy, plain_names
from conal.io.results import label_table, name_column

__all__ = ["MAX_SHOWN", "add_texts", "labels_table", "task_findings"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_SHOWN = 300
MAX_TEXT = 300
"""Characters of a text that the report quotes."""


def labels_table(evidence: Evidence) -> pa.Table:
    """One row per task: label, probability and ``proba_<class>``, then what the crowd and the classifier say of it.

    ``consensus_label`` and ``consensus_quality_score`` are the label and its probability under cleanlab's names;
    ``annotator_agreement`` is the share of the annotators who gave it.
    """
    crowd, rows = evidence.annotations, np.arange(evidence.annotations.n_tasks)
    table = label_table(crowd.task_ids, evidence.posterior, crowd.classes)
    given = crowd.labels_per_task()
    voted = evidence.majority >= 0
    agreed = evidence.votes[rows, evidence.inferred] / np.maximum(given, 1)
    said = evidence.classifier.argmax(1)
    classes = name_column(crowd.classes)
    columns = {
        "consensus_label": table["label"],
        "consensus_quality_score": table["probability"],
        "annotator_agreement": pa.array(agreed, mask=~voted),
        "num_annotations": pa.array(given),
        "majority_vote": classes.take(pa.array(evidence.majority, mask=~voted)),
        "majority_vote_probability": pa.array(_at(evidence.posterior, evidence.majority), mask=~voted),
        "classifier_label": classes.take(pa.array(said)),
        "classifier_probability": pa.array(_at(evidence.classifier, said)),
        "entropy": pa.array(entropy(evidence.posterior)),
    }
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def task_findings(evidence: Evidence) -> dict[str, Any]:
    """The tasks that most deserve a look, in three lists; how many there are in all stands beside each."""
    wrong = np.flatnonzero((evidence.majority >= 0) & (evidence.majority != evidence.inferred))
    doubt = 1 - _at(evidence.posterior, evidence.majority)
    bits = entropy(evidence.posterior)
    unclear = np.flatnonzero(evidence.posterior.max(1) < 0.9)
    said = evidence.classifier.argmax(1)
    apart = np.flatnonzero((evidence.majority >= 0) & (said != evidence.majority))
    sure = _at(evidence.classifier, said)
    return {
        "likely_wrong": _list(evidence, wrong, doubt),
        "ambiguous": _list(evidence, unclear, bits),
        "disagreements": _list(evidence, apart, sure) | {"sides": _sides(evidence, apart, said)},
    }


def add_texts(report: dict[str, Any], texts: Mapping[Any, str]) -> None:
    """Put what a task shows beside its name, wherever the report lists it."""
    lists = [*report["tasks"].values(), report["suggestions"]]
    for row in (row for found in lists for row in found["rows"]):
        text = texts.get(row["task"], "")
        row["text"] = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _list(evidence: Evidence, tasks: IntArray, score: FloatArray) -> dict[str, Any]:
    order = tasks[np.argsort(-score[tasks], kind="stable")]
    return {"total": len(tasks), "rows": [_row(evidence, int(i)) for i in order[:MAX_SHOWN]]}


def _sides(evidence: Evidence, apart: IntArray, said: IntArray) -> dict[str, int]:
    """Whom the inferred labels follow where classifier and crowd disagree."""
    label = evidence.inferred[apart]
    with_classifier, with_crowd = label == said[apart], label == evidence.majority[apart]
    counts = with_classifier.sum(), with_crowd.sum(), (~with_classifier & ~with_crowd).sum()
    return dict(zip(("classifier", "crowd", "neither"), map(int, counts), strict=True))


def _row(evidence: Evidence, i: int) -> dict[str, Any]:
    """Everything that lists say about a task."""
    crowd, q, f = evidence.annotations, evidence.posterior[i], evidence.classifier[i]
    names = crowd.classes
    first, second = np.argsort(-q, kind="stable")[:2] if len(q) > 1 else (0, 0)
    voted = evidence.majority[i] >= 0
    votes = [(int(k), int(evidence.votes[i, k])) for k in np.argsort(-evidence.votes[i], kind="stable")]
    task, label, runner_up, crowd_label, said = (
        plain_names(array)[0]
        for array in (
            crowd.task_ids[i : i + 1],
            names[[first]],
            names[[second]],
            names[[max(int(evidence.majority[i]), 0)]],
            names[[int(f.argmax())]],
        )
    )
    return {
        "task": task,
        "label": label,
        "probability": float(q[first]),
        "second_label": runner_up,
        "second_probability": float(q[second]),
        "majority_vote": crowd_label if voted else None,
        "majority_vote_probability": float(q[evidence.majority[i]]) if voted else None,
        "votes": [[plain_names(names[[k]])[0], count] for k, count in votes if count],
        "classifier_label": said,
        "classifier_probability": float(f.max()),
        "entropy": float(entropy(q[None])[0]),
    }


def _at(probas: FloatArray, codes: IntArray) -> FloatArray:
    """(N,) the probability of one class each; that of the last one where the code is -1."""
    return np.asarray(probas[np.arange(len(probas)), codes])
