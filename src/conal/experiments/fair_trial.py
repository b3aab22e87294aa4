"""The crowd layer against CoNAL on LabelMe on equal terms: starts, grids, and what helps both to train."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, Published, corrected
from conal.experiments.real_tables import LEARNING_RATES, PAPER_FIGURES, PAPERS, best_point, seed_gap
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, mean_and_spread, n_seeds, notes

__all__ = ["PAPERS_GAP", "FairTrial"]

METHODS = ("dl-cl", "conal")
PUBLISHED = Published.read(PAPER_FIGURES["conal"][0]), Published.read(PAPER_FIGURES["dl-cl"][0])
PAPERS_GAP = PUBLISHED[0].above(PUBLISHED[1])
"""CoNAL minus DL-CL on LabelMe in the paper's Table 1, in points."""
OFF: dict[str, dict[str, Any]] = {
    "no warm-up of the learning rate": {"warmup_epochs": 0},
    "features as they are, not scaled": {"scaling": "none"},
    "no restarts when a class is lost": {"max_restarts": 0},
}
BARE: dict[str, Any] = {name: value for each in OFF.values() for name, value in each.items()}


class Terms(NamedTuple):
    """Settings of the two methods, beyond the learning rate, over which both search."""

    crowd_layer: dict[str, Any]
    conal: dict[str, Any]


def _equal(start: float, **settings: Any) -> Terms:
    return Terms({"start": start, **settings}, {"start": start, **settings})


DEFAULTS = "as in Table 1: starts 1·I and 2·I"
EQUAL = "both start at 2·I"
BOTH_BARE = f"{EQUAL}, none of the three"
TERMS: dict[str, Terms] = {
    DEFAULTS: Terms({"start": 1.0}, {"start": 2.0}),
    "both start at 1·I": _equal(1.0),
    EQUAL: _equal(2.0),
    **{f"{EQUAL}, {name}": _equal(2.0, **settings) for name, settings in OFF.items()},
    BOTH_BARE: _equal(2.0, **BARE),
}
UNEQUAL = "DL-CL with none of the three, CoNAL with all"
"""The terms on which an undertrained baseline would show as a gap."""


@register("fair-trial")
class FairTrial(Experiment):
    """Is the paper's gap between the crowd layer and CoNAL there when both get the same help?"""

    title = "A fair trial: DL-CL against CoNAL on LabelMe"

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else 10), images=images)

    def runs(self) -> list[Run]:
        """Both methods on all terms, over the same learning rates and seeds."""
        return [run for terms in TERMS for method in METHODS for run, _ in self._points(terms, method)]

    def table(self, store: Store) -> pa.Table:
        """One row per run; ``chosen`` marks the seeds of the learning rate that validation chose."""
        rows: list[Row] = []
        for terms in TERMS:
            for method in METHODS:
                found = [(run, key, store.require(run)) for run, key in self._points(terms, method)]
                chosen = best_point([(key, figures) for _, key, figures in found])
                rows += [
                    {"row": terms, "method": method, "parameters": key, "seed": run.seed, "chosen": key == chosen}
                    | {name: figures[name] for name in ("test_accuracy", "best_score", "seconds")}
                    for run, key, figures in found
                ]
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Both accuracies and their difference, on all terms."""
        text = notes(
            f"Test accuracy on LabelMe in percent, mean ± sample standard deviation over {n_seeds(table)} seeds. The "
            f"paper's difference is {PAPERS_GAP:+.1f} points. {RULE} \\* marks differences that are not level.",
            "Both methods search the same three learning rates, by the mean accuracy on 500 gold validation images, "
            "and are trained for 100 epochs. CoNAL has its default embedding (20) and λ (1e-5), and the paper's scale "
            "of omega.",
            "The first line has the starts of Table 1, all others have equal ones. Below these, three things that help "
            "training are taken away one by one, and all. A line with the same figures as that of equal starts took "
            "away what no run needed.",
        )
        cells = group_by([row for row in table.to_pylist() if row["chosen"]], "row", "method")
        gaps = trial_gaps(table)
        body = [
            [
                terms,
                *(mean_and_spread(column(cells[_terms_of(terms, m), m], "test_accuracy")) for m in METHODS),
                gap.starred,
            ]
            for terms, gap in gaps.items()
        ]
        header = ["terms", "`dl-cl`", "`conal`", "CoNAL minus DL-CL"]
        return self.document(text, markdown(header, body))

    def _points(self, terms: str, method: str) -> list[tuple[Run, str]]:
        settings = TERMS[terms][METHODS.index(method)] | PAPERS.get(method, {})
        settings |= {"epochs": 30} if self.quick else {}
        rates = LEARNING_RATES[1:2] if self.quick else LEARNING_RATES
        return [
            (Run("labelme", method, seed, parameters=settings | {"lr": lr}), json.dumps({"lr": lr}))
            for lr in rates
            for seed in self.seeds
        ]


def _terms_of(terms: str, method: str) -> str:
    """Where the runs of a line's method are: the unequal line takes them from two others."""
    if terms != UNEQUAL:
        return terms
    return BOTH_BARE if method == METHODS[0] else EQUAL


def trial_gaps(table: pa.Table, beyond: tuple[Published, Published] | None = None) -> dict[str, Difference]:
    """CoNAL minus DL-CL on all terms, and on unequal ones, corrected for all of them; or less published figures."""
    cells = group_by([row for row in table.to_pylist() if row["chosen"]], "row", "method")

    def rows(terms: str, method: str) -> list[Row]:
        return sorted(cells[_terms_of(terms, method), method], key=lambda row: row["seed"])

    crowd_layer, conal = METHODS
    return corrected(
        {terms: seed_gap(rows(terms, conal), rows(terms, crowd_layer), beyond) for terms in (*TERMS, UNEQUAL)}
    )
