"""All aggregators on thirteen public crowds, and how many independent labels the labels of a task are worth."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from conal import aggregation
from conal.data.annotations import Annotations
from conal.errors import CollapseWarning
from conal.metrics import effective_number
from studies.crowds import JUDGES, LABEL_SETS, label_set, true_codes
from studies.runs import Options, Setting
from studies.statistics import counts, holm, judge, paired_difference
from studies.tables import Claim, Row, Summary, Table, Tables, claim, column, group_by

PARTS = ("aggregators",)
TRUTH, SOME = "true labels", "50 true labels"
N_TRUE, DRAWS = 50, 20
BASE, VOTES, AUTO = "dawid-skene", "majority-vote", "auto"


def nominal_aggregators() -> list[str]:
    """Those for classes without an order that need no true label."""
    return [name for name in aggregation.names() if name != "gold-majority-vote" and not aggregation.get(name).ordered]


def runs(options: Options) -> list[Setting]:
    """Every aggregator on every crowd; and the effective number by true labels, all of them and some."""
    methods = options.pick_methods([*nominal_aggregators(), TRUTH, SOME])
    return [
        {"part": "aggregators", "row": crowd, "method": method, "seed": seed}
        for crowd in options.pick_datasets(LABEL_SETS)
        for method in methods
        for seed in (options.seeds_or(DRAWS) if method == SOME else range(1))
    ]


def run(setting: Setting) -> Row:
    """The share of right labels, a warning of a collapse, and the effective number of annotators."""
    labels, truth = label_set(setting["row"])
    crowd = Annotations.of(labels)
    codes = true_codes(crowd, truth)
    known = np.flatnonzero(codes >= 0)
    if setting["method"] == TRUTH:
        return _effective(crowd, _certain(crowd, codes, known))
    if setting["method"] == SOME:
        some = np.random.default_rng(setting["seed"]).choice(known, min(N_TRUE, len(known)), replace=False)
        return _effective(crowd, _certain(crowd, codes, some))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = aggregation.make(setting["method"]).fit(crowd)
    warning = "; ".join(str(each.message) for each in caught if issubclass(each.category, CollapseWarning))
    accuracy = float(np.mean((fitted.codes_ == codes)[known]))
    return {"accuracy": accuracy, "warning": warning} | _effective(crowd, fitted.probas_)


def _certain(crowd: Annotations, codes: npt.NDArray[np.int64], tasks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    certain = np.zeros((crowd.n_tasks, crowd.n_classes))
    certain[tasks, codes[tasks]] = 1.0
    return certain


def _effective(crowd: Annotations, posterior: npt.NDArray[np.float64]) -> Row:
    found = effective_number(crowd, posterior)
    ends: dict[str, Any] = {"effective": found.value, "effective_low": found.low, "effective_high": found.high}
    return {name: float(value) if np.isfinite(value) else None for name, value in ends.items()}


def summarise(tables: Tables) -> Summary:
    """Accuracy by crowd, the worst cases, and the effective numbers."""
    rows = tables["aggregators"]
    fits = [row for row in rows if row["method"] not in (TRUTH, SOME)]
    summary = Summary([_accuracies(fits)] if fits else [], _claims(fits))
    numbers = _numbers(rows)
    return Summary([*summary.tables, numbers], summary.claims) if numbers.body else summary


def _accuracies(rows: list[Row]) -> Table:
    crowds = list(group_by(rows, "row"))
    cells = {name: {row["row"]: row for row in some} for name, some in group_by(rows, "method").items()}
    shares = {name: np.array([100 * some[crowd]["accuracy"] for crowd in crowds]) for name, some in cells.items()}
    best = np.max(list(shares.values()), axis=0)
    juries = np.isin(crowds, JUDGES)
    body = [
        [
            f"`{name}`",
            *(f"{v:.1f}{' †' if some[c]['warning'] else ''}" for c, v in zip(crowds, shares[name], strict=True)),
            f"{shares[name].mean():.1f}",
            f"{shares[name][juries].mean():.1f}" if juries.any() else "",
            f"{(best - shares[name]).max():.1f}",
            f"{(shares[name] - shares[VOTES]).min():+.1f}" if VOTES in shares else "",
        ]
        for name, some in cells.items()
    ]
    note = (
        "Right labels in percent. † the aggregator warned of a collapse. Worst regret: the largest distance from the "
        "best aggregator on a crowd. The members of `auto` were chosen by looking at these crowds."
    )
    header = ["", *crowds, "mean", "mean of the juries", "worst regret", "worst against votes"]
    return Table("Accuracy", header, body, note)


def _claims(rows: list[Row]) -> list[Claim]:
    cells = {name: [row["accuracy"] for row in some] for name, some in group_by(rows, "method").items()}
    gaps = holm(
        {name: paired_difference((cells[AUTO], cells[name])) for name in (BASE, VOTES) if {AUTO, name} <= cells.keys()}
    )
    if BASE not in gaps:
        return []
    text = f"`{AUTO}` is more accurate than `{BASE}` and `{VOTES}` over public crowds"
    return [
        claim(text, judge([*gaps.values()]), gaps[BASE], f"minus `{BASE}`; both: {counts(gaps.values())}", "crowds")
    ]


def _numbers(rows: list[Row]) -> Table:
    """By all true labels, by some of them, and the bound by inferred labels."""
    body = []
    for crowd, some in group_by(rows, "row").items():
        by = group_by(some, "method")
        if not {TRUTH, BASE} <= by.keys():
            continue
        truth, bound = by[TRUTH][0], by[BASE][0]
        known = [row for row in by.get(SOME, []) if row["effective_low"] is not None]
        drawn = ["-"] * 3
        if known:
            values = np.array(column(known, "effective"))
            held = np.mean([row["effective_low"] <= truth["effective"] <= row["effective_high"] for row in known])
            off = np.abs(values / truth["effective"] - 1).mean()
            drawn = [f"{values.mean():.1f}", f"{100 * off:.0f} %", f"{100 * held:.0f} %"]
        ends = f"{truth['effective']:.1f} ({truth['effective_low']:.1f} to {truth['effective_high']:.1f})"
        body.append([crowd, ends, *drawn, f"at most {bound['effective_high']:.1f}"])
    note = "How many independent labels the labels of a task are worth (`conal.metrics.effective_number`)."
    header = ["", "all true labels", f"{N_TRUE} true labels", "deviation", "intervals that hold", f"`{BASE}`"]
    return Table("Effective number of annotators", header, body, note)
