"""Plans of further labels, replayed: accuracy against labels spent, beside random labels and ActiveLab."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from typing import Any

import numpy as np
import numpy.typing as npt

from conal._arrays import FloatArray, IntArray
from conal.aggregation.held_out import held_out_certainty
from conal.datasets import CrowdDataset
from conal.errors import InputError
from conal.planning.crowd_plan import AccuracyForecast, plan_labels, simulate_plan
from conal.planning.gains import LabelingProblem, Pairs, cautious, checked_by_others
from studies.crowds import load
from studies.figures import lines, points_of
from studies.runs import Options, Setting
from studies.statistics import Difference, holm, judge, paired_difference
from studies.tables import Claim, Row, Summary, Table, Tables, claim, column, group_by, mean_and_spread

PARTS = ("plans",)
SEEDS, ROUNDS = 20, 6
SHARE = 0.1
"""Labels of a batch, as a share of the tasks."""
SIMULATED: dict[str, Any] = {"n_train": 500, "n_valid": 0, "n_test": 500, "labels_per_instance": 5.0}
CROWDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "labelme": ("LabelMe", "labelme", {}),
    "music": ("Music", "music", {}),
    "simulated": ("simulated", "synthetic", SIMULATED),
    "simulated-poor": ("simulated, poor annotators", "synthetic", SIMULATED | {"individual_strength": 0.6}),
}
"""Names for ``--datasets``: title, dataset and its settings."""
PLAN, ACTIVE, RANDOM = "plan", "ActiveLab", "random"
MEASURES = {"label_accuracy": "labels of the tasks", "test_accuracy": "classifier on test tasks"}
FOLDS, TURNS, COMPONENTS, DRAWS = 3, 2, 40, 100
POOLING = 5.0
"""Pseudo-labels that draw each row of an annotator's matrix to that of all."""


def runs(options: Options) -> list[Setting]:
    """Every strategy on every crowd; ActiveLab is left out where cleanlab is not installed."""
    there = [RANDOM, ACTIVE, PLAN]
    if find_spec("cleanlab") is None:
        there.remove(ACTIVE)
        print(f"{ACTIVE} is left out: cleanlab is not installed", file=sys.stderr)
    return [
        {"part": "plans", "dataset": CROWDS[name][0], "strategy": strategy, "seed": seed, "rounds": ROUNDS}
        | {"source": CROWDS[name][1], "data": CROWDS[name][2] | ({"seed": seed} if CROWDS[name][2] else {})}
        for name in options.pick_datasets(CROWDS)
        for seed in options.seeds_or(SEEDS)
        for strategy in options.pick_methods(there)
    ]


def run(setting: Setting) -> list[Row]:
    """A row after every batch: labels so far, accuracies, and what was promised for it."""
    data = load(setting["source"], setting["data"])
    here = Replay(data, setting["seed"])
    batch, found, promised = round(SHARE * data.annotations.n_tasks), here.reading(), None
    strategies: dict[str, Callable[[Reading, int], tuple[IntArray, AccuracyForecast | None]]] = {
        RANDOM: here.random,
        ACTIVE: here.active_lab,
        PLAN: here.planned,
    }
    rows = []
    for k in range(setting["rounds"] + 1):
        right, test = here.accuracy(found)
        row: Row = {"round": k, "labels": int(here.revealed.sum()), "label_accuracy": right, "test_accuracy": test}
        ends = ("accuracy", "low", "high")
        row |= {f"promised_{e}": None if promised is None else float(getattr(promised, e)[-1]) for e in ends}
        rows.append(row)
        if k < setting["rounds"]:
            chosen, promised = strategies[setting["strategy"]](found, batch)
            here.revealed[chosen] = True
            found = here.reading()
    return rows


@dataclass(frozen=True, eq=False)
class Reading:
    """What the labels that are revealed say: the same for every strategy."""

    posterior: FloatArray
    classifier: FloatArray
    confusion: FloatArray
    met: FloatArray
    test: FloatArray


