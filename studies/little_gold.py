"""A few true labels: what they add in training, drawn at random or as planned, and whether rates by 50 of them hold."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse

from conal import aggregation
from conal._arrays import FloatArray, IntArray
from conal.data.annotations import Annotations
from conal.data.encoding import as_names, decode_position
from conal.data.true_labels import INCLUSION
from conal.datasets import CrowdDataset
from conal.estimator import CrowdClassifier, make
from conal.estimator.results import FittedResults
from conal.metrics import gold_rates
from conal.metrics.rates import MIN_OF_ANNOTATOR
from conal.planning.expert_plan import expert_plan
from conal.text import TextFeatures
from studies.crowds import JUDGES, load
from studies.figures import lines, points_of
from studies.fits import EPOCHS, SELECTION
from studies.gold_free import annotator_intervals, claimed_minus_true
from studies.runs import Options, Setting
from studies.statistics import Pair, holm, judge, paired_difference, within
from studies.tables import Claim, Row, Summary, Table, Tables, by_seed, claim, column, group_by, mean_and_spread

PARTS = ("little-gold", "gold-rates")
SEEDS, RATE_SEEDS, PLANNED_SEEDS = 5, 20, 5
COUNTS = (5, 10, 25, 50, 100, 200)
MANY = 50
"""True labels of the guide, for which claims are judged."""
NAMING = 30
"""One more count for the synthetic crowd, whose classes are exchanged: so many labels name them."""
TITLES = {
    "labelme": "LabelMe",
    "music": "Music",
    "cifar10": "CIFAR-10 features, simulated crowd",
    "synthetic": "Synthetic, symmetric common noise 0.8",
} | {name: f"Jury: {name}" for name in JUDGES}
KINDS_OF_CROWDS = {
    "people": ("labelme", "music"),
    "simulated crowds": ("cifar10", "synthetic"),
    "juries of language models": JUDGES,
}
DATA: dict[str, dict[str, Any]] = {
    "cifar10": {"inputs": "features", "n_train": 4000, "n_valid": 0},
    "synthetic": {"n_valid": 0, "common_type": "symmetric", "common_strength": 0.8},
}
"""Settings of simulated crowds; every seed draws another one."""
RATED = ("labelme", "music", "emotion", "wiki_politeness")
"""Crowds on which the rates by true labels are judged."""
RATES = ("classes", "cleaned", "crowd", "annotators")
"""Shares of the classes, right cleaned labels, right labels of the crowd, and of each annotator."""
REPLAYED, WHOLE = "stored predictions", "whole pipeline"
REPLAYS = 200
STREAM = 17
"""Keeps the draws of tasks apart from whatever else a seed decides."""
NEAR = 5.0
"""Points between what is claimed and what is true that users would forgive."""
MEASURES = {"test_accuracy": "test accuracy", "label_accuracy": "cleaned labels of the other tasks"}


class Use(NamedTuple):
    """A row of the tables: what learns from the true labels, how their tasks are drawn, and how many there are.

    ``jury_counts`` are the numbers of labels on juries, eight crowds of one kind: fewer where a fit takes long.
    """

    method: str
    design: str = "random"
    protocol: str = "own"
    counts: tuple[int, ...] = COUNTS
    jury_counts: tuple[int, ...] = COUNTS
    parameters: dict[str, Any] = {}  # noqa: RUF012


BASE, PLANNED = "xconal, random tasks", "xconal, planned tasks"
TRAINED: dict[str, Any] = {"epochs": "auto"}
USES = {
    BASE: Use("xconal", counts=(0, *COUNTS), jury_counts=(0, *COUNTS), parameters=TRAINED),
    PLANNED: Use("xconal", "planned", jury_counts=(10, 50, 200), parameters=TRAINED),
    "xconal, labels choose the epoch only": Use("xconal", "random", "gold", (50, 200), (50,), TRAINED),
    "classifier of the true labels alone": Use("gold", "random", "last", COUNTS, (50, 200), TRAINED),
    "dawid-skene": Use("dawid-skene", counts=(0, *COUNTS), jury_counts=(0, *COUNTS)),
    "dawid-skene, labels certain and no more": Use("dawid-skene", parameters={"inferred_labels": None}),
    "auto": Use("auto", counts=(), jury_counts=(50,)),
    "stacked votes": Use("stacked-votes"),
}


def runs(options: Options) -> list[Setting]:
    """Every use of the labels with every number of them, on every crowd; and fits whose rates are judged."""
    methods = options.pick_methods(dict.fromkeys(use.method for use in USES.values()))
    crowds = options.pick_datasets(TITLES)
    settings = [
        _setting("little-gold", crowd, name, n, seed)
        for crowd in crowds
        for name, use in USES.items()
        if use.method in methods
        for n in _counts(crowd, name)
        for seed in options.seeds_or(SEEDS)
    ]
    rated = [crowd for crowd in RATED if crowd in crowds and "xconal" in methods]
    for crowd in rated:
        settings.append(_setting("gold-rates", crowd, BASE, 0, 0) | {"way": REPLAYED, "draws": REPLAYS})
        for name, seeds in ((BASE, RATE_SEEDS), (PLANNED, PLANNED_SEEDS)):
            drawn = range(min(len(options.seeds_or(seeds)), seeds if name == PLANNED else RATE_SEEDS))
            settings += [_setting("gold-rates", crowd, name, MANY, seed) | {"way": WHOLE} for seed in drawn]
    return settings


def _counts(crowd: str, name: str) -> list[int]:
    counts = USES[name].jury_counts if crowd in JUDGES else USES[name].counts
    return sorted({*counts, *((NAMING,) if crowd == "synthetic" and name in (BASE, PLANNED) else ())})


def _setting(part: str, crowd: str, name: str, n: int, seed: int) -> Setting:
    use = USES[name]
    data = DATA[crowd] | {"seed": seed} if crowd in DATA else {}
    at: Setting = {"part": part, "dataset": crowd, "row": name, "n": n, "seed": seed, "design": use.design}
    return at | {"method": use.method, "protocol": use.protocol, "data": data, "parameters": use.parameters}


# ---------------------------------------------------------------- which tasks get a true label


class Draw(NamedTuple):
    """Tasks whose true labels are known, and the probabilities by which they were drawn; None if at random."""

    rows: IntArray
    inclusion: FloatArray | None = None

    def table(self, data: CrowdDataset) -> pa.Table | None:
        """The true labels, as an expert's table; None if there are none."""
        if not len(self.rows):
            return None
        columns: dict[str, Any] = {"task": data.annotations.task_ids[self.rows].tolist()}
        columns["label"] = data.classes[data.y_true[self.rows]].tolist()
        return pa.table(columns if self.inclusion is None else columns | {INCLUSION: self.inclusion})


