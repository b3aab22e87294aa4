"""Juries of language models: aggregators, families, texts, and whether the report is right about their members."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal import aggregation
from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.data.encoding import as_names, decode_position
from conal.datasets import CrowdDataset
from conal.estimator import make
from conal.report.sections.jury import NOTHING
from studies.aggregators import nominal_aggregators
from studies.crowds import JUDGES, label_set, load, true_codes
from studies.fits import packed, unpacked
from studies.little_gold import stacked_votes
from studies.runs import Options, Setting
from studies.statistics import Difference, bootstrap_difference, holm, judge, paired_difference
from studies.tables import Row, Summary, Table, Tables, claim, column, group_by, percent

PARTS = ("juries", "jury-claims")
SEEDS, DRAWS = 5, 20
N_TRUE = 50
BASE = "dawid-skene"
GROUPED, TEXTS = "group-confusion with families", "xconal with the texts"
TEXTS_GROUPED = f"{TEXTS} and families"
CROWD_KIT, ORACLE, STACKED = "crowd-kit's Dawid-Skene", "best judge by true labels", "stacked votes of 50 true labels"
FAMILIES = {"flan-": "flan", "text-": "text"}
"""How the names of a family of models begin."""


def family(judge: str) -> str:
    """The family of a language model.

    >>> family("flan-ul2"), family("text-ada-001"), family("chatgpt")
    ('flan', 'text', 'chatgpt')
    """
    return next((name for start, name in FAMILIES.items() if judge.startswith(start)), judge)


def runs(options: Options) -> list[Setting]:
    """Every way to infer labels on every jury; and what the report says with fifty true labels, drawn many times."""
    extra = [GROUPED, *([CROWD_KIT] if find_spec("crowdkit") else []), TEXTS, TEXTS_GROUPED, ORACLE, STACKED]
    chosen, juries = options.pick_methods([*nominal_aggregators(), *extra]), options.pick_datasets(JUDGES)
    settings: list[Setting] = [
        {"part": "juries", "row": jury, "method": method, "seed": seed}
        for jury in juries
        for method in chosen
        for seed in (options.seeds_or(SEEDS) if _is_random(method) else range(1))
    ]
    claims = juries if BASE in chosen else []
    return settings + [
        {"part": "jury-claims", "row": jury, "seed": seed} for jury in claims for seed in options.seeds_or(DRAWS)
    ]


def _is_random(method: str) -> bool:
    if method in aggregation.names():
        return "seed" in aggregation.get(method).parameter_names()
    return method not in (CROWD_KIT, ORACLE)


def run(setting: Setting) -> Row | list[Row]:
    """The share of right labels, and which are right; or rows about the members of a jury."""
    if setting["part"] == "jury-claims":
        return _members(setting["row"], setting["seed"])
    data, method, seed = load(setting["row"], {}), setting["method"], setting["seed"]
    judged = np.ones(len(data.y_true), dtype=bool)
    if method == STACKED:
        rows = np.random.default_rng(seed).choice(len(data.y_true), N_TRUE, replace=False)
        judged[rows] = False
        codes = stacked_votes(data.annotations, rows, data.y_true[rows]).argmax(1)
    else:
        codes = _inferred(method, data, seed)
    right = (codes == data.y_true) & judged
    return {
        "accuracy": float(right[judged].mean()),
        "right": packed(right) if judged.all() else "",
        "tasks": len(right),
    }


def _inferred(method: str, data: CrowdDataset, seed: int) -> npt.NDArray[np.int64]:
    crowd = data.annotations
    judges = crowd.annotator_ids.tolist()
    info = pa.table({"worker": judges, "group": [family(judge) for judge in judges]}) if "families" in method else None
    if method in (TEXTS, TEXTS_GROUPED):
        texts = pa.table({"task": crowd.task_ids.tolist(), "text": data.x.tolist()})
        clf = make("xconal", seed=seed, verbose=False).fit(texts, crowd, annotator_info=info)
        return np.asarray(clf.probas_.argmax(1))
    if method == ORACLE:  # a task that this judge skipped is wrong
        matrix = crowd.to_matrix()
        return np.asarray(matrix[:, (matrix == data.y_true[:, None]).mean(0).argmax()])
    if method == CROWD_KIT:
        return _by_crowd_kit(data)
    name = "group-confusion" if method == GROUPED else method
    known = aggregation.get(name).parameter_names()
    settings = {key: value for key, value in {"seed": seed, "verbose": False}.items() if key in known}
    return aggregation.make(name, **settings).fit(crowd, annotator_info=info).codes_


def _by_crowd_kit(data: CrowdDataset) -> npt.NDArray[np.int64]:
    from crowdkit.aggregation import DawidSkene as TheirDawidSkene

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its way with pandas
        labels: Mapping[Any, Any] = TheirDawidSkene().fit_predict(data.annotations.to_table().to_pandas()).to_dict()
    return decode_position(data.classes, as_names([labels[task] for task in data.annotations.task_ids.tolist()]))


# ---------------------------------------------------------------- what the report says about members


@lru_cache(maxsize=2)
def _jury(name: str) -> tuple[Annotations, dict[str, str]]:
    labels, truth = label_set(name)
    return Annotations.of(labels), truth


def _members(name: str, seed: int) -> list[Row]:
    """What the report says with fifty true labels about leaving a member out, beside what all true labels say."""
    crowd, truth = _jury(name)
    tasks = sorted(truth)
    some = np.random.default_rng(seed).choice(len(tasks), N_TRUE, replace=False)
    known = {tasks[k]: truth[tasks[k]] for k in some}
    z = true_codes(crowd, truth)

    def right(fitted: DawidSkene) -> float:
        return float((fitted.codes_ == z)[z >= 0].mean())

    whole = DawidSkene(verbose=False).fit(crowd, true_labels=known)
    places = {judge: r for r, judge in enumerate(crowd.annotator_ids.tolist())}
    rows = []
    for found in whole.results_.section("jury")["judges"]:
        without = crowd.select(crowd.annotators != places[found["worker"]])
        change = right(DawidSkene(verbose=False).fit(without, true_labels=known)) - right(whole)
        figures = {key: found[key] for key in ("change", "low", "high", "verdict")}
        rows.append({"judge": found["worker"], **figures, "truth": change})
    return rows


# ---------------------------------------------------------------- what it says


def summarise(tables: Tables) -> Summary:
    """Accuracy by jury with the difference from Dawid-Skene, and how often statements about members are right."""
    summary = Summary()
    rows = [
        row | {"method": str(row["method"]).replace("`", "")} for row in tables["juries"] if row["accuracy"] is not None
    ]
    cells, juries = group_by(rows, "method", "row"), list(group_by(rows, "row"))
    methods = list(group_by(rows, "method"))
    if BASE in methods:
        means = {m: [float(np.mean(column(cells[m, jury], "accuracy"))) for jury in juries] for m in methods}
        over = holm({m: paired_difference((means[m], means[BASE])) for m in methods if m != BASE})
        items = {m: _over_items(cells, m, juries) for m in over}
        body = [
            [m, *(percent(cells[m, jury], "accuracy") for jury in juries), f"{100 * np.mean(means[m]):.1f}"]
            + ([over[m].starred, str(items[m] or "")] if m in over else ["", ""])
            for m in methods
        ]
        note = (
            f"Right labels in percent, means over seeds. Differences from `{BASE}` in points: over juries, for other "
            "ones, * if significant after Holm's correction; and over the items of these juries."
        )
        header = ["", *juries, "mean", "over juries", "over items"]
        summary.tables.append(Table("Ways to infer labels", header, body, note))
        if TEXTS in over:
            text = "With the texts, `xconal` infers more right labels on juries than Dawid-Skene"
            summary.claims.append(claim(text, judge([over[TEXTS]]), over[TEXTS], f"minus `{BASE}`", "juries"))
    if tables["jury-claims"]:
        summary.tables.append(_statements(tables["jury-claims"]))
    return summary


def _over_items(cells: dict[Any, list[Row]], method: str, juries: list[str]) -> Difference | None:
    """Over the items of all juries, each item with the weight of its jury; None without single answers."""
    both = [[cells[m, jury] for jury in juries] for m in (method, BASE)]
    if not all(row.get("right") for some in both for rows in some for row in rows):
        return None
    sizes = [rows[0]["tasks"] for rows in both[0]]
    weights = [sum(sizes) / len(juries) / n for n in sizes]
    shares = [
        np.concatenate(
            [w * unpacked(column(rows, "right"), n).mean(0) for rows, n, w in zip(some, sizes, weights, strict=True)]
        )
        for some in both
    ]
    return bootstrap_difference(shares[0], shares[1])


def _judged(rows: list[Row]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether the report says that a member adds nothing, whether that is true, and whether the interval holds."""
    said = np.array([row["verdict"] == "nothing" for row in rows])
    true = np.array([abs(row["truth"]) <= NOTHING + 1e-9 for row in rows])
    held = np.array([row["low"] - 5e-4 <= row["truth"] <= row["high"] + 5e-4 for row in rows])  # as the report rounds
    return said, true, held


def _members_only(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["judge"]]


def _statements(rows: list[Row]) -> Table:
    body = []
    for name, some in (*group_by(_members_only(rows), "row").items(), ("all", _members_only(rows))):
        said, true, held = _judged(some)
        shares = [true, true[said], said[true], held]
        body.append([name, *(f"{100 * each.mean():.0f}" if len(each) else "-" for each in shares)])
    note = (
        f"With {N_TRUE} random true labels, labels by `{BASE}`, percent. A member adds nothing if the share of right "
        f"labels changes by at most {100 * NOTHING:g} points without it."
    )
    header = ["", "adds nothing: true", "right where said", "said where true", "intervals that hold"]
    return Table("What the report says about members", header, body, note)
