"""The findings in sentences, made from the numbers."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from conal.report.text import count, interval, percent, short

__all__ = ["headlines", "selection_story"]

FIRST = 50
"""Tasks at the head of the queue that a sentence speaks of."""

Report = dict[str, Any]


def headlines(report: Report) -> list[Markup]:
    """What everybody should know, most important first; what cannot be said of a crowd is left out."""
    makers = (_labels, _cleaning, _confusion, _people, _commonness, _disagreement, _queue)
    return [sentence for make in makers if (sentence := make(report)) is not None]


def _labels(report: Report) -> Markup | None:
    crowd = report["crowd"]
    if crowd["expected_label_accuracy"] is None:
        return None
    per_task = crowd["n_annotations"] / max(crowd["n_tasks_labelled"], 1)
    return Markup(
        "<b>{}</b> of the labels are right, by the model's estimate: {} by {} on {}, {:.1f} per task."
    ).format(
        percent(crowd["expected_label_accuracy"]),
        count(crowd["n_annotations"], "label", "labels"),
        count(crowd["n_annotators_active"], "annotator", "annotators"),
        count(crowd["n_tasks_labelled"], "task", "tasks"),
        per_task,
    )


def _cleaning(report: Report) -> Markup | None:
    crowd = report["crowd"]
    if not crowd["n_tasks_labelled"]:
        return None
    changed = crowd["n_majority_changed"]
    if not changed:
        return Markup(
            "The cleaned label is the majority's on <b>every task</b>; the model expects {} of them right."
        ).format(percent(crowd["expected_inferred_accuracy"]))
    return Markup(
        "The cleaned labels differ from majority vote on <b>{}</b> ({}). The model expects {} of the majority votes to "
        "be right, and {} of its own labels."
    ).format(
        count(changed, "task", "tasks"),
        percent(changed / crowd["n_tasks_labelled"], 1),
        percent(crowd["expected_majority_accuracy"]),
        percent(crowd["expected_inferred_accuracy"]),
    )


def _confusion(report: Report) -> Markup | None:
    pairs = report["common_confusion"]["pairs"]
    if not pairs or not pairs[0]["annotators_who_made_it"]:
        return Markup("No two classes are confused often enough to speak of.")
    first = pairs[0]
    return Markup(
        "What confuses the crowd most: <b>{}</b> is taken for <b>{}</b> in {} of its labels ({} interval {}), by {} of "
        "the {} who met it."
    ).format(
        short(first["true"]),
        short(first["observed"]),
        percent(first["share"]),
        percent(report["confidence"]),
        interval(first["low"], first["high"]),
        first["annotators_who_made_it"],
        count(first["annotators_who_met_it"], "annotator", "annotators"),
    )


def _people(report: Report) -> Markup | None:
    rows = [row for row in report["annotators"]["rows"] if row["annotator_quality"] is not None]
    overall = report["crowd"]["expected_label_accuracy"]
    if len(rows) < 2 or overall is None:
        return None
    poor = [row for row in rows if row["annotator_quality_high"] < overall]
    costly = rows[0]
    tail = Markup(" Most mistakes, about {}, come from annotator <b>{}</b>, right in {} of {} ({}).").format(
        count(round(costly["expected_mistakes"])),
        short(costly["worker"]),
        percent(costly["annotator_quality"]),
        count(costly["num_examples_labeled"], "label", "labels"),
        interval(costly["annotator_quality_low"], costly["annotator_quality_high"]),
    )
    if not poor:
        return Markup("No annotator is reliably worse than the crowd as a whole.") + tail
    verb = "is" if len(poor) == 1 else "are"
    return (
        Markup("<b>{}</b> {} reliably worse than the crowd as a whole.").format(
            count(len(poor), "annotator", "annotators"), verb
        )
        + tail
    )


def _commonness(report: Report) -> Markup | None:
    rows = [row for row in report["annotators"]["rows"] if row["common_mistake_share"] is not None]
    if len(rows) < 2:
        return None
    weight = sum(row["expected_mistakes"] for row in rows)
    share = sum(row["expected_mistakes"] * row["common_mistake_share"] for row in rows) / weight
    return Markup(
        "<b>{}</b> of the mistakes go where everybody's go; clearer instructions help against these. The rest are "
        "slips and the annotators' own confusions, which more labels or other people help against."
    ).format(percent(share))


def _disagreement(report: Report) -> Markup | None:
    found = report["tasks"]["disagreements"]
    if not found["total"]:
        return None
    sides = found["sides"]
    return Markup(
        "The classifier, which sees features alone, contradicts the majority on <b>{}</b>; the cleaned label follows "
        "the classifier on {}, and the majority on {}."
    ).format(count(found["total"], "task", "tasks"), count(sides["classifier"]), count(sides["crowd"]))


def _queue(report: Report) -> Markup | None:
    rows = report["suggestions"]["rows"][:FIRST]
    if not rows:
        return None
    gain = sum(row["expected_gain"] for row in rows)
    return Markup("One more answer on {} of the relabel queue is expected to put <b>{:.1f}</b> labels right.").format(
        f"each of the first {len(rows)} tasks" if len(rows) > 1 else "the one task", gain
    )


def selection_story(report: Report) -> list[str]:
    """How the model was chosen, and what that means for the figures on the page."""
    metrics = report["model"]["metrics"]
    kept = f"Epoch {metrics['best_epoch']} of {metrics['epochs']} was kept"
    held_out = metrics["n_tasks_labelled"] - metrics["n_tasks_trained_on"]
    story = {
        "validation_accuracy": (
            f"{kept}: the one with the best accuracy on the true labels of a validation set "
            f"({percent(metrics['best_score'], 1)}). That accuracy chose the epoch, so it flatters the model a "
            "little; an honest figure needs labels that chose nothing."
        ),
        "holdout_log_likelihood": (
            f"{kept}: the one under which the held-out annotations of {held_out:,} tasks were most likely. No true "
            "label was used. These tasks were not trained on, and their labels here lean on the crowd the more."
        ),
        "last": (
            f"{kept}, the last, as was planned before training; nothing was chosen by looking at results, and no true "
            "label was used."
        ),
    }[metrics["selection"]]
    gold = (
        "The labels were taken for the truth, as the method 'gold' does; what this page says about their quality is "
        "how far the classifier agrees with them."
    )
    measured = (
        "No figure on this page was measured against true labels of these tasks: qualities, probabilities and gains "
        "are what the model believes, and a mistake that nearly everybody makes and the features do not show is "
        "invisible to it. A few dozen tasks that you label yourself tell how far to trust it."
    )
    lost = metrics.get("lost_classes") or []
    missing = f"The model never predicts {', '.join(short(name) for name in lost)}: read nothing about these classes."
    return [story, gold if report["model"]["method"] == "gold" else measured, *([missing] if lost else [])]
