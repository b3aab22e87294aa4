"""People who mean harm: what they cost with and without a defence, who is found, and who is named by mistake."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.aggregation import DawidSkene, MajorityVote
from conal.aggregation.base import Aggregator
from conal.data.annotations import Annotations
from conal.datasets import load
from conal.datasets.adversaries import HONEST, Adversaries
from conal.datasets.base import CrowdDataset
from conal.datasets.label_sets import LABEL_SETS, label_set, true_codes
from conal.datasets.synthetic import synthetic
from conal.errors import ConalWarning
from conal.experiments.base import Experiment, register
from conal.experiments.runs import Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds
from conal.metrics.suspicion import Suspects, find_suspects, without
from conal.parameters.simulation import ADVERSARIES

__all__ = ["Attacks", "counted"]

SHARES = (0.1, 0.2, 0.3, 0.4)
CROWD: dict[str, Any] = {"n_train": 1500, "n_annotators": 60, "labels_per_instance": 4.0, "n_valid": 0, "n_test": 200}
"""What differs from the generator's defaults: 100 labels by each of 60 annotators, on tasks of six classes."""
FEW: dict[str, Any] = {"n_train": 690, "turn_after": 23}
"""Fewer tasks: 46 labels by an annotator in the mean, and hardly anybody with less than 30."""
AGGREGATORS: dict[str, Callable[[], Aggregator]] = {
    "dawid-skene": lambda: DawidSkene(verbose=False),
    "majority-vote": MajorityVote,
}
NETWORKS = ("xconal", "conal")
TRAINED = 5
"""Crowds of each kind and share on which networks are trained; the aggregators see all."""
REAL = ("labelme", "music")
KEYS = ("row", "kind", "share", "seed", "method", "defended", "accuracy", "harmful", "found", "named", "false", "who")


@register("attacks")
class Attacks(Experiment):
    """Five kinds of harm, at 10 to 40 % of the annotators; and who is named in crowds of honest people."""

    title = "People who mean harm"
    minutes = 10.0

    def __init__(self, *, quick: bool = False, seeds: int | None = None, images: bool = False) -> None:
        super().__init__(quick=quick, seeds=seeds or (2 if quick else 50), images=images)

    def points(self) -> list[tuple[str, float, int]]:
        """Kind, share and seed of every crowd."""
        kinds, shares = (ADVERSARIES[1:3], SHARES[1:2]) if self.quick else (ADVERSARIES, SHARES)
        return [(kind, share, seed) for kind in kinds for share in shares for seed in self.seeds]

    def runs(self) -> list[Run]:
        """Networks on a few of the crowds, with and without defence."""
        return [self._run(method, *point, defend) for method, point, defend in self._trained()]

    def _trained(self) -> list[tuple[str, tuple[str, float, int], bool]]:
        some = [point for point in self.points() if point[2] < (1 if self.quick else TRAINED)]
        return [(method, point, defend) for method in NETWORKS for point in some for defend in (False, True)]

    def _run(self, method: str, kind: str, share: float, seed: int, defend: bool) -> Run:
        data = _settings(kind, share, seed) | {"defend": defend}
        parameters = {"epochs": 5} if self.quick else {}
        return Run("attacked", method, seed, "own", data=data, parameters=parameters)

    def table(self, store: Store) -> pa.Table:
        """Rows of accuracies, of people found, and of people named in real crowds."""
        rows: list[Row] = []
        for method, (kind, share, seed), defend in self._trained():
            accuracy = store.require(self._run(method, kind, share, seed, defend))["label_accuracy"]
            at = {"kind": kind, "share": share, "seed": seed}
            rows.append(at | {"row": "accuracy", "method": method, "defended": defend, "accuracy": accuracy})
        for point in self.points():
            rows += _labels_alone(*point)
        rows += [_few_labels(*point) for point in self.points() if point[1] == SHARES[1]]
        for name in () if self.quick else (*LABEL_SETS, *REAL):
            rows += _real(name)
        return pa.Table.from_pylist([{key: row.get(key) for key in KEYS} for row in rows])

    def page(self, table: pa.Table) -> str:
        """Accuracy by kind and share, who is found, and who is named among honest people."""
        rows = group_by(table.to_pylist(), "row")
        text = (
            "Simulated crowds of 1,500 tasks, six classes and 60 annotators with 100 labels each, of whom a share "
            f"means harm in one of five ways (`conal simulate --adversaries`). {n_seeds(table)} crowds for each kind "
            f"and share for aggregators, and at most {TRAINED} for networks. *Defended*: by `--defend`, which leaves "
            "out answers that do not depend on the task and counts copies once, and for majority vote leaves out rings "
            "too."
        )
        parts = [text, "## Cleaned labels that are right, in percent", _accuracies(rows["accuracy"])]
        parts += ["## Who is found", _FOUND, _detection(rows["detection"])]
        parts += [f"Of annotators with {FEW['n_train'] * 4 // 60} labels each in the mean:", _detection(rows["few"])]
        if "real" in rows:
            parts += ["## Crowds of people and of language models", _REAL, _named(rows)]
        return self.document(*parts)


