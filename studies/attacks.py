"""Annotators who mean harm: what they cost with and without a defence, who is found, and who is named by mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from conal.aggregation import DawidSkene, MajorityVote
from conal.aggregation.base import Aggregator
from conal.data.annotations import Annotations
from conal.datasets import load, synthetic
from conal.datasets.adversaries import HONEST, Adversaries
from conal.metrics.suspicion import Detections, LeftOut, detect, left_out, without
from conal.parameters.simulation import ADVERSARIES
from studies.crowds import LABEL_SETS, label_set, true_codes
from studies.fits import figures_of, fit
from studies.runs import Options, Setting
from studies.statistics import coverage
from studies.tables import Claim, Row, Summary, Table, Tables, column, group_by, percent

PARTS = ("attacks",)
SEEDS, TRAINED = 50, 5
"""Crowds of each kind and share, and those on which networks are trained."""
SHARES = (0.1, 0.2, 0.3, 0.4)
CROWD: dict[str, Any] = {"n_train": 1500, "n_annotators": 60, "labels_per_instance": 4.0, "n_valid": 0, "n_test": 200}
"""What differs from the generator's defaults: 100 labels by each of 60 annotators, on tasks of six classes."""
FEW: dict[str, Any] = {"n_train": 690, "turn_after": 23}
"""Fewer tasks: 46 labels by an annotator in the mean, and hardly anybody with less than 30."""
AGGREGATORS = ("dawid-skene", "majority-vote")
NETWORKS = ("xconal", "conal")
REAL = ("labelme", "music")
SIMULATED = "simulated"
PEOPLE = ("careless", "turned", "exchange", "followers")
"""Kinds of statements about one annotator; the others are about pairs."""
FALSE = 0.05
"""Share of statements that may be wrong."""


def runs(options: Options) -> list[Setting]:
    """Crowds of every kind and share of harm, with labels alone and with networks; and crowds of honest people."""
    chosen = options.pick_datasets((SIMULATED, *LABEL_SETS, *REAL))
    methods = options.pick_methods((*AGGREGATORS, *NETWORKS))
    settings: list[Setting] = []
    for kind in ADVERSARIES if SIMULATED in chosen else ():
        for share in SHARES:
            for seed in options.seeds_or(SEEDS):
                at: Setting = {"part": "attacks", "kind": kind, "share": share, "seed": seed}
                crowd = CROWD | {"adversaries": kind, "adversary_share": share, "seed": seed}
                if {*AGGREGATORS} <= {*methods}:
                    settings.append(at | {"row": "labels", "data": crowd})
                    settings += [at | {"row": "few", "data": crowd | FEW}] if share == SHARES[1] else []
                settings += [
                    at | {"row": "accuracy", "method": method, "defended": defend, "dataset": "attacked"}
                    | {"protocol": "own", "data": crowd | {"defend": defend}, "parameters": {}}
                    for method in methods
                    if method in NETWORKS and seed < TRAINED
                    for defend in (False, True)
                ]  # fmt: skip
    return settings + [
        {"part": "attacks", "row": "real", "kind": name, "seed": 0} for name in chosen if name != SIMULATED
    ]


def run(setting: Setting) -> Row | list[Row]:
    """Accuracies with and without defence, and who is found."""
    if setting["row"] == "accuracy":
        return {"accuracy": figures_of(fit(setting))["label_accuracy"]}
    if setting["row"] == "real":
        return _real(setting["kind"])
    data = synthetic(**setting["data"])
    assert data.truth is not None
    assert data.truth.adversaries is not None
    harmful = data.truth.adversaries
    plain = DawidSkene(verbose=False).fit(data.annotations)
    labels = left_out(data.annotations, plain.probas_, times=harmful.time)
    found = detect(labels)
    if setting["row"] == "few":
        return counted(found, harmful)
    return [*_accuracies(labels, found, plain, data.y_true), {"row": "detection"} | counted(found, harmful)]


def _accuracies(labels: LeftOut, found: Detections, plain: Aggregator, z: Any) -> list[Row]:
    """With and without defence; ``plain`` is Dawid-Skene of all labels, by which people were flagged."""
    judged, crowd = z >= 0, labels.crowd
    rows = []
    for name in AGGREGATORS:
        left = without(labels, found, rings=name != "majority-vote").annotations
        for fitted, defend in ((plain if name == plain.name else _fit(name, crowd), False), (_fit(name, left), True)):
            accuracy = float((fitted.codes_ == z)[judged].mean())
            rows.append({"row": "accuracy", "method": name, "defended": defend, "accuracy": accuracy})
    return rows


def _fit(name: str, crowd: Annotations) -> Aggregator:
    return MajorityVote().fit(crowd) if name == "majority-vote" else DawidSkene(verbose=False).fit(crowd)


