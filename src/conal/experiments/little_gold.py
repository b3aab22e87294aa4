"""A few true labels: accuracy against their number, drawn at random and as planned, and beside other uses of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conal.datasets.label_sets import JUDGES
from conal.experiments.base import Experiment, register
from conal.experiments.calibration import claimed_and_true
from conal.experiments.comparisons import RULE, Difference, Pair, corrected, paired_difference
from conal.experiments.gold_runs import GOLD_ONLY, STACKED
from conal.experiments.runs import Protocol, Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, mean_and_spread, n_seeds, notes

__all__ = ["COUNTS", "LittleGold", "gains", "gold_run", "over_claims"]

COUNTS = (0, 5, 10, 25, 50, 100, 200)
NAMING = 30
"""One more count for the synthetic crowd, whose classes are exchanged: so many labels name them."""
CALIBRATED = (0, 50)
"""Counts for which claimed and true accuracy are compared."""
LABELS_ONLY = 50
"""Number of true labels with which ways that see labels alone are compared on juries."""
TITLES = {
    "labelme": "LabelMe",
    "music": "Music",
    "cifar10": "CIFAR-10 features, simulated crowd",
    "synthetic": "Synthetic, symmetric common noise 0.8",
} | {name: f"Jury: {name}" for name in JUDGES}
DATA: dict[str, dict[str, Any]] = {
    "cifar10": {"inputs": "features", "n_train": 4000, "n_valid": 0},
    "synthetic": {"n_valid": 0, "common_type": "symmetric", "common_strength": 0.8},
}
"""Settings of simulated crowds; every seed draws another one."""
GROUPS = {
    "people": ("labelme", "music"),
    "simulated crowds": ("cifar10", "synthetic"),
    "juries of language models": tuple(JUDGES),
}
PEOPLE = GROUPS["people"]
"""Crowds of people, on which the intervals of the annotators are judged."""
RATES = ("labelme", "music", "emotion", "wiki_politeness")
"""Crowds on which the rates by 50 true labels are judged."""
QUICK = ("labelme", "emotion", "synthetic")


class Use(NamedTuple):
    """A row of the tables: what learns from the true labels, how their tasks are drawn, and how many there are.

    ``jury_counts`` are the numbers of labels on juries, eight crowds of one kind: fewer where a fit takes long.
    """

    method: str
    design: str = "random"
    protocol: Protocol = "own"
    counts: tuple[int, ...] = COUNTS[1:]
    jury_counts: tuple[int, ...] = COUNTS[1:]
    parameters: tuple[tuple[str, Any], ...] = ()

    def counts_on(self, crowd: str) -> tuple[int, ...]:
        """The numbers of true labels on this crowd."""
        return self.jury_counts if crowd in JUDGES else self.counts


BASE, PLANNED = "xconal, random tasks", "xconal, planned tasks"
CERTAIN, CLAMPED, AUTO, STACK = "dawid-skene", "dawid-skene, labels certain and no more", "auto", "stacked votes"
USES = {
    BASE: Use("xconal", counts=COUNTS, jury_counts=COUNTS),
    PLANNED: Use("xconal", "planned", jury_counts=(10, 50, 200)),
    "xconal, labels choose the epoch only": Use("xconal", protocol="gold", counts=(50, 200), jury_counts=(50,)),
    "classifier of the true labels alone": Use(GOLD_ONLY, protocol="last", jury_counts=(50, 200)),
    CERTAIN: Use("dawid-skene", counts=COUNTS, jury_counts=COUNTS),
    CLAMPED: Use("dawid-skene", parameters=(("inferred_labels", None),)),
    AUTO: Use("auto", counts=(), jury_counts=(LABELS_ONLY,)),
    STACK: Use(STACKED),
}
MEASURES = {"test_accuracy": "Test accuracy", "label_accuracy": "Cleaned labels of the other tasks"}


def gold_run(crowd: str, use: Use, n: int, seed: int, parameters: dict[str, Any], sizes: dict[str, Any]) -> Run:
    """The run of one use with n true labels; the seed draws the tasks, and a simulated crowd."""
    data = {**DATA[crowd], **sizes, "seed": seed} if crowd in DATA else {}
    keep: tuple[str, ...] = ()
    if use.method == "xconal" and use.protocol == "own" and n in CALIBRATED:
        keep += ("annotator_intervals",) * (crowd in PEOPLE)
        keep += ("pipeline_rates",) * (crowd in RATES and n > 0)
    trained = parameters if use.method in ("xconal", GOLD_ONLY) else dict(use.parameters)
    gold = {"n": n, "design": use.design}
    return Run(crowd, use.method, seed, use.protocol, data, trained, keep, gold)


@register("little-gold")
class LittleGold(Experiment):
    """How much a few true labels are worth: in training, planned or not, for choosing the epoch, and alone."""

    title = "A little gold"

    def points(self) -> list[tuple[str, str, int, int]]:
        """Crowd, row, number of true labels and seed."""
        return [
            (crowd, name, n, seed)
            for crowd in (QUICK if self.quick else TITLES)
            for name, use in USES.items()
            for n in self._counts(crowd, use)
            for seed in self.seeds
        ]

    def runs(self) -> list[Run]:
        """Every use of the labels with every number of them, on every crowd."""
        return [self._run(*point) for point in self.points()]

    def _counts(self, crowd: str, use: Use) -> list[int]:
        counts = use.counts_on(crowd)
        if self.quick:
            return [n for n in counts if n in (0, 10, 50)]
        more = (NAMING,) * (crowd == "synthetic" and use.method == "xconal" and use.protocol == "own")
        return sorted((*counts, *more))

    def _run(self, crowd: str, name: str, n: int, seed: int) -> Run:
        sizes = {"n_train": 300, "n_test": 300} if self.quick and crowd in DATA else {}
        return gold_run(crowd, USES[name], n, seed, {"epochs": 20 if self.quick else "auto"}, sizes)

    def table(self, store: Store) -> pa.Table:
        """One row per run."""
        rows = []
        for crowd, name, n, seed in self.points():
            found = store.require(self._run(crowd, name, n, seed))
            held = found.get("annotator_intervals", {})
            rows.append(
                {"dataset": crowd, "row": name, "n": n, "seed": seed}
                | {key: found.get(key) for key in (*MEASURES, "label_accuracy_before", "claimed", "seconds")}
                | {f"annotators_{key}": held.get(key) for key in ("annotators", "held", "width")}
            )
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Accuracy by number of labels, differences to no labels, and claimed against true accuracy."""
        rows = table.to_pylist()
        parts = [_explain(n_seeds(table))]
        for title, some in _groups(rows).items():
            parts += [f"## {title}"]
            for measure, heading in MEASURES.items():
                measured = [row for row in some if row[measure] is not None]
                parts += [f"{heading}:", _accuracies(measured, measure)] if measured else []
        parts += ["## What the labels add", _DIFFERENCES]
        for measure, heading in MEASURES.items():
            parts += [f"{heading}:", _differences(rows, measure)]
        parts += ["## Labels only, on juries", _LABELS_ONLY, _labels_only(rows)]
        return self.document(*parts, "## Claimed and true", _CLAIMS, _claims(rows))

    def charts(self, table: pa.Table) -> dict[str, Any]:
        """A chart per crowd, test data and cleaned labels side by side; the juries share one."""
        from conal.report.charts import lines

        return {
            f"{self.stem}-{_key(some[0]['dataset'])}": lines(
                _curves(some),
                x="n",
                x_title="true labels",
                y_title="accuracy (%)",
                by="measure",
                title=f"{self.title}: {title}",
            )
            for title, some in _groups(table.to_pylist()).items()
        }


