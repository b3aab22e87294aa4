"""``conal aggregate``: crowd labels in, one label per task out, without features."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal._support.processes import process_number, process_rank
from conal._support.registry import names_in_source
from conal.cli.defence import Defend, defended_labels
from conal.cli.options import (
    AboutAnnotators,
    AsJson,
    Labels,
    Overwrite,
    Quiet,
    Reading,
    Seed,
    emit,
    parse_settings,
    told,
)
from conal.cli.places import check_results
from conal.cli.terminal import one_line
from conal.cli.true_labels import TrueLabels, offer_truth, read_truth, truth_files
from conal.errors import DataWarning, InputError, examples, warn
from conal.parameters import check_parameters

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo

__all__ = ["aggregate"]


def aggregate(
    *,
    labels: Labels,
    out: Annotated[Path, typer.Option(help="Output table of labels: .csv, .tsv, .parquet or .jsonl.")],
    method: Annotated[
        str, typer.Option(help=f"Aggregation method: {', '.join(names_in_source('conal.aggregation'))}.")
    ] = "dawid-skene",
    true_labels: TrueLabels = None,
    annotator_info: AboutAnnotators = None,
    annotators: Annotated[
        Path | None, typer.Option(help="Output table of annotators: number of labels, quality, agreement.")
    ] = None,
    confusion: Annotated[
        Path | None,
        typer.Option(help="Output table of the annotators' confusion matrices, P(observed label given true label)."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Output folder of the report about these labels: report.html, which works offline, and its tables.",
        ),
    ] = None,
    reading: Reading,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a parameter of the aggregator, such as prior=0.1, n_iter=500, n_restarts=5, ties=random. "
            "An unknown name lists all parameters.",
        ),
    ] = None,
    defend: Defend = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Infer one label per task from crowd labels alone, without features.

    The table has one row per task: task, label, probability of the label, and one column proba_CLASS per class. With
    --ordinal, also mean, median, low and high. The label of a task without any label is empty; its proba_CLASS are
    those of an unseen task.
    """
    from conal.findings.inspection import contributions, warn_of_problems
    from conal.io import import_file
    from conal.io.annotator_tables import read_annotator_info
    from conal.io.tables import write_tables

    began = time.perf_counter()
    places = [] if report is None else _report_places(report)
    check_results(
        tables=[out, annotators, confusion],
        files=places,
        sources=[*labels, *truth_files(true_labels), annotator_info],
        overwrite=overwrite,
    )
    aggregator = _make(method, parse_settings(settings), seed=seed, verbose=not quiet)
    file = import_file(labels, reading)
    file.warn_of_dropped()
    crowd = file.annotations
    warn_of_problems(crowd, file.where)
    if defend:
        crowd = defended_labels(crowd, rings=not _is_vote(method), quiet=quiet or process_rank() > 0)
    known = read_truth(true_labels, reading, file, crowd)
    offer_truth(true_labels, len(file.gold), quiet=quiet)
    info = None if annotator_info is None else read_annotator_info(annotator_info, crowd, worker=reading.worker)
    if not _fit(aggregator, crowd, known, info):
        return
    labelled = _labelled(crowd, known)
    _warn_of_unlabelled(crowd, labelled, out)
    tables = _tables(aggregator, crowd, labelled, out, annotators, confusion)
    more, texts = ({}, {}) if report is None else _report(aggregator, report)
    write_tables(tables | more, texts)
    result = {
        "out": out,
        "annotators": annotators,
        "confusion": confusion,
        "report": places[0] if places else None,
        "method": method,
        "files": contributions(file),
        **_figures(aggregator, crowd, labelled),
        "n_true_labels": len(known),
        "seconds": time.perf_counter() - began,
    }
    emit(result, _summary(result), as_json=as_json, quiet=quiet)


def _make(method: str, settings: dict[str, Any], *, seed: int, verbose: bool) -> Aggregator:
    from conal import aggregation

    if "seed" in settings:
        raise InputError(f"--set seed={settings['seed']}: use --seed instead")
    known = aggregation.get(method).parameter_names()
    own = {name: value for name, value in (("seed", seed), ("verbose", verbose)) if name in known}
    aggregator = aggregation.make(method, **(own | settings))
    check_parameters(aggregator)  # before the work starts
    return aggregator


def _is_vote(method: str) -> bool:
    """Whether an aggregator counts votes, and so cannot read labels backwards."""
    from conal import aggregation
    from conal.aggregation.voting import VoteAggregator

    return issubclass(aggregation.get(method), VoteAggregator)


def _fit(aggregator: Aggregator, crowd: Annotations, known: dict[Any, Any], info: AnnotatorInfo | None) -> bool:
    """Fit alone or, under torchrun, with other processes; True for the process that prints and writes."""
    if process_number() == 1:
        aggregator.fit(crowd, true_labels=known, annotator_info=info)
        return True
    first = process_rank() == 0
    from conal.distributed.aggregation import fit_shared  # loads torch, which takes seconds

    fit_shared(aggregator, crowd, true_labels=known)
    aggregator.annotator_info_ = info  # for the report: none of those that several processes can fit needs it
    return first


