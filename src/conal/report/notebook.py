"""What notebooks show: the report, in a frame of its own, and summaries of annotations and aggregators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from conal._arrays import FloatArray, IntArray
from conal._files import atomic_file, check_file_place
from conal.io.model_folder import labelled_tasks
from conal.metrics.rates import MIN_GOLD
from conal.report.evidence import Report
from conal.report.wording import NONE, count, percent, short

if TYPE_CHECKING:
    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.encoding import Names
    from conal.report.evidence import Report

# The report.

HEIGHT = 720
"""Pixels of the frame, which readers can drag longer."""
FRAME = Markup(
    '<iframe title="conal report" sandbox="allow-scripts" srcdoc="{page}" style="box-sizing: border-box; width: 100%; '
    "height: {height}px; min-height: 200px; resize: vertical; border: 1px solid #8884; border-radius: 8px; "
    'background: #fbfaf8;"></iframe>'
)
"""The frame may run the page's own scripts, which the page's content security policy names, and nothing else: it is
of another origin than the notebook, which it can neither read nor change."""


class ReportPage:
    """The report as one HTML page that works offline; the last value of a notebook's cell is shown below it.

    Parameters
    ----------
    document : mapping
        The content of ``report.json``.

    Attributes
    ----------
    html : str
        The page.
    document : mapping
        The content of ``report.json``, from which the page is made.
    lead : str
        The first lines of the page: how many labels are right, as measured or as believed.

    Examples
    --------
    >>> from conal.aggregation import MajorityVote
    >>> MajorityVote().fit([[0, 0, 1], [1, 1, 1]]).report()
    ReportPage(majority-vote: 2 tasks, 3 annotators, 6 labels; .save("report.html") writes it)
    """

    def __init__(self, document: Report) -> None:
        self.document = document

    @cached_property
    def html(self) -> str:
        """The whole page."""
        from conal.report.page import render  # loading charts takes a second

        return render(self.document)

    @property
    def lead(self) -> str:
        """The first lines of the page as plain text: how many labels are right, as measured or as believed."""
        from conal.report.page import lead

        return lead(self.document).striptags().replace("\xa0", " ")

    @property
    def outcome(self) -> list[str]:
        """Lines of text: labels changed, common confusions, who is worst, and what to do next."""
        from conal.report.page import outcome

        return outcome(self.document)

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page to a file, all at once.

        Parameters
        ----------
        path : path
        overwrite : bool
            Whether an existing file may be replaced.
        """
        place = Path(path)
        check_file_place(place, overwrite=overwrite)
        with atomic_file(place) as temporary:
            temporary.write_text(self.html, encoding="utf-8")
        return place

    def _repr_html_(self) -> str:
        return str(FRAME.format(page=self.html, height=HEIGHT))

    def __repr__(self) -> str:
        from conal.report.findings import origin_of

        crowd = self.document["crowd"]
        numbers = ", ".join(
            count(crowd[key], word, f"{word}s")
            for key, word in (("n_tasks", "task"), ("n_annotators", "annotator"), ("n_annotations", "label"))
        )
        method = short(origin_of(self.document)["method"])
        return f'{type(self).__name__}({method}: {numbers}; .save("report.html") writes it)'


# Short summaries of annotations and aggregators. Everything from users is escaped.

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
    return _summary("Annotations", _counts(crowd), facts, _by_class("class", crowd.classes, given, "labels"))


def aggregator_summary(aggregator: Aggregator) -> str:
    """The parameters, and after ``fit`` how it ended and the inferred labels by class."""
    if not hasattr(aggregator, "probas_"):
        return _summary(repr(aggregator), "not fitted", [], [])
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
    return _summary(repr(aggregator), _counts(crowd), facts, _by_class("label", crowd.classes, given, "tasks"))


def _counts(crowd: Annotations) -> str:
    annotators = count(crowd.n_annotators, "annotator", "annotators")
    classes = count(crowd.n_classes, "class", "classes")
    labels = count(crowd.n_annotations, "annotation", "annotations")
    return f"{count(crowd.n_tasks, 'task', 'tasks')}, {annotators}, {classes}, {labels}"


def _spread(counts: IntArray) -> str:
    if not len(counts):
        return NONE
    return f"{count(int(counts.min()))} to {count(int(counts.max()))}, mean {counts.mean():,.1f}"


def _quality(skills: FloatArray) -> str:
    if not len(skills):
        return NONE
    least, middle, most = (percent(float(share)) for share in np.quantile(skills, [0, 0.5, 1]))
    return f"{least} to {most}, median {middle}"


def _by_class(heading: str, classes: Names, given: IntArray, counted: str) -> list[tuple[str, str, str]]:
    """Headings, then class, number and share, most first; the rest together."""
    order = np.argsort(-given, kind="stable").tolist()
    total = max(int(given.sum()), 1)
    shown, rest = order[:MOST_CLASSES], order[MOST_CLASSES:]
    names = classes.tolist()
    rows = [(heading, counted, "share")]
    rows += [(short(names[k]), count(int(given[k])), percent(given[k] / total)) for k in shown]
    if rest:
        left = int(given[rest].sum())
        rows.append((f"{count(len(rest))} more", count(left), percent(left / total)))
    return rows


def _summary(title: str, counts: str, facts: Iterable[tuple[str, str]], rows: Sequence[tuple[str, str, str]]) -> str:
    """A heading, a table of facts, and one of classes, each with its number and share."""
    heading = Markup("<p><b>{}</b><br>{}</p>").format(short(title, 200), counts)
    return str(Markup("<div>{}{}{}</div>").format(heading, _table(facts), _table(rows)))


def _table(rows: Iterable[Sequence[str]]) -> Markup:
    cell = Markup('<td style="text-align: left">{}</td>')
    lines = (Markup("<tr>{}</tr>").format(Markup("").join(map(cell.format, row))) for row in rows)
    return Markup("<table>{}</table>").format(Markup("").join(lines))
