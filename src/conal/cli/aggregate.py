"""``conal aggregate``: crowd labels in, one label per task out, without features."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal._files import real_path
from conal._system import process_number, process_rank
from conal.cli import options
from conal.cli.inputs import (
    Defend,
    TrueLabels,
    check_results,
    columns_to_keep,
    defended_labels,
    offer_truth,
    read_info,
    read_labels,
    read_sample,
    truth_files,
)
from conal.cli.options import class_name, one_line
from conal.cli.private import ReleaseOptions, refuse_beside_private, release
from conal.errors import DataWarning, InputError, examples, warn
from conal.parameters import check_parameters
from conal.parameters.reading import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo
    from conal.io import AnnotationFile
    from conal.report.findings import Findings


AGGREGATORS = (
    "auto, backoff, bayes-dawid-skene, cbcc, common-confusion, dawid-skene, ebcc, fast-dawid-skene, glad, "
    "gold-majority-vote, gold-pool, group-confusion, kos, mace, majority-vote, minimax-entropy, mmsr, "
    "multidimensional, one-coin, ordinal, wawa, worker-clustering, zero-based-skill"
)
"""Names for the help, which imports no aggregator; a test compares them with the registry."""
DEFAULT, WITH_TRUE_LABELS = "dawid-skene", "gold-pool"
SETTINGS = options.settable(ReadOptions, ReleaseOptions)
"""What ``--set`` takes, beside the aggregator's own parameters."""


# Options that no other command has.

Out = Annotated[
    Path,
    typer.Option(help="Output table of labels: .csv, .tsv, .parquet or .jsonl. With --private, an output folder."),
]
Annotators = Annotated[
    Path | None, typer.Option(help="Output table of annotators: number of labels, quality, agreement.")
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Output folder of the report about these labels: report.html, which works offline, and its tables.",
    ),
]
Settings = Annotated[
    list[str] | None, options.set_option(SETTINGS, ", or a parameter of the method, such as seed=3 or n_iter=500")
]
Confusion = Annotated[
    Path | None,
    options.in_panel(
        options.REPORT, "Output table of the annotators' confusion matrices, P(observed label given true label)."
    ),
]
Save = Annotated[
    Path | None,
    options.in_panel(
        options.REPORT,
        "Output folder of the labels and all that was learned, to which conal update adds further labels.",
        metavar="DIR",
    ),
]
Private = Annotated[
    float | None,
    options.option(
        ReleaseOptions,
        "private",
        metavar="EPSILON",
        panel=options.PRIVACY,
        help="Write only a differentially private release into the folder --out: the common confusion, that of "
        "groups, and class shares, counted beside --true-labels, with noise that hides each annotator's whole "
        "contribution. The smaller, the more noise; 1 is usual.",
    ),
]


def aggregate(
    *,
    labels: options.Labels,
    out: Out,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"Aggregation method: {AGGREGATORS}.", show_default=f"{DEFAULT}; with --true-labels {WITH_TRUE_LABELS}"
        ),
    ] = None,
    true_labels: TrueLabels = None,
    annotators: Annotators = None,
    report: Report = None,
    settings: Settings = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
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
    annotator_info: options.AboutAnnotators = None,
    defend: Defend = False,
    confusion: Confusion = None,
    save: Save = None,
    private: Private = None,
) -> None:
    """Infer one label per task from crowd labels alone, without features.

    The table has one row per task: task, label, probability of the label, and one column proba_CLASS per class. With
    --ordinal, also mean, median, low and high. The label of a task without any label is empty; its proba_CLASS are
    those of an unseen task.
    """
    given = options.parse_settings(settings)
    columns = {"task": task_column, "worker": worker_column, "label": label_column, "question": question}
    cleaning = {"without": without, "merge_spelling": merge_spelling, "encoding": encoding}
    reading = options.taken(ReadOptions, given, **columns, **cleaning, classes=classes, ordinal=ordinal)
    privacy = options.taken(ReleaseOptions, given, private=private)
    if privacy.private is not None:
        unfit: dict[str, Any] = {"annotators": annotators, "confusion": confusion, "report": report, "save": save}
        unfit |= {"without": without, "merge_spelling": merge_spelling}
        unfit |= {"defend": defend, "set": bool(given), "method": method is not None}
        refuse_beside_private(**unfit)
        known_to_all = {"true_labels": true_labels, "annotator_info": annotator_info}
        release(labels, out, privacy, reading, **known_to_all, overwrite=overwrite, quiet=quiet, as_json=as_json)
        return
    began = time.perf_counter()
    outputs = Outputs(out, annotators, confusion, report, save)
    outputs.check([*labels, *truth_files(true_labels), annotator_info], overwrite=overwrite)
    first = process_rank() == 0  # of several processes, which torchrun started, only one prints and writes
    method = method or _default(true_labels)
    aggregator = make_aggregator(method, options.remaining(given), verbose=not quiet)
    file = read_labels(labels, reading)
    crowd = file.annotations
    if defend:
        from conal.aggregation.voting import VoteAggregator

        is_vote = isinstance(aggregator, VoteAggregator)  # which cannot read labels backwards
        crowd = defended_labels(crowd, rings=not is_vote, quiet=quiet or not first)
    own = replace(reading, task=columns_to_keep(file, reading).get("task"))
    known = read_sample(true_labels, own, file, crowd)
    info = read_info(annotator_info, crowd, reading)
    offer_truth(true_labels, len(file.true_labels), quiet=quiet)
    _fit(aggregator, crowd, known, info)
    if not first:
        return
    aggregator.columns_ = columns_to_keep(file, reading)
    lead = outputs.write(aggregator, overwrite=overwrite)
    result = {
        "out": out,
        "annotators": annotators,
        "confusion": confusion,
        "report": None if report is None else report_places(report)[0],
        "saved": save,
        "method": method,
        **figures_of(aggregator, file),
        "n_true_labels": int((aggregator.known_codes_ >= 0).sum()),
        "seconds": time.perf_counter() - began,
    }
    options.emit(result, "\n".join(filter(None, [summary_of(result), lead])), as_json=as_json, quiet=quiet)


