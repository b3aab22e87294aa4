"""Sentences and tables of the guides that carry measured figures, made from docs/results and docs/performance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from conal.datasets.label_sets import JUDGES
from conal.experiments import Experiment
from conal.experiments.attacks import AGGREGATORS, CROWD, FEW, SHARES, Attacks
from conal.experiments.comparisons import corrected, paired_difference
from conal.experiments.gold_free import OURS, GoldFree
from conal.experiments.gold_free import TITLES as CROWDS
from conal.experiments.gold_measurements import MIN_LABELS, N_REPLAYED, REPLAYS
from conal.experiments.gold_rates import NAMES, REPLAYED, WHOLE, GoldRatesCoverage
from conal.experiments.juries import ALL, ORACLE, Juries
from conal.experiments.little_gold import BASE, CALIBRATED, PEOPLE, PLANNED, TITLES, LittleGold
from conal.experiments.outputs import REDUCED, read_outputs
from conal.experiments.plans import PLAN, Plans, area
from conal.experiments.privacy import LABELS, Privacy
from conal.experiments.small import Small
from conal.experiments.tables import Row, column, group_by, markdown
from conal.experiments.updates import UNSEEN, Updates
from conal.parameters.simulation import SyntheticSettings
from statements import wrapped

__all__ = ["GUIDE_STATEMENTS", "unmeasured"]

RESULTS = Path(__file__).parents[1] / "docs" / "results"
UPDATES = Path(__file__).parents[1] / "docs" / "performance" / "update.json"
"""Written by `make bench-update`."""

FITS = Path(__file__).parents[1] / "docs" / "performance" / "fit.json"
"""Written by `make bench-fit`."""
POOR = "simulated jury, features that say little"
TEXTS = "`xconal` with the texts"
PLAIN = "conal"

Statement = Callable[[], str]


def unmeasured(what: str, command: str) -> str:
    """What stands where there are no figures."""
    return f"{what} has not been measured by this version: `{command}` measures it."


def by_table(experiment: type[Experiment], what: str) -> Callable[[Callable[[list[Row]], str]], Statement]:
    """A statement from the rows of an experiment of full size; without them, the command that measures it."""

    def enter(make: Callable[[list[Row]], str]) -> Statement:
        @wraps(make)
        def made() -> str:
            rows = _full_rows(experiment())
            return make(rows) if rows else unmeasured(what, f"conal reproduce {experiment.name}")

        return made

    return enter


def _full_rows(experiment: Experiment) -> list[Row]:
    if not (RESULTS / f"{experiment.stem}.csv").is_file():
        return []
    table = read_outputs(experiment, RESULTS)
    rows: list[Row] = [] if REDUCED in table.column_names else table.to_pylist()
    return rows


# ---------------------------------------------------------------- choosing a method


@by_table(Small, "How good cleaned labels are where features say little")
def poor_features(rows: list[Row]) -> str:
    """Cleaned labels of `xconal` and of Dawid-Skene where features hardly help."""
    some = [row for row in rows if row["row"] == POOR]
    by_size = group_by(_in_order(some, "tasks", "seed"), "tasks")
    figures = "; ".join(
        f"{tasks} tasks {_percent(column(each, 'label_accuracy'))} and "
        f"{_percent(column(each, 'dawid-skene label_accuracy'))}"
        for tasks, each in by_size.items()
    )
    return (
        "Where features say little, the votes decide. Right cleaned labels of `xconal` and of `dawid-skene`, in "
        f"percent, means over {_count(some, 'seed')} simulated juries: {figures} (*Small crowds* in [the "
        "results](results.md))."
    )


@by_table(GoldFree, "How long `xconal` takes")
def time_of_xconal(rows: list[Row]) -> str:
    """CPU time of a fit of `xconal` as a multiple of that of `conal`, by crowd and by size."""
    cells = group_by([row for row in rows if row["prior"] == "estimate" and row["protocol"] == "own"], "dataset", "row")
    spent = {key: float(np.mean(column(some, "seconds"))) for key, some in cells.items()}
    parts = [f"{title} {spent[name, OURS] / spent[name, PLAIN]:.1f}" for name, title in CROWDS.items()]
    text = (
        f"CPU time of a fit of `{OURS}`, as a multiple of that of `{PLAIN}`: {'; '.join(parts)} (*Without gold labels*)"
    )
    if not FITS.is_file():
        return f"{text}."
    sizes: dict[str, Any] = json.loads(FITS.read_text(encoding="utf-8"))["sizes"]
    whole = [fits[OURS]["cpu"] / fits[PLAIN]["cpu"] for fits in sizes.values()]
    tasks = sorted(map(int, sizes))
    return (
        f"{text}; whole fits of {tasks[0]:,} to {tasks[-1]:,} tasks, from files to a model folder, "
        f"{_range(whole, '.1f')} ([performance](performance.md#whole-fits))."
    )


# ---------------------------------------------------------------- a jury of language models


@by_table(Juries, "How `xconal` with texts compares with the best judge")
def jury_texts(rows: list[Row]) -> str:
    """The default method with the items' texts, beside the judge who is right most often."""
    cells = group_by([row for row in rows if row["row"] != ALL], "row", "method")
    means = {key: 100 * float(np.mean(column(some, "accuracy"))) for key, some in cells.items()}
    juries = list(dict.fromkeys(jury for jury, _ in means))
    gaps = {jury: means[jury, TEXTS] - means[jury, ORACLE] for jury in juries}
    figures = ", ".join(f"{jury} {gap:+.1f}" for jury, gap in gaps.items())
    return (
        f"Right labels of `{OURS}` with the texts, minus those of the judge who is right most often (which only true "
        f"labels tell), in points: {figures}; in the mean {np.mean(list(gaps.values())):+.1f}. It is above that "
        f"judge on {sum(gap > 0 for gap in gaps.values())} of {len(juries)} juries (`conal reproduce juries`)."
    )