def _settings(kind: str, share: float, seed: int) -> dict[str, Any]:
    return CROWD | {"adversaries": kind, "adversary_share": share, "seed": seed}


def _labels_alone(kind: str, share: float, seed: int) -> Iterator[Row]:
    """Accuracy of the aggregators with and without defence, and who is found."""
    data = synthetic(**_settings(kind, share, seed))
    harmful = _harmful(data)
    at = {"kind": kind, "share": share, "seed": seed}
    found, plain = _suspects(data.annotations, harmful.time)
    for row in _by_aggregators(found, plain, data.y_true):
        yield at | {"row": "accuracy"} | row
    yield at | {"row": "detection"} | counted(found, harmful)


def _few_labels(kind: str, share: float, seed: int) -> Row:
    """Who is found where annotators gave few labels."""
    data = synthetic(**_settings(kind, share, seed) | FEW)
    harmful = _harmful(data)
    found, _ = _suspects(data.annotations, harmful.time)
    return {"kind": kind, "share": share, "seed": seed, "row": "few"} | counted(found, harmful)


def _harmful(data: CrowdDataset) -> Adversaries:
    assert data.truth is not None  # noqa: S101 - it is simulated
    assert data.truth.adversaries is not None  # noqa: S101
    return data.truth.adversaries


def _by_aggregators(found: Suspects, plain: Aggregator, z: npt.NDArray[np.int64]) -> Iterator[Row]:
    """Accuracy with and without defence; ``plain`` is Dawid-Skene of all labels, by which the suspects were found."""
    judged, crowd = z >= 0, found.found.crowd
    for name in AGGREGATORS:
        left = without(found, rings=name != "majority-vote").annotations
        for fitted, defend in ((plain if name == plain.name else _fit(name, crowd), False), (_fit(name, left), True)):
            yield {"method": name, "defended": defend, "accuracy": float((fitted.codes_ == z)[judged].mean())}


def _fit(name: str, crowd: Annotations) -> Aggregator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        return AGGREGATORS[name]().fit(crowd)


def _suspects(crowd: Annotations, times: Any = None) -> tuple[Suspects, Aggregator]:
    fitted = _fit("dawid-skene", crowd)
    return find_suspects(crowd, fitted.probas_, times=times), fitted


def counted(found: Suspects, truth: Adversaries) -> Row:
    """How many mean harm, how many of them are found, how many statements there are, and how many of these are false.

    A statement names an annotator, or a pair with the same answers. A pair is true if one copies the other, or both the
    same source.
    """
    bad, source = truth.kind != HONEST, truth.source
    people = np.concatenate([found.careless, found.turned, *(ring.members for ring in found.rings)]).astype(np.int64)
    r, s = found.copies.first, found.copies.second
    true = (source[r] == s) | (source[s] == r) | ((source[r] == source[s]) & (source[r] >= 0))
    caught = np.zeros(len(bad), dtype=bool)
    caught[np.concatenate([people, r[true], s[true]])] = True
    return {
        "harmful": int(bad.sum()),
        "found": int((caught & bad).sum()),
        "named": len(people) + len(true),
        "false": int((~bad[people]).sum() + (~true).sum()),
    }


