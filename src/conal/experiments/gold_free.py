"""Learning without gold labels: every method with every way to choose the epoch, single networks and ensembles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

from conal.experiments.base import Experiment, every_method, register
from conal.experiments.comparisons import RULE, Difference, bootstrap_difference, corrected
from conal.experiments.real_tables import PRESETS
from conal.experiments.right_answers import unpacked
from conal.experiments.runs import Protocol, Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, mean_and_spread, notes

__all__ = ["GoldFree", "beside_ensembles", "preset_of"]

TITLES = {
    "labelme": "LabelMe",
    "music": "Music",
    "digits": "Digits, simulated crowd",
    "cifar10": "CIFAR-10 features, simulated crowd",
}
N_TEST = {"labelme": 1188, "music": 300, "digits": 500, "cifar10": 10_000}
WITH_PRIOR = ("labelme", "music")
"""Datasets on which a stated prior is tried, too: their classes are about equally frequent."""
PROTOCOLS_SHOWN: dict[Protocol, str] = {"last": "last epoch", "own": "gold-free", "gold": "gold-selected"}
GOLD_FREE = ("own", "last")
"""Ways to choose the epoch that need no gold label."""
MEMBERS = 5
OURS = "xconal"
PLAIN = "dl-mv"
"""The plain classifier; times are relative to its time."""
RECIPE = "xconal, plain form"
RECIPE_PARAMETERS = {
    "calibrate": False,
    "confusion": "pooled",
    "schedule": "cosine",
    "warmup_epochs": 0,
    "input_dropout": 0.0,
    "witness": "none",
}
"""Cross-fitted EM without what `xconal` adds to it."""


@register("gold-free")
class GoldFree(Experiment):
    """Accuracy with and without gold labels to choose the epoch by, single networks and ensembles of five."""

    title = "Without gold labels"

    def rows(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Row name to method and parameters."""
        return {name: (name, {}) for name in every_method()} | {RECIPE: ("xconal", RECIPE_PARAMETERS)}

    def runs(self) -> list[Run]:
        """Every method on every dataset, by three ways to choose the epoch; and with a balanced prior, gold-free."""
        return [run for *_, run in self._plan()]

    def table(self, store: Store) -> pa.Table:
        """One row per member; ``ensemble_accuracy`` is the accuracy of the whole ensemble."""
        lines = []
        for dataset, row, prior, protocol, run in self._plan():
            found = store.require(run)
            lines += [
                {
                    "dataset": dataset,
                    "row": row,
                    "prior": prior,
                    "protocol": protocol,
                    "seed": number,
                    "selection": found["selection"],
                    **member,
                    "ensemble_right": found["right"] if number == 0 else "",
                    "ensemble_accuracy": found["test_accuracy"],
                    "ensemble_label_accuracy": found["label_accuracy"],
                    "seconds": found["seconds"] / len(found["members"]),
                }
                for number, member in enumerate(found["members"])
            ]
        return pa.Table.from_pylist(lines)

    def page(self, table: pa.Table) -> str:
        """A table per dataset, and one with the stated prior."""
        groups = group_by(table.to_pylist(), "dataset", "prior")
        parts = [_explain()]
        for dataset, prior in itertools.product(TITLES, ("estimate", "balanced")):
            if (dataset, prior) in groups:
                stated = "" if prior == "estimate" else ", balanced prior stated"
                parts += [f"## {TITLES[dataset]}{stated}", _body(groups[dataset, prior], N_TEST[dataset])]
        return self.document(*parts, "## Beside ensembles of five", _BESIDE, _ensembles(table))

    def _plan(self) -> list[tuple[str, str, str, Protocol, Run]]:
        plan = []
        for dataset in ("labelme", "digits") if self.quick else TITLES:
            for row, (method, parameters) in self.rows().items():
                for protocol in PROTOCOLS_SHOWN:
                    run = self._run(dataset, method, protocol, parameters)
                    plan.append((dataset, row, "estimate", protocol, run))
                if dataset in WITH_PRIOR and method != "gold":
                    run = self._run(dataset, method, "own", {**parameters, "class_prior": "balanced"})
                    plan.append((dataset, row, "balanced", "own", run))
        return plan

    def _run(self, dataset: str, method: str, protocol: Protocol, parameters: dict[str, Any]) -> Run:
        data: dict[str, Any] = {}
        if dataset == "music" and protocol == "gold":
            data = {"n_valid": 100}
        if dataset == "cifar10":
            data = {"inputs": "features", "n_train": 2000 if self.quick else 10_000, "n_valid": 1000}
        preset = preset_of(dataset, method, quick=self.quick)
        size = {"ensemble": min(len(self.seeds), MEMBERS)}
        return Run(dataset, method, 0, protocol, data, preset | size | parameters, keep=("members", "right"))


def preset_of(dataset: str, method: str, *, quick: bool = False) -> dict[str, Any]:
    """Settings of methods on a crowd, beyond their defaults."""
    preset = {} if method == "xconal" else PRESETS.get(dataset, {})
    return preset | ({"epochs": 30} if quick else {"epochs": 50} if dataset == "cifar10" else {})