def random_draw(data: CrowdDataset, n: int, seed: int) -> Draw:
    """Random labelled tasks; with the same seed, a larger draw contains the smaller ones."""
    labelled = np.flatnonzero(data.annotations.labels_per_task())
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
    return Draw(np.sort(rng.permutation(labelled)[:n]))


def planned_draw(fitted: CrowdClassifier, data: CrowdDataset, n: int, seed: int) -> Draw:
    """The tasks that ``conal plan --experts`` draws, by a model that knows no true label."""
    silent = data.annotations.labels_per_task() == 0
    plan = expert_plan(fitted.tables_["labels.csv"], n, seed=seed, leave_out=silent)
    rows = decode_position(data.annotations.task_ids, as_names(plan["task"].to_pylist()))
    order = np.argsort(rows)
    return Draw(rows[order], np.asarray(plan[INCLUSION].to_numpy())[order])


# ---------------------------------------------------------------- what learns from them


class Answer(NamedTuple):
    """What a method says: (N, C) class probabilities of the tasks, and (n, C) of the test data if it can."""

    probas: FloatArray
    test: FloatArray | None
    seconds: float
    fitted: CrowdClassifier | None = None


def run(setting: Setting) -> Row | list[Row]:
    """Draw true labels by the seed, learn with them, and measure on test data and on all other tasks."""
    data = load(setting["dataset"], setting["data"])
    if setting["part"] == "gold-rates" and setting["way"] == REPLAYED:
        return _replayed(_without_gold(setting).fitted, data, setting["draws"])
    drawn = _draw(setting, data)
    answer = _answer(setting, data, drawn)
    if setting["part"] == "gold-rates":
        assert answer.fitted is not None
        return [{"kind": kind} | held for kind, held in _rates_of(answer.fitted, data, drawn).items()]
    others = data.annotations.labels_per_task() > 0
    others[drawn.rows] = False
    right = answer.probas.argmax(1) == data.y_true
    row: Row = {"test_accuracy": None, "label_accuracy": right[others].mean(), "label_accuracy_before": None}
    row |= {"claimed": answer.probas.max(1)[others].mean(), "seconds": answer.seconds}
    if answer.test is not None and data.test is not None:
        row["test_accuracy"] = (answer.test.argmax(1) == data.test.y).mean()
    if answer.fitted is not None:
        before = _without_gold(setting).probas.argmax(1) == data.y_true
        row["label_accuracy_before"] = before[others].mean()
        if setting["dataset"] in KINDS_OF_CROWDS["people"] and setting["n"] in (0, MANY):
            row |= {f"annotators_{k}": v for k, v in annotator_intervals(answer.fitted, data).items()}
    return row