# ---------------------------------------------------------------- fifty gold labels


@by_table(LittleGold, "What a few true labels bring")
def little_gold(rows: list[Row]) -> str:
    """Test accuracy without true labels, with random and with planned ones."""
    n = CALIBRATED[-1]
    cells = group_by(rows, "dataset", "row", "n")

    def by_seed(crowd: str, row: str, count: int) -> list[float]:
        return column(_in_order(cells[crowd, row, count], "seed"), "test_accuracy")

    found = {crowd: [by_seed(crowd, *at) for at in ((BASE, 0), (BASE, n), (PLANNED, n))] for crowd in PEOPLE}
    means = "; ".join(f"{TITLES[crowd]} {_listed(map(_percent, each))}" for crowd, each in found.items())
    gaps = corrected({crowd: paired_difference((planned, drawn)) for crowd, (_, drawn, planned) in found.items()})
    beside = "; ".join(f"{TITLES[crowd]} {gap}, {gap.verdict}" for crowd, gap in gaps.items())
    return (
        f"Test accuracy of `xconal` without true labels, with {n} random ones and with {n} planned ones, in percent, "
        f"means over {_count(rows, 'seed')} seeds: {means}. Planned minus random, in points: {beside} "
        "(`conal reproduce little-gold`)."
    )


@by_table(LittleGold, "How near claimed and true shares of right labels are")
def claimed(rows: list[Row]) -> str:
    """What `xconal` claims of its labels and what is true, and how many annotators' intervals hold."""
    cells = group_by([row for row in rows if row["row"] == BASE], "n", "dataset")
    parts, held = [], []
    for n in CALIBRATED:
        shares = "; ".join(f"{TITLES[crowd]} {_claim(cells[n, crowd])}" for crowd in PEOPLE)
        parts.append(f"{f'with {n} true labels' if n else 'without true labels'}: {shares}")
        judged = [row for crowd in PEOPLE for row in cells[n, crowd]]
        held.append(100 * sum(column(judged, "annotators_held")) / sum(column(judged, "annotators_annotators")))
    many = CALIBRATED[-1]
    return (
        f"Shares of right labels that `xconal` claims and that are true, in percent, means over {_count(rows, 'seed')} "
        f"seeds, {', '.join(parts)}. The 95 % intervals of annotators with {MIN_LABELS} labels or more hold the share "
        f"of their labels that is right for {held[0]:.0f} % of them, and with {many} true labels for {held[1]:.0f} % "
        "(`conal reproduce little-gold`)."
    )


def _claim(rows: list[Row]) -> str:
    return f"{_percent(column(rows, 'claimed'))} and {_percent(column(rows, 'label_accuracy'))}"


