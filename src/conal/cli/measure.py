"""``conal measure``: how many labels are right, by true labels; an exit code that other programs can act on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conal.cli import options
from conal.cli.aggregate import AGGREGATORS, WITH_TRUE_LABELS, Outputs, make_aggregator, report_places
from conal.cli.inputs import EXPORT, check_results, columns_to_keep, read_labels, read_sample, truth_files
from conal.errors import InputError
from conal.parameters import share
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    from conal.metrics import Measurement

FAILED = 3
"""Exit code where a condition of the user is not met, and everything else went well."""
JUDGES_SHOWN = 10
SETTINGS = options.settable(ReadOptions, also=("question", *options.READING))

Baseline = Annotated[
    Path | None,
    typer.Option(
        metavar="JSON",
        help="An earlier --out. Figures that differ from it are drift: the exit code is 3. The probability of that "
        "where nothing has changed is at most 5 %.",
    ),
]
FailUnder = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Exit with 3 if the measured share of right inferred labels is below this."),
]
FailIfBelow = Annotated[
    Literal["best-judge", "vote"] | None,
    typer.Option(
        help="Exit with 3 if the inferred labels are reliably worse than the best single judge, or than the majority "
        "vote: the interval of the difference is below 0."
    ),
]


def measure(
    *,
    labels: options.Labels,
    true_labels: Annotated[
        Path,
        typer.Option(
            help="Table of true labels (task, label) of ten tasks or more, best of random ones; or the word export, "
            "for those that the files of labels contain."
        ),
    ],
    method: Annotated[str, typer.Option(help=f"Aggregation method: {AGGREGATORS}.")] = WITH_TRUE_LABELS,
    out: Annotated[Path | None, typer.Option(help="Output file of all figures, as JSON.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder of the report, as of conal aggregate.")
    ] = None,
    baseline: Baseline = None,
    fail_under: FailUnder = None,
    fail_if_below: FailIfBelow = None,
    positive: Annotated[
        str | None,
        options.in_panel(options.LABELS, "Of two classes, the one that sensitivity is about.", metavar="CLASS"),
    ] = None,
    settings: Annotated[
        list[str] | None, options.set_option(SETTINGS, ", or a parameter of the method, such as seed=3")
    ] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    task_column: options.TaskColumn = None,
    worker_column: options.WorkerColumn = None,
    label_column: options.LabelColumn = None,
) -> None:
    """Measure labels by true labels: how many are right, of the jury, of the vote and of every judge.

    Fifty random tasks with a true label measure well. All intervals are 95 %. The exit code is 3 where a condition
    (--fail-under, --fail-if-below, --baseline) is not met.
    """
    from conal._files import atomic_file
    from conal.io.model_folder import compact_json, load_json
    from conal.metrics.measurement import drift
    from conal.metrics.measurement import measure as measure_labels

    if fail_under is not None:
        share().check("--fail-under", fail_under)
    before = None if baseline is None else load_json(baseline)
    given = options.parse_settings(settings)
    columns = {"task": task_column, "worker": worker_column, "label": label_column}
    reading = options.taken(ReadOptions, given, **columns)
    sources = [*labels, *truth_files(true_labels), baseline]
    outputs = Outputs(None, report=report)
    outputs.check(sources, overwrite=overwrite)
    check_results(files=[out], sources=sources, overwrite=overwrite)
    aggregator = make_aggregator(method, options.remaining(given), verbose=not quiet)
    file = read_labels(labels, reading)
    if true_labels == EXPORT and not file.true_labels:
        raise InputError("--true-labels export: the files of labels contain no true labels; pass a table of them")
    own = replace(reading, task=columns_to_keep(file, reading).get("task"))
    aggregator.fit(file.annotations, true_labels=read_sample(true_labels, own, file, file.annotations))
    found = measure_labels(aggregator, positive=positive)
    compared = [] if before is None else drift(found, before)
    failures = _failures(found, compared, fail_under, fail_if_below)
    result = found.to_dict() | {"method": method, "failures": failures}
    if before is not None:
        result["drift"] = compared
    if report is not None:
        aggregator.columns_ = columns_to_keep(file, reading)
        outputs.write(aggregator, overwrite=overwrite)
    document = compact_json(result)
    if out is not None:
        with atomic_file(out) as temporary:
            temporary.write_text(document, encoding="utf-8")
    places = {"figures": out, "report": None if report is None else report_places(report)[0]}
    written = [f"{name}: {place}" for name, place in places.items() if place is not None]
    text = "\n".join([*_lines(found), *_drift_lines(compared), *written])
    options.emit(json.loads(document), text, as_json=as_json, quiet=quiet)
    for failure in failures:
        typer.echo(f"failed: {options.one_line(failure)}", err=True)
    if failures:
        raise typer.Exit(FAILED)


def _failures(found: Measurement, compared: list[Any], fail_under: float | None, below: str | None) -> list[str]:
    """A sentence for every condition that is not met."""
    failures = []
    if fail_under is not None and found.inferred["value"] < fail_under:
        failures.append(f"{_percent(found.inferred['value'])} of the inferred labels are right, below {fail_under:g}")
    best = found.best_judge
    rival = found.above_vote if below == "vote" else None if best is None else best["above"]
    if below is not None and rival is None:
        failures.append("no judge has ten true labels or more, so there is no best one to compare with")
    elif below is not None and rival is not None and rival["high"] < 0:
        name = "the majority vote" if below == "vote" or best is None else f"judge {best['worker']}"
        failures.append(f"the inferred labels are worse than {name}: {_points(rival)}")
    failures += [
        f"{row['figure']} ({row['kind']}) was {_percent(row['before'])} and is {_percent(row['value'])}"
        for row in compared
        if row["drifted"]
    ]
    return failures


def _lines(found: Measurement) -> list[str]:
    """The figures for people."""
    lines = [
        f"measured by {found.n_true_labels} {found.design} true labels of {found.n_tasks:,} tasks, with "
        f"{_percent(found.confidence)} intervals",
        f"inferred labels: {_right(found.inferred)}; the model believed {_percent(found.believed)}",
        f"majority vote: {_right(found.vote)}; inferred labels minus vote {_points(found.above_vote)}",
    ]
    lines += [
        f"{row['worker']}: {_right(row)}; inferred labels minus judge {_points(row['above'])}"
        for row in found.judges[:JUDGES_SHOWN]
    ]
    if len(found.judges) > JUDGES_SHOWN:
        lines.append(f"and {len(found.judges) - JUDGES_SHOWN} judges more (--out and --json have all)")
    if "sensitivity" in found.inferred:
        other = next(row["class"] for row in found.shares if row["class"] != found.positive)
        lines.append(f"sensitivity is the share of {found.positive} that is found, specificity that of {other}")
    lines += [f"true label {row['class']}: {_interval(row)} of all tasks" for row in found.shares]
    return [options.one_line(line) for line in lines]


def _drift_lines(compared: list[Any]) -> list[str]:
    if not compared or any(row["drifted"] for row in compared):
        return []
    return [f"no drift: none of {len(compared)} figures differs reliably from the baseline"]


def _right(row: dict[str, Any]) -> str:
    """Accuracy, and what else is known."""
    said = [f"{_interval(row)} right"]
    if "kappa" in row:
        said.append(f"kappa {row['kappa']['value']:.2f}")
    said += [f"{name} {_interval(row[name])}" for name in ("sensitivity", "specificity") if row.get(name)]
    return ", ".join(said)


def _interval(row: dict[str, Any]) -> str:
    return f"{_percent(row['value'])} ({100 * row['low']:.0f} to {100 * row['high']:.0f})"


def _points(row: dict[str, Any]) -> str:
    return f"{100 * row['value']:+.0f} points ({100 * row['low']:+.0f} to {100 * row['high']:+.0f})"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"