def _draw(setting: Setting, data: CrowdDataset) -> Draw:
    """The tasks with a true label; a plan is that of the same method without true labels."""
    if setting["design"] == "random":
        return random_draw(data, setting["n"], setting["seed"])
    fitted = _without_gold(setting).fitted
    assert fitted is not None  # only crowd classifiers plan
    return planned_draw(fitted, data, setting["n"], setting["seed"])


def _answer(setting: Setting, data: CrowdDataset, drawn: Draw) -> Answer:
    method, began = setting["method"], time.process_time()
    if method == "stacked-votes":
        probas = stacked_votes(data.annotations, drawn.rows, data.y_true[drawn.rows])
        return Answer(probas, None, time.process_time() - began)
    if method in aggregation.names():
        fitted = aggregation.make(method, **setting["parameters"])
        probas = fitted.fit(data.annotations, true_labels=drawn.table(data)).probas_
        return Answer(probas, None, time.process_time() - began)
    if method == "gold":
        return _gold_only(setting, data, drawn.rows)
    return _fit(setting, data, drawn) if len(drawn.rows) else _without_gold(setting)


def _parameters(setting: Setting) -> dict[str, Any]:
    stated = {"selection": SELECTION[setting["protocol"]], "epochs": EPOCHS, **setting["parameters"]}
    return stated | {"seed": setting["seed"], "verbose": False}


def _without_gold(setting: Setting) -> Answer:
    """The same method with the same data and seed, without true labels; the next runs of the process need it again."""
    kept = {name: setting[name] for name in ("dataset", "data", "method", "parameters", "seed")}
    return _cached_fit(json.dumps(kept | {"protocol": "own", "part": "little-gold"}, sort_keys=True))


@lru_cache(maxsize=8)
def _cached_fit(setting: str) -> Answer:
    found: Setting = json.loads(setting)
    return _fit(found, load(found["dataset"], found["data"]), Draw(np.empty(0, dtype=np.int64)))


def _fit(setting: Setting, data: CrowdDataset, drawn: Draw) -> Answer:
    """True labels in training; under the protocol "gold", they choose the epoch instead."""
    judging = {} if setting["part"] == "gold-rates" else {"refits": 0}  # which only rates need
    clf = make(setting["method"], **judging, **_parameters(setting))
    selecting = setting["protocol"] == "gold"
    known = data.x[drawn.rows], data.classes[data.y_true[drawn.rows]]
    began = time.process_time()
    clf.fit(
        data.x,
        data.annotations,
        validation=known if selecting else None,
        true_labels=None if selecting else drawn.table(data),
    )
    seconds = time.process_time() - began
    return Answer(clf.probas_, None if data.test is None else clf.predict_proba(data.test.x), seconds, clf)