@by_table(GoldRatesCoverage, "How often these intervals hold the truth")
def gold_rates(rows: list[Row]) -> str:
    """Coverage of intervals by random true labels, and their widths beside those of the labels alone."""
    drawn = [row for row in rows if row["design"] == "random" and row["n"]]
    replayed, whole = (group_by(drawn, "way")[way] for way in (REPLAYED, WHOLE))
    crowds = _listed(TITLES[crowd] for crowd in group_by(drawn, "dataset"))
    widths = "; ".join(
        f"{NAMES[kind]} {_share(some, 'width'):.1f} instead of {_share(some, 'alone'):.1f}"
        for kind, some in group_by(replayed, "kind").items()
    )
    return (
        f"How many 95 % intervals by {N_REPLAYED} random true labels held the truth on {crowds}, by kind of rate: "
        f"{_coverage(replayed)} in {REPLAYS} draws for the predictions of one model that knows none of them; "
        f"{_coverage(whole)} where `xconal` was trained with them, {_count(whole, 'seed')} fits per crowd. Mean widths "
        f"in the draws, instead of those by the true labels alone, in points: {widths} (`conal reproduce gold-rates`)."
    )


def _share(rows: list[Row], name: str) -> float:
    """A sum over intervals, per hundred intervals."""
    return float(100 * sum(column(rows, name)) / sum(column(rows, "n")))


def _coverage(rows: list[Row]) -> str:
    """The kinds of rates of which fewest and most intervals hold."""
    held = {kind: _share(some, "held") for kind, some in group_by(rows, "kind").items()}
    ends = (min(held, key=held.__getitem__), max(held, key=held.__getitem__))
    return " to ".join(f"{held[kind]:.0f} % ({NAMES[kind]})" for kind in ends)


# ---------------------------------------------------------------- a crowd that lives


@by_table(Updates, "How near updates come to refits")
def updates(rows: list[Row]) -> str:
    """A classifier that is updated beside one that is fitted again, and the labels of annotators nobody has seen."""
    by_row = group_by(rows, "row")
    return f"{_in_parts(by_row['parts'])}\n\n{_unseen(by_row['unseen'])}"


def _in_parts(rows: list[Row]) -> str:
    by_part = group_by(_in_order(rows, "part", "seed"), "part")
    gaps = corrected({k: paired_difference((column(r, "update"), column(r, "fit"))) for k, r in by_part.items()})
    part, gap = max(gaps.items(), key=lambda pair: abs(pair[1].value))
    values = [each.value for k, each in gaps.items() if k > 1]
    shares = [float(100 * np.mean(column(some, "share"))) for k, some in by_part.items() if k > 1]
    return (
        f"The labels of LabelMe came in {len(by_part)} random parts, with {_count(rows, 'seed')} seeds. After each, "
        "`xconal` that is updated is compared with `xconal` that is fitted to all labels so far. Mean differences in "
        f"test accuracy, update minus fit, are {_range(values, '+.1f')} points. The largest is {gap}, {gap.verdict} "
        f"after Holm's correction, after part {part}. An update takes {_range(shares, '.0f')} % of the CPU time of the "
        "fit (`conal reproduce updates`)."
    )


def _unseen(rows: list[Row]) -> str:
    heard = {name: np.mean(column(some, "log_likelihood")) for name, some in group_by(rows, "heard").items()}
    return (
        f"How well are people heard whom nobody has seen? Of LabelMe, the labels of {UNSEEN} random annotators were "
        f"held out, {_count(rows, 'seed')} times. By the crowd's confusion (`common-confusion`), the mean "
        f"log-likelihood of one of their labels is {heard['common']:.2f}; by the votes of the others on the task "
        f"{heard['majority']:.2f}, and by equal chances {heard['uniform']:.2f}."
    )


def update_benchmark() -> str:
    """How near updates of an aggregator are to a refit, and what they cost."""
    if not UPDATES.is_file():
        return unmeasured("How near it is and what it costs", "make bench-update")
    found: dict[str, Any] = json.loads(UPDATES.read_text(encoding="utf-8"))
    memory, commands = found["memory"], found["commands"]
    judged = [point for point in memory["updates"] if "refit_cpu" in point]
    first, last = judged[0], judged[-1]
    usual = 100 * np.median(column(memory["updates"], "cpu"))
    share, known = (usual / np.mean(column(judged, name)) for name in ("refit_cpu", "refit_of_annotations_cpu"))
    return (
        f"The first fit is to {memory['labels']:,} labels. {100 * first['equal']:.3f} % of the labels equal those of a "
        f"refit after {first['n']} update, and {100 * last['equal']:.3f} % after {last['n']}. Reported as stale were "
        f"{100 * first['stale']:.3f} and {100 * last['stale']:.3f} %; {100 * first['differ']:.3f} and "
        f"{100 * last['differ']:.3f} % differ from a full E-step. An update in memory takes {share:.0f} % of the CPU "
        f"time of a refit that reads all labels from a frame, and {known:.0f} % of one of labels that were read "
        f"before. As a command it takes {commands['update']:.1f} s: {100 * first['cpu'] / commands['update']:.0f} % of "
        "that is the update itself, and the rest is for starting, loading libraries, and reading and writing the "
        f"labels. `conal aggregate --save` of both files takes {commands['refit_and_save']:.1f} s."
    )


