"""Results of ``conal aggregate``: its tables, and its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from conal.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from conal.aggregation.base import Aggregator
    from conal.data.annotations import Annotations

__all__ = ["report_parts", "report_places", "result_tables"]


def result_tables(
    fitted: Aggregator,
    labelled: npt.NDArray[np.bool_],
    out: Path,
    annotators: Path | None,
    confusion: Path | None,
    *,
    min_labels: int | None = None,
) -> dict[Path, pa.Table]:
    """Place to table: of labels, and of annotators and their confusion where they are wanted."""
    from conal.io.results import annotator_table, confusion_table, label_table, where_labelled

    crowd = fitted.annotations_
    levels = crowd.levels() if crowd.ordinal else None
    found = fitted.task_ids_, fitted.probas_, fitted.classes_, fitted.codes_
    about = {}
    if annotators is not None:
        about[annotators] = annotator_table(crowd, where_labelled(crowd, fitted.skills_), fitted.codes_)
    if confusion is not None:
        about[confusion] = confusion_table(crowd, fitted.confusion_, fitted.abstention_)
    if min_labels is not None:
        about = {path: _discreet(table, crowd, min_labels) for path, table in about.items()}
    return {out: label_table(*found, labelled, levels=levels)} | about


def _discreet(table: pa.Table, crowd: Annotations, min_labels: int) -> pa.Table:
    """Without the rows of annotators with fewer labels; each annotator has the same number of rows."""
    import numpy as np
    import pyarrow as pa

    from conal.findings.discretion import Discretion

    discretion = Discretion(min_labels)
    kept = discretion.table(table, np.repeat(crowd.labels_per_annotator(), table.num_rows // crowd.n_annotators))
    for name in ("num_examples_labeled", "num_examples_refused"):
        if name in kept.column_names:
            rounded = pa.array(discretion.count(kept[name].to_numpy()))
            kept = kept.set_column(kept.column_names.index(name), name, rounded)
    return kept


def report_places(folder: Path) -> list[Path]:
    """Every file that a report may have, the page first."""
    from conal.findings.base import all_findings
    from conal.io.models import CONFIG, PAGE, REPORT

    if (folder / CONFIG).exists():
        raise InputError(f"{folder}: is a model folder, which has its own report; choose another place")
    tables = {finding.table for finding in all_findings() if finding.table}
    return [folder / name for name in (PAGE, REPORT, *sorted(tables))]


def report_parts(
    fitted: Aggregator, folder: Path, *, min_labels: int | None = None
) -> tuple[dict[Path, pa.Table], dict[Path, str]]:
    """The tables of the report, and its texts: the page and what it is made from."""
    from conal.findings.discretion import Discretion
    from conal.findings.labels_alone import findings_of_labels
    from conal.io.models import PAGE, REPORT, compact_json
    from conal.report.notebook import ReportPage

    found = findings_of_labels(fitted, None if min_labels is None else Discretion(min_labels))
    page = ReportPage(found.report)
    tables = {folder / name: table for name, table in found.tables.items()}
    return tables, {folder / PAGE: page.html, folder / REPORT: compact_json(page.document)}