def _default(true_labels: Path | None) -> str:
    """Several processes can share a fit of Dawid-Skene only."""
    return WITH_TRUE_LABELS if true_labels is not None and process_number() == 1 else DEFAULT


def make_aggregator(method: str, settings: dict[str, Any], *, verbose: bool) -> Aggregator:
    """An aggregator with the settings of ``--set``; impossible ones are refused before the work starts."""
    from conal import aggregation

    own = {"verbose": verbose} if "verbose" in aggregation.get(method).parameter_names() else {}
    aggregator = aggregation.make(method, **(own | settings))
    check_parameters(aggregator)
    return aggregator


def _fit(aggregator: Aggregator, crowd: Annotations, known: Any, info: AnnotatorInfo | None) -> None:
    """Fit alone or, under torchrun, with other processes."""
    if process_number() == 1:
        aggregator.fit(crowd, true_labels=known, annotator_info=info)
        return
    from conal.distributed import fit_shared  # loads torch, which takes seconds

    fit_shared(aggregator, crowd, true_labels=known)
    aggregator.annotator_info_ = info  # for the report: none of those that several processes can fit needs it


# Results of ``conal aggregate``: where they go, its tables, its report, and the folder for updates.


@dataclass(frozen=True)
class Outputs:
    """Where results go, None for those that are not wanted."""

    out: Path | None
    annotators: Path | None = None
    confusion: Path | None = None
    report: Path | None = None
    save: Path | None = None

    def check(self, sources: Sequence[Path | None], *, overwrite: bool) -> None:
        """Reject options that contradict each other, and places where nothing may be written."""
        from conal.io.model_folder import AGGREGATOR, check_target

        tables = [self.out, self.annotators, self.confusion]
        files = [] if self.report is None else report_places(self.report)
        check_results(tables=tables, files=files, sources=sources, overwrite=overwrite)
        if self.report is not None:
            _check_report_folder(self.report)
        if self.save is not None:
            for path in (*sources, *tables, *files):
                if path is not None and real_path(path).is_relative_to(real_path(self.save)):
                    raise InputError(
                        f"{path}: is inside {self.save}, which is reserved for conal; choose another place"
                    )
            check_target(self.save, AGGREGATOR, overwrite=overwrite)

    def write(self, fitted: Aggregator, *, overwrite: bool) -> str:
        """Write everything; what the first screen of the report says."""
        from conal.io.model_folder import confusion_table, with_own_names
        from conal.io.tables import write_tables

        crowd, found = fitted.annotations_, None if self.report is None else fitted.results_
        about: dict[Path, pa.Table] = {}
        texts: dict[Path, str] = {}
        lead = ""
        if self.annotators is not None:
            about[self.annotators] = _annotator_table(fitted, found)
        if self.confusion is not None:
            about[self.confusion] = confusion_table(crowd, fitted.confusion_, fitted.abstention_)
        tables = about
        if self.out is not None:
            tables = {self.out: inferred_labels(fitted)} | about
            _warn_of_unlabelled(fitted, self.out)
        if self.report is not None and found is not None:
            from conal.io.model_folder import PAGE, REPORT, compact_json
            from conal.report.notebook import ReportPage  # loads charts

            page = ReportPage(found.report)
            own = {"labels.csv": with_own_names(found.tables["labels.csv"], fitted.columns_)}
            tables |= {self.report / name: table for name, table in (dict(found.tables) | own).items()}
            texts = {self.report / REPORT: compact_json(page.document), self.report / PAGE: page.html}
            lead = "\n".join([page.lead, *page.outcome])
        write_tables(tables, texts)
        if self.save is not None:
            fitted.save(self.save, overwrite=overwrite)
        return lead


