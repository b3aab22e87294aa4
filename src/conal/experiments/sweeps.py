"""Accuracy against the strength and the proportion of common noise, on simulated crowds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conal.experiments.base import (
    PAPER_METHODS,
    Experiment,
    every_method,
    gap_and_error,
    markdown,
    mean_and_spread,
    n_seeds,
    register,
)
from conal.experiments.bayes_labels import bayes_label_accuracy
from conal.experiments.runs import Run, load_data
from conal.experiments.store import Store

__all__ = ["Cifar10", "Sweep", "Synthetic"]

STRENGTHS = (0.4, 0.5, 0.6, 0.7, 0.8)
PROPORTIONS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7)
MIDDLE = {"strength": 0.4, "proportion": 0.5}
"""Where the other one is held: strength varies at proportion 0.5, proportion at strength 0.4."""
TYPES = ("asymmetric", "symmetric")
READINGS = {0.3: "individual accuracy 0.7", 0.7: "individual accuracy 0.3"}
"""Off-diagonal mass of an annotator's own confusion: the paper says 0.7, and calls such annotators good."""
CEILING = "gold"
OURS = ("conal", "conal-em", "xconal")
"""Forms of the paper's model, which are not its baselines."""
DRAWN = (*PAPER_METHODS[:-1], "conal-em", "conal")
"""Lines of the charts; tables have every method."""
FIGURES = (
    "test_accuracy",
    "label_accuracy",
    "bayes_label_accuracy",
    "common_confusion_error",
    "omega_correlation",
    "seconds",
)

Row = dict[str, Any]
Cells = dict[tuple[str, float], list[Row]]
"""Method and value of what varies, to the rows of all seeds."""


class Sweep(Experiment):
    """Two sweeps, two kinds of common noise and two readings of the individual strength, all methods."""

    dataset: ClassVar[str]
    quick_data: ClassVar[dict[str, Any]]

    def points(self) -> list[dict[str, Any]]:
        """What varies, what kind of noise, which reading, and the value."""
        strengths = (0.6,) if self.quick else STRENGTHS
        proportions = (0.7,) if self.quick else PROPORTIONS
        sweeps = [("strength", value) for value in strengths] + [("proportion", value) for value in proportions]
        types, readings = (TYPES[:1], [0.3]) if self.quick else (TYPES, list(READINGS))
        return [
            {"varies": varies, "value": value, "common_type": kind, "individual_strength": reading}
            for reading in readings
            for kind in types
            for varies, value in sweeps
        ]

    def runs(self) -> list[Run]:
        """Every method at every point, on as many crowds as there are seeds."""
        return [
            self._run(point, method, seed)
            for point in self.points()
            for method in every_method()
            for seed in self.seeds
        ]

    def table(self, store: Store) -> pa.Table:
        """One row per run."""
        rows = []
        for point in self.points():
            for seed in self.seeds:
                crowd = load_data(self._run(point, CEILING, seed))
                known = {"bayes_without_gate": bayes_label_accuracy(crowd, gate=False)}
                for method in every_method():
                    figures = store.require(self._run(point, method, seed))
                    measured = {name: figures.get(name) for name in FIGURES}
                    rows.append({**point, "method": method, "seed": seed} | measured | known)
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """A table per kind of noise, reading and sweep; CoNAL's distance from the best baseline in every column."""
        parts = [self._explain(table)]
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in table.to_pylist():
            groups.setdefault((row["individual_strength"], row["common_type"], row["varies"]), []).append(row)
        for (reading, kind, varies), rows in groups.items():
            parts += [f"## {kind}, {READINGS[reading]}, against {varies}", _section(rows, varies)]
        return self.document(*parts)

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """A chart per reading and sweep, the kinds of noise side by side."""
        from conal.report.charts import lines

        rows = table.to_pylist()
        charts = {}
        for reading, varies in dict.fromkeys((r["individual_strength"], r["varies"]) for r in rows):
            here = [r for r in rows if (r["individual_strength"], r["varies"]) == (reading, varies)]
            stem = f"{self.stem}-{varies}-individual-{reading:g}"
            title = f"{self.title}: {READINGS[reading]}"
            charts[stem] = lines(
                _means([r for r in here if r["method"] in DRAWN]),
                x="value",
                x_title=f"{varies} of common noise",
                y_title="test accuracy (%)",
                by="common_type",
                title=title,
            )
        return charts

    def _run(self, point: dict[str, Any], method: str, seed: int) -> Run:
        values = MIDDLE | {point["varies"]: point["value"]}
        data = {
            **self._inputs(),
            **(self.quick_data if self.quick else {}),
            "common_strength": values["strength"],
            "proportion": values["proportion"],
            "common_type": point["common_type"],
            "individual_strength": point["individual_strength"],
            "seed": seed,
        }
        parameters = {"epochs": 15} if self.quick else {"epochs": 50, "patience": 15}
        return Run(self.dataset, method, seed, "gold", data, self._backbone() | parameters)

    def _inputs(self) -> dict[str, Any]:
        """Which form of the dataset's features."""
        return {}

    def _backbone(self) -> dict[str, Any]:
        """Parameters beside the defaults that this form needs."""
        return {}

    def _explain(self, table: pa.Table) -> str:
        return (
            f"Test accuracy in percent, mean ± sample standard deviation over {n_seeds(table)} crowds. The epoch is "
            "chosen on gold validation labels, as in the paper; settings are the defaults, no grid is searched. "
            "`gold` was trained on true labels: the ceiling. "
            "*Strength* is the off-diagonal mass of a row of the common confusion; it varies at proportion 0.5, the "
            "proportion at strength 0.4. The paper's individual strength of 0.7 is read both ways."
        )