class Replay:
    """A crowd of which some labels are revealed: at first one for half of the tasks.

    Parameters
    ----------
    data : CrowdDataset
    seed : int
        Which labels are revealed first, and what is random later.
    start : float
        Share of the tasks that begin with one label.
    """

    def __init__(self, data: CrowdDataset, seed: int, start: float = 0.5) -> None:
        self.data, crowd = data, data.annotations
        self.rng = np.random.default_rng(seed)
        if data.test is None:
            raise InputError(f"{data.name}: has no test data, on which replays are judged")
        self.features, self.test = _components(data.x, data.test.x)
        self.test_labels = data.test.y
        self.revealed = np.zeros(crowd.n_annotations, bool)
        order = self.rng.permutation(crowd.n_annotations)
        _, first = np.unique(crowd.tasks[order], return_index=True)
        self.revealed[self.rng.permutation(order[first])[: round(start * crowd.n_tasks)]] = True

    def reading(self) -> Reading:
        """Dawid-Skene and a logistic regression in turns, from what is revealed."""
        crowd = self.data.annotations
        at = np.flatnonzero(self.revealed)
        tasks, who, labels = (codes[at].astype(np.int64) for codes in (crowd.tasks, crowd.annotators, crowd.labels))
        votes = np.zeros((crowd.n_tasks, crowd.n_classes))
        np.add.at(votes, (tasks, labels), 1.0)
        q = (votes + 0.3) / (votes + 0.3).sum(1, keepdims=True)
        labelled = np.flatnonzero(votes.sum(1))
        for _ in range(TURNS):
            classifier, test = _cross_fitted(self.features, self.test, q, labelled)
            counts = np.zeros((crowd.n_annotators, crowd.n_classes, crowd.n_classes))
            np.add.at(counts.transpose(0, 2, 1), (who, labels), q[tasks])
            common = counts.sum(0) + 0.5
            common /= common.sum(1, keepdims=True)
            matrices = (counts + POOLING * common) / (counts.sum(2, keepdims=True) + POOLING)
            log_q = np.log(np.maximum(classifier, 1e-6))
            np.add.at(log_q, tasks, np.log(matrices[who, :, labels]))
            q = np.exp(log_q - log_q.max(1, keepdims=True))
            q /= q.sum(1, keepdims=True)
        tau = held_out_certainty(log_q, (tasks, who, labels), counts, vote_weight=1.0, pooling=POOLING)
        flat = q**tau
        flat /= flat.sum(1, keepdims=True)
        own = counts / np.maximum(counts.sum(2, keepdims=True), 1e-12)
        met = checked_by_others(Pairs.of(tasks, who, crowd.n_tasks), flat, crowd.n_annotators)
        return Reading(flat, classifier, cautious(own, met, common), met, test)

    def accuracy(self, found: Reading) -> tuple[float, float]:
        """Share of right labels of the training tasks, and of the test tasks by the classifier."""
        right = (found.posterior.argmax(1) == self.data.y_true).mean()
        return float(right), float((found.test.argmax(1) == self.test_labels).mean())

    # Strategies: which labels to reveal next.

    def random(self, found: Reading, n: int) -> tuple[IntArray, None]:
        """Any labels."""
        return self.rng.permutation(np.flatnonzero(~self.revealed))[:n], None

    def planned(self, found: Reading, n: int) -> tuple[IntArray, AccuracyForecast]:
        """The labels that the plan asks for."""
        crowd = self.data.annotations
        shown, hidden = np.flatnonzero(self.revealed), np.flatnonzero(~self.revealed)
        problem = LabelingProblem(
            found.posterior,
            found.confusion,
            Pairs.of(crowd.tasks[shown], crowd.annotators[shown], crowd.n_tasks),
            found.met,
            allowed=Pairs.of(crowd.tasks[hidden], crowd.annotators[hidden], crowd.n_tasks),
        )
        planned = plan_labels(problem, float(n))
        place = crowd.tasks.astype(np.int64) * crowd.n_annotators + crowd.annotators
        rows = np.searchsorted(place, planned.tasks * crowd.n_annotators + planned.annotators)
        return rows, simulate_plan(problem, planned, seed=int(self.rng.integers(2**31)), draws=DRAWS)

    def active_lab(self, found: Reading, n: int) -> tuple[IntArray, None]:
        """The tasks with the lowest ActiveLab scores of cleanlab, one more label each, of anybody who has one."""
        from cleanlab.multiannotator import get_active_learning_scores

        crowd, at = self.data.annotations, np.flatnonzero(self.revealed)
        labels = np.full((crowd.n_tasks, crowd.n_annotators), np.nan)
        labels[crowd.tasks[at], crowd.annotators[at]] = crowd.labels[at]
        labels = labels[:, ~np.isnan(labels).all(0)]
        has = ~np.isnan(labels).all(1)
        scores = np.empty(crowd.n_tasks)
        with warnings.catch_warnings(), redirect_stdout(StringIO()):  # it prints
            warnings.simplefilter("ignore")
            scores[has], scores[~has] = get_active_learning_scores(
                labels[has], found.classifier[has], found.classifier[~has]
            )
        hidden = self.rng.permutation(np.flatnonzero(~self.revealed))
        tasks = crowd.tasks[hidden]
        by_task = np.argsort(tasks, kind="stable")
        turn = np.empty(len(tasks), np.int64)  # how many rows of the same task come before each
        turn[by_task] = np.arange(len(tasks)) - np.searchsorted(tasks[by_task], tasks[by_task])
        return hidden[np.lexsort((scores[tasks], turn))[:n]], None