# ---------------------------------------------------------------- whom to ask what next


@by_table(Plans, "What plans bring")
def plans(rows: list[Row]) -> str:
    """What planned labels gain over others, and whether plans keep what they promise."""
    without = "" if "ActiveLab" in column(rows, "strategy") else " ActiveLab is missing: cleanlab was not installed."
    text = (
        f"{max(column(rows, 'round'))} batches of as many labels as a tenth of the tasks; mean share of right labels "
        f"after the batches, in percent, {_count(rows, 'seed')} replays; differences in points, with 95 % intervals."
    )
    return f"{text}{without}\n\n{_gains(rows)}\n\n{_promises(rows)}"


def _gains(rows: list[Row]) -> str:
    """A line per crowd: the mean area of every strategy, and the plan's differences from the others."""
    strategies = list(group_by(rows, "strategy"))
    others = [name for name in strategies if name != PLAN]
    runs = group_by(_in_order(rows, "seed"), "dataset", "strategy", "seed")
    areas: dict[tuple[str, str], list[float]] = {}
    for (crowd, name, _), some in runs.items():
        areas.setdefault((crowd, name), []).append(area(some, "label_accuracy"))
    body = []
    for crowd in group_by(rows, "dataset"):
        gaps = [paired_difference((areas[crowd, PLAN], areas[crowd, name])) for name in others]
        body.append([crowd, *(_percent(areas[crowd, name]) for name in strategies), *map(str, gaps)])
    return markdown(["crowd", *strategies, *(f"{PLAN} - {name}" for name in others)], body)


def _promises(rows: list[Row]) -> str:
    made = [row for row in rows if row["promised_accuracy"] is not None]
    held = [row["promised_low"] <= row["label_accuracy"] <= row["promised_high"] for row in made]
    by_crowd = group_by(made, "dataset")
    widths = [_gap(some, "promised_high", "promised_low") for some in by_crowd.values()]
    errors = {crowd: _gap(some, "promised_accuracy", "label_accuracy") for crowd, some in by_crowd.items()}
    return (
        f"Of {len(made)} promises, {100 * np.mean(held):.0f} % held: the share of right labels was inside the "
        f"interval. But intervals are wide, {_range(widths, '.0f')} points in the mean by crowd, because few labels "
        "say little about how sure the posterior may be. The promise minus the truth, in points, in the mean: "
        f"{'; '.join(f'{crowd} {error:+.1f}' for crowd, error in errors.items())}."
    )


def _gap(rows: list[Row], ours: str, theirs: str) -> float:
    """The mean difference of two columns, in points."""
    return float(100 * np.mean(np.subtract(column(rows, ours), column(rows, theirs))))


# ---------------------------------------------------------------- people who mean harm


@by_table(Attacks, "How many of them are found")
def attacks(rows: list[Row]) -> str:
    """Who is found and who is named by mistake, with many and with few labels each."""
    shown = {"detection": CROWD, "few": CROWD | FEW}
    some = [row for row in rows if row["row"] in shown and row["share"] == SHARES[1]]
    cells = group_by(some, "kind", "row")
    body = [[kind, *(_found(cells[kind, row]) for row in shown)] for kind in group_by(some, "kind")]
    each = [made["n_train"] * made["labels_per_instance"] / made["n_annotators"] for made in shown.values()]
    seeds = column(some, "seed")
    text = (
        f"Simulated crowds of {CROWD['n_annotators']} annotators, {SyntheticSettings().n_classes} classes and "
        f"{CROWD['labels_per_instance']:g} labels per task, {100 * SHARES[1]:g} % of whom mean harm: "
        f"{_count(some, 'seed')} crowds of each kind, seeds {min(seeds)} to {max(seeds)} (`conal reproduce attacks`). "
        "*Found*: of those who mean harm. *False*: of what is said about people or pairs."
    )
    table = markdown(["", *(f"{n:g} labels each: found, false" for n in each)], body)
    return f"{text}\n\n{table}\n\n{_worst([row for row in rows if row['row'] == 'detection'])}"


def _worst(rows: list[Row]) -> str:
    """The kind and share of which fewest are found, and those of which most is false."""
    cells = group_by(rows, "kind", "share")
    fewest = min(cells, key=lambda at: _recall(cells[at]))
    falsest = max(cells, key=lambda at: _false(cells[at]))
    shares = [100 * share for _, share in cells]
    return (
        f"The worst of all kinds and shares, {_range(shares, 'g')} % of the annotators, with the more labels: "
        f"{_recall(cells[fewest]):.0f} % found ({_at(*fewest)}), and {_false(cells[falsest]):.1f} % false "
        f"({_at(*falsest)})."
    )


