"""Table 3: do more parameters alone help? Two layers per annotator beside one, and CoNAL."""

from __future__ import annotations

from studies import table_1
from studies.runs import Options, Setting
from studies.table_1 import (
    CONAL_GRID,
    PAPERS_FIGURES,
    RATES,
    TITLES,
    Comparison,
    accuracy_tables,
    chosen,
    grid_runs,
    papers_claims,
    rows_of,
    seed_gap,
)
from studies.tables import Claim, Summary, Tables

PARTS = ("table-3",)
GRIDS = {"dl-cl": {"lr": RATES}, "dl-cl-over": {"lr": RATES}, "conal": CONAL_GRID}
CLAIMS = {
    "DL-CL_Over is less accurate than DL-CL": ("dl-cl", "dl-cl-over"),
    "CoNAL is more accurate than DL-CL_Over": ("conal", "dl-cl-over"),
}
run = table_1.run


def runs(options: Options) -> list[Setting]:
    """The crowd layer, the same with twice the parameters, and CoNAL."""
    return grid_runs("table-3", {name: (name, GRIDS[name]) for name in options.pick_methods(GRIDS)}, options)


def summarise(tables: Tables) -> Summary:
    """Ours beside the paper's, and its two claims."""
    found = chosen(tables["table-3"])
    claims: list[Claim] = []
    for text, (better, worse) in CLAIMS.items():
        comparisons = []
        for place, (dataset, title) in enumerate(TITLES.items()):
            rows = rows_of(found, dataset)
            if {better, worse} <= rows.keys():
                pair, published = (
                    (rows[better], rows[worse]),
                    (PAPERS_FIGURES[better][place], PAPERS_FIGURES[worse][place]),
                )
                what = f"`{better}` minus `{worse}`"
                comparisons.append(
                    Comparison(f"{text} on {title} (Table 3)", [seed_gap(*pair)], *pair, published, what)
                )
        claims += papers_claims(comparisons)
    return Summary(list(accuracy_tables(found, "conal", PAPERS_FIGURES)), claims)