def _gold_only(setting: Setting, data: CrowdDataset, rows: IntArray) -> Answer:
    """A classifier that sees the tasks with a true label, and nothing of the crowd."""
    began, x = time.process_time(), data.x
    if x.dtype == object:  # the vocabulary is that of all texts
        x = np.asarray(TextFeatures(seed=setting["seed"]).fit_transform(x.tolist()))
    y = data.y_true[rows]
    if len(np.unique(y)) < 2:  # a classifier needs two classes
        always = np.eye(len(data.classes))[y[0]]
        test = None if data.test is None else np.tile(always, (len(data.test), 1))
        return Answer(np.tile(always, (len(data.x), 1)), test, time.process_time() - began)
    clf = make("gold", **_parameters(setting)).fit(x[rows], data.classes[y])

    def predicted(features: Any) -> FloatArray:
        probas = np.zeros((len(features), len(data.classes)))
        probas[:, decode_position(data.classes, clf.classes_)] = clf.predict_proba(features)
        return probas

    return Answer(predicted(x), None if data.test is None else predicted(data.test.x), time.process_time() - began)


def stacked_votes(crowd: Annotations, rows: IntArray, truth: IntArray) -> FloatArray:
    r"""(N, C) class probabilities of all tasks by logistic regression on their labels (stacking; Wolpert 1992).

    The features of task i are the shares of the classes among its votes, and an indicator :math:`[y_i^r = l]` for every
    annotator r and class l. Classes that no true label has are never predicted.

    Examples
    --------
    >>> crowd = Annotations.from_matrix([[0, 1], [1, 0]] * 10)
    >>> stacked_votes(crowd, np.arange(4), np.array([1, 0, 1, 0])).argmax(1)[:4].tolist()
    [1, 0, 1, 0]
    """
    from sklearn.linear_model import LogisticRegression

    probas = np.zeros((crowd.n_tasks, crowd.n_classes))
    seen = np.unique(truth)
    if len(seen) == 1:
        probas[:, seen] = 1.0
        return probas
    votes = crowd.votes()
    places = crowd.tasks, crowd.annotators.astype(np.int64) * crowd.n_classes + crowd.labels
    said = sparse.csr_matrix(
        (np.ones(len(places[0])), places), shape=(crowd.n_tasks, crowd.n_annotators * crowd.n_classes)
    )
    features = sparse.hstack([votes / np.maximum(votes.sum(1, keepdims=True), 1), said]).tocsr()
    model = LogisticRegression(max_iter=1000).fit(features[rows], truth)
    probas[:, model.classes_] = model.predict_proba(features)
    return probas


# ---------------------------------------------------------------- rates by true labels


def _rates_of(clf: CrowdClassifier, data: CrowdDataset, drawn: Draw) -> dict[str, Row]:
    """How many intervals hold of those that the report has, by predictions that do not know a task's true label."""
    assert isinstance(clf.results_, FittedResults)
    unseen = clf.results_.evidence.unseen_posterior
    assert unseen is not None  # it was fitted with true labels
    return _rates_held(data, unseen, drawn)


def _replayed(clf: CrowdClassifier | None, data: CrowdDataset, draws: int) -> list[Row]:
    """The same over many draws, by the predictions of one model that knows no true label."""
    assert clf is not None
    rows = []
    for design in ("random", "planned"):
        drawn = (
            random_draw(data, MANY, seed) if design == "random" else planned_draw(clf, data, MANY, seed)
            for seed in range(draws)
        )
        found = [_rates_held(data, clf.probas_, draw) for draw in drawn]
        rows += [
            {"design": design, "kind": kind}
            | {name: sum(each[kind][name] for each in found) for name in found[0][kind]}
            for kind in RATES
        ]
    return rows