def _key(crowd: str) -> str:
    return "juries" if crowd in JUDGES else crowd


def _groups(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows by crowd, all juries together; of these, the mean over the juries is shown."""
    together: dict[str, list[Row]] = {}
    for crowd, some in group_by(rows, "dataset").items():
        title = "Juries of language models with texts" if crowd in JUDGES else TITLES[crowd]
        together.setdefault(title, []).extend(some)
    return together


def _by_seed(rows: list[Row], measure: str) -> list[float]:
    """The mean over crowds, seed by seed."""
    return [float(np.mean(column(some, measure))) for _, some in sorted(group_by(rows, "seed").items())]


def _accuracies(rows: list[Row], measure: str) -> str:
    """A line per use, a column per number of labels."""
    counts = sorted(group_by(rows, "n"))
    cells = group_by(rows, "row", "n")
    body = [
        [name, *(mean_and_spread(_by_seed(cells[name, n], measure)) if (name, n) in cells else "" for n in counts)]
        for name in group_by(rows, "row")
    ]
    return markdown([" ", *map(str, counts)], body)


Cells = dict[tuple[str, int, str], list[Row]]
"""Rows of all seeds, by use, number of true labels and crowd."""


class Gains(NamedTuple):
    """What xconal gains by true labels: accuracies with and without them, by crowd."""

    pairs: dict[str, Pair]

    @property
    def by_crowd(self) -> dict[str, Difference]:
        """The gain on every crowd, corrected for all of them."""
        return corrected({crowd: paired_difference(pair) for crowd, pair in self.pairs.items()})

    def of(self, crowds: Iterable[str]) -> Gains:
        """On some of the crowds."""
        return Gains({crowd: self.pairs[crowd] for crowd in crowds if crowd in self.pairs})

    def pooled(self) -> Difference:
        """The gain in the mean over the crowds; the interval is about these crowds and other seeds."""
        return paired_difference(*self.pairs.values())

    def over_crowds(self) -> Difference:
        """The same, with an interval about other crowds."""
        ours, theirs = ([float(np.mean(pair[k])) for pair in self.pairs.values()] for k in (0, 1))
        return paired_difference((ours, theirs))


def gains(table: pa.Table, name: str, n: int, measure: str) -> Gains:
    """What xconal gains by n true labels."""
    cells = _cells(table.to_pylist(), measure)
    return Gains({place[2]: _pair(cells, *place, measure) for place in cells if place[:2] == (name, n)})


def over_claims(table: pa.Table, name: str, n: int) -> dict[str, Difference]:
    """What xconal claims of its cleaned labels minus what is true, by crowd."""
    rows = [row for row in table.to_pylist() if (row["row"], row["n"]) == (name, n)]
    return {crowd: paired_difference(claimed_and_true(some)) for crowd, some in group_by(rows, "dataset").items()}


def _cells(rows: list[Row], measure: str) -> Cells:
    return group_by(
        [row for row in rows if row["row"] in (BASE, PLANNED) and row[measure] is not None], "row", "n", "dataset"
    )


def _pair(cells: Cells, name: str, n: int, crowd: str, measure: str) -> Pair:
    """With n true labels and without, in the order of the seeds."""
    ours = sorted(cells[name, n, crowd], key=lambda row: row["seed"])
    if measure == "label_accuracy":  # on the same tasks: planned ones leave the easier tasks
        return column(ours, measure), column(ours, "label_accuracy_before")
    return column(ours, measure), column(sorted(cells[BASE, 0, crowd], key=lambda row: row["seed"]), measure)


def _differences(rows: list[Row], measure: str) -> str:
    """What xconal gains by the labels, crowd by crowd and pooled; a star where Holm's correction leaves p < 0.05."""
    cells = _cells(rows, measure)
    counts = sorted({n for _, n, _ in cells if n and n != NAMING})
    crowds = list(dict.fromkeys(crowd for *_, crowd in cells))

    def pair(name: str, n: int, crowd: str) -> Pair:
        return _pair(cells, name, n, crowd, measure)

    places = [
        (name, crowd, n) for name in (BASE, PLANNED) for crowd in crowds for n in counts if (name, n, crowd) in cells
    ]
    found = corrected({(name, crowd, n): paired_difference(pair(name, n, crowd)) for name, crowd, n in places})

    def shown(place: tuple[str, str, int]) -> str:
        return found[place].starred if place in found else ""

    body = []
    for name in (BASE, PLANNED):
        design = USES[name].design
        pooled = [[pair(name, n, crowd) for crowd in crowds if (name, n, crowd) in cells] for n in counts]
        body += [[f"all, {design}", *(str(paired_difference(*pairs)) for pairs in pooled)]]
        body += [[f"{TITLES[crowd]}, {design}", *(shown((name, crowd, n)) for n in counts)] for crowd in crowds]
    return markdown([" ", *map(str, counts)], body)


def _labels_only(rows: list[Row]) -> str:
    """Ways that see labels alone, less Dawid and Skene's with certain true labels, jury by jury and in the mean."""
    cells = group_by([row for row in rows if row["n"] == LABELS_ONLY], "row", "dataset")
    juries = [crowd for crowd in JUDGES if (CLAMPED, crowd) in cells]

    def pair(name: str, crowd: str) -> tuple[list[float], list[float]]:
        by_seed = [sorted(cells[row, crowd], key=lambda row: row["seed"]) for row in (name, CLAMPED)]
        return column(by_seed[0], "label_accuracy"), column(by_seed[1], "label_accuracy")

    body = []
    for name in (CERTAIN, AUTO, STACK):
        pairs = [pair(name, crowd) for crowd in juries]
        body.append([name, str(paired_difference(*pairs)), *(_plain(paired_difference(each)) for each in pairs)])
    return markdown([" ", "mean", *juries], body)


def _claims(rows: list[Row]) -> str:
    """What xconal says of its cleaned labels, less what is true, and how many annotators' intervals hold."""
    rows = [row for row in rows if row["row"] in (BASE, PLANNED) and row["n"] in CALIBRATED]
    columns = [(BASE, 0), (BASE, 50), (PLANNED, 50)]
    header = [" ", "no labels", "50 random labels", "50 planned labels"]
    header += [f"annotators' intervals that hold, {title}" for title in header[1:]]
    groups = {TITLES[crowd]: some for crowd, some in group_by(rows, "dataset").items()}
    groups |= {"LabelMe and Music": [row for row in rows if row["dataset"] in PEOPLE]}
    body = []
    for title, some in groups.items():
        cells = group_by(some, "row", "n")
        places = [cells.get(place, []) for place in columns]
        body.append([title, *map(_claim, places), *map(_coverage, places)])
    return markdown(header, body)


def _claim(rows: list[Row]) -> str:
    pairs = [claimed_and_true(some) for some in group_by(rows, "dataset").values()]
    return _plain(paired_difference(*pairs)) if pairs else ""


def _plain(difference: Difference) -> str:
    return f"{difference.value:+.1f}"


def _coverage(rows: list[Row]) -> str:
    judged = [row for row in rows if row["annotators_held"] is not None]
    if not judged:
        return ""
    total, held = (sum(column(judged, f"annotators_{name}")) for name in ("annotators", "held"))
    return f"{100 * held / total:.1f} % of {int(total)}, width {100 * np.mean(column(judged, 'annotators_width')):.0f}"


def _curves(rows: list[Row]) -> pa.Table:
    points = []
    for measure, heading in MEASURES.items():
        measured = [row for row in rows if row[measure] is not None]
        for (name, n), some in group_by(measured, "row", "n").items():
            percent = 100 * np.array(_by_seed(some, measure))
            spread = float(percent.std(ddof=1)) if len(percent) > 1 else 0.0
            at = {"measure": heading, "series": name, "n": n}
            points.append(at | {"mean": float(percent.mean()), "spread": spread})
    return pa.Table.from_pylist(points)


def _explain(seeds: int) -> str:
    return notes(
        f"Accuracy in percent against the number of true labels, mean ± sample standard deviation over {seeds} seeds. "
        "A seed trains the networks and draws the tasks whose true label is known; of simulated crowds it also draws "
        "the crowd. Everything has its default settings.",
        "*Random tasks*: of the labelled training tasks. *Planned tasks*: as `conal plan --experts` draws them from "
        "the labels of `xconal` without true labels, with the same seed.",
        "*Cleaned labels of the other tasks*: of tasks without a true label. Planned tasks are the hard ones and leave "
        "easier ones; the differences further down are on the same tasks.",
        "*Labels choose the epoch only*: the true labels are the validation set of `xconal`, and their tasks stay in "
        "training with the labels of the crowd. *Classifier of the true labels alone* sees no other label.",
        "*dawid-skene* and *auto*: the aggregators, without features; with *labels certain and no more*, a true label "
        "counts in EM as much as an inferred one. *Stacked votes*: logistic regression on the votes, trained on the "
        "tasks with a true label.",
        "CIFAR-10 has 4,000 tasks and the crowd of the paper's settings, the synthetic crowd 8,000. The juries are of "
        "12 or 13 language models and have no test data; their figures are means over the eight.",
    )


_DIFFERENCES = (
    "`xconal` with true labels minus `xconal` without, in points, over the same seeds; for *all*, the mean over these "
    f"crowds. {RULE} \\* marks single crowds that are not level. Juries have fewer numbers of planned "
    "tasks, so *all* is of fewer crowds there. Cleaned labels are compared on the tasks that have no true label."
)
_LABELS_ONLY = (
    f"{LABELS_ONLY} random true labels, cleaned labels of the other tasks, in points above Dawid and Skene's EM in "
    "which these true labels are certain and count no more; for the mean over the juries with a 95 % interval."
)
_CLAIMS = (
    "How many cleaned labels are right by `xconal`'s own account, minus how many are, in points, for tasks without a "
    "true label; and how many 95 % intervals of annotators' quality hold the share of the annotator's labels that are "
    "right, for annotators with ten labels or more (all seeds together), with the mean width of the intervals in "
    "points."
)
