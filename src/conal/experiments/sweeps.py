"""Accuracy against the strength and the proportion of common noise, on simulated crowds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from conal.experiments.base import PAPER_METHODS, Experiment, every_method, register
from conal.experiments.bayes_labels import bayes_label_accuracy
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.real_tables import PAPERS
from conal.experiments.runs import Run, load_data
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, mean_and_spread, notes

__all__ = ["Cifar10", "Point", "Sweep", "Synthetic", "sweep_gaps", "sweep_rows"]

STRENGTHS = (0.4, 0.5, 0.6, 0.7, 0.8)
PROPORTIONS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7)
MIDDLE = {"strength": 0.4, "proportion": 0.5}
"""Value of the one while the other varies: strength varies at proportion 0.5, proportion at strength 0.4."""
ENDS = (0.4, 0.8)
"""Strengths with more crowds: the claim is about the way from the one to the other."""
MORE = 4
"""How many times as many crowds the ends have."""
TYPES = ("asymmetric", "symmetric")
GATES: dict[str, str] = {"effects": "the gate of Equation 3", "interaction": "the earlier gate"}
"""Where omega comes from; see :class:`conal.parameters.simulation.CrowdSettings`."""
PAPERS_GATE = "effects"
INTERPRETATIONS = {0.3: "individual accuracy 0.7", 0.7: "individual accuracy 0.3"}
"""Off-diagonal mass of an annotator's own confusion. The paper says 0.7 but calls such annotators good: we try both."""
GOOD, POOR = INTERPRETATIONS
EPOCHS = 150
"""Enough for every method: with fewer, or with patience, the crowd layer is cut off before it finds the classes."""
CEILING = "gold"
OURS = ("conal", "conal-em", "xconal")
"""Forms of the paper's model; all other methods are baselines."""
DRAWN = (*PAPER_METHODS[:-1], "conal-em", "conal")
"""Methods in the charts; the tables have all."""
FIGURES = (
    "test_accuracy",
    "label_accuracy",
    "bayes_label_accuracy",
    "common_confusion_error",
    "omega_correlation",
    "best_epoch",
    "seconds",
)
MARKS = {"above": " ▲", "below": " ▼"}
"""Beside the accuracy of a baseline that is above or below CoNAL."""

_FEW_CROWDS = (
    "Few crowds tell few differences: with three, most are level whatever the truth is. Look at their sizes as well."
)
PLACES = (
    "above every baseline",
    "level with the best baseline",
    "behind the best baseline",
    "not judged, on a single crowd,",
)

Cells = dict[tuple[str, float], list[Row]]
"""Rows of all seeds, by method and by the value of what varies."""
Gaps = dict[tuple[str, float], Difference]
"""CoNAL minus a baseline, by method and value."""


class Point(NamedTuple):
    """A place of a sweep: the crowd's settings, and how many times as many crowds as elsewhere."""

    gate: str
    varies: str
    value: float
    common_type: str
    individual_strength: float
    times: int = 1

    @property
    def columns(self) -> Row:
        """As rows of the table have it."""
        return {name: value for name, value in self._asdict().items() if name != "times"}


