"""``conal aggregate``: crowd labels in, one label per task out, without features."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal._support.processes import process_number, process_rank
from conal._support.registry import names_in_source
from conal.cli.aggregate_results import report_parts, report_places, result_tables
from conal.cli.crowd_plan import Budget, planned_labels, text_of
from conal.cli.defence import Defend, defended_labels
from conal.cli.groups import Group
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
from conal.cli.private import refuse_beside_private, release
from conal.cli.terminal import one_line
from conal.cli.true_labels import TrueLabels, offer_truth, read_truth, truth_files
from conal.errors import DataWarning, InputError, examples, warn
from conal.parameters import check_parameters
from conal.parameters.privacy import ReleaseOptions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo

__all__ = ["aggregate"]

DEFAULT = "dawid-skene"


def aggregate(
    *,
    labels: Labels,
    out: Annotated[
        Path,
        typer.Option(help="Output table of labels: .csv, .tsv, .parquet or .jsonl. With --private, an output folder."),
    ],
    method: Annotated[
        str, typer.Option(help=f"Aggregation method: {', '.join(names_in_source('conal.aggregation'))}.")
    ] = DEFAULT,
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
    plan: Annotated[
        Path | None, typer.Option(help="With --budget: output table of the labels to ask for next, as by conal plan.")
    ] = None,
    budget: Budget = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Output folder of the labels and all that was learned, to which conal update adds further labels.",
        ),
    ] = None,
    reading: Reading,
    privacy: Annotated[ReleaseOptions, Group(ReleaseOptions)],
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
    from conal.io.atomic import together
    from conal.io.tables import write_tables

    if privacy.private is not None:
        unfit: dict[str, Any] = {"annotators": annotators, "confusion": confusion, "report": report, "save": save}
        unfit |= {"plan": plan, "budget": budget, "defend": defend, "seed": seed, "set": settings}
        refuse_beside_private(method=method != DEFAULT, **unfit)
        known_to_all = {"true_labels": true_labels, "annotator_info": annotator_info}
        release(labels, out, privacy, reading, **known_to_all, overwrite=overwrite, quiet=quiet, as_json=as_json)
        return
    began = time.perf_counter()
    _check_options(plan, budget, save, privacy)
    places = [] if report is None else report_places(report)
    check_results(
        tables=[out, annotators, confusion, plan],
        files=places,
        sources=[*labels, *truth_files(true_labels), annotator_info],
        overwrite=overwrite,
    )
    aggregator = _make(method, parse_settings(settings), seed=seed, verbose=not quiet)
    if save is not None:
        _check_save(save, aggregator, [*labels, *places, out], overwrite=overwrite)
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
    few = privacy.min_labels
    tables = result_tables(aggregator, labelled, out, annotators, confusion, min_labels=few)
    more, texts = ({}, {}) if report is None else report_parts(aggregator, report, min_labels=few)
    figures: dict[str, Any] = {}
    told_of_plan: list[str] = []
    if plan is not None and budget is not None:
        tables[plan], figures, text = _plan(aggregator, budget, seed, plan)
        told_of_plan = [text]
    with together():
        write_tables(tables | more, texts)
        if save is not None:
            aggregator.save(save, overwrite=overwrite)
    result = {
        "out": out,
        "annotators": annotators,
        "confusion": confusion,
        "report": places[0] if places else None,
        "saved": save,
        "method": method,
        "files": contributions(file),
        **_figures(aggregator, crowd, labelled),
        "n_true_labels": len(known),
        "seconds": time.perf_counter() - began,
        **({"plan": {"out": plan, **figures}} if figures else {}),
    }
    emit(result, "\n".join([_summary(result), *told_of_plan]), as_json=as_json, quiet=quiet)


def _make(method: str, settings: dict[str, Any], *, seed: int, verbose: bool) -> Aggregator:
    from conal import aggregation

    if "seed" in settings:
        raise InputError(f"--set seed={settings['seed']}: use --seed instead")
    known = aggregation.get(method).parameter_names()
    own = {name: value for name, value in (("seed", seed), ("verbose", verbose)) if name in known}
    aggregator = aggregation.make(method, **(own | settings))
    check_parameters(aggregator)  # before the work starts
    return aggregator


def _check_options(plan: Path | None, budget: float | None, save: Path | None, privacy: ReleaseOptions) -> None:
    """Reject options that need each other, or contradict each other."""
    if (plan is None) != (budget is None):
        raise InputError("--plan FILE and --budget B belong together; pass both, or neither")
    for option, value, what in (("plan", plan, "names single annotators"), ("save", save, "keeps everybody's labels")):
        if value is not None and privacy.min_labels is not None:
            raise InputError(f"--{option} {what}, and --min-labels hides some annotators; leave out one of the two")


def _check_save(folder: Path, aggregator: Aggregator, files: list[Path], *, overwrite: bool) -> None:
    """Reject a folder, or an aggregator, that cannot be saved, before the work starts."""
    from conal.io.models import AGGREGATOR, check_target

    if not aggregator.updatable:
        from conal.aggregation import get, names

        able = ", ".join(name for name in names() if get(name).updatable)
        raise InputError(f"--save: {aggregator.name} cannot be updated; leave out --save, or use one of {able}")
    inside = [path for path in files if path.resolve().is_relative_to(folder.resolve())]
    if inside:
        raise InputError(f"{inside[0]}: is inside {folder}, which is reserved for conal; choose another place")
    check_target(folder, AGGREGATOR, overwrite=overwrite)


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


def _plan(fitted: Aggregator, budget: float, seed: int, out: Path) -> tuple[pa.Table, dict[str, Any], str]:
    """The labels to ask for next, figures about them, and a summary."""
    from conal.findings.asking import Asking
    from conal.findings.labels_alone import findings_of_labels

    crowd, about = fitted.annotations_, fitted.annotator_info_
    evidence = findings_of_labels(fitted).evidence
    asking = Asking.by_evidence(evidence, limits=None if about is None else about.limits)
    found, figures = planned_labels(
        asking, crowd.annotator_ids, crowd.task_ids, budget, expert_cost=None, per_task=3, seed=seed
    )
    return found.table, figures, text_of(figures, out, budget)


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
    titles = {
        "out": "labels",
        "annotators": "annotators",
        "confusion": "confusion",
        "report": "report",
        "saved": "saved",
    }
    return "\n".join(lines + [f"{title}: {result[key]}" for key, title in titles.items() if result[key] is not None])


def _convergence(result: dict[str, Any]) -> str:
    if result["converged"] is None:
        return ""
    word = "converged" if result["converged"] else "not converged"
    return f"{word} after {result['n_iter']:,} iterations; "