def _annotator_table(fitted: Aggregator, found: Findings | None) -> pa.Table:
    """Number of labels and quality of each annotator: beside a report, its figure; measured by true labels if any."""
    import numpy as np

    from conal.io.model_folder import annotator_table, where_labelled

    crowd, quality = fitted.annotations_, fitted.skills_ if found is None else found.intervals.quality.value
    basis = np.full(len(quality), "belief", dtype=object)
    if (fitted.known_codes_ >= 0).any():
        from conal.report.intervals import Estimate
        from conal.report.sections.annotators import measured_quality

        estimate, by_truth = measured_quality(fitted.results_.evidence, Estimate(quality, quality, quality))
        quality, basis = estimate.value, np.where(by_truth, "measured", basis)
    table = annotator_table(crowd, where_labelled(crowd, quality), fitted.codes_)
    return table.append_column("quality_basis", where_labelled(crowd, basis))


def inferred_labels(fitted: Aggregator) -> pa.Table:
    """The table of labels: a row for every task, empty where nobody labelled it."""
    from conal.io.model_folder import label_table, labelled_tasks, with_own_names

    crowd = fitted.annotations_
    levels = crowd.levels() if crowd.ordinal else None
    found = fitted.task_ids_, fitted.probas_, fitted.classes_, fitted.codes_
    return with_own_names(label_table(*found, labelled_tasks(fitted), levels=levels), fitted.columns_)


def _warn_of_unlabelled(fitted: Aggregator, out: Path) -> None:
    """Warn of tasks that have no label in the table."""
    from conal.io.model_folder import labelled_tasks

    names = fitted.task_ids_[~labelled_tasks(fitted)].tolist()
    if names:
        warn(
            f"{out}: the label of {len(names):,} tasks is empty, because nobody labelled them: {examples(names)}",
            DataWarning,
        )


def report_places(folder: Path) -> list[Path]:
    """Every file that a report may have, the page first."""
    from conal.io.model_folder import CONFIG, PAGE, REPORT
    from conal.report.findings import all_findings

    if (folder / CONFIG).exists():
        raise InputError(f"{folder}: is a model folder, which has its own report; choose another place")
    tables = {finding.table for finding in all_findings() if finding.table}
    return [folder / name for name in (PAGE, REPORT, *sorted(tables))]


def _check_report_folder(folder: Path) -> None:
    """Reject a folder with files of these names that is no report: they are the user's own."""
    from conal.errors import ModelFolderError
    from conal.io.model_folder import REPORT, load_json
    from conal.report.findings import REPORT_FORMAT

    there = [path for path in report_places(folder) if path.exists()]
    if not there:
        return
    try:
        is_report = load_json(folder / REPORT).get("format") == REPORT_FORMAT
    except ModelFolderError:
        is_report = False
    if not is_report:
        raise InputError(
            f"{there[0]}: was not written by conal, since {folder} has no report, so it is not overwritten; choose "
            "another folder for the report"
        )


# What ``conal aggregate`` prints: figures about labels and their aggregation, and a summary of them.

MOST_CLASSES = 50
"""Classes that the summary lists."""


def figures_of(fitted: Aggregator, file: AnnotationFile) -> dict[str, Any]:
    """How much was read, and what was inferred."""
    import numpy as np

    from conal.io.model_folder import labelled_tasks

    crowd, labelled = fitted.annotations_, labelled_tasks(fitted)
    counts = np.bincount(fitted.codes_[labelled], minlength=crowd.n_classes).tolist()
    return {
        "files": file.contributions(),
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


def summary_of(result: dict[str, Any]) -> str:
    """The same for people."""
    known = f"; {result['n_true_labels']:,} known true labels" if result["n_true_labels"] else ""
    refused = "" if result["n_refused"] is None else f" and {result['n_refused']:,} refused answers"
    lines = [
        f"{result['method']}: {result['n_annotations']:,} labels{refused} by {result['n_annotators']:,} annotators on "
        f"{result['n_tasks']:,} tasks, {result['n_classes']} classes",
        *options.file_summaries(result["files"]),
        *([f"chosen: {one_line(result['why'])}"] if result["why"] else []),
        f"{_convergence(result)}{result['seconds']:.1f} s{known}",
        _class_counts(result["counts"]),
    ]
    places = {"labels": result["out"]} | {key: result[key] for key in ("annotators", "confusion", "report", "saved")}
    return "\n".join(lines + [f"{name}: {place}" for name, place in places.items() if place is not None])


def _class_counts(counts: dict[str, int]) -> str:
    """How many tasks each class has; of very many classes, those with most."""
    more = len(counts) - MOST_CLASSES
    shown = list(counts.items()) if more <= 0 else sorted(counts.items(), key=lambda pair: -pair[1])[:MOST_CLASSES]
    listed = ", ".join(f"{class_name(name)} {count:,}" for name, count in shown)
    return listed if more <= 0 else f"{listed} and {more:,} more classes"


def _convergence(result: dict[str, Any]) -> str:
    if result["converged"] is None:
        return ""
    word = "converged" if result["converged"] else "not converged"
    return f"{word} after {result['n_iter']:,} iterations; "