def _rates_held(data: CrowdDataset, posterior: FloatArray, drawn: Draw) -> dict[str, Row]:
    """By kind of rate: the number of intervals, how many hold the truth, and the sums of their widths.

    ``alone`` is the width of the intervals by the true labels alone, without predictions.
    """
    crowd, y = data.annotations, data.y_true
    inclusion = None
    if drawn.inclusion is not None:
        inclusion = np.full(crowd.n_tasks, np.nan)
        inclusion[drawn.rows] = drawn.inclusion
    cleaned = posterior.argmax(1)
    given, labelled = crowd.labels_per_annotator(), crowd.labels_per_task() > 0
    right = crowd.labels == y[crowd.tasks]
    truth: dict[str, list[float]] = {
        "classes": (np.bincount(y[labelled], minlength=crowd.n_classes) / labelled.sum()).tolist(),
        "cleaned": [float((cleaned == y)[labelled].mean())],
        "crowd": [float(right.mean())],
        "annotators": (
            np.bincount(crowd.annotators, weights=right, minlength=len(given)) / np.maximum(given, 1)
        ).tolist(),
    }
    found = []
    for predictions in (posterior, np.full_like(posterior, 1 / posterior.shape[1])):
        rates = gold_rates(crowd, predictions, drawn.table(data), cleaned=cleaned, inclusion=inclusion)
        found.append({"cleaned": [rates.cleaned], "crowd": [rates.crowd]})
        found[-1] |= {"classes": rates.classes, "annotators": rates.annotators}
    held = {}
    for kind in RATES:
        judged = [
            (rate, other, true)
            for rate, other, true in zip(found[0][kind], found[1][kind], truth[kind], strict=True)
            if rate.n_gold >= MIN_OF_ANNOTATOR
        ]
        held[kind] = {
            "n": len(judged),
            "held": sum(rate.low <= true <= rate.high for rate, _, true in judged),
            "width": float(sum(rate.high - rate.low for rate, _, _ in judged)),
            "alone": float(sum(other.high - other.low for _, other, _ in judged)),
        }
    return held


# ---------------------------------------------------------------- what it says


def summarise(tables: Tables) -> Summary:
    """Accuracy by number of labels, what the labels add, what is claimed, and whether rates hold."""
    summary = Summary()
    rows = tables["little-gold"]
    for title, some in _together(rows).items():
        for measure, what in MEASURES.items():
            measured = [row for row in some if row[measure] is not None]
            if measured:
                summary.tables.append(_accuracies(f"{title}: {what}", measured, measure))
        drawn = [
            point | {"panel": what}
            for measure, what in MEASURES.items()
            for point in points_of(some, measure, series="row", x="n")
        ]
        stem = "juries" if some[0]["dataset"] in JUDGES else some[0]["dataset"]
        summary.charts[f"little-gold-{stem}"] = lines(drawn, x_title="true labels", y_title="accuracy (%)", title=title)
    summary.tables += _gains(rows)
    summary.claims += [*_claims_are_true(rows), *_labels_help(rows)]
    summary.tables += _coverage(tables["gold-rates"])
    return summary


