"""Results of ``conal aggregate``: where they go, its tables, its report, and the folder for updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conal._files import real_path
from conal.cli.crowd_plan import planned_labels, text_of
from conal.cli.places import check_results
from conal.errors import DataWarning, InputError, examples, warn

if TYPE_CHECKING:
    import pyarrow as pa

    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations

__all__ = ["Outputs", "inferred_labels"]


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

    def check_save(self, aggregator: Aggregator, labels: Sequence[Path], *, overwrite: bool) -> None:
        """Reject a folder, or an aggregator, that cannot be saved, before the work starts."""
        from conal.io.model_folder import AGGREGATOR, check_target

        folder = self.save
        if folder is None:
            return
        if not aggregator.updatable:
            from conal.aggregation import get, names

            able = ", ".join(name for name in names() if get(name).updatable)
            raise InputError(f"--save: {aggregator.name} cannot be updated; leave out --save, or use one of {able}")
        files = [*labels, *self._report_files(), self.out]
        inside = [path for path in files if real_path(path).is_relative_to(real_path(folder))]
        if inside:
            raise InputError(f"{inside[0]}: is inside {folder}, which is reserved for conal; choose another place")
        check_target(folder, AGGREGATOR, overwrite=overwrite)

    def write(self, fitted: Aggregator, *, seed: int, overwrite: bool) -> tuple[dict[str, Any], list[str]]:
        """Write everything; figures of the plan, and its summary."""
        from conal.io.tables import write_tables

        tables = self._tables(fitted)
        figures: dict[str, Any] = {}
        more, texts, told = ({}, {}, []) if self.report is None else self._report_parts(fitted, self.report)
        if self.plan is not None and self.budget is not None:
            tables[self.plan], figures, text = _plan(fitted, self.budget, seed, self.plan)
            told.append(text)
        write_tables(tables | more, texts)
        if self.save is not None:
            fitted.save(self.save, overwrite=overwrite)
        return figures, told

    def _report_parts(
        self, fitted: Aggregator, folder: Path
    ) -> tuple[dict[Path, pa.Table], dict[Path, str], list[str]]:
        """The tables of the report, its texts (the page and what it is made from), and its first lines."""
        from conal.io.model_folder import PAGE, REPORT, compact_json
        from conal.report.evidence import Discretion
        from conal.report.labels_alone import findings_of_labels
        from conal.report.notebook import ReportPage

        found = findings_of_labels(fitted, None if self.min_labels is None else Discretion(self.min_labels))
        found = found if self.handicap is None else found.with_handicap(self.handicap)
        page = ReportPage(found.report)
        tables = {folder / name: table for name, table in found.tables.items()}
        return tables, {folder / REPORT: compact_json(page.document), folder / PAGE: page.html}, [page.lead]

    def _tables(self, fitted: Aggregator) -> dict[Path, pa.Table]:
        """Place to table: of labels, and of annotators and their confusion where they are wanted."""
        from conal.io.results import annotator_table, confusion_table, where_labelled

        crowd = fitted.annotations_
        _warn_of_unlabelled(fitted, self.out)
        about = {}
        if self.annotators is not None:
            quality, basis = self._quality(fitted)
            table = annotator_table(crowd, where_labelled(crowd, quality), fitted.codes_)
            about[self.annotators] = table.append_column("quality_basis", where_labelled(crowd, basis))
        if self.confusion is not None:
            about[self.confusion] = confusion_table(crowd, fitted.confusion_, fitted.abstention_)
        if self.min_labels is not None:
            self._warn_of_nobody(crowd, self.min_labels)
            about = {path: _discreet(table, crowd, self.min_labels) for path, table in about.items()}
        return {self.out: inferred_labels(fitted)} | about

    def _quality(self, fitted: Aggregator) -> tuple[Any, Any]:
        """(R,) the share of each annotator's labels that are right, and whether it was measured or is believed."""
        import numpy as np

        believed = np.full(len(fitted.skills_), "belief", dtype=object)
        if self.min_labels is not None or not (fitted.known_codes_ >= 0).any():
            return fitted.skills_, believed
        from conal.report.intervals import Estimate
        from conal.report.labels_alone import findings_of_labels
        from conal.report.sections.annotators import measured_quality

        evidence = findings_of_labels(fitted).evidence
        found, measured = measured_quality(evidence, Estimate(fitted.skills_, fitted.skills_, fitted.skills_))
        return found.value, np.where(measured, "measured", believed)

    def _warn_of_nobody(self, crowd: Annotations, min_labels: int) -> None:
        most = int(crowd.labels_per_annotator().max())
        if most < min_labels and any(place is not None for place in (self.annotators, self.confusion, self.report)):
            warn(
                f"--min-labels {min_labels}: nobody has so many labels, so tables and report tell nothing about "
                f"annotators; {most} is the largest number that leaves somebody",
                DataWarning,
            )


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


def _discreet(table: pa.Table, crowd: Annotations, min_labels: int) -> pa.Table:
    """Without the rows of annotators with fewer labels; each annotator has the same number of rows."""
    import numpy as np
    import pyarrow as pa

    from conal.report.evidence import Discretion

    discretion = Discretion(min_labels)
    kept = discretion.table(table, np.repeat(crowd.labels_per_annotator(), table.num_rows // crowd.n_annotators))
    for name in ("num_examples_labeled", "num_examples_refused"):
        if name in kept.column_names:
            rounded = pa.array(discretion.count(kept[name].to_numpy()))
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
    from conal.planning.gains import Asking
    from conal.report.labels_alone import findings_of_labels

    crowd, about = fitted.annotations_, fitted.annotator_info_
    evidence = findings_of_labels(fitted).evidence
    asking = Asking.by_evidence(evidence, limits=None if about is None else about.limits)
    found, figures = planned_labels(
        asking, crowd.annotator_ids, crowd.task_ids, budget, expert_cost=None, per_task=3, seed=seed
    )
    return found.table, figures, text_of(figures, out, budget)
