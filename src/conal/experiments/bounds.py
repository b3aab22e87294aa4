"""Theorem 1 on small crowds: the bound, the Bayes-optimal error, and the error of aggregation methods."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal import aggregation, theory
from conal._support.arrays import draw_from_rows
from conal.data.annotations import Annotations
from conal.errors import ConalWarning
from conal.experiments.base import Experiment, register
from conal.experiments.store import Store
from conal.experiments.tables import Row, markdown, notes, standard_error

__all__ = ["Bound", "SmallCrowd", "errors_of_methods", "random_crowd"]

FloatArray = npt.NDArray[np.float64]
METHODS = ("majority-vote", "one-coin", "dawid-skene")


class SmallCrowd(NamedTuple):
    """The parameters of a crowd that is small enough for the bound to be informative."""

    rho: FloatArray
    pi_g: FloatArray
    pi_r: FloatArray
    omega: FloatArray


def random_crowd(seed: int) -> SmallCrowd:
    """Two to five tasks, two or three classes, two to four annotators who are little better than chance; no zeros."""
    rng = np.random.default_rng(seed)
    N, C, R = int(rng.integers(2, 6)), int(rng.integers(2, 4)), int(rng.integers(2, 5))

    def matrices(*shape: int) -> FloatArray:
        return np.asarray(0.1 * np.eye(C) + 0.9 * rng.dirichlet(np.full(C, 12.0), size=(*shape, C)))

    return SmallCrowd(rng.dirichlet(np.full(C, 20.0), size=N), matrices(), matrices(R), rng.random((N, R)))


def errors_of_methods(crowd: SmallCrowd, n_draws: int, seed: int) -> dict[str, FloatArray]:
    """(n_draws,) error rate of every aggregator on labels drawn from the crowd, all annotators on all tasks."""
    rng = np.random.default_rng(seed)
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    for _ in range(n_draws):
        z, labels = _draw(crowd, rng)
        annotations = Annotations.from_matrix(labels, classes=range(crowd.rho.shape[1]))
        for name in METHODS:
            errors[name].append(float((_fit(name, annotations) != z).mean()))
    return {name: np.array(found) for name, found in errors.items()}


def _draw(crowd: SmallCrowd, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(N,) true classes and (N, R) labels."""
    N, R = crowd.omega.shape
    z = np.array([rng.choice(len(p), p=p) for p in crowd.rho])
    common = rng.random((N, R)) < crowd.omega
    rows = np.where(common[:, :, None], crowd.pi_g[z][:, None, :], crowd.pi_r[:, z].transpose(1, 0, 2))
    return z, draw_from_rows(rows, rng.random((N, R)))


def _fit(name: str, annotations: Annotations) -> npt.NDArray[np.int64]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)  # such crowds are too small for anything to converge on
        return aggregation.make(name, guard="off").fit(annotations).codes_


@register("bound")
class Bound(Experiment):
    """Random small crowds: the lower bound, the Bayes-optimal error, and the error of label-only methods."""

    title = "Theorem 1: the bound and the achievable error"
    minutes = 1.0
    full_size = (20, 300)
    """Number of crowds, and of draws from each."""
    quick_size = (5, 60)

    def table(self, store: Store) -> pa.Table:
        """One row per crowd: sizes, bound and tight bound, Bayes error and methods' errors with standard errors."""
        n_crowds, n_draws = self.quick_size if self.quick else self.full_size
        return pa.Table.from_pylist([self._row(number, n_draws) for number in range(n_crowds)])

    def _row(self, number: int, n_draws: int) -> Row:
        crowd = random_crowd(number)
        bound = theory.error_lower_bound(*crowd)
        best = theory.bayes_error(*crowd, n_draws=20 * n_draws, seed=number)
        row: Row = {
            "crowd": number,
            "instances": len(crowd.rho),
            "classes": crowd.rho.shape[1],
            "annotators": len(crowd.pi_r),
            "bound": bound.value,
            "tight_bound": bound.tight_value,
            "bayes_error": best.value,
            "bayes_standard_error": best.standard_error,
        }
        for name, errors in errors_of_methods(crowd, n_draws, seed=1000 + number).items():
            row |= {
                name: float(errors.mean()),
                f"{name} standard error": standard_error(errors),
            }
        return row

    def page(self, table: pa.Table) -> str:
        """Error rates in percent: the bounds, the Bayes-optimal decision, and methods."""
        text = notes(
            "Error rates in percent on random crowds of two to five tasks, without zero entries (epsilon is 0). The "
            "bound is at most 1 / number of tasks, so on real crowds it is not informative.",
            "Methods see only the labels; the Bayes-optimal decision knows the parameters of the crowd. ± is the "
            "standard error of the mean over drawn crowds; methods and the Bayes-optimal decision see different draws.",
            "*Bound* is the theorem as printed. *Tighter bound* is the line of its proof before the divergence of the "
            "two mixtures is replaced by the mixture of the divergences (log-sum inequality). That step can only lower "
            "the bound, so the paper's remark that telling common from individual noise lowers the bound is about this "
            "step, and no evidence that true labels become easier to infer.",
        )
        columns = ["bound", "tight_bound", "bayes_error", *METHODS]
        header = ["tasks", "classes", "annotators", "bound", "tighter bound", "Bayes-optimal", *METHODS]
        body = [
            [str(row["instances"]), str(row["classes"]), str(row["annotators"])]
            + [_percent(row, name) for name in columns]
            for row in table.to_pylist()
        ]
        return self.document(text, markdown(header, body))


def _percent(row: Row, name: str) -> str:
    error = row.get({"bayes_error": "bayes_standard_error"}.get(name, f"{name} standard error"))
    return f"{100 * row[name]:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")
