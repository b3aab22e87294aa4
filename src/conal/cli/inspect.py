"""``conal inspect``: what is in an annotation file, and what is wrong with it, each with its remedy."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from conal.cli import options
from conal.cli.options import class_name
from conal.parameters import parameters_of
from conal.parameters.reading import ReadOptions

SETTINGS = options.settable(ReadOptions)

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


def inspect(
    *,
    labels: options.Labels,
    settings: Annotated[list[str] | None, options.set_option(SETTINGS)] = None,
    as_json: options.AsJson = False,
    task_column: options.TaskColumn = None,
    worker_column: options.WorkerColumn = None,
    label_column: options.LabelColumn = None,
    question: options.Question = None,
    classes: options.Classes = None,
    ordinal: options.Ordinal = False,
    without: options.Without = None,
    merge_spelling: options.MergeSpelling = False,
    encoding: options.Encoding = None,
) -> None:
    """Show what annotation files contain: format, tasks, annotators, classes, agreement, problems, and what to do next.

    Agreement has 95 % bootstrap intervals over tasks. Every problem is followed by a remedy, and in a CSV, TSV or JSON
    Lines file by the lines that it is in. If other commands would refuse the files, the figures are those of the lines
    that can be read, and the exit code is 2. Otherwise the last line is the command that infers labels from these
    files, read in the same way.
    """
    from conal.report.inspection import inspect_file

    given = options.parse_settings(settings)
    columns = {"task": task_column, "worker": worker_column, "label": label_column}
    columns |= {"question": question, "classes": classes, "encoding": encoding}
    switches = {"ordinal": ordinal, "merge_spelling": merge_spelling}
    reading = options.taken(ReadOptions, given, **columns, **switches, without=without)
    options.refuse_unknown(given, SETTINGS)
    facts = inspect_file(labels, reading)
    words = [
        word
        for name, value in columns.items()
        if value
        for word in (parameters_of(ReadOptions)[name].option.flag, value)
    ]
    words += [parameters_of(ReadOptions)[name].option.flag for name, on in switches.items() if on]
    words += [word for name in without or [] for word in ("--without", name)]
    words += [word for pair in settings or [] for word in ("--set", pair)]
    for problem in facts["problems"]:
        problem |= {name: options.with_flags(problem[name]) for name in ("problem", "remedy")}
    if not facts["usable"]:
        lines = _lines(facts) if "format" in facts else [facts["file"], *_problems(facts["problems"])]
        text = "\n".join([*lines, "next: correct the problems with which commands refuse the file, which come first"])
        options.emit({**facts, "next": None}, text, as_json=as_json, quiet=False)
        raise typer.Exit(2)
    command = _next_command(labels, words, facts["data"])
    text = "\n".join([*_lines(facts), f"next: {command}"])
    options.emit({**facts, "next": command}, text, as_json=as_json, quiet=False)


def _next_command(labels: Sequence[Path], words: Sequence[str], data: Sequence[str]) -> str:
    """The command for these files: a classifier of the texts where the files have them, otherwise aggregation."""
    from conal.data.frames import is_name_column

    files = [str(path) for path in labels]
    if any(is_name_column(name, ["text"]) for name in data):
        return shlex.join(["conal", "fit", *files, "--text", files[0], *words, "--out", _free("model")])
    return shlex.join(["conal", "aggregate", *files, *words, "--out", _free("clean", ".csv")])


def _free(stem: str, suffix: str = "") -> str:
    """A name for a result that no file has yet."""
    names = (f"{stem}{'' if k == 1 else f'-{k}'}{suffix}" for k in count(1))
    return next(name for name in names if not Path(name).exists())


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    asked = f", question {_short(facts['question'])}" if facts["question"] else ""
    yield f"{facts['file']}: {facts['title']} ({facts['format']}){asked}"
    yield from options.file_summaries(facts["files"])
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
    for name, n in ordered[:MOST_CLASSES]:
        yield f"  {_short(name)}  {n:,} ({100 * n / facts['n_annotations']:.1f} %)"
    if len(ordered) > MOST_CLASSES:
        yield f"  and {len(ordered) - MOST_CLASSES:,} more"


def _problems(problems: list[dict[str, Any]]) -> Iterator[str]:
    yield "problems:" if problems else "no problems found"
    for problem in problems:
        yield f"  {problem['problem']}{_place(problem)}"
        yield f"    -> {problem['remedy']}"


def _place(problem: dict[str, Any]) -> str:
    """The lines that a problem is in."""
    if "lines" not in problem:
        return ""
    more = problem["n_lines"] - len(problem["lines"])
    listed = ", ".join(map(str, problem["lines"])) + (f" and {more:,} more" if more else "")
    return f" ({'line' if problem['n_lines'] == 1 else 'lines'} {listed})"


def _spread_text(counts: dict[str, float]) -> str:
    return f"{counts['min']:,} to {counts['max']:,}, median {counts['median']:g}, mean {counts['mean']:.2f}"


def _short(name: object) -> str:
    """A name on one line, cut if it is long, quoted if blanks surround it."""
    text = class_name(name)
    return text if len(text) <= NAME_WIDTH else f"{text[: NAME_WIDTH - 1]}… ({len(text):,} characters)"