def _components(train: npt.NDArray[Any], test: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Standardised principal components of the training and test features."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    first = StandardScaler().fit(train)
    pca = PCA(min(COMPONENTS, train.shape[1]), random_state=0).fit(first.transform(train))
    scale = np.sqrt(pca.explained_variance_[0])
    x, new = (np.asarray(pca.transform(first.transform(each)) / scale, float) for each in (train, test))
    return x, new


def _cross_fitted(x: FloatArray, test: FloatArray, q: FloatArray, labelled: IntArray) -> tuple[FloatArray, FloatArray]:
    """(N, C) probabilities by regressions that have not seen a task's labels, and those of the test tasks."""
    from sklearn.linear_model import LogisticRegression

    fold = np.arange(len(x)) % FOLDS
    found, tested = np.zeros_like(q), np.zeros((len(test), q.shape[1]))
    for k in range(FOLDS):
        train, at = labelled[fold[labelled] != k], fold == k
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=1.0, max_iter=50).fit(
                x[train], q[train].argmax(1), sample_weight=q[train].max(1)
            )
        for rows, into in ((x[at], at), (test, None)):
            probas = np.full((len(rows), q.shape[1]), 1e-3)
            probas[:, model.classes_] += model.predict_proba(rows)
            probas /= probas.sum(1, keepdims=True)
            if into is None:
                tested += probas / FOLDS
            else:
                found[into] = probas
    return found, tested


# ---------------------------------------------------------------- what it says

Areas = dict[str, dict[str, list[float]]]
"""Mean accuracies over the batches of all replays, in the order of their seeds, by crowd and strategy."""


def summarise(tables: Tables) -> Summary:
    """Areas under accuracy, their differences, and how often promises hold."""
    rows = tables["plans"]
    summary = Summary()
    for measure, title in MEASURES.items():
        areas = _areas(rows, measure)
        strategies = list(group_by(rows, "strategy"))
        others = [name for name in strategies if name != PLAN and PLAN in strategies]
        pooled = _pooled(areas, others)
        body = [
            [crowd, *(mean_and_spread(here[name]) if name in here else "" for name in strategies)]
            + [str(paired_difference((here[PLAN], here[n]))) if PLAN in here and n in here else "" for n in others]
            for crowd, here in areas.items()
        ]
        body.append(
            ["all", *("" for _ in strategies), *(pooled[name].starred if name in pooled else "" for name in others)]
        )
        note = f"Mean accuracy after {ROUNDS} batches of a tenth of the tasks, in percent; differences in points."
        header = ["crowd", *strategies, *(f"plan minus {name}" for name in others)]
        summary.tables.append(Table(title.capitalize(), header, body, note))
        if measure == "label_accuracy" and pooled:
            summary.claims.append(_plans_pay(pooled))
    made = [row for row in rows if row["promised_accuracy"] is not None]
    if made:
        summary.tables.append(_promises(made))
    shares = [row | {"share": 100 * (0.5 + SHARE * row["round"])} for row in rows]
    points = points_of(shares, "label_accuracy", panel="dataset", series="strategy", x="share")
    title = "Plans of further labels"
    summary.charts["plans"] = lines(points, x_title="labels per 100 tasks", y_title="right labels (%)", title=title)
    return summary


def _areas(rows: list[Row], measure: str) -> Areas:
    found: Areas = {}
    later = [row for row in rows if row["round"] > 0]
    for (crowd, name, _), some in group_by(
        sorted(later, key=lambda r: r["seed"]), "dataset", "strategy", "seed"
    ).items():
        found.setdefault(crowd, {}).setdefault(name, []).append(float(np.mean(column(some, measure))))
    return found


def _pooled(areas: Areas, others: list[str]) -> dict[str, Difference]:
    """The plan minus every other strategy in the mean over the crowds, corrected for all of them."""
    pairs = {n: [(h[PLAN], h[n]) for h in areas.values() if PLAN in h and n in h] for n in others}
    return holm({name: paired_difference(*some) for name, some in pairs.items() if some})


def _plans_pay(pooled: dict[str, Difference]) -> Claim:
    least = min(pooled, key=lambda name: pooled[name].value)
    verdict = judge([*pooled.values()]) if ACTIVE in pooled else "inconclusive"
    text = "Labels that `conal plan --budget` plans are worth more than as many random ones or ActiveLab's"
    return claim(text, verdict, pooled[least], f"right labels, plan minus {least}, mean of the crowds", "replays")


def _promises(rows: list[Row]) -> Table:
    """How often the accuracy after a batch is in the interval that was promised for it."""
    body = []
    for crowd, some in {**group_by(rows, "dataset"), "all": rows}.items():
        held = [row["promised_low"] <= row["label_accuracy"] <= row["promised_high"] for row in some]
        error = np.mean([row["promised_accuracy"] - row["label_accuracy"] for row in some])
        width = np.mean([row["promised_high"] - row["promised_low"] for row in some])
        body.append([crowd, f"{100 * np.mean(held):.0f} % of {len(held)}", f"{100 * error:+.1f}", f"{100 * width:.0f}"])
    return Table("Promises", ["crowd", "held", "promised minus true (points)", "mean width (points)"], body)