def _real(name: str) -> Iterator[Row]:
    """Accuracy on a real crowd, and who is named in it and why."""
    if name in REAL:
        data = load(name)
        crowd, z = data.annotations, data.y_true
    else:
        table, truth = label_set(name)
        crowd = Annotations.from_frame(table)
        z = true_codes(crowd, truth)
    found, plain = _suspects(crowd, crowd.times)
    for row in _by_aggregators(found, plain, z):
        yield {"row": "real", "kind": name, "seed": 0} | row
    yield {"row": "named", "kind": name, "seed": 0, "who": _who(found, crowd, z)}


def _who(found: Suspects, crowd: Annotations, z: npt.NDArray[np.int64]) -> str:
    judged = z[crowd.tasks] >= 0
    given = np.bincount(crowd.annotators[judged], minlength=crowd.n_annotators)
    right = np.bincount(crowd.annotators[judged & (crowd.labels == z[crowd.tasks])], minlength=crowd.n_annotators)

    def told(people: npt.NDArray[np.int64]) -> str:
        shown = sorted(people.tolist(), key=lambda r: -given[r])[:4]
        more = f" and {len(people) - 4} more" if len(people) > 4 else ""
        return (
            ", ".join(f"{crowd.annotator_ids[r]} ({given[r]}, {right[r] / max(given[r], 1):.0%})" for r in shown) + more
        )

    said = [f"do not depend on the task: {told(found.careless)}"] if len(found.careless) else []
    said += [f"exchange classes: {told(ring.members)}" for ring in found.rings]
    pairs = zip(found.copies.first, found.copies.second, found.copies.agreed, found.copies.shared, strict=True)
    said += [f"{crowd.annotator_ids[r]} and {crowd.annotator_ids[s]} agree on {a} of {n}" for r, s, a, n in pairs]
    return "; ".join(said) or "nobody"


# ---------------------------------------------------------------- tables


def _percent(rows: list[Row], name: str = "accuracy") -> str:
    return f"{100 * float(np.mean(column(rows, name))):.1f}" if rows else ""


def _accuracies(rows: list[Row]) -> str:
    """A line for each kind and method, a column for each share, without and with defence."""
    cells = group_by(rows, "kind", "method", "share", "defended")
    shares = sorted(group_by(rows, "share"))
    body = []
    for kind, method in group_by(rows, "kind", "method"):
        pairs = ([cells.get((kind, method, share, each), []) for each in (False, True)] for share in shares)
        body.append([kind, f"`{method}`", *(f"{_percent(plain)} → {_percent(made)}" for plain, made in pairs)])
    return markdown(["", "", *(f"{share:.0%}, defended" for share in shares)], body)


_FOUND = (
    "By Dawid-Skene's posterior. *Recall*: the share of those who mean harm that are named; of copyists, those in a "
    "named pair with their source, or with another who copies it. *False*: the share of what is said that is wrong, "
    "over all crowds together. At most 5 % is the aim."
)


def _detection(rows: list[Row]) -> str:
    cells = group_by(rows, "kind", "share")
    shares = sorted(group_by(rows, "share"))
    body = [[kind, *(_found(cells[kind, share]) for share in shares)] for kind in group_by(rows, "kind")]
    return markdown(["", *(f"{share:.0%}: recall, false" for share in shares)], body)


def _found(rows: list[Row]) -> str:
    harmful, found, named, false = (sum(column(rows, name)) for name in ("harmful", "found", "named", "false"))
    return f"{found / max(harmful, 1):.2f}, {100 * false / max(named, 1):.1f} %"


_REAL = (
    "Labels that are right in percent, without and with defence, and who is named, with the number of labels on tasks "
    "of known truth and the share of them that is right. Nobody is known to mean harm there."
)


def _named(rows: dict[Any, list[Row]]) -> str:
    cells = group_by(rows["real"], "kind", "method", "defended")
    who = {row["kind"]: row["who"] for row in rows["named"]}
    body = []
    for kind in who:
        both = (f"{_percent(cells[kind, m, False])} → {_percent(cells[kind, m, True])}" for m in AGGREGATORS)
        body.append([kind, *both, who[kind]])
    return markdown(["", *(f"`{name}`" for name in AGGREGATORS), "named"], body)
