"""Grades on a scale: the error of ``ordinal`` beside Dawid-Skene, the mean and the median, with few and many labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from conal import aggregation
from conal.aggregation.arrays import FloatArray
from conal.aggregation.held_out import fifths, held_out_scores
from conal.data.annotations import Annotations
from conal.datasets import OrdinalTruth, ordinal_crowd
from conal.datasets.base import data_folder
from conal.errors import ConalWarning, InputError
from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import paired_difference
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, notes
from conal.metrics import mean_absolute_error

__all__ = ["OrdinalScales"]

GENERATORS: dict[Literal["discrete", "rounded"], str] = {
    "discrete": "normal density at the levels",
    "rounded": "normal variable, rounded",
}
LEVELS = (5, 7)
LABELS = (5, 10, 20, 50, 100)
FEW = (5, 20, 100)
SIZE: dict[str, Any] = {"n_tasks": 500, "labels_per_task": 5}
CROWDS = 20
OURS = "ordinal"
NOT_RECOVERED: dict[str, float | None] = dict.fromkeys(("matrix_error", "bias_correlation", "spread_correlation"))
OTHERS = ("dawid-skene", "dawid-skene, median", "mean, rounded", "mean", "median")
REAL = "cebab_stars"
ON_REAL: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: ("ordinal", {}),
    "dawid-skene": ("dawid-skene", {}),
    "dawid-skene, prior=1": ("dawid-skene", {"prior": 1.0}),
    "backoff": ("backoff", {}),
}
"""Models whose held-out likelihood is compared on the real crowd; without a prior, matrices rule labels out."""


@register("ordinal")
class OrdinalScales(Experiment):
    """Mean absolute error on simulated crowds of 5 and 7 levels, and held-out likelihood on a real one."""

    title = "Grades on a scale"
    minutes = 12.0

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else CROWDS), images=images)

    def table(self, store: Store) -> pa.Table:
        """A row per crowd and way to aggregate it; of the real crowd, one per set of held-out labels and model."""
        rows = [
            row
            for fall_off in GENERATORS
            for levels in LEVELS
            for labels in (FEW if self.quick else LABELS)
            for seed in self.seeds
            for row in _simulated(fall_off, levels, labels, seed)
        ]
        return pa.Table.from_pylist([*rows, *(row for seed in range(5) for row in _real(seed))])

    def page(self, table: pa.Table) -> str:
        """Errors, and by how much those of the others are higher."""
        rows = table.to_pylist()
        simulated = [row for row in rows if row["row"] in GENERATORS]
        crowds = len(set(column(simulated, "seed")))
        text = notes(
            f"Mean absolute error in levels, {crowds} simulated crowds per line (`conal.datasets.ordinal_crowd`): "
            f"{SIZE['n_tasks']} tasks with {SIZE['labels_per_task']} labels each, annotators with a bias (standard "
            "deviation 0.5 levels), a slope (0.15 around 1) and a spread (median 1 level), and 2 % guesses.",
            f"*discrete*: labels fall off by a {GENERATORS['discrete']}, as the model has it. *rounded*: a "
            f"{GENERATORS['rounded']}, which it has not.",
            "`ordinal` is the posterior median; beside it the label and the posterior median of `dawid-skene`, and the "
            "mean and the median of a task's labels. After the semicolon: how much higher the error is than that of "
            "`ordinal`, with the 95 % interval of the difference over crowds.",
        )
        header = ["generator", "levels", "labels per annotator", f"`{OURS}`", *OTHERS]
        groups = group_by(simulated, "row", "levels", "labels").items()
        body = [[kind, str(levels), str(labels), *_cells(some)] for (kind, levels, labels), some in groups]
        return self.document(text, markdown(header, body), *_page_of_recovery(simulated), *_page_of_real(rows))


def _simulated(fall_off: Literal["discrete", "rounded"], levels: int, labels: int, seed: int) -> Iterator[Row]:
    crowd, truth = ordinal_crowd(n_levels=levels, labels_per_annotator=labels, fall_off=fall_off, seed=seed, **SIZE)
    at = {"row": fall_off, "levels": levels, "labels": labels, "seed": seed}
    models = {name: _fitted(name, crowd) for name in (OURS, "dawid-skene")}
    found = {name: _recovered(model, truth) for name, model in models.items()}
    for method, error in _errors(crowd, truth, models):
        yield at | {"method": method, "error": error, "held_out": None} | found.get(method, NOT_RECOVERED)


def _recovered(model: Any, truth: OrdinalTruth) -> dict[str, float | None]:
    """How far fitted matrices are from the generator's, and how well biases and spreads follow its own."""
    if not isinstance(model, aggregation.Ordinal):
        return NOT_RECOVERED | {"matrix_error": _distance(model.confusion_, truth)}
    return {
        "matrix_error": _distance(model.fall_off_, truth),
        "bias_correlation": float(np.corrcoef(model.bias_, truth.bias)[0, 1]),
        "spread_correlation": float(np.corrcoef(np.log(model.spread_), np.log(truth.spread))[0, 1]),
    }


