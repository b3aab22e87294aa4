"""Write the outputs of an experiment: a CSV, a Markdown page, and charts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from conal._files import atomic_file
from conal.experiments.base import Experiment
from conal.experiments.store import Store
from conal.io.tables import write_table

__all__ = ["CODE", "REDUCED", "kept_table", "read_outputs", "write_outputs"]

TEXT = ("dataset", "protocol", "row", "method", "parameters", "who", "true", "observed", "class", "warning", "gate")
"""Columns that are text, whatever their values look like; and the answers and fingerprints below."""
REDUCED = "reduced_size"
"""A column that only tables of reduced size have."""
ANSWERS = ("right", "ensemble_right")
CODE = "code"
"""The column with the fingerprint of the code that made a table."""


def read_outputs(experiment: Experiment, folder: Path) -> pa.Table:
    """The table that an experiment wrote."""
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys((*TEXT, *ANSWERS, CODE), pa.string()))
    return pyarrow.csv.read_csv(folder / f"{experiment.stem}.csv", convert_options=options)


def kept_table(experiment: Experiment, folder: Path) -> pa.Table | None:
    """The table in the folder, if the present code made it without runs: it would be made the same again."""
    if experiment.runs() or experiment.quick or not (folder / f"{experiment.stem}.csv").is_file():
        return None
    table = read_outputs(experiment, folder)
    if REDUCED in table.column_names or CODE not in table.column_names:
        return None
    return table.drop([CODE]) if set(table[CODE].to_pylist()) == {experiment.code()} else None


def write_outputs(experiment: Experiment, store: Store, folder: Path) -> list[Path]:
    """Write NAME.csv with unrounded numbers, NAME.md, and the charts as SVG and PNG, each atomically."""
    from conal.report.charts import save

    table = kept_table(experiment, folder)
    if table is None:
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
