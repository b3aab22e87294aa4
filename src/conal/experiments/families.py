"""Group-wise confusion on simulated crowds whose annotators come in families."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.metrics import adjusted_rand_score

from conal import aggregation
from conal.data.annotations import Annotations
from conal.datasets.crowd import CrowdTruth, simulate_crowd
from conal.errors import ConalWarning
from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds, notes
from conal.parameters.simulation import CrowdSettings

__all__ = ["WAYS", "Families", "crowd_of_families"]

N_CLASSES, LABELS_PER_TASK = 4, 5
SIZES = (20, 50, 100, 200)
"""Mean numbers of labels per annotator."""
CROWD: dict[str, Any] = {
    "n_annotators": 15,
    "families": 3,
    "family_share": 0.8,
    "labels_per_instance": LABELS_PER_TASK,
    "individual_strength": 0.5,
    "proportion": 0.3,
    "gate_scale": 0.0,
}
"""What differs from the generator's defaults: three families of five, who err more like these than like the crowd."""
GIVEN, COMMON, SEPARATE = "families given", "common + individual", "separate families"
LEARNED = ("3 groups learned", "groups learned, and their number")
NO_POOLING = 0.01
TINY = 1e-12

Answer = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]
"""The class of every task, and the group of every annotator where there are groups."""
WAYS: dict[str, Callable[[Annotations, CrowdTruth], Answer]] = {
    "`dawid-skene`": lambda crowd, truth: _fitted(crowd, "dawid-skene"),
    "`backoff`": lambda crowd, truth: _fitted(crowd, "backoff"),
    COMMON: lambda crowd, truth: _fitted(crowd, "common-confusion"),
    SEPARATE: lambda crowd, truth: _separately(crowd, truth),
    "families not drawn to the crowd": lambda crowd, truth: _grouped(crowd, _families(truth), pooling=NO_POOLING),
    GIVEN: lambda crowd, truth: _grouped(crowd, _families(truth)),
    LEARNED[0]: lambda crowd, truth: _grouped(crowd, 3),
    LEARNED[1]: lambda crowd, truth: _grouped(crowd, "auto"),
}
AGAINST = tuple(WAYS)[2:5]
"""What given families are compared with."""


@register("families")
class Families(Experiment):
    """Accuracy of ``group-confusion`` and of models without one of its levels, and whether the families are found."""

    title = "Families of annotators"
    minutes = 4.0

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else 20), images=images)

    def table(self, store: Store) -> pa.Table:
        """One row per number of labels, crowd and way."""
        sizes = SIZES[:2] if self.quick else SIZES
        return pa.Table.from_pylist([row for n in sizes for seed in self.seeds for row in _rows(n, seed)])

    def page(self, table: pa.Table) -> str:
        """Accuracy by number of labels, with differences and the agreement of learned groups with the families."""
        text = notes(
            f"Share of right labels in percent on {n_seeds(table)} simulated crowds for each number of labels: three "
            f"families of five annotators, {LABELS_PER_TASK} labels per task, {N_CLASSES} classes.",
            f"*{COMMON}* is `common-confusion`; *{SEPARATE}* aggregates the labels of each family by itself "
            "(`backoff`) and multiplies their posteriors; all below are `group-confusion`.",
            "The second table has the gain of given families in points, starred unless it is level, and how well "
            f"learned groups are the families: the adjusted Rand index, 1 if they are, 0 for chance. {RULE} "
            f"{_left_out(table)}",
        )
        by = group_by(table.to_pylist(), "method", "labels")
        sizes = sorted({n for _, n in by})
        header = ["", *(f"{n} labels each" for n in sizes)]
        accuracy = [[way, *(f"{100 * np.mean(column(by[way, n], 'accuracy')):.1f}" for n in sizes)] for way in WAYS]
        gained = corrected({(way, n): _gain(by[GIVEN, n], by[way, n]) for way in AGAINST for n in sizes})
        gains = [[f"{GIVEN} against {way}", *(gained[way, n].starred for n in sizes)] for way in AGAINST]
        apart = group_by((row for row in table.to_pylist() if row["families_differ"]), "method", "labels")
        found = [[f"adjusted Rand index, {way}", *(_rand(apart.get((way, n), [])) for n in sizes)] for way in LEARNED]
        return self.document(text, markdown(header, accuracy), markdown(header, gains + found))


def crowd_of_families(n: int, seed: int, **changes: Any) -> tuple[Annotations, CrowdTruth]:
    """A crowd whose annotators have n labels each on average, and its truth."""
    n_tasks = CROWD["n_annotators"] * n // LABELS_PER_TASK
    rng = np.random.default_rng(seed)
    z = rng.integers(N_CLASSES, size=n_tasks)
    features = rng.standard_normal((n_tasks, 1))  # omega is the same for all, so they do not matter
    return simulate_crowd(z, features, range(N_CLASSES), CrowdSettings(**CROWD | changes, seed=seed))


def _rows(n: int, seed: int) -> Iterator[Row]:
    crowd, truth = crowd_of_families(n, seed)
    for way, infer in WAYS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConalWarning)
            codes, groups = infer(crowd, truth)
        found: Row = {
            "families_differ": _differ(truth),
            "accuracy": float((codes == truth.z).mean()),
            "n_groups": None,
            "rand": None,
        }
        if groups is not None:
            rand = float(adjusted_rand_score(truth.groups, groups))
            found |= {"n_groups": len(np.unique(groups)), "rand": rand}
        yield {"labels": n, "method": way, "seed": seed} | found


def _differ(truth: CrowdTruth) -> bool:
    """Whether no two families confuse exactly the same: by chance, some do, and nothing tells them apart."""
    assert truth.pi_f is not None  # noqa: S101 - these crowds have families
    return len(np.unique(truth.pi_f, axis=0)) == truth.settings.families


def _left_out(table: pa.Table) -> str:
    """Which crowds do not count for the index."""
    alike = {row["seed"] for row in table.to_pylist() if not row["families_differ"]}
    if not alike:
        return ""
    return f"In {len(alike)} of these crowds two families have the same confusion by chance; they do not count for it."


def _families(truth: CrowdTruth) -> list[str]:
    assert truth.groups is not None  # noqa: S101 - these crowds have families
    return [f"family {k}" for k in truth.groups.tolist()]


def _fitted(crowd: Annotations, name: str) -> Answer:
    return aggregation.make(name, verbose=False).fit(crowd).codes_, None


def _grouped(crowd: Annotations, groups: Any, **parameters: Any) -> Answer:
    fitted = aggregation.GroupConfusion(groups=groups, verbose=False, **parameters).fit(crowd)
    return fitted.codes_, fitted.group_of_


def _separately(crowd: Annotations, truth: CrowdTruth) -> Answer:
    """Every family as a crowd of its own, by ``backoff``; their posteriors are multiplied."""
    assert truth.groups is not None  # noqa: S101 - these crowds have families
    log_joint = np.zeros((crowd.n_tasks, crowd.n_classes))
    for k in range(truth.settings.families):
        members = truth.groups[crowd.annotators] == k
        fitted = aggregation.Backoff(verbose=False).fit(crowd.select(members))
        log_joint += np.log(np.maximum(fitted.probas_, TINY))
    return log_joint.argmax(1), truth.groups


def _gain(ours: list[Row], theirs: list[Row]) -> Difference:
    return paired_difference((column(ours, "accuracy"), column(theirs, "accuracy")))


def _rand(rows: list[Row]) -> str:
    return f"{np.mean(column(rows, 'rand')):.2f}" if rows else "\u2013"
