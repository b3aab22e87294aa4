"""Tasks to look at again: labels that are likely wrong, ambiguous tasks, and doubts of the classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from conal._arrays import FloatArray, IntArray
from conal.data.encoding import name_column
from conal.io.model_folder import ColumnKind, label_table
from conal.report.evidence import Evidence, Plain, Report, entropy
from conal.report.findings import Finding, Findings, register
from conal.report.wording import count

MAX_SHOWN = 300
"""Tasks in each list."""


@register("tasks")
class Tasks(Finding):
    """The inferred labels, and the tasks that most deserve a second look.

    *TaskRow*: Everything that the lists say about a task. Keys: ``text`` (not always), ``link`` (not always),
    ``picture`` (not always), ``picture_link`` (not always), ``task``, ``label``, ``probability``, ``second_label``,
    ``second_probability``, ``majority_vote``, ``majority_vote_probability``, ``votes``, ``classifier_label`` (not
    always), ``classifier_probability`` (not always), ``entropy``.

    *TaskList*: How many tasks there are, and the first of them. Keys: ``total``, ``rows``.

    *Sides*: How often the inferred label follows each side where classifier and crowd disagree. Keys: ``classifier``,
    ``crowd``, ``neither``.

    *Disagreements*: Tasks on which the classifier contradicts the majority vote, but the inferred label follows the
    vote. Those whose label follows the classifier are in the list of likely wrong ones. ``sides`` counts both.
    ``held_out`` says whether the classifier was not trained on the tasks that it predicts. Keys: ``total``, ``rows``,
    ``sides``, ``held_out`` (not always).

    *TaskSection*: The lists; the last one only where there is a classifier. Keys: ``likely_wrong``, ``ambiguous``,
    ``disagreements`` (not always).
    """

    rank = 40
    table = "labels.csv"
    holds: ClassVar[Mapping[str, ColumnKind]] = {
        "task": "task",
        "label": "class",
        "median": "class",
        "low": "class",
        "high": "class",
        "consensus_label": "class",
        "num_annotations": "count",
        "majority_vote": "class",
        "classifier_label": "class",
        "true_label": "class",
    }

    def section(self, findings: Findings) -> Plain:
        """The tasks that most deserve a second look, in lists, each with the total number of such tasks.

        Majority votes are likely wrong where no true label says so. Lists are sorted by small probabilities: one minus
        such a number is 1 for all of them.
        """
        evidence = findings.evidence
        overruled = (evidence.majority >= 0) & (evidence.majority != evidence.inferred)
        wrong = np.flatnonzero(overruled if evidence.known is None else overruled & (evidence.known < 0))
        bits = entropy(evidence.posterior)
        unclear = np.flatnonzero(evidence.informed & (evidence.posterior.max(1) < 0.9))
        found: Plain = {
            "likely_wrong": _list(evidence, wrong, -_at(evidence.posterior, evidence.majority)),
            "ambiguous": _list(evidence, unclear, bits),
        }
        if evidence.classifier is not None:
            found["disagreements"] = _disagreements(evidence, evidence.classifier)
        return found

    def columns(self, findings: Findings) -> pa.Table:
        """One row per task: label, probability and ``proba_<class>``, then what the crowd and the classifier say.

        Mean, median, low and high follow the probability where the classes are a scale.

        Without a classifier, label and probability are empty where nobody labelled the task.

        ``consensus_label`` and ``consensus_quality_score`` are the label and its probability under cleanlab's names;
        ``annotator_agreement`` is the share of the annotators who gave it, and ``contradiction`` the probability that
        the classifier contradicts a random one of them. ``classifier_label`` is by a classifier that was not trained on
        the task where ``evidence.held_out``, and otherwise by one that was. ``true_label`` is there if true labels were
        supplied, and empty where the task has none.
        """
        evidence = findings.evidence
        crowd, rows = evidence.annotations, np.arange(evidence.annotations.n_tasks)
        levels = crowd.levels() if crowd.ordinal else None
        found = crowd.task_ids, evidence.posterior, crowd.classes, evidence.inferred, evidence.informed
        table = label_table(*found, levels=levels)
        given = crowd.labels_per_task()
        voted = evidence.majority >= 0
        agreed = evidence.votes[rows, evidence.inferred] / np.maximum(given, 1)
        classes = name_column(crowd.classes)
        columns = {
            "consensus_label": table["label"],
            "consensus_quality_score": table["probability"],
            "annotator_agreement": pa.array(agreed, mask=~voted),
            "num_annotations": pa.array(given),
            "majority_vote": classes.take(pa.array(evidence.majority, mask=~voted)),
            "majority_vote_probability": pa.array(_at(evidence.posterior, evidence.majority), mask=~voted),
        }
        if evidence.classifier is not None:
            said = evidence.classifier.argmax(1)
            columns |= {
                "classifier_label": classes.take(pa.array(said)),
                "classifier_probability": pa.array(_at(evidence.classifier, said)),
                "contradiction": pa.array(_contradiction(evidence, evidence.classifier), mask=~voted),
            }
        columns["entropy"] = pa.array(entropy(evidence.posterior))
        if evidence.known is not None:
            columns["true_label"] = classes.take(pa.array(evidence.known, mask=evidence.known < 0))
        for name, column in columns.items():
            table = table.append_column(name, column)
        return table

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """How often the classifier contradicts the crowd."""
        sides = section["disagreements"]["sides"] if "disagreements" in section else None
        if sides is not None and any(sides.values()):
            yield Markup(
                "The classifier, which sees only the features, contradicts the majority vote on <b>{}</b>. The "
                "inferred label follows the classifier on {} and the majority vote on {}."
            ).format(
                count(sides["classifier"] + sides["crowd"] + sides["neither"], "task", "tasks"),
                count(sides["classifier"]),
                count(sides["crowd"]),
            )


def _contradiction(evidence: Evidence, classifier: FloatArray) -> FloatArray:
    """(N,) probability that the class of the classifier is another one than a random label of the task."""
    given = np.maximum(evidence.annotations.labels_per_task(), 1)
    return np.asarray(1 - np.einsum("nc,nc->n", evidence.votes, classifier) / given)


def _disagreements(evidence: Evidence, classifier: FloatArray) -> Plain:
    """Where the classifier contradicts the majority vote and the label follows the vote, its surest answers first.

    ``sides`` counts which side the inferred labels follow.
    """
    said, label, vote = classifier.argmax(1), evidence.inferred, evidence.majority
    apart = (vote >= 0) & (said != vote)
    kept = apart & (label == vote)
    sides = {"classifier": apart & (label == said), "crowd": kept, "neither": apart & (label != said) & (label != vote)}
    return {
        **_list(evidence, np.flatnonzero(kept), -_all_but(classifier, said)),
        "sides": {name: int(tasks.sum()) for name, tasks in sides.items()},
        "held_out": evidence.held_out,
    }


def _list(evidence: Evidence, tasks: IntArray, score: FloatArray) -> Plain:
    """The tasks with the highest scores first."""
    order = tasks[np.argsort(-score[tasks], kind="stable")]
    return {"total": len(tasks), "rows": [_row(evidence, int(i)) for i in order[:MAX_SHOWN]]}


def _row(evidence: Evidence, i: int) -> Plain:
    """Everything that the lists say about a task."""
    q, first, vote, names = evidence.posterior[i], int(evidence.inferred[i]), evidence.majority[i], evidence.class_names
    second = next((int(k) for k in np.argsort(-q, kind="stable") if k != first), first)
    by_votes = np.argsort(-evidence.votes[i], kind="stable").tolist()
    row = {
        **evidence.task_row(i),
        "label": names[first],
        "probability": float(q[first]),
        "second_label": names[second],
        "second_probability": float(q[second]),
        "majority_vote": names[vote] if vote >= 0 else None,
        "majority_vote_probability": float(q[vote]) if vote >= 0 else None,
        "votes": [[names[k], int(evidence.votes[i, k])] for k in by_votes if evidence.votes[i, k]],
        "entropy": float(entropy(q[None])[0]),
    }
    if evidence.classifier is not None:
        said = evidence.classifier[i]
        row |= {"classifier_label": names[said.argmax()], "classifier_probability": float(said.max())}
    return row


def _at(probas: FloatArray, codes: IntArray) -> FloatArray:
    """(N,) the probability of one class each; that of the last one where the code is -1."""
    return np.asarray(probas[np.arange(len(probas)), codes])


def _all_but(probas: FloatArray, codes: IntArray) -> FloatArray:
    """(N,) the probability of all classes but one each, as a sum of small numbers, which is exact."""
    others = probas.copy()
    others[np.arange(len(probas)), codes] = 0.0
    return np.asarray(others.sum(1))
