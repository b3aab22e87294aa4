"""Accuracy against the strength and the proportion of common noise, on simulated crowds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conal.experiments.base import QUICK, Experiment, markdown, mean_and_spread, register
from conal.experiments.runs import Run
from conal.experiments.store import Store

__all__ = ["Cifar10", "Sweep", "Synthetic"]

STRENGTHS = (0.4, 0.5, 0.6, 0.7, 0.8)
PROPORTIONS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7)
MIDDLE = {"strength": 0.4, "proportion": 0.5}
"""Where the other one is held: strength varies at proportion 0.5, proportion at strength 0.4."""
TYPES = ("asymmetric", "symmetric")
READINGS = {0.3: "individual accuracy 0.7", 0.7: "individual accuracy 0.3"}
"""Off-diagonal mass of an annotator's own confusion: the paper says 0.7, and calls such annotators good."""
METHODS = ("dl-mv", "dl-cl", "doctor-net", "anno-reg", "max-mig", "dl-glad", "dl-wc", "aggnet", "conal-em", "conal")
FIGURES = ("test_accuracy", "label_accuracy", "common_confusion_error", "omega_correlation", "seconds")


class Sweep(Experiment):
    """Two sweeps, two kinds of common noise and two readings of the individual strength, all methods."""

    dataset: ClassVar[str]
    data: ClassVar[dict[str, Any]]
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
        return [self._run(point, method, seed) for point in self.points() for method in METHODS for seed in self.seeds]

    def table(self, store: Store) -> pa.Table:
        """One row per run."""
        rows = []
        for point in self.points():
            for method in METHODS:
                for seed in self.seeds:
                    figures = store.get(self._run(point, method, seed)) or {}
                    rows.append({**point, "method": method, "seed": seed} | {k: figures.get(k) for k in FIGURES})
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """A table per kind of noise, reading and sweep; CoNAL's distance from the best baseline in every column."""
        parts = [f"# {self.title}", *([QUICK] if self.quick else []), self._explain()]
        rows = table.to_pylist()
        keys = list(dict.fromkeys((r["individual_strength"], r["common_type"], r["varies"]) for r in rows))
        for reading, kind, varies in keys:
            here = [
                r for r in rows if (r["individual_strength"], r["common_type"], r["varies"]) == (reading, kind, varies)
            ]
            parts += [f"## {kind}, {READINGS[reading]}, against {varies}", _body(here, varies)]
        return "\n\n".join(parts) + "\n"

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """A chart per reading and sweep, the kinds of noise side by side."""
        from conal.charts import lines

        rows = table.to_pylist()
        charts = {}
        for reading, varies in dict.fromkeys((r["individual_strength"], r["varies"]) for r in rows):
            here = [r for r in rows if (r["individual_strength"], r["varies"]) == (reading, varies)]
            stem = f"{self.name}-{varies}-individual-{reading:g}"
            title = f"{self.title}: {READINGS[reading]}" + (" (reduced size)" if self.quick else "")
            charts[stem] = lines(
                _means(here),
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
            **(self.quick_data if self.quick else self.data),
            "common_strength": values["strength"],
            "proportion": values["proportion"],
            "common_type": point["common_type"],
            "individual_strength": point["individual_strength"],
            "seed": seed,
        }
        parameters = {"epochs": 15} if self.quick else {"epochs": 50, "patience": 15}
        return Run(self.dataset, method, seed, "gold", data, parameters)

    def _explain(self) -> str:
        return (
            f"Test accuracy in percent, mean ± sample standard deviation over {len(self.seeds)} crowds. The epoch is "
            "chosen on gold validation labels, as in the paper; settings are the defaults, no grid is searched. "
            "*Strength* is the off-diagonal mass of a row of the common confusion; it varies at proportion 0.5, the "
            "proportion at strength 0.4. The paper's individual strength of 0.7 is read both ways."
        )


def _means(rows: list[dict[str, Any]]) -> pa.Table:
    groups: dict[tuple[Any, ...], list[float]] = {}
    for r in rows:
        if r["test_accuracy"] is not None:
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


def _body(rows: list[dict[str, Any]], varies: str) -> str:
    values = list(dict.fromkeys(r["value"] for r in rows))
    of = {(m, v): [r for r in rows if (r["method"], r["value"]) == (m, v)] for m in METHODS for v in values}
    body = [
        [f"`{method}`", *(mean_and_spread([r["test_accuracy"] for r in of[method, v]]) for v in values)]
        for method in METHODS
    ]
    return "\n\n".join(
        [markdown([varies, *(f"{value:g}" for value in values)], body), _comparison(of, values), _why(of, values)]
    )


def _comparison(of: dict[tuple[str, float], list[dict[str, Any]]], values: list[float]) -> str:
    """In words: where CoNAL is ahead of all baselines, and where it is not and by how much."""

    def mean(method: str, value: float) -> float:
        return float(100 * np.mean([r["test_accuracy"] for r in of[method, value]]))

    parts = []
    for value in values:
        best = max((m for m in METHODS if not m.startswith("conal")), key=lambda m: mean(m, value))
        gap = mean("conal", value) - mean(best, value)
        parts.append(f"{value:g}: {gap:+.1f} points against `{best}`")
    return "CoNAL against the best baseline: " + "; ".join(parts) + "."


def _why(of: dict[tuple[str, float], list[dict[str, Any]]], values: list[float]) -> str:
    """From the truth behind the crowds: how well CoNAL recovered the common confusion and omega."""

    def average(value: float, name: str) -> str:
        found = [r[name] for r in of["conal", value] if r[name] is not None]
        return f"{np.mean(found):.3f}" if found else "-"

    rows = [
        ["mean error of the common confusion", *(average(v, "common_confusion_error") for v in values)],
        ["correlation of omega", *(average(v, "omega_correlation") for v in values)],
    ]
    return "What CoNAL learned, against the truth:\n\n" + markdown([" ", *(f"{v:g}" for v in values)], rows)


@register("synthetic")
class Synthetic(Sweep):
    """The paper's synthetic data: 8,000 training instances, 6 classes, 30 annotators, 3 labels each."""

    title = "Synthetic data: accuracy against common noise"
    dataset = "synthetic"
    data: ClassVar[dict[str, Any]] = {}
    quick_data: ClassVar[dict[str, Any]] = {"n_train": 1000, "n_valid": 300, "n_test": 500}


@register("cifar10")
class Cifar10(Sweep):
    """CIFAR-10 with a simulated crowd, on features that are there without a GPU."""

    title = "CIFAR-10: accuracy against common noise"
    dataset = "cifar10"
    data: ClassVar[dict[str, Any]] = {}
    quick_data: ClassVar[dict[str, Any]] = {"n_valid": 45_000}