def _body(lines: list[Row], n_test: int) -> str:
    protocols = group_by(lines, "protocol")
    shown = {protocol: title for protocol, title in PROTOCOLS_SHOWN.items() if protocol in protocols}
    cells = group_by(lines, "row", "protocol")
    plain = float(np.mean(column(cells[PLAIN, "own"], "seconds")))
    header = [" ", *(f"single, {title}" for title in shown.values())]
    header += [*(f"ensemble, {title}" for title in shown.values())]
    header += ["cleaned labels, single, gold-free", "gold-free by", "time"]
    body = []
    for row in group_by(lines, "row"):
        own = cells[row, "own"]
        single = [mean_and_spread(column(cells[row, p], "test_accuracy")) for p in shown]
        ensembles = [f"{100 * cells[row, p][0]['ensemble_accuracy']:.1f}" for p in shown]
        labels = "(given)" if row == "gold" else mean_and_spread(column(own, "label_accuracy"))
        seconds = float(np.mean(column(own, "seconds")))
        body.append([f"`{row}`", *single, *ensembles, labels, own[0]["selection"], f"{seconds / plain:.1f}"])
    usual = float(np.median(column(lines, "test_accuracy")))
    error = 100 * (usual * (1 - usual) / n_test) ** 0.5
    note = f"{n_test:,} test instances: an accuracy of {100 * usual:.0f} % has a standard error of {error:.1f} points."
    return note + "\n\n" + markdown(header, body)


def beside_ensembles(table: pa.Table) -> dict[tuple[str, str], Difference]:
    """Single fits of `xconal` less the ensemble of every other method, without gold labels, by dataset and method.

    Of the other method's two gold-free ways to choose the epoch, the better one by test accuracy counts. An ensemble
    is one classifier, so the differences are over test instances. `xconal` averages networks itself.
    """
    lines = [line for line in table.to_pylist() if line["prior"] == "estimate" and line["protocol"] in GOLD_FREE]
    found = {}
    for dataset, here in group_by(lines, "dataset").items():
        ours = [line for line in here if (line["row"], line["protocol"]) == (OURS, "own")]
        for row, members in group_by(here, "row").items():
            ensembles = [each["ensemble_right"] for each in members if each.get("ensemble_right")]
            if row in ("gold", OURS, RECIPE) or not ensembles:
                continue
            theirs = max(unpacked(ensembles, N_TEST[dataset]), key=lambda right: float(right.mean()))
            found[dataset, row] = bootstrap_difference(unpacked(column(ours, "right"), N_TEST[dataset]), theirs)
    return corrected(found)


def _ensembles(table: pa.Table) -> str:
    """A line per method, a column per dataset."""
    gaps = beside_ensembles(table)
    if not gaps:
        return "This table is older than its single answers and has no such differences."
    datasets, rows = (dict.fromkeys(key[k] for key in gaps) for k in (0, 1))
    body = [[f"`{row}`", *(gaps[dataset, row].starred for dataset in datasets)] for row in rows]
    return markdown([f"`{OURS}` minus the ensemble of", *(TITLES[dataset] for dataset in datasets)], body)


_BESIDE = (
    "`xconal` averages five networks, so the fair comparison is with ensembles of five of the other methods. One fit "
    "of `xconal` (mean over five) minus an ensemble of five, both without gold labels, in points of test accuracy. Of "
    "the ensembles of the last epoch and of the gold-free one, the more accurate counts, which favours the other "
    "methods. Intervals by resampling the test instances; Holm's correction is for all differences of this table. "
    f"{RULE} \\* marks differences that are not level."
)


def _explain() -> str:
    return notes(
        "Test accuracy in percent. *Single*: mean ± sample standard deviation over the members of an ensemble; "
        "*ensemble*: their average as one classifier.",
        "*Last epoch* and *gold-free* use no true label. *Gold-free by* says how a method then chooses its epoch: by "
        "the likelihood of held-out annotations (a tenth of the tasks), or, for `xconal`, the last.",
        "*Gold-selected*: the epoch with the best accuracy on a validation set with true labels, which practitioners "
        "do not have: LabelMe's 500 images, 100 training songs held out of Music, 297 digits, 1,000 images of "
        "CIFAR-10.",
        "Settings are each method's defaults, except batch normalisation and 200 epochs on Music for all methods but "
        "`xconal`, as in the paper's published code, and 50 epochs on CIFAR-10 (10,000 labelled images).",
        "The defaults of `xconal` were chosen on gold labels of LabelMe's validation images and of held-out Music "
        "songs, on digits and on simulated crowds (see the ablation): no run sees a gold label, but the method was "
        "developed on these crowds. Its plain form, the starting point, is cross-fitted EM with pooled confusion "
        "matrices, a cosine schedule, no calibration, no input dropout and no second witness.",
        "The five fits share one crowd and, where one is held out, one tenth of its tasks: *±* is less than other "
        "crowds would show.",
        "*Time*: CPU time of one fit, as a multiple of that of the plain classifier on majority votes.",
    )