def _distance(matrices: FloatArray, truth: OrdinalTruth) -> float:
    """Mean total variation distance between the rows of annotators' matrices and the true ones."""
    return float(np.abs(matrices - truth.confusion).sum(-1).mean() / 2)


def _errors(crowd: Annotations, truth: OrdinalTruth, models: dict[str, Any]) -> Iterator[tuple[str, float]]:
    wanted = crowd.classes[truth.z]
    labels = crowd.classes[crowd.labels].astype(np.float64)
    means = np.add.reduceat(labels, crowd.indptr[:-1]) / crowd.labels_per_task()
    found = {
        OURS: models[OURS].scores_["median"].to_numpy(),
        "dawid-skene": models["dawid-skene"].labels_,
        "dawid-skene, median": models["dawid-skene"].scores_["median"].to_numpy(),
        "mean, rounded": np.round(means),
        "mean": means,
        "median": np.array([np.median(own) for own in np.split(labels, crowd.indptr[1:-1])]),
    }
    for method, guess in found.items():
        yield method, mean_absolute_error(wanted, guess)


def _real(seed: int) -> Iterator[Row]:
    """Mean log-likelihood of a fifth of the real crowd's labels under models of the others; nothing without data."""
    try:
        folder = data_folder(f"people-and-llms/{REAL}")
    except InputError:
        return
    crowd = Annotations.read(folder / "label.csv", ordinal=True)
    rest, held_out = next(fifths(crowd, np.random.default_rng(100 + seed)))
    at = {"row": REAL, "levels": crowd.n_classes, "labels": None, "seed": seed, "error": None} | NOT_RECOVERED
    for method, (name, settings) in ON_REAL.items():
        model = _fitted(name, rest, **settings)
        scores = held_out_scores(crowd, held_out, model.probas_, model.confusion_)
        yield at | {"method": method, "held_out": float(scores.mean())}


def _fitted(name: str, crowd: Annotations, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        return aggregation.make(name, verbose=False, **settings).fit(crowd)


def _cells(rows: list[Row]) -> list[str]:
    errors = {method: np.array(column(some, "error")) for method, some in group_by(rows, "method").items()}
    return [f"**{errors[OURS].mean():.3f}**", *(_beside(errors[method], errors[OURS]) for method in OTHERS)]


def _beside(theirs: Any, ours: Any) -> str:
    gap = paired_difference((theirs, ours), scale=1)
    return f"{theirs.mean():.3f}; {gap.written(3)}"


def _page_of_recovery(rows: list[Row]) -> list[str]:
    text = (
        "How well the fall-off is recovered: mean total variation distance between the rows of annotators' true "
        "matrices and those by the fitted bias, slope and spread alone, beside that of `dawid-skene`'s matrices; and "
        "the correlation over annotators of fitted and true biases, and of the logarithms of the spreads."
    )
    header = ["generator", "levels", "labels per annotator", f"`{OURS}`", "`dawid-skene`", "biases", "spreads"]
    body = []
    for (kind, levels, labels), some in group_by(rows, "row", "levels", "labels").items():
        by = group_by(some, "method")
        ours, theirs = by[OURS], by["dawid-skene"]
        figures = [np.mean(column(each, "matrix_error")) for each in (ours, theirs)]
        figures += [np.mean(column(ours, name)) for name in ("bias_correlation", "spread_correlation")]
        body.append([kind, str(levels), str(labels), *(f"{figure:.2f}" for figure in figures)])
    return ["## The fall-off", text, markdown(header, body)]


def _page_of_real(rows: list[Row]) -> list[str]:
    by = group_by((row for row in rows if row["row"] == REAL), "method")
    if not by:
        return []
    ours = column(by[OURS], "held_out")
    text = (
        "The stars of restaurant reviews by people and language models (`people-and-llms/cebab_stars`), which have no "
        f"true labels: mean log-likelihood of a held-out fifth of the labels, {len(ours)} times, and the difference "
        "from `ordinal` with its 95 % interval."
    )
    body = []
    for method, some in by.items():
        theirs = column(some, "held_out")
        gap = paired_difference((theirs, ours), scale=1).written(3)
        body.append([f"`{method}`", f"{np.mean(theirs):.3f}", "" if method == OURS else gap])
    return ["## A real crowd", text, markdown(["model", "log-likelihood per label", "difference"], body)]