def _means(rows: list[dict[str, Any]]) -> pa.Table:
    groups: dict[tuple[Any, ...], list[float]] = {}
    for r in rows:
        groups.setdefault((r["common_type"], r["value"], r["method"]), []).append(100 * r["test_accuracy"])
    return pa.Table.from_pylist(
        [
            {
                "common_type": kind,
                "value": value,
                "series": method,
                "mean": float(np.mean(found)),
                "spread": float(np.std(found, ddof=1)) if len(found) > 1 else 0.0,
            }
            for (kind, value, method), found in groups.items()
        ]
    )


def _section(rows: list[Row], varies: str) -> str:
    values = list(dict.fromkeys(r["value"] for r in rows))
    cells: Cells = {}
    for row in rows:
        cells.setdefault((row["method"], row["value"]), []).append(row)
    names = list(dict.fromkeys(r["method"] for r in rows))
    body = [
        [f"`{name}`", *(mean_and_spread([r["test_accuracy"] for r in cells[name, v]]) for v in values)]
        for name in names
    ]
    table = markdown([varies, *(f"{value:g}" for value in values)], body)
    return "\n\n".join([table, _comparison(cells, values), _why(cells, values)])


def _mean(cells: Cells, method: str, value: float, figure: str = "test_accuracy") -> float:
    """In percent."""
    return float(100 * np.mean([r[figure] for r in cells[method, value]]))


def _best_baseline(cells: Cells, value: float) -> str:
    names = [name for name, at in cells if at == value and name not in (CEILING, *OURS)]
    return max(names, key=lambda name: _mean(cells, name, value))


def _comparison(cells: Cells, values: list[float]) -> str:
    """In words: where CoNAL is ahead of all baselines, where level, and where behind and by how much."""
    above, level, behind = "above every baseline", "level with the best baseline", "behind"
    found: dict[str, list[str]] = {above: [], level: [], behind: []}
    for value in values:
        best = _best_baseline(cells, value)
        ours, theirs = ([r["test_accuracy"] for r in cells[name, value]] for name in ("conal", best))
        gap, error = gap_and_error(ours, theirs)
        margin = 0.0 if error is None else error
        place = above if gap > margin else behind if gap < -margin else level
        spread = "" if error is None else f" ± {error:.1f}"
        found[place].append(f"{value:g}: {gap:+.1f}{spread} against `{best}`")
    parts = [f"CoNAL is {place} at {'; '.join(texts)}." for place, texts in found.items() if texts]
    note = (
        "Points, ± standard error of the difference over the same crowds; *level* is within one. The best baseline is "
        "the one with the best test accuracy at that value, which favours it; forms of the paper's model "
        f"({', '.join(f'`{name}`' for name in OURS)}) are no baselines."
    )
    return " ".join([*parts, note])


def _why(cells: Cells, values: list[float]) -> str:
    """From the truth behind the crowds: what there was to gain, and what CoNAL learned."""

    def learned(value: float, name: str) -> str:
        found = [r[name] for r in cells["conal", value] if r[name] is not None]
        return f"{np.mean(found):.3f}" if found else "-"

    best = {v: _best_baseline(cells, v) for v in values}
    rows = [
        ["ceiling less CoNAL, test accuracy"]
        + [f"{_mean(cells, CEILING, v) - _mean(cells, 'conal', v):.1f}" for v in values],
        ["ceiling less best baseline"] + [f"{_mean(cells, CEILING, v) - _mean(cells, best[v], v):.1f}" for v in values],
        ["training labels right: Bayes-optimal, no features"]
        + [f"{_mean(cells, 'conal', v, 'bayes_label_accuracy'):.1f}" for v in values],
        ["the same, omega known on average only"]
        + [f"{_mean(cells, 'conal', v, 'bayes_without_gate'):.1f}" for v in values],
        ["training labels right: CoNAL"] + [f"{_mean(cells, 'conal', v, 'label_accuracy'):.1f}" for v in values],
        ["training labels right: best baseline"]
        + [f"{_mean(cells, best[v], v, 'label_accuracy'):.1f}" for v in values],
        ["error per entry of the learned common confusion", *(learned(v, "common_confusion_error") for v in values)],
        ["correlation of learned and true omega", *(learned(v, "omega_correlation") for v in values)],
    ]
    return "What there was to gain, and what CoNAL learned, against the truth:\n\n" + markdown(
        [" ", *(f"{v:g}" for v in values)], rows
    )


@register("synthetic")
class Synthetic(Sweep):
    """The paper's synthetic data: 8,000 training instances, 6 classes, 30 annotators, 3 labels each."""

    title = "Synthetic data: accuracy against common noise"
    dataset = "synthetic"
    quick_data: ClassVar[dict[str, Any]] = {"n_train": 1000, "n_valid": 300, "n_test": 500}


@register("cifar10")
class Cifar10(Sweep):
    """CIFAR-10 with a simulated crowd: on features, which need no GPU, or on images with VGG-16."""

    title = "CIFAR-10: accuracy against common noise"
    dataset = "cifar10"
    quick_data: ClassVar[dict[str, Any]] = {"n_train": 4000, "n_valid": 1000}
    knows_images = True

    def _inputs(self) -> dict[str, Any]:
        return {"inputs": "images" if self.images else "features"}

    def _backbone(self) -> dict[str, Any]:
        return {"backbone": "vgg16", "lr": 0.001} if self.images else {}