def counted(found: Detections, truth: Adversaries) -> Row:
    """How many mean harm, how many of them are found, how many statements there are, and how many of these are false.

    A statement names an annotator, or a pair with the same answers. A pair is true if one copies the other, or both the
    same source.
    """
    bad, source = truth.kind != HONEST, truth.source
    people = np.concatenate([found.by_kind[kind] for kind in PEOPLE])
    r, s = found.copies.first, found.copies.second
    true = (source[r] == s) | (source[s] == r) | ((source[r] == source[s]) & (source[r] >= 0))
    caught = np.zeros(len(bad), dtype=bool)
    caught[np.concatenate([people, r[true], s[true]])] = True
    return {
        "harmful": int(bad.sum()),
        "found": int((caught & bad).sum()),
        "named": len(people) + len(true),
        "false": int((~bad[people]).sum() + (~true).sum()),
    }


def _real(name: str) -> list[Row]:
    """Accuracy on a crowd in which nobody is known to mean harm, and how many are named."""
    if name in REAL:
        data = load(name)
        crowd, z = data.annotations, data.y_true
    else:
        table, truth = label_set(name)
        crowd = Annotations.from_frame(table)
        z = true_codes(crowd, truth)
    plain = DawidSkene(verbose=False).fit(crowd)
    labels = left_out(crowd, plain.probas_, times=crowd.times)
    found = detect(labels)
    named = sum(len(found.by_kind[kind]) for kind in PEOPLE) + len(found.copies.first)
    return [row | {"row": "real"} for row in _accuracies(labels, found, plain, z)] + [{"row": "named", "named": named}]


def summarise(tables: Tables) -> Summary:
    """Accuracy by kind and share, who is found, and what happens to honest crowds."""
    rows = group_by(tables["attacks"], "row")
    summary = Summary()
    shares = sorted(
        {row["share"] for row in rows.get("detection", [])} | {row["share"] for row in rows.get("accuracy", [])}
    )
    if "accuracy" in rows:
        cells = group_by(rows["accuracy"], "kind", "method", "share", "defended")
        body = [
            [kind, f"`{method}`"] + [_both(cells, kind, method, share) for share in shares]
            for kind, method in group_by(rows["accuracy"], "kind", "method")
        ]
        header = ["", "", *(f"{share:.0%}, defended" for share in shares)]
        summary.tables.append(Table("Right labels, in percent", header, body))
    for row, title in (("detection", "Who is found"), ("few", "Who is found with 46 labels each")):
        cells = group_by(rows.get(row, []), "kind", "share")
        at = [share for share in shares if any(place[1] == share for place in cells)]
        body = [
            [kind, *(_found(cells.get((kind, share), [])) for share in at)]
            for kind in dict.fromkeys(k for k, _ in cells)
        ]
        note = "Share of those who mean harm that are named, and share of all statements that are false."
        if body:
            summary.tables.append(Table(title, ["", *(f"{share:.0%}: found, false" for share in at)], body, note))
    if "detection" in rows:
        summary.claims.append(_few_are_false(rows["detection"]))
    if "real" in rows:
        cells = group_by(rows["real"], "kind", "method", "defended")
        named = {row["kind"]: row.get("named") for row in rows.get("named", [])}
        crowds = list(group_by(rows["real"], "kind"))
        body = [[c, *(_change(cells, c, m) for m in AGGREGATORS), f"{named.get(c) or ''}"] for c in crowds]
        note = "Right labels in percent, without and with defence, and how many statements there are."
        summary.tables.append(
            Table("Crowds in which nobody is known to mean harm", ["", *AGGREGATORS, "named"], body, note)
        )
    return summary


def _both(cells: dict[Any, list[Row]], kind: str, method: str, share: float) -> str:
    plain, defended = (percent(cells.get((kind, method, share, each), []), "accuracy") for each in (False, True))
    return f"{plain} → {defended}" if plain else ""


def _change(cells: dict[Any, list[Row]], crowd: str, method: str) -> str:
    return " → ".join(percent(cells.get((crowd, method, each), []), "accuracy") for each in (False, True))


def _found(rows: list[Row]) -> str:
    harmful, found, named, false = (sum(column(rows, name)) for name in ("harmful", "found", "named", "false"))
    return f"{100 * found / max(harmful, 1):.0f} %, {100 * false / max(named, 1):.1f} %"


def _few_are_false(rows: list[Row]) -> Claim:
    """By the kind and share of which most is false."""
    shares = {}
    for place, some in group_by(rows, "kind", "share").items():
        named, false = (int(sum(column(some, name))) for name in ("named", "false"))
        shares[place] = coverage(false, named) if named else (0.0, 0.0, 0.0)
    worst = max(shares, key=lambda place: shares[place][0])
    share, low, high = shares[worst]
    verdict = (
        "holds" if all(end <= FALSE for *_, end in shares.values()) else "fails" if low > FALSE else "inconclusive"
    )
    text = f"At most {FALSE:.0%} of what is said about annotators of attacked crowds is false"
    found = f"{share:.1%} ({low:.1%} to {high:.1%})"
    return Claim(
        text, verdict, found, f"false statements, the worst: {worst[0]}, {worst[1]:.0%}", f"{len(rows):,} crowds"
    )
