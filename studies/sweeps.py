"""Accuracy against the strength and the proportion of common noise, on simulated crowds (synthetic and CIFAR-10)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from studies.crowds import load
from studies.figures import lines, points_of
from studies.fits import (
    BASELINES,
    PAPER,
    PAPER_METHODS,
    TWO_STAGES,
    every_method,
    figures_of,
    fit,
    recovery_of,
    two_stages,
)
from studies.runs import Options, Setting
from studies.statistics import Difference, counts, holm, judge, paired_difference, within
from studies.tables import Claim, Row, Summary, Table, Tables, claim, column, group_by, mean_and_spread

PARTS = ("synthetic", "cifar10", "cifar10-images")
TITLES = {"synthetic": "synthetic data", "cifar10": "CIFAR-10 features", "cifar10-images": "CIFAR-10 images"}
SEEDS = {"synthetic": 5, "cifar10": 3, "cifar10-images": 3}
STRENGTHS = (0.4, 0.5, 0.6, 0.7, 0.8)
PROPORTIONS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7)
MIDDLE = {"strength": 0.4, "proportion": 0.5}
"""Value of the one while the other varies."""
ENDS = (0.4, 0.8)
CROWDS_AT_ENDS = 20
"""A claim is about the way from the one end to the other."""
MATTERING = ("dl-cl", "max-mig", "aggnet", "conal", "xconal")
"""The methods that have as many crowds at the ends of CIFAR-10, too: the best baselines, and ours."""
EXTREME, EXTREME_PROPORTION = 0.6, 0.7
"""The paper's most extreme case: 42 % of the labels are flipped."""
TYPES = ("asymmetric", "symmetric")
GATES: dict[str, dict[str, str]] = {
    "paper": {"gate": "effects", "gate_scale": "paper"},
    "effects": {"gate": "effects", "gate_scale": "wide"},
}
GATE = "paper"
"""The gate of Equation 3 with the paper's range of omega, and with a wide one; tables of 0.2.0 have the latter, and one
of another form."""
GATE_TITLES = {
    "paper": "the paper's range of omega",
    "effects": "a wide range of omega",
    "interaction": "omega of pairs",
}
GOOD, POOR = 0.3, 0.7
"""Off-diagonal mass of an annotator's own confusion. The paper says 0.7 but calls such annotators good: we try both."""
EPOCHS = 150
"""Enough for every method: with fewer, or with patience, the crowd layer is cut off before it finds the classes."""
CEILING = "gold"
FORMS = ("conal", "conal-em")
"""Forms of the paper's model; all other methods are baselines."""
OURS = "conal"
DRAWN = (*PAPER_METHODS[:-1], "conal-em", "conal")
"""Methods in the charts; the tables have all."""
INPUTS: dict[str, dict[str, Any]] = {
    "synthetic": {},
    "cifar10": {"inputs": "features", "n_train": 10_000, "n_valid": 1000},
    "cifar10-images": {"inputs": "images"},
}
BACKBONES: dict[str, dict[str, Any]] = {"cifar10-images": {"backbone": "vgg16", "lr": 0.001}}
"""VGG-16 on images, as in the paper, which needs a GPU: run it by ``--datasets cifar10-images``."""
NEAR = 2.0
"""Points within which accuracies count as not different."""


class Point(NamedTuple):
    """A place of a sweep: the crowd's settings."""

    gate: str
    varies: str
    value: float
    common_type: str
    individual_strength: float


def _points(dataset: str) -> Iterator[Point]:
    for gate, kind in itertools.product(GATES, TYPES):
        yield from (Point(gate, "strength", value, kind, GOOD) for value in STRENGTHS)
        if gate == GATE or dataset == "synthetic":
            yield from (Point(gate, "proportion", value, kind, GOOD) for value in PROPORTIONS)
            yield Point(gate, "extreme", EXTREME, kind, GOOD)
        if dataset == "synthetic":
            yield from (Point(gate, "strength", value, kind, POOR) for value in ENDS)


