"""``conal inspect``: what is in an annotation file, and what is wrong with it, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conal.cli.options import AsJson, Labels, Reading, emit, file_summaries
from conal.cli.terminal import class_name

__all__ = ["inspect"]

NAME_WIDTH = 60
MOST_CLASSES = 30
MOST_REFUSING = 5
COEFFICIENTS = {
    "krippendorff_alpha": "Krippendorff's alpha",
    "fleiss_kappa": "Fleiss' kappa",
    "cohen_kappa": "Cohen's kappa",
}
ON_SCALES = {"krippendorff_alpha": "Krippendorff's ordinal alpha", "cohen_kappa": "Cohen's kappa, quadratic weights"}
"""The same where the classes are a scale."""


def inspect(*, labels: Labels, reading: Reading, as_json: AsJson = False) -> None:
    """Show what annotation files contain: format, tasks, annotators, classes, agreement, and problems.

    Agreement has 95 % bootstrap intervals over tasks. Every problem is followed by a remedy.
    """
    from conal.report.inspection import inspect_file

    facts = inspect_file(labels, reading)
    emit(facts, "\n".join(_lines(facts)), as_json=as_json, quiet=False)


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    asked = f", question {_short(facts['question'])}" if facts["question"] else ""
    yield f"{facts['file']}: {facts['title']} ({facts['format']}){asked}"
    yield from file_summaries(facts["files"])
    yield (
        f"{facts['n_annotations']:,} labels by {facts['n_annotators']:,} annotators on {facts['n_tasks']:,} tasks, "
        f"{facts['n_classes']:,} classes"
    )
    yield f"labels per task:      {_spread_text(facts['labels_per_task'])}"
    yield f"labels per annotator: {_spread_text(facts['labels_per_annotator'])}"
    if facts["refused"] is not None:
        yield _refusals(facts["refused"])
    titles = COEFFICIENTS | (ON_SCALES if facts["ordinal"] else {})
    for name, value in facts["agreement"].items():
        yield f"{titles[name]}: {value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"
    if facts["gold"]["n_tasks"]:
        share = facts["gold"]["accuracy"]
        known = "" if share is None else f"; {100 * share:.1f} % of the labels of these tasks are right"
        yield f"true labels: {facts['gold']['n_tasks']:,} tasks{known}"
    if facts["data"]:
        yield f"task data: {', '.join(map(_short, facts['data']))}"
    yield from _classes(facts)
    yield from _problems(facts["problems"])


def _refusals(refused: dict[str, Any]) -> str:
    """How often, and by whom most often."""
    rows = refused["annotators"][:MOST_REFUSING]
    named = [f"{_short(row['worker'])} {row['refused']:,} of {row['asked']:,}" for row in rows]
    more = len(refused["annotators"]) - len(named)
    named += [f"and {more:,} more"] if more > 0 else []
    share = 100 * refused["total"] / max(refused["asked"], 1)
    return f"refused answers:      {refused['total']:,} ({share:.1f} %)" + (f": {', '.join(named)}" if named else "")


def _classes(facts: dict[str, Any]) -> Iterator[str]:
    yield "classes:"
    ordered = list(facts["classes"].items())
    if not facts["ordinal"]:
        ordered.sort(key=lambda pair: -pair[1])
    for name, count in ordered[:MOST_CLASSES]:
        yield f"  {_short(name)}  {count:,} ({100 * count / facts['n_annotations']:.1f} %)"
    if len(ordered) > MOST_CLASSES:
        yield f"  and {len(ordered) - MOST_CLASSES:,} more"


def _problems(problems: list[dict[str, str]]) -> Iterator[str]:
    yield "problems:" if problems else "no problems found"
    for problem in problems:
        yield f"  {problem['problem']}"
        yield f"    -> {problem['remedy']}"


def _spread_text(counts: dict[str, float]) -> str:
    return f"{counts['min']:,} to {counts['max']:,}, median {counts['median']:g}, mean {counts['mean']:.2f}"


def _short(name: object) -> str:
    """A name on one line, cut if it is long, quoted if blanks surround it."""
    text = class_name(name)
    return text if len(text) <= NAME_WIDTH else f"{text[: NAME_WIDTH - 1]}… ({len(text):,} characters)"
