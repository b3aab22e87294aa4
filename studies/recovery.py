"""Confusion matrices that CoNAL learns: against the truth of simulated crowds, and on LabelMe and Music."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from studies.figures import heat_maps
from studies.fits import PAPER, fit
from studies.runs import Options, Setting
from studies.statistics import judge, paired_difference
from studies.sweeps import GATE, GATES, INPUTS, TYPES
from studies.table_1 import PRESETS
from studies.table_1 import TITLES as REAL
from studies.tables import Claim, Row, Summary, Table, Tables, claim, column, group_by

PARTS = ("recovery", "confusions")
SIMULATED = ("synthetic", "cifar10")
SEEDS = 5
COMMON = "common"
N_KEPT, N_DRAWN, N_LISTED = 5, 3, 8
"""Annotators whose matrices are kept, those with the most labels; drawn ones; and mistakes that are listed."""


def runs(options: Options) -> list[Setting]:
    """CoNAL at strength 0.7 and proportion 0.5, as in the paper's figure, and one fit of each real crowd."""
    options.pick_methods(("conal",))
    chosen = options.pick_datasets((*SIMULATED, *REAL))
    common = {"method": "conal", "protocol": "last"}
    simulated: list[Setting] = [
        {
            "part": "recovery",
            **common,
            "dataset": dataset,
            "common_type": kind,
            "seed": seed,
            "parameters": PAPER["conal"],
        }
        | {"data": INPUTS[dataset] | _noise(kind) | {"seed": seed}}
        for dataset in chosen
        if dataset in SIMULATED
        for kind in TYPES
        for seed in options.seeds_or(SEEDS)
    ]
    real: list[Setting] = [
        {"part": "confusions", **common, "dataset": name, "seed": 0, "parameters": PRESETS[name] | PAPER["conal"]}
        for name in chosen
        if name in REAL
    ]
    return simulated + real


def _noise(kind: str) -> dict[str, Any]:
    return {**GATES[GATE], "common_strength": 0.7, "proportion": 0.5, "common_type": kind}


def run(setting: Setting) -> list[Row]:
    """A row per cell of the common matrix and of those of a few annotators, after the last epoch.

    The epoch that predicts best is often an early one, when little has been learned about the annotators.
    """
    clf, data, _ = fit(setting)
    most = np.argsort(-data.annotations.labels_per_annotator(), kind="stable")[:N_KEPT]
    learned = {COMMON: clf.common_confusion_} | {str(clf.annotator_ids_[r]): clf.annotator_confusion_[r] for r in most}
    truth = data.truth
    true = {} if truth is None else {COMMON: truth.pi_g} | {str(clf.annotator_ids_[r]): truth.pi_r[r] for r in most}
    names = [str(name) for name in clf.classes_.tolist()]
    return [
        {"who": who, "true": names[c], "observed": names[k], "learned": float(matrix[c, k])}
        | ({"truth": float(true[who][c, k])} if true else {})
        for who, matrix in learned.items()
        for c in range(len(names))
        for k in range(len(names))
    ]


class Recovered(NamedTuple):
    """How well matrices of a crowd were recovered: mean error per entry, and share of the main mistakes found."""

    error: float
    found: float


Crowds = Mapping[tuple[str, str, int, bool], Recovered]
"""By dataset, kind of noise, crowd, and whether it is the common matrix or annotators' own."""


def summarise(tables: Tables) -> Summary:
    """Errors and main mistakes found, maps, the claims, and the largest mistakes on real crowds."""
    summary = Summary()
    if tables["recovery"]:
        crowds = recovery_by_crowd(tables["recovery"])
        summary.tables.append(_errors(crowds))
        summary.claims += _claims(crowds)
        summary.charts |= _maps(tables["recovery"])
    for dataset, rows in group_by(tables["confusions"], "dataset").items():
        title = f"{REAL[dataset]}: learned confusion matrices"
        summary.charts[f"confusions-{dataset}"] = heat_maps(rows, "learned", by="who", title=title)
        mistakes = [row for row in rows if row["who"] == COMMON and row["true"] != row["observed"]]
        largest = sorted(mistakes, key=lambda row: -row["learned"])[:N_LISTED]
        body = [[row["true"], row["observed"], f"{100 * row['learned']:.1f}"] for row in largest]
        note = "The largest mistakes of the common confusion after the last epoch of one fit."
        summary.tables.append(Table(REAL[dataset], ["true", "observed", "probability, %"], body, note))
    return summary