def _labelled(crowd: Annotations, known: dict[Any, Any]) -> npt.NDArray[np.bool_]:
    """(N,) which tasks have a label or a known true label; of the others, aggregation knows only the class prior."""
    import numpy as np

    given = np.array([name in known for name in crowd.task_ids.tolist()], dtype=bool) if known else False
    labelled: npt.NDArray[np.bool_] = (crowd.labels_per_task() > 0) | given
    return labelled


def _warn_of_unlabelled(crowd: Annotations, labelled: npt.NDArray[np.bool_], out: Path) -> None:
    names = crowd.task_ids[~labelled].tolist()
    if names:
        warn(
            f"{out}: the label of {len(names):,} tasks is empty, because nobody labelled them: {examples(names)}",
            DataWarning,
        )


def _tables(
    fitted: Aggregator,
    crowd: Annotations,
    labelled: npt.NDArray[np.bool_],
    out: Path,
    annotators: Path | None,
    confusion: Path | None,
) -> dict[Path, pa.Table]:
    from conal.io.results import annotator_table, confusion_table, label_table, where_labelled

    levels = crowd.levels() if fitted.annotations_.ordinal else None
    found = fitted.task_ids_, fitted.probas_, fitted.classes_, fitted.codes_
    tables = {out: label_table(*found, labelled, levels=levels)}
    if annotators is not None:
        tables[annotators] = annotator_table(crowd, where_labelled(crowd, fitted.skills_), fitted.codes_)
    if confusion is not None:
        tables[confusion] = confusion_table(crowd, fitted.confusion_, fitted.abstention_)
    return tables


def _report_places(folder: Path) -> list[Path]:
    """Every file that a report may have, the page first."""
    from conal.findings.base import all_findings
    from conal.io.models import CONFIG, PAGE, REPORT

    if (folder / CONFIG).exists():
        raise InputError(f"{folder}: is a model folder, which has its own report; choose another place")
    tables = {finding.table for finding in all_findings() if finding.table}
    return [folder / name for name in (PAGE, REPORT, *sorted(tables))]


def _report(fitted: Aggregator, folder: Path) -> tuple[dict[Path, pa.Table], dict[Path, str]]:
    """The tables of the report, and its texts: the page and what it is made from."""
    from conal.io.models import PAGE, REPORT, compact_json

    page = fitted.report()
    tables = {folder / name: table for name, table in fitted.tables_.items()}
    return tables, {folder / PAGE: page.html, folder / REPORT: compact_json(page.document)}


def _figures(fitted: Aggregator, crowd: Annotations, labelled: npt.NDArray[np.bool_]) -> dict[str, Any]:
    import numpy as np

    counts = np.bincount(fitted.codes_[labelled], minlength=crowd.n_classes).tolist()
    return {
        "n_annotations": crowd.n_annotations,
        "n_refused": None if crowd.abstentions is None else crowd.abstentions.n_annotations,
        "n_annotators": crowd.n_annotators,
        "n_tasks": crowd.n_tasks,
        "n_unlabelled": int((~labelled).sum()),
        "n_classes": crowd.n_classes,
        "converged": getattr(fitted, "converged_", None),  # majority vote does not iterate
        "n_iter": getattr(fitted, "n_iter_", None),
        "why": getattr(fitted, "why_", None),  # of an aggregator that chooses
        "counts": {str(name): count for name, count in zip(crowd.classes.tolist(), counts, strict=True)},
    }


def _summary(result: dict[str, Any]) -> str:
    known = f"; {result['n_true_labels']:,} known true labels" if result["n_true_labels"] else ""
    refused = "" if result["n_refused"] is None else f" and {result['n_refused']:,} refused answers"
    lines = [
        f"{result['method']}: {result['n_annotations']:,} labels{refused} by {result['n_annotators']:,} annotators on "
        f"{result['n_tasks']:,} tasks, {result['n_classes']} classes",
        *told(result["files"]),
        *([f"chosen: {one_line(result['why'])}"] if result["why"] else []),
        f"{_convergence(result)}{result['seconds']:.1f} s{known}",
        ", ".join(f"{one_line(name)} {count:,}" for name, count in result["counts"].items()),
    ]
    titles = {"out": "labels", "annotators": "annotators", "confusion": "confusion", "report": "report"}
    return "\n".join(lines + [f"{title}: {result[key]}" for key, title in titles.items() if result[key] is not None])


def _convergence(result: dict[str, Any]) -> str:
    if result["converged"] is None:
        return ""
    word = "converged" if result["converged"] else "not converged"
    return f"{word} after {result['n_iter']:,} iterations; "
