"""``conal aggregate``: crowd labels in, one label per task out, without features."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from conal._files import real_path
from conal._registry import names_in_source
from conal._system import process_number, process_rank
from conal.cli.inputs import Defend, TrueLabels, check_results, defended_labels, offer_truth, read_sample, truth_files
from conal.cli.options import (
    AboutAnnotators,
    AsJson,
    Group,
    Handicap,
    Labels,
    Overwrite,
    Quiet,
    Reading,
    Seed,
    check_handicap,
    emit,
    file_summaries,
    parse_settings,
)
from conal.cli.plan import Budget, planned_labels, text_of
from conal.cli.private import refuse_beside_private, release
from conal.cli.terminal import class_name, one_line
from conal.errors import DataWarning, InputError, examples, warn
from conal.parameters import check_parameters
from conal.parameters.reading import ReadOptions
from conal.parameters.showing import ReleaseOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations
    from conal.data.annotator_info import AnnotatorInfo
    from conal.io import AnnotationFile
    from conal.report.findings import Findings

__all__ = [
    "DEFAULT",
    "Annotators",
    "Confusion",
    "Method",
    "Out",
    "Outputs",
    "Plan",
    "Privacy",
    "Report",
    "Save",
    "Settings",
    "aggregate",
    "figures_of",
    "inferred_labels",
    "summary_of",
]


# Options of ``conal aggregate`` only: the method, and the files that it writes.

DEFAULT = "dawid-skene"
Out = Annotated[
    Path,
    typer.Option(help="Output table of labels: .csv, .tsv, .parquet or .jsonl. With --private, an output folder."),
]
Method = Annotated[str, typer.Option(help=f"Aggregation method: {', '.join(names_in_source('conal.aggregation'))}.")]
Annotators = Annotated[
    Path | None, typer.Option(help="Output table of annotators: number of labels, quality, agreement.")
]
Confusion = Annotated[
    Path | None,
    typer.Option(help="Output table of the annotators' confusion matrices, P(observed label given true label)."),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Output folder of the report about these labels: report.html, which works offline, and its tables.",
    ),
]
Plan = Annotated[
    Path | None, typer.Option(help="With --budget: output table of the labels to ask for next, as by conal plan.")
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Output folder of the labels and all that was learned, to which conal update adds further labels.",
    ),
]
Privacy = Annotated[ReleaseOptions, Group(ReleaseOptions)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter of the aggregator, such as prior=0.1, n_iter=500, n_restarts=5, ties=random. "
        "An unknown name lists all parameters.",
    ),
]


# Results of ``conal aggregate``: where they go, its tables, its report, and the folder for updates.


@dataclass(frozen=True)
class Outputs:
    """Where results go, None for those that are not wanted, and what is asked of them.

    Attributes
    ----------
    out, annotators, confusion, report, plan, save : path or None
        As the options are called.
    budget : float or None
        What the labels of the plan may cost.
    min_labels : int or None
        Annotators with fewer labels are not in the tables.
    handicap : float or None
        Of people, where the report compares models with them.
    """

    out: Path
    annotators: Path | None
    confusion: Path | None
    report: Path | None
    plan: Path | None
    save: Path | None
    budget: float | None
    min_labels: int | None
    handicap: float | None

    def places(self) -> dict[str, Path | None]:
        """Where results are, as the command tells."""
        page = None if self.report is None else report_places(self.report)[0]
        about = {"annotators": self.annotators, "confusion": self.confusion}
        return {"out": self.out, **about, "report": page, "saved": self.save}

    def check(self, sources: Sequence[Path | None], *, overwrite: bool) -> None:
        """Reject options that contradict each other, and places where nothing may be written."""
        self._check_options()
        check_results(
            tables=[self.out, self.annotators, self.confusion, self.plan],
            files=self._report_files(),
            sources=sources,
            overwrite=overwrite,
        )
        if self.report is not None:
            _check_report_folder(self.report)

    def _report_files(self) -> list[Path]:
        return [] if self.report is None else report_places(self.report)

    def _check_options(self) -> None:
        """Reject options that need each other, or contradict each other."""
        if (self.plan is None) != (self.budget is None):
            raise InputError("--plan FILE and --budget B belong together; pass both, or neither")
        telling = (("plan", self.plan, "names single annotators"), ("save", self.save, "keeps everybody's labels"))
        for option, value, what in telling:
            if value is not None and self.min_labels is not None:
                raise InputError(f"--{option} {what}, and --min-labels hides some annotators; leave out one of the two")

    def check_save(self, labels: Sequence[Path], *, overwrite: bool) -> None:
        """Reject a folder that cannot be written, before the work starts."""
        from conal.io.model_folder import AGGREGATOR, check_target

        folder = self.save
        if folder is None:
            return
        files = [*labels, *self._report_files(), self.out]
        inside = [path for path in files if real_path(path).is_relative_to(real_path(folder))]
        if inside:
            raise InputError(f"{inside[0]}: is inside {folder}, which is reserved for conal; choose another place")
        check_target(folder, AGGREGATOR, overwrite=overwrite)

    def write(self, fitted: Aggregator, *, seed: int, overwrite: bool) -> tuple[dict[str, Any], list[str]]:
        """Write everything; figures of the plan, and its summary."""
        from conal.io.tables import write_tables

        found = None if self.report is None else self._findings(fitted)
        tables = self._tables(fitted, found)
        figures: dict[str, Any] = {}
        more, texts, told = ({}, {}, []) if self.report is None or found is None else _report_parts(found, self.report)
        if self.plan is not None and self.budget is not None:
            tables[self.plan], figures, text = _plan(fitted, self.budget, seed, self.plan)
            told.append(text)
        write_tables(tables | more, texts)
        if self.save is not None:
            fitted.save(self.save, overwrite=overwrite)
        return figures, told

    def _findings(self, fitted: Aggregator) -> Findings:
        """What the report tells."""
        from conal.report.evidence import AnnotatorPrivacy
        from conal.report.labels_alone import findings_of_labels

        private = None if self.min_labels is None else AnnotatorPrivacy(self.min_labels)
        found = fitted.results_ if private is None else findings_of_labels(fitted, private)
        return found if self.handicap is None else found.with_handicap(self.handicap)

    def _tables(self, fitted: Aggregator, found: Findings | None) -> dict[Path, pa.Table]:
        """Place to table: of labels, and of annotators and their confusion where they are wanted."""
        from conal.io.results import annotator_table, confusion_table, where_labelled

        crowd = fitted.annotations_
        _warn_of_unlabelled(fitted, self.out)
        about = {}
        if self.annotators is not None:
            quality, basis = self._quality(fitted, found)
            table = annotator_table(crowd, where_labelled(crowd, quality), fitted.codes_)
            about[self.annotators] = table.append_column("quality_basis", where_labelled(crowd, basis))
        if self.confusion is not None:
            about[self.confusion] = confusion_table(crowd, fitted.confusion_, fitted.abstention_)
        if self.min_labels is not None:
            self._warn_of_nobody(crowd, self.min_labels)
            about = {path: _visible(table, crowd, self.min_labels) for path, table in about.items()}
        return {self.out: inferred_labels(fitted)} | about

    def _quality(self, fitted: Aggregator, found: Findings | None) -> tuple[Any, Any]:
        """(R,) the share of each annotator's labels that are right, and whether it was measured or is believed.

        Beside a report it is the report's figure.
        """
        import numpy as np

        believed = fitted.skills_ if found is None else found.intervals.quality.value
        basis = np.full(len(believed), "belief", dtype=object)
        if self.min_labels is not None or not (fitted.known_codes_ >= 0).any():
            return believed, basis
        from conal.report.intervals import Estimate
        from conal.report.sections.annotators import measured_quality

        quality, measured = measured_quality(fitted.results_.evidence, Estimate(believed, believed, believed))
        return quality.value, np.where(measured, "measured", basis)

    def _warn_of_nobody(self, crowd: Annotations, min_labels: int) -> None:
        most = int(crowd.labels_per_annotator().max())
        if most < min_labels and any(place is not None for place in (self.annotators, self.confusion, self.report)):
            warn(
                f"--min-labels {min_labels}: nobody has so many labels, so tables and report tell nothing about "
                f"annotators; {most} is the largest number that leaves somebody",
                DataWarning,
            )


def _report_parts(found: Findings, folder: Path) -> tuple[dict[Path, pa.Table], dict[Path, str], list[str]]:
    """The tables of the report, its texts (the page and what it is made from), and its first lines."""
    from conal.io.model_folder import PAGE, REPORT, compact_json
    from conal.report.notebook import ReportPage

    page = ReportPage(found.report)
    tables = {folder / name: table for name, table in found.tables.items()}
    return tables, {folder / REPORT: compact_json(page.document), folder / PAGE: page.html}, [page.lead]


def inferred_labels(fitted: Aggregator) -> pa.Table:
    """The table of labels: a row for every task, empty where nobody labelled it."""
    from conal.io.results import label_table, labelled_tasks

    crowd = fitted.annotations_
    levels = crowd.levels() if crowd.ordinal else None
    found = fitted.task_ids_, fitted.probas_, fitted.classes_, fitted.codes_
    return label_table(*found, labelled_tasks(fitted), levels=levels)


def _warn_of_unlabelled(fitted: Aggregator, out: Path) -> None:
    from conal.io.results import labelled_tasks

    names = fitted.task_ids_[~labelled_tasks(fitted)].tolist()
    if names:
        warn(
            f"{out}: the label of {len(names):,} tasks is empty, because nobody labelled them: {examples(names)}",
            DataWarning,
        )


def _visible(table: pa.Table, crowd: Annotations, min_labels: int) -> pa.Table:
    """Without the rows of annotators with fewer labels; each annotator has the same number of rows."""
    import numpy as np
    import pyarrow as pa

    from conal.report.evidence import AnnotatorPrivacy

    privacy = AnnotatorPrivacy(min_labels)
    kept = privacy.table(table, np.repeat(crowd.labels_per_annotator(), table.num_rows // crowd.n_annotators))
    for name in ("num_examples_labeled", "num_examples_refused"):
        if name in kept.column_names:
            rounded = pa.array(privacy.counts(kept[name].to_numpy()))
            kept = kept.set_column(kept.column_names.index(name), name, rounded)
    return kept


def report_places(folder: Path) -> list[Path]:
    """Every file that a report may have, the page first."""
    from conal.io.model_folder import CONFIG, PAGE, REPORT
    from conal.report.section import all_findings

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


def _plan(fitted: Aggregator, budget: float, seed: int, out: Path) -> tuple[pa.Table, dict[str, Any], str]:
    """The labels to ask for next, figures about them, and a summary."""
    from conal.planning.gains import LabelingProblem

    crowd, about = fitted.annotations_, fitted.annotator_info_
    evidence = fitted.results_.evidence
    problem = LabelingProblem.by_evidence(evidence, limits=None if about is None else about.limits)
    found, figures = planned_labels(
        problem, crowd.annotator_ids, crowd.task_ids, budget, expert_cost=None, per_task=3, seed=seed
    )
    return found.table, figures, text_of(figures, out, budget)


# What ``conal aggregate`` prints: figures about labels and their aggregation, and a summary of them.

MOST_CLASSES = 50
"""Classes that the summary lists."""


def figures_of(fitted: Aggregator, file: AnnotationFile) -> dict[str, Any]:
    """How much was read, and what was inferred."""
    import numpy as np

    from conal.io.results import labelled_tasks

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
        *file_summaries(result["files"]),
        *([f"chosen: {one_line(result['why'])}"] if result["why"] else []),
        f"{_convergence(result)}{result['seconds']:.1f} s{known}",
        _class_counts(result["counts"]),
    ]
    titles = {
        "out": "labels",
        "annotators": "annotators",
        "confusion": "confusion",
        "report": "report",
        "saved": "saved",
    }
    return "\n".join(lines + [f"{title}: {result[key]}" for key, title in titles.items() if result[key] is not None])


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


# ``conal aggregate``: crowd labels in, one label per task out, without features.


def aggregate(
    *,
    labels: Labels,
    out: Out,
    method: Method = DEFAULT,
    true_labels: TrueLabels = None,
    annotator_info: AboutAnnotators = None,
    annotators: Annotators = None,
    confusion: Confusion = None,
    report: Report = None,
    plan: Plan = None,
    budget: Budget = None,
    save: Save = None,
    handicap: Handicap = None,
    reading: Reading,
    privacy: Privacy,
    settings: Settings = None,
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
    if privacy.private is not None:
        unfit: dict[str, Any] = {"annotators": annotators, "confusion": confusion, "report": report, "save": save}
        unfit |= {"handicap": handicap, "plan": plan, "budget": budget, "defend": defend, "seed": seed, "set": settings}
        refuse_beside_private(method=method != DEFAULT, **unfit)
        known_to_all = {"true_labels": true_labels, "annotator_info": annotator_info}
        release(labels, out, privacy, reading, **known_to_all, overwrite=overwrite, quiet=quiet, as_json=as_json)
        return
    began = time.perf_counter()
    sources = Sources(labels, true_labels, annotator_info, reading)
    check_handicap(handicap, annotator_info)
    outputs = Outputs(out, annotators, confusion, report, plan, save, budget, privacy.min_labels, handicap)
    outputs.check(sources.files(), overwrite=overwrite)
    aggregator = _make(method, parse_settings(settings), seed=seed, verbose=not quiet)
    outputs.check_save(labels, overwrite=overwrite)
    crowd = sources.read(method, defend=defend, quiet=quiet)
    if not _fit(aggregator, crowd.annotations, crowd.known, crowd.info):
        return
    figures, told_of_plan = outputs.write(aggregator, seed=seed, overwrite=overwrite)
    result = {
        **outputs.places(),
        "method": method,
        **figures_of(aggregator, crowd.file),
        "n_true_labels": int((aggregator.known_codes_ >= 0).sum()),
        "seconds": time.perf_counter() - began,
        **({"plan": {"out": plan, **figures}} if figures else {}),
    }
    emit(result, "\n".join([summary_of(result), *told_of_plan]), as_json=as_json, quiet=quiet)


class Crowd(NamedTuple):
    """What was read: the file, its labels (fewer with ``--defend``), true labels, and what annotators are known for."""

    file: AnnotationFile
    annotations: Annotations
    known: Any
    info: AnnotatorInfo | None


class Sources(NamedTuple):
    """The user's files, and how they are read."""

    labels: list[Path]
    true_labels: Path | None
    annotator_info: Path | None
    reading: ReadOptions

    def files(self) -> list[Path | None]:
        """All files, none of which is ever replaced."""
        return [*self.labels, *truth_files(self.true_labels), self.annotator_info]

    def read(self, method: str, *, defend: bool, quiet: bool) -> Crowd:
        """Read all of them, and warn of problems."""
        from conal.data.problems import warn_of_problems
        from conal.io import import_file
        from conal.io.results import read_annotator_info

        file = import_file(self.labels, self.reading)
        file.warn_of_dropped()
        crowd = file.annotations
        warn_of_problems(crowd, file.where)
        file.warn_of_single_labels()
        if defend:
            crowd = defended_labels(crowd, rings=not _is_vote(method), quiet=quiet or process_rank() > 0)
        known = read_sample(self.true_labels, self.reading, file, crowd)
        offer_truth(self.true_labels, len(file.true_labels), quiet=quiet)
        path, worker = self.annotator_info, self.reading.worker
        info = None if path is None else read_annotator_info(path, crowd, worker=worker)
        return Crowd(file, crowd, known, info)


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


def _fit(aggregator: Aggregator, crowd: Annotations, known: Any, info: AnnotatorInfo | None) -> bool:
    """Fit alone or, under torchrun, with other processes; True for the process that prints and writes."""
    first = process_rank() == 0
    if process_number() == 1:
        aggregator.fit(crowd, true_labels=known, annotator_info=info)
        return first
    from conal.distributed import fit_shared  # loads torch, which takes seconds

    fit_shared(aggregator, crowd, true_labels=known)
    aggregator.annotator_info_ = info  # for the report: none of those that several processes can fit needs it
    return first
