"""Table 3: do more parameters alone help? Two layers per annotator beside one, and CoNAL."""

from __future__ import annotations

from collections.abc import Iterator

from conal.estimator import CrowdClassifier
from studies import table_1
from studies.fits import fit
from studies.runs import Options, Setting
from studies.table_1 import (
    PAPERS_FIGURES,
    TITLES,
    Chosen,
    Comparison,
    accuracy_tables,
    chosen,
    grid_of,
    grid_runs,
    papers_claims,
    rows_of,
    seed_gap,
)
from studies.tables import Claim, Row, Summary, Table, Tables

PARTS = ("table-3",)
METHODS = {"dl-cl": "R C²", "dl-cl-over": "2 R C²", "conal": "(R + 1) C²"}
"""Numbers of parameters in the noise layers, as the paper has them."""
CLAIMS = {
    "DL-CL_Over is less accurate than DL-CL": ("dl-cl", "dl-cl-over"),
    "CoNAL is more accurate than DL-CL_Over": ("conal", "dl-cl-over"),
}
more = table_1.more


def run(setting: Setting) -> Row:
    """A fit as for Table 1, and how many parameters its noise layers have."""
    found = fit(setting)
    return table_1.row_of(found) | {"noise_parameters": noise_parameters(found.clf)}


def noise_parameters(clf: CrowdClassifier) -> int:
    """Entries of all learned matrices of the annotators and of all together."""
    C = len(clf.classes_)
    return sum(each.numel() for each in clf.model_.parameters() if each.ndim >= 2 and each.shape[-2:] == (C, C))


def runs(options: Options) -> list[Setting]:
    """The crowd layer, the same with twice the parameters, and CoNAL."""
    return grid_runs("table-3", {name: (name, grid_of(name)) for name in options.pick_methods(METHODS)}, options)


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
    return Summary([*accuracy_tables(found, "conal", PAPERS_FIGURES), *_sizes(found)], claims)


def _sizes(found: Chosen) -> Iterator[Table]:
    """The row of numbers of parameters; tables of 0.2.0 have none."""
    sizes = {
        (dataset, row): some[0]["noise_parameters"]
        for dataset in TITLES
        for row, some in rows_of(found, dataset).items()
        if some[0].get("noise_parameters")
    }
    if sizes:
        body = [
            [f"`{row}`", formula, *(f"{sizes[at, row]:,}" if (at, row) in sizes else "" for at in TITLES)]
            for row, formula in METHODS.items()
        ]
        yield Table("Parameters in the noise layers", ["", "paper", *TITLES.values()], body)
