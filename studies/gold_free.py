"""Without gold labels: every method by every way to choose the epoch, ensembles, and whether their claims are true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conal import metrics
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier
from conal.estimator.results import class_probas, members_of, predict_training_tasks
from conal.training.batches import CrowdBatches, Instances
from studies.fits import VARIANTS, Fit, every_method, figures_of, fit, packed, unpacked
from studies.runs import Options, Setting
from studies.statistics import Difference, bootstrap_difference, counts, coverage, holm, judge, paired_difference
from studies.table_1 import PRESETS
from studies.tables import (
    Claim,
    Row,
    Summary,
    Table,
    Tables,
    by_seed,
    claim,
    column,
    group_by,
    mean_and_spread,
    percent,
)

PARTS = ("gold-free", "calibration")
TITLES = {"labelme": "LabelMe", "music": "Music", "digits": "Digits, simulated crowd", "cifar10": "CIFAR-10 features"}
CALIBRATED = ("labelme", "music", "cifar10")
N_TEST = {"labelme": 1188, "music": 300, "digits": 500, "cifar10": 10_000}
EQUAL_CLASSES = ("labelme", "music")
"""Datasets on which a balanced prior is stated, too: their classes are about equally frequent."""
PROTOCOLS = {"last": "last epoch", "own": "gold-free", "gold": "gold-selected"}
SEEDS = MEMBERS = 5
OURS, PLAIN = "xconal", "dl-mv"
FORMS = (OURS, *VARIANTS)
"""The default method, and its form without the paper's two sources."""
MIN_LABELS = 10
"""Annotators whose intervals are judged have given so many labels."""
ENOUGH = 0.9
"""Share of 95 % intervals that must hold the truth."""


def runs(options: Options) -> list[Setting]:
    """Ensembles of five by three ways to choose the epoch, and with a balanced prior; single fits for calibration."""
    settings: list[Setting] = []
    for dataset in options.pick_datasets(TITLES):
        for method in options.pick_methods(every_method()):
            at: Setting = {"dataset": dataset, "row": method, "method": method}
            preset = _preset(dataset, method)
            ensemble = preset | {"ensemble": min(len(options.seeds_or(SEEDS)), MEMBERS)}
            once = {"part": "gold-free", **at, "seed": 0}
            settings += [
                once | {"prior": "estimate", "protocol": by, "data": _data(dataset, by), "parameters": ensemble}
                for by in PROTOCOLS
            ]
            if dataset in EQUAL_CLASSES and method != "gold":
                stated = ensemble | {"class_prior": "balanced"}
                settings.append(once | {"prior": "balanced", "protocol": "own", "data": {}, "parameters": stated})
            if dataset in CALIBRATED and method != "gold":
                settings += [
                    {"part": "calibration", **at, "protocol": "own", "seed": seed, "parameters": preset}
                    | {"data": _data(dataset, "own") | ({"seed": seed} if dataset == "cifar10" else {})}
                    for seed in options.seeds_or(SEEDS)
                ]
    return settings


def _preset(dataset: str, method: str) -> dict[str, Any]:
    """Beyond the defaults: on Music as in the paper's published code, except for the default method."""
    preset = {} if method in FORMS else PRESETS.get(dataset, {})
    return preset | ({"epochs": 50} if dataset == "cifar10" else {})


def _data(dataset: str, protocol: str) -> dict[str, Any]:
    if dataset == "cifar10":
        return {"inputs": "features", "n_train": 10_000, "n_valid": 1000}
    return {"n_valid": 100} if (dataset, protocol) == ("music", "gold") else {}


def run(setting: Setting) -> list[Row]:
    """A row per member of the ensemble; or the figures of a calibration."""
    found = fit(setting)
    if setting["part"] == "calibration":
        intervals = annotator_intervals(found.clf, found.data)
        return [_cleaned_labels(found) | {f"annotators_{name}": value for name, value in intervals.items()}]
    clf, data, seconds = found
    whole = figures_of(found)
    assert data.test is not None
    right = packed(clf.predict(data.test.x) == data.classes[data.test.y])
    members = list(_members(clf, data))
    shared = {"selection": whole["selection"], "seconds": seconds / len(members)}
    shared |= {"ensemble_accuracy": whole["test_accuracy"], "ensemble_label_accuracy": whole["label_accuracy"]}
    return [
        shared | member | {"seed": number, "ensemble_right": right if number == 0 else ""}
        for number, member in enumerate(members)
    ]


