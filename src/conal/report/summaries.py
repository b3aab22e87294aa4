"""Short summaries of annotations and aggregators as HTML, for notebooks. Everything from users is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from conal.io.results import labelled_tasks
from conal.report.evidence import MIN_GOLD
from conal.report.section import NONE, count, percent, short

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.encoding import Names

MOST_CLASSES = 10
"""Classes in a table, those with the most labels."""


def annotations_summary(crowd: Annotations) -> str:
    """Counts, how many labels tasks and annotators have, and the labels by class.

    >>> from conal import Annotations
    >>> text = annotations_summary(Annotations.from_triples([0, 0], ["<a>", "b"], ["<b>", "c"]))
    >>> "&lt;b&gt;" in text, "<b>c" in text
    (True, False)
    """
    facts = [
        ("labels per task", _spread(crowd.labels_per_task())),
        ("labels per annotator", _spread(crowd.labels_per_annotator())),
    ]
    given = np.bincount(crowd.labels, minlength=crowd.n_classes)
    return _summary("Annotations", _counts(crowd), facts, ("class", "labels"), _by_class(crowd.classes, given))


def aggregator_summary(aggregator: Aggregator) -> str:
    """The parameters, and after ``fit`` how it ended and the inferred labels by class."""
    if not hasattr(aggregator, "probas_"):
        return _summary(repr(aggregator), "not fitted", [], (), [])
    crowd = aggregator.annotations_
    labelled = labelled_tasks(aggregator)
    facts = []
    converged = getattr(aggregator, "converged_", None)
    if converged is not None:
        iterations = count(aggregator.n_iter_, "iteration", "iterations")  # type: ignore[attr-defined]
        facts.append(("converged" if converged else "not converged", f"after {iterations}"))
    known = int((aggregator.known_codes_ >= 0).sum())
    if known >= MIN_GOLD:
        facts.append((f"measured by {count(known)} true labels", 'see report() and table("annotators")'))
    else:
        believed = _quality(aggregator.skills_[crowd.labels_per_annotator() > 0])
        facts.append(("right labels of the annotators, as the model believes", believed))
    if not labelled.all():
        facts.append(("tasks without labels", count(int((~labelled).sum()))))
    given = np.bincount(aggregator.codes_[labelled], minlength=crowd.n_classes)
    return _summary(repr(aggregator), _counts(crowd), facts, ("label", "tasks"), _by_class(crowd.classes, given))


def _counts(crowd: Annotations) -> str:
    return ", ".join(
        [
            count(crowd.n_tasks, "task", "tasks"),
            count(crowd.n_annotators, "annotator", "annotators"),
            count(crowd.n_classes, "class", "classes"),
            count(crowd.n_annotations, "annotation", "annotations"),
        ]
    )


def _spread(counts: npt.NDArray[np.int64]) -> str:
    if not len(counts):
        return NONE
    return f"{count(int(counts.min()))} to {count(int(counts.max()))}, mean {counts.mean():,.1f}"


def _quality(skills: npt.NDArray[np.float64]) -> str:
    if not len(skills):
        return NONE
    return (
        f"{percent(float(skills.min()))} to {percent(float(skills.max()))}, median {percent(float(np.median(skills)))}"
    )


def _by_class(classes: Names, given: npt.NDArray[np.int64]) -> list[tuple[str, str, str]]:
    """Class, number and share, most first; the rest together."""
    order = np.argsort(-given, kind="stable").tolist()
    total = max(int(given.sum()), 1)
    shown, rest = order[:MOST_CLASSES], order[MOST_CLASSES:]
    names = classes.tolist()
    rows = [(short(names[k]), count(int(given[k])), percent(given[k] / total)) for k in shown]
    if rest:
        left = int(given[rest].sum())
        rows.append((f"{count(len(rest))} more", count(left), percent(left / total)))
    return rows


def _summary(
    title: str, counts: str, facts: Iterable[tuple[str, str]], heads: Sequence[str], rows: list[tuple[str, str, str]]
) -> str:
    parts = [Markup("<p><b>{}</b><br>{}</p>").format(short(title, 200), counts)]
    lines = [_row("th", "td", cells) for cells in facts]
    if lines:
        parts.append(_table(lines))
    if rows:
        parts.append(_table([_row("th", "th", (*heads, "share")), *(_row("td", "td", cells) for cells in rows)]))
    return str(Markup("<div>{}</div>").format(Markup("").join(parts)))


def _table(rows: Iterable[Markup]) -> Markup:
    return Markup("<table>{}</table>").format(Markup("").join(rows))


def _row(first: str, others: str, cells: Sequence[Any]) -> Markup:
    kinds = [first, *[others] * (len(cells) - 1)]
    made = (Markup('<{0} style="text-align: left">{1}</{0}>').format(k, c) for k, c in zip(kinds, cells, strict=True))
    return Markup("<tr>{}</tr>").format(Markup("").join(made))
