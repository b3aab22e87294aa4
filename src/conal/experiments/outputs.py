"""Write the outputs of an experiment: a CSV, a Markdown page, and charts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from conal.experiments.base import Experiment
from conal.experiments.store import Store
from conal.io.atomic import atomic_file
from conal.io.tables import write_table

__all__ = ["CODE", "REDUCED", "write_outputs"]

REDUCED = "reduced_size"
"""A column that only tables of reduced size have."""
CODE = "code"
"""The column with the fingerprint of the code that made a table."""


def write_outputs(experiment: Experiment, store: Store, folder: Path) -> list[Path]:
    """Write NAME.csv with unrounded numbers, NAME.md, and the charts as SVG and PNG, each atomically."""
    from conal.report.charts import save

    table = experiment.table(store)
    csv, page = (folder / f"{experiment.stem}.{ending}" for ending in ("csv", "md"))
    marked = table.append_column(CODE, pa.array([experiment.code(store)] * len(table)))
    if experiment.quick:
        marked = marked.append_column(REDUCED, pa.array([True] * len(table)))
    write_table(marked, csv)
    with atomic_file(page) as temporary:
        temporary.write_text(experiment.page(table), encoding="utf-8")
    charts = []
    for stem, chart in experiment.charts(table).items():
        if experiment.quick:
            chart.title = f"{chart.title} (reduced size)"
        charts += save(chart, folder / stem)
    return [csv, page, *charts]