def _members(clf: CrowdClassifier, data: CrowdDataset) -> Iterator[Row]:
    """Accuracy of every member of an ensemble, on test data and of the cleaned training labels."""
    assert data.test is not None
    test, batches = Instances(data.test.x), CrowdBatches(Instances(data.x), data.annotations, clf.batch_size)
    for member in members_of(clf.model_):
        # By name: a model of gold labels may order the classes differently.
        right = clf.classes_[class_probas(member, test).argmax(1)] == data.classes[data.test.y]
        cleaned = clf.classes_[predict_training_tasks(member, batches).posterior.argmax(1)] == data.classes[data.y_true]
        yield {"test_accuracy": right.mean(), "label_accuracy": cleaned.mean(), "right": packed(right)}


def _cleaned_labels(found: Fit) -> Row:
    """The claimed and the true share of right labels, over tasks with labels, and the calibration error."""
    clf, data, _ = found
    labelled = data.annotations.labels_per_task() > 0
    probas, truth = clf.probas_[labelled], data.classes[data.y_true][labelled]
    return {
        "claimed": float(probas.max(1).mean()),
        "label_accuracy": float(np.mean(clf.classes_[probas.argmax(1)] == truth)),
        "calibration_error": metrics.calibration_error(truth, probas, classes=clf.classes_),
    }


def annotator_intervals(clf: CrowdClassifier, data: CrowdDataset) -> Row:
    """How many 95 % intervals of annotators' quality hold the share of their labels that are right."""
    crowd = data.annotations
    judged = crowd.labels_per_annotator() >= MIN_LABELS
    table = clf.tables_["annotators.csv"]
    low, high = (table[f"annotator_quality_{end}"].to_numpy(zero_copy_only=False) for end in ("low", "high"))
    right = np.bincount(crowd.annotators, weights=crowd.labels == data.y_true[crowd.tasks], minlength=len(judged))
    truth = right / np.maximum(crowd.labels_per_annotator(), 1)
    held = (low <= truth) & (truth <= high)
    return {"annotators": judged.sum(), "held": held[judged].sum(), "width": (high - low)[judged].mean()}


def summarise(tables: Tables) -> Summary:
    """A table per dataset and prior, the default beside ensembles, and the calibration."""
    summary = Summary()
    for (dataset, prior), rows in group_by(tables["gold-free"], "dataset", "prior").items():
        title = TITLES[dataset] + ("" if prior == "estimate" else ", balanced prior stated")
        summary.tables.append(_accuracies(title, rows))
    gaps = _beside_ensembles(tables["gold-free"])
    if gaps:
        datasets, others = (dict.fromkeys(place[k] for place in gaps) for k in (0, 1))
        body = [[f"`{row}`", *(gaps[d, row].starred if (d, row) in gaps else "" for d in datasets)] for row in others]
        note = (
            f"One fit of `{OURS}`, which averages five networks, minus an ensemble of five, in points over test "
            "instances. Of an ensemble's two gold-free epochs, the better counts. * significant after Holm's rule."
        )
        header = [f"`{OURS}` minus", *(TITLES[dataset] for dataset in datasets)]
        summary.tables.append(Table("Beside ensembles of five", header, body, note))
        summary.claims += [_above_ensembles(d, {r: g for (at, r), g in gaps.items() if at == d}) for d in datasets]
    if tables["calibration"]:
        summary.tables += _calibration(tables["calibration"])
        summary.claims += _intervals_hold(tables["calibration"])
    return summary