class Sweep(Experiment):
    """Accuracy of all methods along sweeps of strength and proportion, on one crowd per seed."""

    dataset: ClassVar[str]
    quick_data: ClassVar[dict[str, Any]]

    def points(self) -> list[Point]:
        """Every place that is run."""
        raise NotImplementedError

    def runs(self) -> list[Run]:
        """Every method at every point, on one crowd per seed."""
        return [
            self._run(point, method, seed)
            for point in self.points()
            for method in every_method()
            for seed in self._seeds(point)
        ]

    def table(self, store: Store) -> pa.Table:
        """One row per run."""
        rows = []
        for point in self.points():
            for seed in self._seeds(point):
                crowd = load_data(self._run(point, OURS[0], seed))
                known = {"bayes_without_gate": bayes_label_accuracy(crowd, gate=False)}
                for method in every_method():
                    figures = store.require(self._run(point, method, seed))
                    measured = {name: figures.get(name) for name in FIGURES}
                    rows.append({**point.columns, "method": method, "seed": seed} | measured | known)
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """A table per gate, individual strength, kind of noise and sweep, each with CoNAL against the baselines."""
        parts = [self._explain(table)]
        groups = group_by(sweep_rows(table), "gate", "individual_strength", "common_type", "varies")
        for (gate, strength, kind, varies), rows in groups.items():
            title = f"## {kind}, {INTERPRETATIONS[strength]}, {GATES[gate]}, against {varies}"
            parts += [title, _section(rows, varies)]
        return self.document(*parts)

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """A chart per gate, individual strength and sweep, the kinds of noise side by side."""
        from conal.report.charts import lines

        groups = group_by(sweep_rows(table), "gate", "individual_strength", "varies")
        return {
            f"{self.stem}-{varies}-individual-{strength:g}" + ("" if gate == PAPERS_GATE else f"-{gate}"): lines(
                _means([r for r in rows if r["method"] in DRAWN]),
                x="value",
                x_title=f"{varies} of common noise",
                y_title="test accuracy (%)",
                by="common_type",
                title=f"{self.title}: {INTERPRETATIONS[strength]}, {GATES[gate]}",
            )
            for (gate, strength, varies), rows in groups.items()
        }

    def _seeds(self, point: Point) -> range:
        return range(point.times * len(self.seeds))

    def _run(self, point: Point, method: str, seed: int) -> Run:
        if method == CEILING:  # which does not see the crowd: one run for all crowds of the same instances
            point = Point(PAPERS_GATE, "strength", MIDDLE["strength"], TYPES[0], GOOD)
        values = MIDDLE | {point.varies: point.value}
        data = {
            **self._inputs(),
            **(self.quick_data if self.quick else {}),
            "gate": point.gate,
            "common_strength": values["strength"],
            "proportion": values["proportion"],
            "common_type": point.common_type,
            "individual_strength": point.individual_strength,
            "seed": seed,
        }
        parameters = {"epochs": 15 if self.quick else EPOCHS} | PAPERS.get(method, {})
        return Run(self.dataset, method, seed, "gold", data, self._backbone() | parameters)

    def _inputs(self) -> dict[str, Any]:
        """Settings of the dataset that select its form."""
        return {}

    def _backbone(self) -> dict[str, Any]:
        """Parameters of the classifier for this form, beyond the defaults."""
        return {}

    def _explain(self, table: pa.Table) -> str:
        rows = sweep_rows(table)
        crowds = sorted({len(some) for some in group_by(rows, "method", *Point._fields[:-1]).values()})
        return notes(
            f"Test accuracy in percent, mean ± sample standard deviation over {' or '.join(map(str, crowds))} crowds. "
            "`gold` was trained on true labels: the ceiling.",
            f"The epoch is chosen on gold validation labels, as in the paper. {_training(rows)}",
            "*Strength*: off-diagonal mass of a row of the common confusion. *Proportion*: of the labels that follow "
            "it. While the strength varies, the proportion is 0.5; while the proportion varies, the strength is 0.4.",
            "`conal` has the paper's omega, of embeddings of length 1, which is between 0.27 and 0.73. The library's "
            "default learns its scale.",
            f"{MARKS['above'].strip()} marks baselines that are above CoNAL, {MARKS['below'].strip()} those below; no "
            f"mark: level. {RULE} Here, a family is one sweep of one kind of noise. The best baseline is the one with "
            "the best test accuracy at that value, which favours it. Forms of the paper's model "
            f"({', '.join(f'`{name}`' for name in OURS)}) do not count as baselines.",
            *([_FEW_CROWDS] if crowds[0] <= 3 else []),
            *self._about(),
        )

    def _about(self) -> tuple[str, ...]:
        """What readers should know about the crowds."""
        return ()


def sweep_rows(table: pa.Table) -> list[Row]:
    """Rows of a table; tables that do not name the gate are of the earlier one."""
    return [{"gate": "interaction", "best_epoch": None} | row for row in table.to_pylist()]


def _training(rows: list[Row]) -> str:
    """How long methods were trained, and whether it was long enough: how often the best epoch is one of the last."""
    chosen = [row["best_epoch"] for row in rows if row["best_epoch"] is not None]
    if not chosen:
        return "All methods were trained for 50 epochs with a patience of 15, which cuts some of them off."
    late = np.mean([epoch > 0.9 * EPOCHS for epoch in chosen])
    return (
        f"All methods are trained for {EPOCHS} epochs, without patience, and otherwise with their defaults, without a "
        f"grid search; in {100 * late:.0f} % of the runs the chosen epoch is among the last tenth."
    )