def _crowds(dataset: str, point: Point, method: str, options: Options) -> range:
    usual = SEEDS[dataset]
    papers = (point.gate, point.varies, point.individual_strength) == (GATE, "strength", GOOD)
    is_end = papers and point.value in ENDS
    more = is_end and (dataset == "synthetic" or (dataset == "cifar10" and method in MATTERING))
    return range(len(options.seeds_or(usual)) * (CROWDS_AT_ENDS if more else usual) // usual)


def runs(options: Options) -> list[Setting]:
    """Every method at every point, on one crowd per seed; gold labels once for all crowds of the same instances."""
    chosen = options.pick_datasets(PARTS) if options.datasets else PARTS[:2]
    methods = options.pick_methods([*every_method(), TWO_STAGES])
    settings = []
    for dataset in chosen:
        first = next(_points(dataset))
        for point in _points(dataset):
            for name in methods:
                if (name == CEILING and point != first) or (name, dataset) == (TWO_STAGES, "cifar10-images"):
                    continue
                settings += [_setting(dataset, point, name, seed) for seed in _crowds(dataset, point, name, options)]
    return settings


def _setting(dataset: str, point: Point, method: str, seed: int) -> Setting:
    extreme = {"strength": point.value, "proportion": EXTREME_PROPORTION}
    values = extreme if point.varies == "extreme" else MIDDLE | {point.varies: point.value}
    data = {
        **INPUTS[dataset],
        **GATES[point.gate],
        "common_strength": values["strength"],
        "proportion": values["proportion"],
        "common_type": point.common_type,
        "individual_strength": point.individual_strength,
        "seed": seed,
    }
    parameters = BACKBONES.get(dataset, {}) | {"epochs": EPOCHS} | PAPER.get(method, {})
    run_of = {"dataset": dataset.partition("-")[0], "protocol": "gold", "method": method, "seed": seed}
    return {"part": dataset, **point._asdict(), **run_of, "data": data, "parameters": parameters}


def run(setting: Setting) -> Row:
    """A fit, and how well it recovered what the crowd was drawn from."""
    if setting["method"] == TWO_STAGES:
        return two_stages(load(setting["dataset"], setting["data"]))[0]
    found = fit(setting)
    return figures_of(found) | recovery_of(found)


Cells = dict[tuple[str, float], list[Row]]
"""Rows of all seeds, by method and by the value of what varies."""


def summarise(tables: Tables) -> Summary:
    """A table and a diagnosis per sweep, charts, and the paper's claims."""
    summary = Summary()
    for dataset, rows in tables.items():
        ceiling = {row["seed"]: row["test_accuracy"] for row in rows if row["method"] == CEILING}
        others = [row for row in rows if row["method"] != CEILING]
        for place, some in group_by(others, "gate", "individual_strength", "common_type", "varies").items():
            summary.tables += _sweep_tables(dataset, place, some, ceiling)
        gates = group_by(others, "gate")
        main = next((gate for gate in GATES if gate in gates), GATE)
        for (gate, strength, varies), some in group_by(others, "gate", "individual_strength", "varies").items():
            if varies == "extreme":  # one value makes no line
                continue
            stem = f"{dataset}-{varies}-individual-{strength:g}" + ("" if gate == main else f"-{gate}")
            drawn = [row for row in some if row["method"] in DRAWN]
            points = points_of(drawn, "test_accuracy", panel="common_type", x="value", series="method")
            title = f"{TITLES[dataset]}, individual strength {strength:g}, {GATE_TITLES[gate]}"
            summary.charts[stem] = lines(
                points, x_title=f"{varies} of common noise", y_title="test accuracy (%)", title=title
            )
        papers = [row for row in others if (row["individual_strength"], row["gate"]) == (GOOD, main)]
        if {OURS, *BASELINES} <= {row["method"] for row in papers}:
            summary.claims += [*_most_accurate(dataset, papers), *_falls_less(dataset, papers)]
    return summary


def _sweep_tables(
    dataset: str, place: tuple[str, float, str, str], rows: list[Row], ceiling: dict[int, float]
) -> list[Table]:
    gate, strength, kind, varies = place
    cells: Cells = group_by(rows, "method", "value")
    values, methods = sorted(group_by(rows, "value")), list(group_by(rows, "method"))
    gaps = _gaps(cells)
    what = f"strength, proportion {EXTREME_PROPORTION:g}" if varies == "extreme" else varies
    title = f"{TITLES[dataset]}, {kind}, individual strength {strength:g}, {GATE_TITLES[gate]}: {what}"
    header = [what, *(f"{value:g}" for value in values)]
    marks = {-1: " ▲", 0: "", 1: " ▼"}
    body = [
        [
            f"`{name}`",
            *(_accuracy(cells, name, v) + marks[gaps[name, v].sign if (name, v) in gaps else 0] for v in values),
        ]
        for name in methods
    ]
    note = (
        "Test accuracy in percent, mean ± standard deviation over crowds. ▲ baselines significantly above `conal`, ▼ "
        "below, after Holm's correction for the table."
    )
    tables = [Table(title, header, body, note)]
    if OURS in methods:
        tables.append(Table(f"{title}, diagnosis", header, _diagnosis(cells, values, ceiling)))
    return tables


def _accuracy(cells: Cells, name: str, value: float) -> str:
    return mean_and_spread(column(cells[name, value], "test_accuracy")) if (name, value) in cells else ""


def _gaps(cells: Cells) -> dict[tuple[str, float], Difference]:
    """CoNAL minus every baseline on the same crowds of one sweep, corrected for all of them."""
    return holm(
        {
            (name, value): paired_difference(_on_the_same(cells[OURS, value], rows))
            for (name, value), rows in cells.items()
            if name not in FORMS and (OURS, value) in cells
        }
    )


def _on_the_same(ours: list[Row], theirs: list[Row]) -> tuple[list[float], list[float]]:
    """Accuracies on the crowds that both have, in the same order: some methods have more at the ends."""
    first, second = ({row["seed"]: row["test_accuracy"] for row in rows} for rows in (ours, theirs))
    both = sorted(first.keys() & second.keys())
    return [first[seed] for seed in both], [second[seed] for seed in both]


def _diagnosis(cells: Cells, values: list[float], ceiling: dict[int, float]) -> list[list[str]]:
    """From the truth behind the crowds: how much there was to gain, and what CoNAL learned."""

    def mean(name: str, method: str, value: float, scale: float = 100, digits: int = 1) -> str:
        found = [row.get(name) for row in cells[method, value]]
        known = [each for each in found if each is not None]
        return f"{scale * np.mean(known):.{digits}f}" if known else "-"

    def loss(value: float) -> str:
        both = [(ceiling[r["seed"]], r["test_accuracy"]) for r in cells[OURS, value] if r["seed"] in ceiling]
        return f"{100 * np.mean([a - b for a, b in both]):.1f}" if both else "-"

    return [
        ["gold labels minus `conal`, test accuracy", *map(loss, values)],
        ["labels right: Bayes-optimal, no features", *(mean("bayes_label_accuracy", OURS, v) for v in values)],
        ["the same, omega known on average only", *(mean("bayes_without_gate", OURS, v) for v in values)],
        ["labels right: `conal`", *(mean("label_accuracy", OURS, v) for v in values)],
        ["error of the learned common confusion", *(mean("common_confusion_error", OURS, v, 1, 3) for v in values)],
        ["correlation of learned and true omega", *(mean("omega_correlation", OURS, v, 1, 3) for v in values)],
    ]


# ---------------------------------------------------------------- the paper's claims


def _most_accurate(dataset: str, rows: list[Row]) -> Iterator[Claim]:
    """Where there is common noise, and where there is none; each setting counts once."""
    noisy: dict[tuple[str, str, float, str], Difference] = {}
    quiet: dict[tuple[str, str, float, str], Difference] = {}
    for (kind, varies), some in group_by(rows, "common_type", "varies").items():
        for (name, value), gap in _gaps(group_by(some, "method", "value")).items():
            if name in BASELINES and not _is_in_both(varies, value):
                (noisy if value > 0 else quiet)[kind, varies, value, name] = gap
    pooled = _pooled(rows)
    best = min(pooled, key=lambda name: pooled[name].value)
    # Who is above everywhere is not below in the mean, which says more where a setting has few crowds.
    verdict = "fails" if pooled[best].sign < 0 else judge([*noisy.values()])
    text = f"CoNAL is more accurate than all baselines on {TITLES[dataset]} with common noise"
    what = f"minus `{best}`, mean over settings; single comparisons: {counts(noisy.values())}"
    yield claim(text, verdict, pooled[best], what, "crowds")
    if quiet:
        text = f"Without common noise, no baseline differs from CoNAL on {TITLES[dataset]}"
        furthest = max(quiet, key=lambda place: abs(quiet[place].value))
        differs = any(gap.sign for gap in quiet.values())
        verdict = "fails" if differs else within(quiet.values(), NEAR)
        yield claim(text, verdict, quiet[furthest], f"the largest difference, `{furthest[3]}`", "crowds")


def _is_in_both(varies: str, value: float) -> bool:
    """Whether the sweep of the strengths has the setting, too."""
    return varies == "proportion" and value == MIDDLE["proportion"]


def _pooled(rows: list[Row]) -> dict[str, Difference]:
    """CoNAL minus the baselines in the mean over all settings with common noise, corrected for all baselines.

    Crowds of one seed share instances and annotators in all settings, so that each seed counts once.
    """
    counted = [row for row in rows if row["value"] > 0 and not _is_in_both(row["varies"], row["value"])]
    cells = group_by(counted, "method", "seed")
    most = max(map(len, cells.values()))
    seeds = sorted(seed for (name, seed), some in cells.items() if name == OURS and len(some) == most)

    def means(name: str) -> list[float]:
        return [float(np.mean(column(cells[name, seed], "test_accuracy"))) for seed in seeds]

    return holm({name: paired_difference((means(OURS), means(name))) for name in BASELINES})


def _falls_less(dataset: str, rows: list[Row]) -> Iterator[Claim]:
    """From the one end of the strengths to the other."""
    cells = group_by([row for row in rows if row["varies"] == "strength"], "common_type", "method", "seed", "value")
    kinds = [kind for kind in TYPES if any(place[0] == kind for place in cells)]
    seeds = sorted({place[2] for place in cells})

    def falls(kind: str, name: str) -> list[Row]:
        """Of every crowd that a method has at both ends."""
        both = {seed: [cells.get((kind, name, seed, end), []) for end in ENDS] for seed in seeds}
        return [
            {"seed": seed, "test_accuracy": weak[0]["test_accuracy"] - strong[0]["test_accuracy"]}
            for seed, (weak, strong) in both.items()
            if weak and strong
        ]

    gaps = holm(
        {
            (kind, name): paired_difference(_on_the_same(falls(kind, name), falls(kind, OURS)))
            for kind in kinds
            for name in BASELINES
        }
    )
    least = min(gaps, key=lambda place: gaps[place].value)
    text = f"Strong common noise costs CoNAL less than all baselines on {TITLES[dataset]}"
    what = f"the least, `{least[1]}`, {least[0]}; all: {counts(gaps.values())}"
    yield claim(text, judge([*gaps.values()]), gaps[least], what, "crowds")