def _accuracies(title: str, rows: list[Row]) -> Table:
    cells = group_by(rows, "row", "protocol")
    shown = {protocol: text for protocol, text in PROTOCOLS.items() if any(by == protocol for _, by in cells)}
    plain = float(np.mean(column(cells[PLAIN, "own"], "seconds"))) if (PLAIN, "own") in cells else np.nan
    body = []
    for row in group_by(rows, "row"):
        own = cells.get((row, "own"), [])
        body.append(
            [
                f"`{row}`",
                *(mean_and_spread(column(cells[row, p], "test_accuracy")) if (row, p) in cells else "" for p in shown),
                *(percent(cells.get((row, p), [])[:1], "ensemble_accuracy") for p in shown),
                "given" if row == "gold" else percent(own, "label_accuracy"),
                f"{np.mean(column(own, 'seconds')) / plain:.1f}" if own else "",
            ]
        )
    header = ["", *(f"single, {text}" for text in shown.values()), *(f"ensemble, {text}" for text in shown.values())]
    note = (
        "Test accuracy in percent. Last epoch and gold-free use no true label. Time: CPU seconds of one fit "
        f"over those of `{PLAIN}`."
    )
    return Table(title, [*header, "cleaned labels", "time"], body, note)


def _beside_ensembles(rows: list[Row]) -> dict[tuple[str, str], Difference]:
    """Single fits of the default minus the ensemble of every other method, without gold labels, all corrected."""
    lines = [row for row in rows if row["prior"] == "estimate" and row["protocol"] in ("own", "last")]
    found = {}
    for dataset, here in group_by(lines, "dataset").items():
        ours = [row["right"] for row in here if (row["row"], row["protocol"]) == (OURS, "own")]
        for row, members in group_by(here, "row").items():
            ensembles = [each["ensemble_right"] for each in members if each["ensemble_right"]]
            if not ours or not ensembles or row == "gold" or row in FORMS:
                continue
            theirs = max(unpacked(ensembles, N_TEST[dataset]), key=lambda right: float(right.mean()))
            found[dataset, row] = bootstrap_difference(unpacked(ours, N_TEST[dataset]), theirs)
    return holm(found)


def _above_ensembles(dataset: str, gaps: dict[str, Difference]) -> Claim:
    best = min(gaps, key=lambda row: gaps[row].value)
    text = f"`{OURS}` without gold labels is more accurate than ensembles of all other methods on {TITLES[dataset]}"
    what = f"minus `{best}`, the best ensemble; all: {counts(gaps.values())}"
    return claim(text, judge([*gaps.values()]), gaps[best], what, "test instances")


def claimed_minus_true(rows: list[Row]) -> Difference:
    """The share of right labels that fits claim minus the true one, over fits."""
    return paired_difference((by_seed(rows, "claimed"), by_seed(rows, "label_accuracy")))


def _calibration(rows: list[Row]) -> Iterator[Table]:
    note = (
        "What methods say about cleaned labels without gold labels, in percent, means over seeds. Intervals: of "
        "annotators' quality at 95 %, of annotators with ten labels or more; share that hold the truth, and width."
    )
    for dataset, some in group_by(rows, "dataset").items():
        by_method = group_by(some, "method")
        gaps = holm({name: claimed_minus_true(each) for name, each in by_method.items()})
        body = [
            [
                f"`{name}`",
                *(percent(each, figure) for figure in ("claimed", "label_accuracy")),
                gaps[name].starred,
                percent(each, "calibration_error"),
                f"{100 * sum(column(each, 'annotators_held')) / sum(column(each, 'annotators_annotators')):.1f}",
                percent(each, "annotators_width"),
            ]
            for name, each in by_method.items()
        ]
        header = ["", "claimed", "true", "claimed minus true", "calibration error", "intervals that hold", "width"]
        yield Table(f"{TITLES[dataset]}, calibration of cleaned labels", header, body, note)


def _intervals_hold(rows: list[Row]) -> Iterator[Claim]:
    """Every annotator counts once: over seeds that judge the same ones, the mean number of intervals that hold."""
    for dataset, some in group_by([row for row in rows if row["method"] == OURS], "dataset").items():
        times = 1 if dataset == "cifar10" else len(some)  # where each seed has other annotators
        held, of = (round(sum(column(some, f"annotators_{name}")) / times) for name in ("held", "annotators"))
        share, low, high = coverage(held, of)
        verdict = "holds" if low > ENOUGH else "fails" if high < ENOUGH else "inconclusive"
        text = f"95 % intervals of annotators' quality hold the truth in {ENOUGH:.0%} or more on {TITLES[dataset]}"
        found = f"{share:.0%} ({low:.0%} to {high:.0%})"
        yield Claim(text, verdict, found, f"intervals of `{OURS}` that hold", f"{of} annotators")
