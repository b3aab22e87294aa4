"""Crowds of every size: the default method against aggregation and then scikit-learn's logistic regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conal import aggregation
from studies.crowds import JUDGES
from studies.fits import Fit, figures_of, fit
from studies.runs import Options, Setting
from studies.statistics import Difference, counts, holm, judge, paired_difference
from studies.tables import Claim, Row, Summary, Table, Tables, claim, column, group_by, percent

PARTS = ("small", "sizes")
Crowd = tuple[str, dict[str, Any], dict[str, Any]]
"""Dataset, its settings, and further settings of the sample. What is not said is as in the generator's defaults."""

DATASETS = ("synthetic", "labelme", "llm_jury")
FEW: dict[str, Any] = {"n_train": 3000, "n_valid": 0, "n_test": 0}
MANY = FEW | {"n_train": 25_000, "n_annotators": 100, "labels_per_instance": 3, "n_features": 100, "separation": 0.25}
CROWDS: dict[str, dict[str, Crowd]] = {
    "small": {
        "simulated, 8 annotators": ("synthetic", FEW | {"n_annotators": 8, "n_classes": 4}, {}),
        "simulated, common mistakes": ("synthetic", FEW | {"n_annotators": 8, "common_strength": 0.7}, {}),
        "simulated, two classes, 9 : 1": (
            *("synthetic", FEW | {"n_annotators": 8, "n_classes": 2}),
            {"shares": [0.9, 0.1]},
        ),
        "simulated jury, features that say little": (
            "synthetic",
            FEW | {"n_annotators": 12, "labels_per_instance": 12, "separation": 0.2, "individual_strength": 0.5},
            {},
        ),
        "LabelMe": ("labelme", {}, {}),
        "texts, juries of language models": ("llm_jury", {}, {}),
    },
    "sizes": {
        "no common mistakes": ("synthetic", MANY | {"common_strength": 0.0}, {}),
        "common mistakes": ("synthetic", MANY | {"common_strength": 0.7}, {}),
    },
}
SIZES = {"small": (50, 100, 300), "sizes": (300, 1_000, 5_000, 20_000)}
SEEDS = {"small": 20, "sizes": 10}
RIVALS = ("dawid-skene", "majority-vote")
KINDS = {"label_accuracy": "cleaned labels", "test_accuracy": "other tasks"}
TITLES = {"small": "50 to 300 tasks", "sizes": "300 to 20,000 tasks"}
ALL = "all"


def runs(options: Options) -> list[Setting]:
    """Every seed draws another crowd, or another part of it; all but these tasks are for testing."""
    options.pick_methods(("xconal",))
    chosen = options.pick_datasets(DATASETS)
    return [
        {"part": part, "row": name, "tasks": size, "seed": seed, "dataset": crowd[0], "method": "xconal"}
        | {"protocol": "own", "parameters": {"epochs": "auto"}, "data": _data(crowd, size, seed)}
        for part, crowds in CROWDS.items()
        for name, crowd in crowds.items()
        if crowd[0] in chosen
        for size in SIZES[part]
        for seed in options.seeds_or(SEEDS[part])
    ]


def _data(crowd: Crowd, size: int, seed: int) -> dict[str, Any]:
    dataset, settings, sample = crowd
    drawn: dict[str, Any] = {"seed": seed} if dataset == "synthetic" else {}
    drawn |= {"jury": JUDGES[seed % len(JUDGES)]} if dataset == "llm_jury" else {}
    return settings | drawn | {"sample": sample | {"n_tasks": size, "seed": seed}}


def run(setting: Setting) -> Row:
    """The default method, and what users would do without it."""
    found = fit(setting)
    figures = figures_of(found)
    return {kind: figures[kind] for kind in KINDS} | _two_stages(found)


def _two_stages(found: Fit) -> Row:
    """Aggregate, then train LogisticRegression with its defaults on the same features."""
    from sklearn.linear_model import LogisticRegression

    clf, data, _ = found
    assert data.test is not None
    made = clf.text_features_
    x, test = (each if made is None else made.transform(list(each)) for each in (data.x, data.test.x))
    row: Row = {}
    for name in RIVALS:
        codes = aggregation.make(name).fit(data.annotations).codes_
        model = LogisticRegression(max_iter=1000)
        predicted = model.fit(x, codes).predict(test) if len(set(codes)) > 1 else np.full(len(test), codes[0])
        row[f"{name} label_accuracy"] = float((codes == data.y_true).mean())
        row[f"{name} test_accuracy"] = float((predicted == data.test.y).mean())
    return row


def summarise(tables: Tables) -> Summary:
    """Accuracy, and the paired difference with its interval, by crowd and size."""
    summary = Summary()
    for part, rows in tables.items():
        for kind, title in KINDS.items() if rows else ():
            summary.tables.append(_table(part, rows, kind, title))
            summary.claims.append(_above_both(part, rows, kind))
    return summary


def _table(part: str, rows: list[Row], kind: str, title: str) -> Table:
    groups = group_by(rows, "row", "tasks")
    groups |= {(ALL, size): some for size, some in group_by(rows, "tasks").items()} | {(ALL, ALL): rows}
    gaps = _gaps(groups, kind)
    body = [[*map(str, at), percent(some, kind), *_cells(some, kind, at, gaps)] for at, some in groups.items()]
    header = ["crowd", "tasks", "`xconal`", *(text for name in RIVALS for text in (f"`{name}`", "difference"))]
    note = "Percent; differences in points over crowds, * if significant after Holm's correction."
    return Table(f"{TITLES[part]}: {title}", header, body, note)


def _cells(
    rows: list[Row], kind: str, at: tuple[Any, Any], gaps: dict[tuple[Any, Any, str], Difference]
) -> Iterator[str]:
    for name in RIVALS:
        yield from (percent(rows, f"{name} {kind}"), gaps[*at, name].starred)


def _gaps(groups: dict[Any, list[Row]], kind: str) -> dict[tuple[Any, Any, str], Difference]:
    """By crowd, number of tasks and way, corrected for all of them.

    A smaller part of a crowd is part of the larger, so that its sizes count as one.
    """
    found = {}
    for at, rows in groups.items():
        crowds = group_by(rows, "row", "seed").values()
        for name in RIVALS:
            pair = [[float(np.mean(column(some, which))) for some in crowds] for which in (kind, f"{name} {kind}")]
            found[*at, name] = paired_difference((pair[0], pair[1]))
    return holm(found)


def _above_both(part: str, rows: list[Row], kind: str) -> Claim:
    gaps = _gaps(group_by(rows, "row", "tasks"), kind)
    crowd, tasks, rival = least = min(gaps, key=lambda place: gaps[place].value)
    what = {
        "label_accuracy": "Cleaned labels of `xconal` are better than Dawid-Skene's and majority votes",
        "test_accuracy": "`xconal` predicts better than logistic regression on Dawid-Skene's labels or majority votes",
    }[kind]
    of = f"the least: {crowd}, {tasks:,} tasks, `{rival}`; {counts(gaps.values())}"
    return claim(f"{what}, {TITLES[part]}", judge([*gaps.values()]), gaps[least], of, "crowds")