def recovery_by_crowd(rows: list[Row]) -> dict[tuple[str, str, int, bool], Recovered]:
    """The mean error per entry, and the share of rows whose most frequent mistake is the true one."""
    found = {}
    marked = [row | {"common": row["who"] == COMMON} for row in rows]
    for place, some in group_by(marked, "dataset", "common_type", "seed", "common").items():
        hits = []
        for cells in group_by(some, "who", "true").values():
            mistakes = [row for row in cells if row["true"] != row["observed"]]
            most = max(column(mistakes, "truth"))
            if most > 0:
                hits.append(max(mistakes, key=lambda row: row["learned"])["truth"] == most)
        error = float(np.mean([abs(row["learned"] - row["truth"]) for row in some]))
        found[place] = Recovered(error, float(np.mean(hits)) if hits else 1.0)  # without mistakes, all are found
    return found


def _errors(crowds: Crowds) -> Table:
    body = []
    for place in dict.fromkeys(key[:2] for key in crowds):
        here = [[crowds[key] for key in crowds if (*key[:2], key[3]) == (*place, common)] for common in (True, False)]
        errors = [f"{np.mean([each.error for each in some]):.3f}" for some in here]
        hits = [f"{100 * np.mean([each.found for each in some]):.0f} %" for some in here]
        body.append([*place, *errors, *hits])
    header = [
        f"{what}, {who}" for what in ("error per entry", "main mistakes found") for who in ("common", "annotators'")
    ]
    note = "Main mistakes found: rows of a matrix whose most frequent mistake is the true one."
    return Table("True and learned matrices", ["dataset", "common noise", *header], body, note)


def _claims(crowds: Crowds) -> list[Claim]:
    claims = []
    for what, common in (("common matrix is", True), ("individual matrices are", False)):
        # Both kinds of noise are on the same instances and annotators, which count once.
        shares: dict[tuple[str, int], list[float]] = {}
        for (dataset, _, seed, whose), found in crowds.items():
            if whose == common:
                shares.setdefault((dataset, seed), []).append(found.found)
        means = [float(np.mean(each)) for each in shares.values()]
        gap = paired_difference((means, [0.5] * len(means)))
        what_differs = "rows with the true main mistake, minus 50 %"
        claims.append(claim(f"The {what} recovered in most cases", judge([gap]), gap, what_differs, "crowds"))
    pair = [
        [f.found for key, f in sorted(crowds.items()) if (key[0], key[1], key[3]) == ("cifar10", k, True)]
        for k in TYPES
    ]
    if all(pair):
        gap = paired_difference((pair[0], pair[1]))
        text = "The common matrix is recovered better with asymmetric than with symmetric noise on CIFAR-10"
        claims.append(claim(text, judge([gap]), gap, "main mistakes found, asymmetric minus symmetric", "crowds"))
    return claims


def _maps(rows: list[Row]) -> dict[str, Any]:
    """The common matrix and those of three annotators of the first crowds, true beside learned."""
    charts = {}
    first = [row for row in rows if row["seed"] == 0]
    for (dataset, kind), some in group_by(first, "dataset", "common_type").items():
        matrices = group_by(some, "who")
        shown = [COMMON, *(who for who in matrices if who != COMMON)][: 1 + N_DRAWN]
        cells = [
            {"which": f"{who}, {which}", "true": r["true"], "observed": r["observed"], "probability": r[which]}
            for who in shown
            for which in ("truth", "learned")
            for r in matrices[who]
        ]
        title = f"True and learned confusion, {dataset}, {kind}"
        charts[f"recovery-{dataset}-{kind}"] = heat_maps(cells, "probability", by="which", title=title, columns=4)
    return charts