def _together(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows by crowd, all juries together."""
    found: dict[str, list[Row]] = {}
    for crowd, some in group_by(rows, "dataset").items():
        found.setdefault("Juries of language models" if crowd in JUDGES else TITLES[crowd], []).extend(some)
    return found


def _accuracies(title: str, rows: list[Row], measure: str) -> Table:
    counts, cells = sorted(group_by(rows, "n")), group_by(rows, "row", "n")

    def cell(name: str, n: int) -> str:
        by_seeds = group_by(cells.get((name, n), []), "seed").values()  # of juries, the mean over them
        return mean_and_spread([np.mean(column(some, measure)) for some in by_seeds]) if by_seeds else ""

    body = [[name, *(cell(name, n) for n in counts)] for name in group_by(rows, "row")]
    note = "Percent against the number of true labels, mean ± standard deviation over seeds."
    return Table(title, ["", *map(str, counts)], body, note)


def _pairs(rows: list[Row], name: str, n: int, measure: str) -> dict[str, Pair]:
    """Crowd to accuracies with n true labels and without; of cleaned labels, on the same tasks."""
    cells = group_by([row for row in rows if row[measure] is not None], "row", "n", "dataset")
    found: dict[str, Pair] = {}
    for crowd in (place[2] for place in cells if place[:2] == (name, n)):
        with_labels = cells[name, n, crowd]
        if measure == "label_accuracy":
            found[crowd] = by_seed(with_labels, measure), by_seed(with_labels, "label_accuracy_before")
        elif (BASE, 0, crowd) in cells:
            found[crowd] = by_seed(with_labels, measure), by_seed(cells[BASE, 0, crowd], measure)
    return found


def _gains(rows: list[Row]) -> Iterator[Table]:
    """What the default method gains by the labels, crowd by crowd."""
    for measure, what in MEASURES.items():
        places = {
            (name, crowd, n): paired_difference(pair)
            for name in (BASE, PLANNED)
            for n in (*COUNTS,)
            for crowd, pair in _pairs(rows, name, n, measure).items()
        }
        gaps = holm(places)
        lines_of = dict.fromkeys((name, crowd) for name, crowd, _ in gaps)
        body = [
            [f"{TITLES[crowd]}, {USES[name].design}"]
            + [gaps[name, crowd, n].starred if (name, crowd, n) in gaps else "" for n in COUNTS]
            for name, crowd in lines_of
        ]
        note = (
            "`xconal` with true labels minus without, in points over seeds, * if significant after Holm's correction."
        )
        if body:
            yield Table(f"What true labels add: {what}", ["", *map(str, COUNTS)], body, note)


def _claims_are_true(rows: list[Row]) -> Iterator[Claim]:
    cells = group_by([row for row in rows if (row["row"], row["n"]) == (BASE, 0)], "dataset")
    for kind, crowds in KINDS_OF_CROWDS.items():
        gaps = {crowd: claimed_minus_true(cells[crowd]) for crowd in crowds if crowd in cells}
        if gaps:
            worst = max(gaps, key=lambda crowd: abs(gaps[crowd].value))
            text = f"On {kind}, the claimed share of right cleaned labels is within {NEAR:g} points of the true one"
            yield claim(
                text, within(gaps.values(), NEAR), gaps[worst], f"claimed minus true, the worst: {TITLES[worst]}"
            )


def _labels_help(rows: list[Row]) -> Iterator[Claim]:
    """Kinds of crowds are judged one by one: a large gain on one kind says nothing about another."""
    for measure, what in MEASURES.items():
        every = _pairs(rows, BASE, MANY, measure)
        for kind, crowds in KINDS_OF_CROWDS.items():
            here = [every[crowd] for crowd in crowds if crowd in every]
            if not here:
                continue
            means = [[float(np.mean(pair[k])) for pair in here] for k in (0, 1)]
            over_crowds = kind == "juries of language models"  # of which there are enough
            gap = paired_difference((means[0], means[1])) if over_crowds else paired_difference(*here)
            text = f"On {kind}, {MANY} random true labels improve `xconal`: {what}"
            yield claim(
                text, judge([gap]), gap, "with minus without, mean of the crowds", "crowds" if over_crowds else "fits"
            )


def _coverage(rows: list[Row]) -> Iterator[Table]:
    note = "Percent of the 95 % intervals of rates by 50 true labels that hold the truth (number of intervals)."
    for (way, design), some in group_by([row for row in rows if row["n"]], "way", "design").items():
        cells, crowds = group_by(some, "kind", "dataset"), list(group_by(some, "dataset"))
        body = []
        for kind, each in group_by(some, "kind").items():
            total = sum(column(each, "n"))
            widths = [f"{100 * sum(column(each, name)) / total:.1f}" for name in ("width", "alone")]
            body.append([kind, *(_held(cells.get((kind, crowd), [])) for crowd in crowds), _held(each), *widths])
        header = ["", *(TITLES[crowd] for crowd in crowds), "all crowds", "width", "width, labels alone"]
        yield Table(f"Rates: {way}, {design} tasks", header, body, note)


def _held(rows: list[Row]) -> str:
    held, of = (sum(column(rows, name)) for name in ("held", "n"))
    return f"{100 * held / of:.1f} ({of:,.0f})" if of else ""
