"""Theorem 1 on random small crowds: the bound, the Bayes-optimal error, and the error of aggregators."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import sem

from conal import aggregation, theory
from conal._arrays import FloatArray, draw_from_rows
from conal.data.annotations import Annotations
from studies.runs import Options, Setting
from studies.tables import Row, Summary, Table, Tables

PARTS = ("bound",)
CROWDS, DRAWS = 20, 300
METHODS = ("majority-vote", "one-coin", "dawid-skene")


class SmallCrowd(NamedTuple):
    """The parameters of a crowd that is small enough for the bound to be informative."""

    rho: FloatArray
    pi_g: FloatArray
    pi_r: FloatArray
    omega: FloatArray


def runs(options: Options) -> list[Setting]:
    """A setting per crowd."""
    options.pick_methods(METHODS)
    return [{"part": "bound", "crowd": number, "draws": DRAWS} for number in options.seeds_or(CROWDS)]


def random_crowd(seed: int) -> SmallCrowd:
    """Two to five tasks, two or three classes, two to four annotators who are little better than chance; no zeros."""
    rng = np.random.default_rng(seed)
    N, C, R = int(rng.integers(2, 6)), int(rng.integers(2, 4)), int(rng.integers(2, 5))

    def matrices(*shape: int) -> FloatArray:
        return np.asarray(0.1 * np.eye(C) + 0.9 * rng.dirichlet(np.full(C, 12.0), size=(*shape, C)))

    return SmallCrowd(rng.dirichlet(np.full(C, 20.0), size=N), matrices(), matrices(R), rng.random((N, R)))


def run(setting: Setting) -> Row:
    """Sizes, bound and tighter bound, Bayes error and aggregators' errors with standard errors."""
    number, draws = setting["crowd"], setting["draws"]
    crowd = random_crowd(number)
    bound, best = theory.error_lower_bound(*crowd), theory.bayes_error(*crowd, n_draws=20 * draws, seed=number)
    row: Row = {
        "instances": len(crowd.rho),
        "classes": crowd.rho.shape[1],
        "annotators": len(crowd.pi_r),
        "bound": bound.value,
        "tight_bound": bound.tight_value,
        "bayes_error": best.value,
        "bayes_standard_error": best.standard_error,
    }
    errors = np.array([_errors(crowd, rng) for rng in [np.random.default_rng(1000 + number)] for _ in range(draws)])
    for name, each in zip(METHODS, errors.T, strict=True):
        row |= {name: float(each.mean()), f"{name} standard error": float(sem(each))}
    return row


def _errors(crowd: SmallCrowd, rng: np.random.Generator) -> list[float]:
    """The error rate of every aggregator on labels drawn from the crowd, all annotators on all tasks."""
    N, R = crowd.omega.shape
    z = np.array([rng.choice(len(p), p=p) for p in crowd.rho])
    common = rng.random((N, R)) < crowd.omega
    rows = np.where(common[:, :, None], crowd.pi_g[z][:, None, :], crowd.pi_r[:, z].transpose(1, 0, 2))
    labels = Annotations.from_matrix(draw_from_rows(rows, rng.random((N, R))), classes=range(crowd.rho.shape[1]))
    return [float((aggregation.make(name, guard="off").fit(labels).codes_ != z).mean()) for name in METHODS]


def summarise(tables: Tables) -> Summary:
    """Error rates in percent."""

    def cell(row: Row, name: str) -> str:
        error = row.get({"bayes_error": "bayes_standard_error"}.get(name, f"{name} standard error"))
        return f"{100 * row[name]:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")

    note = (
        "Error rates in percent, ± standard error. The bound is at most 1 / number of tasks, so on real crowds it is "
        "not informative. The tighter bound is the line of the proof before the log-sum inequality. The Bayes-optimal "
        "decision knows the parameters, the aggregators see labels only."
    )
    shown = ["bound", "tight_bound", "bayes_error", *METHODS]
    sizes = ["instances", "classes", "annotators"]
    body = [[*(str(row[s]) for s in sizes), *(cell(row, name) for name in shown)] for row in tables["bound"]]
    header = ["tasks", *sizes[1:], "bound", "tighter bound", "Bayes-optimal", *(f"`{name}`" for name in METHODS)]
    return Summary([Table("The bound and the achievable error", header, body, note)])