def _means(rows: list[Row]) -> pa.Table:
    points = []
    for (kind, value, method), some in group_by(rows, "common_type", "value", "method").items():
        percent = 100 * np.array(column(some, "test_accuracy"))
        spread = float(percent.std(ddof=1)) if len(percent) > 1 else 0.0
        mean = float(percent.mean())
        points.append({"common_type": kind, "value": value, "series": method, "mean": mean, "spread": spread})
    return pa.Table.from_pylist(points)


def _section(rows: list[Row], varies: str) -> str:
    values = list(group_by(rows, "value"))
    cells: Cells = group_by(rows, "method", "value")
    gaps = sweep_gaps(cells)
    body = [
        [f"`{name}`", *(_accuracy(cells, gaps, name, value) for value in values)] for name in group_by(rows, "method")
    ]
    table = markdown([varies, *(f"{value:g}" for value in values)], body)
    return "\n\n".join([table, _comparison(cells, gaps, values), _diagnosis(cells, values)])


def _accuracy(cells: Cells, gaps: Gaps, name: str, value: float) -> str:
    """With a mark where a baseline is above CoNAL or below."""
    gap = gaps.get((name, value))
    place = {"below": "above", "above": "below"}.get(gap.verdict, "") if gap is not None else ""
    return mean_and_spread(column(cells[name, value], "test_accuracy")) + MARKS.get(place, "")


def sweep_gaps(cells: Cells) -> Gaps:
    """CoNAL minus every baseline on the same crowds of one sweep, corrected for all of them."""
    return corrected(
        {
            (name, value): paired_difference(
                (column(cells["conal", value], "test_accuracy"), column(rows, "test_accuracy"))
            )
            for (name, value), rows in cells.items()
            if name not in (CEILING, *OURS)
        }
    )


def _mean(cells: Cells, method: str, value: float, figure: str = "test_accuracy") -> float:
    """In percent."""
    return float(100 * np.mean(column(cells[method, value], figure)))


def _best_baseline(cells: Cells, value: float) -> str:
    names = [name for name, at in cells if at == value and name not in (CEILING, *OURS)]
    return max(names, key=lambda name: _mean(cells, name, value))


def _comparison(cells: Cells, gaps: Gaps, values: list[float]) -> str:
    """In words: where CoNAL is above all baselines, where level with the best, and where behind."""
    places: dict[str, list[str]] = {}
    for value in values:
        best = _best_baseline(cells, value)
        text = f"{value:g}: {gaps[best, value]} against `{best}`"
        places.setdefault(_place(gaps, best, value), []).append(text)
    parts = [f"CoNAL is {place} at {'; '.join(places[place])}." for place in PLACES if place in places]
    return " ".join(["In points:", *parts])


def _place(gaps: Gaps, best: str, value: float) -> str:
    """One of :data:`PLACES`."""
    above, level, behind, unknown = PLACES
    verdict = gaps[best, value].verdict
    if verdict in ("unknown", "below"):
        return unknown if verdict == "unknown" else behind
    return above if {gap.verdict for (_, at), gap in gaps.items() if at == value} == {"above"} else level