def _at(kind: str, share: float) -> str:
    return f"{kind}, {100 * share:g} %"


def _found(rows: list[Row]) -> str:
    return f"{_recall(rows):.0f} %, {_false(rows):.1f} %"


def _recall(rows: list[Row]) -> float:
    return float(100 * sum(column(rows, "found")) / max(sum(column(rows, "harmful")), 1))


def _false(rows: list[Row]) -> float:
    return float(100 * sum(column(rows, "false")) / max(sum(column(rows, "named")), 1))


@by_table(Attacks, "What the defence changes")
def defence(rows: list[Row]) -> str:
    """Accuracy with a defence minus that without, on attacked crowds and on juries."""
    attacked = [row for row in rows if row["row"] == "accuracy" and row["share"] == SHARES[1]]
    juries = [row for row in rows if row["row"] == "real" and row["kind"] in JUDGES]
    told = [f"`{name}` {_listed(_signed(_changes(attacked, name)))}" for name in AGGREGATORS]
    real = {name: [*_changes(juries, name).values()] for name in AGGREGATORS}
    parts = [
        f"`{name}` {_range(each, '+.1f')}, fewer on {sum(change < 0 for change in each)}" for name, each in real.items()
    ]
    return (
        f"Right labels with the defence minus without it, in points, where {100 * SHARES[1]:g} % of the annotators "
        f"mean harm: {'; '.join(told)}. On {_count(juries, 'kind')} juries of language models, where nobody is known "
        f"to: {'; '.join(parts)} (`conal reproduce attacks`)."
    )


def _changes(rows: list[Row], method: str) -> dict[str, float]:
    """By kind of harm or crowd, the mean change of accuracy by the defence, in points."""
    cells = group_by((row for row in rows if row["method"] == method), "kind", "defended")
    means = {key: 100 * np.mean(column(some, "accuracy")) for key, some in cells.items()}
    return {kind: float(means[kind, True] - means[kind, False]) for kind, defended in means if defended}


def _signed(changes: dict[str, float]) -> list[str]:
    return [f"{kind} {change:+.1f}" for kind, change in changes.items()]


# ---------------------------------------------------------------- private releases


@by_table(Privacy, "The distance of released matrices from those without noise")
def privacy(rows: list[Row]) -> str:
    """The error of released matrices against epsilon, and how often their intervals hold."""
    text = (
        "Distance of released matrices from those of the same crowd without noise and without bound: half the sum of "
        f"absolute differences of a row (total variation), mean over rows and {_count(rows, 'seed')} releases, in "
        f"percent (`conal reproduce privacy`). Simulated people give about {LABELS} labels each. The last column says "
        "how often the intervals hold, in percent."
    )
    epsilons = sorted(group_by(rows, "epsilon"))
    header = ["crowd", "classes", "`--max-labels`", *(f"ε = {each:g}" for each in epsilons), "intervals hold"]
    body = []
    for key, some in group_by(rows, "crowd", "classes", "max_labels").items():
        by = group_by(some, "epsilon")
        errors = [_percent(column(by[each], "error")) for each in epsilons]
        body.append([*map(str, key), *errors, _percent(column(some, "held"))])
    return f"{text}\n\n{markdown(header, body)}"


# ---------------------------------------------------------------- words


def _percent(values: Sequence[float]) -> str:
    """The mean of shares."""
    return f"{100 * np.mean(values):.1f}"


def _range(values: Sequence[float], form: str) -> str:
    """The lowest and the highest; one figure where they read the same."""
    ends = dict.fromkeys(f"{end:{form}}" for end in (min(values), max(values)))
    return " to ".join(ends)


def _listed(words: Iterable[str]) -> str:
    """Words with commas, and *and* before the last."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else str(last)


def _in_order(rows: list[Row], *names: str) -> list[Row]:
    return sorted(rows, key=lambda row: [row[name] for name in names])


def _count(rows: list[Row], name: str) -> int:
    """How many values a column has."""
    return len(set(column(rows, name)))


GUIDE_STATEMENTS: dict[str, Statement] = {
    make.__name__: wrapped(make)
    for make in (
        *(poor_features, time_of_xconal, jury_texts, little_gold, claimed, gold_rates, updates, update_benchmark),
        *(plans, attacks, defence, privacy),
    )
}
"""Parts of guides, by the names that pages call them."""
