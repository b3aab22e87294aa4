"""What a report shows beside its figures: texts, pictures and addresses of tasks, and names of annotators."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import Any

from conal.errors import DataWarning, warn
from conal.io.images import PictureError, PictureSource, Source, Thumbnail, can_draw, thumbnail_of
from conal.report.evidence import Plain, Report, quoted
from conal.report.findings import thumbnails
from conal.report.sections.plan import ON_PAGE

MAX_PICTURES = 1500
MAX_CHARACTERS = 3_000_000
"""Of all pictures together: with what else it contains, a page stays below 6 MB."""
MOST = 16_000
"""Characters of one picture."""


@dataclass(frozen=True)
class Exhibits:
    """What a report shows beside its figures. Tasks and annotators are looked up by their names as text.

    Parameters
    ----------
    texts : mapping
        Texts of tasks, where the model was not trained on texts.
    pictures : sequence of PictureSource
        Where to look for the picture of a task; the first that has one counts.
    picture_links, links : mappings
        Addresses of pictures, which are never fetched, and of tasks.
    link : callable, optional
        Makes the address of a task; it comes before ``links``.
    names : mapping
        Names of annotators.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    pictures: Sequence[PictureSource] = ()
    picture_links: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    link: Callable[[Any], str] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def picture(self, task: Any) -> Source | None:
        """Where the pixels of a task's picture are."""
        found = (source.of(task) for source in self.pictures)
        return next((one for one in found if one is not None), None)

    def address(self, task: Any) -> str | None:
        """Where the task is on its platform."""
        return self.links.get(str(task)) if self.link is None else self.link(task)


def exhibited(report: Report, exhibits: Exhibits) -> Report:
    """A copy of a report whose rows have texts, addresses, pictures and names, where these are known.

    Without Pillow it has no pictures.
    """
    made = copy.deepcopy(report)
    for row in task_rows(made):
        name = str(row["task"])
        if name in exhibits.texts and not row.get("text"):
            row["text"] = quoted(exhibits.texts[name])
        if (address := exhibits.address(row["task"])) is not None:
            row["link"] = address
        if name in exhibits.picture_links:
            row["picture_link"] = exhibits.picture_links[name]
    for person in people_rows(made):
        if str(person["worker"]) in exhibits.names:
            person["name"] = exhibits.names[str(person["worker"])]
    if exhibits.pictures and can_draw():
        _add_pictures(made, _in_turn(made), exhibits)
    return made


def task_rows(report: Report) -> Iterator[Plain]:
    """Every row about a task."""
    return chain.from_iterable(_lists(report))


PEOPLE = {
    "annotators": "rows",
    "suggestions": "rows",
    "next_steps": "people",
    "jury": "judges",
    "groups": "own",
    "gold_rates": "annotators",
}
"""Sections with rows about annotators, not all of which are always there, and their keys."""


def people_rows(report: Report) -> Iterator[dict[str, Any]]:
    """Every row about an annotator."""
    return chain.from_iterable(report[section][key] for section, key in PEOPLE.items() if section in report)


def _lists(report: Report) -> list[list[Plain]]:
    """The lists of rows about tasks, those that readers look at first in front."""
    tasks = report["tasks"]
    doubtful = [label for row in report["annotators"]["rows"] for label in row.get("doubtful", [])]
    lists = [tasks["likely_wrong"], report["suggestions"], tasks["ambiguous"], tasks.get("disagreements", {"rows": []})]
    return [*(found["rows"] for found in lists), doubtful]


def _in_turn(report: Report) -> list[Plain]:
    """The rows that the page shows, from all lists in turn."""
    lists = [rows[:ON_PAGE] if rows is report["suggestions"]["rows"] else rows for rows in _lists(report)]
    return [row for rows in zip_longest(*lists) for row in rows if row is not None]


def _add_pictures(report: Report, rows: list[Plain], exhibits: Exhibits) -> None:
    found = _kept(report, rows)
    wanted = {str(row["task"]): row["task"] for row in rows}
    sources = {name: source for name, task in wanted.items() if (source := exhibits.picture(task)) is not None}
    sources = dict(islice(sources.items(), MAX_PICTURES))
    most = min(MOST, MAX_CHARACTERS // max(len(sources.keys() | found.keys()), 1))
    problems: dict[str, str] = {}
    for name, source in sources.items():
        try:
            found[name] = thumbnail_of(source, most)
        except PictureError as error:
            problems[name] = str(error)
    _warn_of(problems, len(sources))
    places = {name: k for k, name in enumerate(found)}
    for row in task_rows(report):
        row.pop("picture", None)
        if str(row["task"]) in places:
            row["picture"] = places[str(row["task"])]
    report["pictures"] = {"thumbnails": list(found.values()), "unreadable": len(problems)}


def _kept(report: Report, rows: list[Plain]) -> dict[str, Thumbnail]:
    """The pictures that the report has already, by task."""
    made = thumbnails(report)
    return {str(row["task"]): made[row["picture"]] for row in rows if "picture" in row}


def _warn_of(problems: Mapping[str, str], total: int) -> None:
    if problems:
        task, reason = next(iter(problems.items()))
        warn(
            f"{len(problems):,} of {total:,} pictures are not shown in the report, such as that of task {task!r}, "
            f"which {reason}",
            DataWarning,
        )