def _diagnosis(cells: Cells, values: list[float]) -> str:
    """From the truth behind the crowds: how much there was to gain, and what CoNAL learned."""
    best = {value: _best_baseline(cells, value) for value in values}

    def loss(method: str, value: float) -> float:
        return _mean(cells, CEILING, value) - _mean(cells, method, value)

    def right(method: str, value: float) -> float:
        return _mean(cells, method, value, "label_accuracy")

    def learned(value: float, name: str) -> str:
        found = [each for each in column(cells["conal", value], name) if each is not None]
        return f"{np.mean(found):.3f}" if found else "-"

    rows: dict[str, Callable[[float], str]] = {
        "ceiling minus CoNAL, test accuracy": lambda v: f"{loss('conal', v):.1f}",
        "ceiling minus best baseline": lambda v: f"{loss(best[v], v):.1f}",
        "training labels right: Bayes-optimal, no features": lambda v: (
            f"{_mean(cells, 'conal', v, 'bayes_label_accuracy'):.1f}"
        ),
        "the same, omega known on average only": lambda v: f"{_mean(cells, 'conal', v, 'bayes_without_gate'):.1f}",
        "training labels right: CoNAL": lambda v: f"{right('conal', v):.1f}",
        "training labels right: best baseline": lambda v: f"{right(best[v], v):.1f}",
        "error per entry of the learned common confusion": lambda v: learned(v, "common_confusion_error"),
        "correlation of learned and true omega": lambda v: learned(v, "omega_correlation"),
    }
    body = [[title, *(figure(v) for v in values)] for title, figure in rows.items()]
    table = markdown([" ", *(f"{v:g}" for v in values)], body)
    return f"How much there was to gain, and what CoNAL learned, compared with the truth:\n\n{table}"


@register("synthetic")
class Synthetic(Sweep):
    """The paper's synthetic data: 8,000 training instances, 6 classes, 30 annotators, 3 labels each."""

    title = "Synthetic data: accuracy against common noise"
    dataset = "synthetic"
    quick_data: ClassVar[dict[str, Any]] = {"n_train": 1000, "n_valid": 300, "n_test": 500}

    def points(self) -> list[Point]:
        """All of both sweeps with the gate of Equation 3; for the other gate and the other reading, some strengths."""
        if self.quick:
            return [Point(PAPERS_GATE, v, at, TYPES[0], GOOD) for v, at in (("strength", 0.6), ("proportion", 0.7))]
        places = [(PAPERS_GATE, GOOD, "strength", value, MORE if value in ENDS else 1) for value in STRENGTHS]
        places += [(PAPERS_GATE, GOOD, "proportion", value, 1) for value in PROPORTIONS]
        places += [(PAPERS_GATE, POOR, "strength", value, 1) for value in ENDS]
        places += [("interaction", GOOD, "strength", value, 1) for value in STRENGTHS[::2]]
        return [
            Point(gate, varies, value, kind, strength, times)
            for kind in TYPES
            for gate, strength, varies, value, times in places
        ]

    def _about(self) -> tuple[str, ...]:
        return (
            "The paper's individual strength of 0.7 may mean accuracy or error. Both are shown, the latter at the ends "
            "of the sweep only.",
            "With the gate of Equation 3, some instances are difficult for all, and some annotators lean on common "
            "confusion everywhere. With the earlier gate of this library, nearly all of omega is particular to a pair "
            "of instance and annotator. How much omega varies is our choice: the paper gives only its mean.",
        )


@register("cifar10")
class Cifar10(Sweep):
    """CIFAR-10 with a simulated crowd: on features, which need no GPU, or on images with VGG-16."""

    title = "CIFAR-10: accuracy against common noise"
    dataset = "cifar10"
    quick_data: ClassVar[dict[str, Any]] = {"n_train": 2000, "n_valid": 1000}
    supports_images = True

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else 3), images=images)

    def _about(self) -> tuple[str, ...]:
        if self.images:
            return ("The network is VGG-16 on 40,000 labelled images.",)
        return (
            "The inputs are not images but features: 256 principal components of what EfficientNet-Lite0, trained on "
            "ImageNet, makes of the images at 96 pixels. The paper trains VGG-16 on the images.",
            "The crowd labels 10,000 images, in the paper 40,000; 1,000 others choose the epoch, 10,000 are for "
            "testing. The paper's sweep of the proportion, and its individual strength of 0.7 read as an error, are "
            "not run.",
        )

    def points(self) -> list[Point]:
        """The paper's five strengths."""
        types, strengths = (TYPES[:1], (0.6,)) if self.quick else (TYPES, STRENGTHS)
        return [Point(PAPERS_GATE, "strength", value, kind, GOOD) for kind in types for value in strengths]

    def _inputs(self) -> dict[str, Any]:
        return {"inputs": "images"} if self.images else {"inputs": "features", "n_train": 10_000, "n_valid": 1000}

    def _backbone(self) -> dict[str, Any]:
        return {"backbone": "vgg16", "lr": 0.001} if self.images else {}
