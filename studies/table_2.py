"""Table 2: the weight λ of the term that separates common from individual layers."""

from __future__ import annotations

from studies import table_1
from studies.runs import Options, Setting
from studies.table_1 import (
    RATES,
    TITLES,
    Comparison,
    accuracy_tables,
    chosen,
    gaps_to,
    grid_runs,
    papers_claims,
    rows_of,
)
from studies.tables import Summary, Tables

PARTS = ("table-2",)
WEIGHTS = (0, 1e-4, 1e-5, 1e-6)
PAPERS_FIGURES = {
    "0": ("85.68 ± 0.38", "82.14 ± 0.31"),
    "0.0001": ("86.61 ± 0.41", "83.52 ± 0.25"),
    "1e-05": ("87.12 ± 0.55", "84.06 ± 0.42"),
    "1e-06": ("86.26 ± 0.47", "82.98 ± 0.37"),
}
BEST, NONE = "1e-05", "0"
"""The paper's best weight, and none."""
run, more = table_1.run, table_1.more


def runs(options: Options) -> list[Setting]:
    """CoNAL at four values of λ, learning rate and embedding searched."""
    options.pick_methods(("conal",))
    grid = {"lr": RATES, "embedding_dim": (20, 40, 80)}
    return grid_runs("table-2", {f"{lam:g}": ("conal", {**grid, "lam": (lam,)}) for lam in WEIGHTS}, options)


def summarise(tables: Tables) -> Summary:
    """Ours beside the paper's, and whether λ helps."""
    # Rows of a CSV file may have become numbers.
    found = {
        (dataset, protocol, f"{float(row):g}"): some
        for (dataset, protocol, row), some in chosen(tables["table-2"]).items()
    }
    comparisons = []
    for place, (dataset, title) in enumerate(TITLES.items()):
        rows = rows_of(found, dataset)
        if {BEST, NONE} <= rows.keys():
            published = PAPERS_FIGURES[BEST][place], PAPERS_FIGURES[NONE][place]
            gaps, text = [gaps_to(NONE, rows)[BEST]], f"λ > 0 helps on {title} (Table 2)"
            comparisons.append(Comparison(text, gaps, rows[BEST], rows[NONE], published, f"λ = {BEST} minus λ = 0"))
    return Summary(list(accuracy_tables(found, NONE, PAPERS_FIGURES)), papers_claims(comparisons))
