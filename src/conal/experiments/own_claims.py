"""What this library claims of its own default method and plans, judged as the paper's claims are, or as a line says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from scipy.stats import binomtest

from conal.experiments.calibration import TITLES as CALIBRATED
from conal.experiments.comparisons import CONFIDENCE, Difference
from conal.experiments.gold_free import OURS, TITLES, beside_ensembles
from conal.experiments.little_gold import BASE, GROUPS, MEASURES, gains, over_claims
from conal.experiments.little_gold import TITLES as TITLES_OF_GOLD
from conal.experiments.plans import ROUNDS, pooled_gaps
from conal.experiments.rulings import Claim, Ruling, Tables, counts, ruled
from conal.experiments.small import two_stage_gaps
from conal.experiments.tables import column, group_by

__all__ = ["OWN_CLAIMS"]

NEAR = 5.0
"""Points between what is claimed and what is true that users would forgive."""
ENOUGH = 0.9
"""Share of 95 % intervals that must hold the truth."""
GOLD = 50
"""True labels of the guide."""
ACTIVE = "ActiveLab"
ANOTHER = ("cifar10",)
"""Datasets of *calibration* on which each seed has other annotators; elsewhere all seeds judge the same ones."""
MANY = 5
"""Crowds of one kind from which on a gain is judged over crowds, and otherwise over the seeds of these crowds."""
TWO_STAGES = {
    "test_accuracy": (
        f"`{OURS}` predicts other tasks better than scikit-learn's logistic regression with its defaults, on labels of "
        "Dawid-Skene and of majority vote"
    ),
    "label_accuracy": f"More of the cleaned labels of `{OURS}` are right than of Dawid-Skene and of majority vote",
}
"""What is compared with aggregation and then a classifier, by measure."""


def above_ensembles(tables: Tables) -> list[Claim]:
    gaps = beside_ensembles(tables["gold-free"])
    found = []
    for dataset in dict.fromkeys(dataset for dataset, _ in gaps):
        here = {row: gap for (name, row), gap in gaps.items() if name == dataset}
        best = min(here, key=lambda row: here[row].value)
        text = f"`{OURS}` without gold labels is more accurate than ensembles of five of all other methods"
        why = (
            f"`{OURS}` minus the best ensemble, `{best}`, over test instances: {here[best]} points. "
            f"{counts(here.values())}"
        )
        found.append(Claim(f"{text} on {TITLES[dataset]}", ruled([*here.values()]), why))
    return found


def above_two_stages(experiment: str, crowds: str) -> Callable[[Tables], list[Claim]]:
    def judge(tables: Tables) -> list[Claim]:
        return [
            _above_both(tables[experiment], measure, f"{text}, on {crowds}") for measure, text in TWO_STAGES.items()
        ]

    return judge


def _above_both(table: pa.Table, measure: str, text: str) -> Claim:
    gaps = two_stage_gaps(table, measure)
    crowd, tasks, rival = least = min(gaps, key=lambda key: gaps[key].value)
    why = (
        f"{counts(gaps.values())} The smallest difference is on {crowd} with {tasks:,} tasks, against `{rival}`: "
        f"{gaps[least]} points."
    )
    return Claim(text, ruled([*gaps.values()]), why)


def claims_what_is_true(tables: Tables) -> list[Claim]:
    found = []
    gaps = over_claims(tables["little-gold"], BASE, 0)
    for kind, crowds in GROUPS.items():
        here = {TITLES_OF_GOLD[crowd]: gaps[crowd] for crowd in crowds if crowd in gaps}
        if not here:
            continue
        inside = [gap.low > -NEAR and gap.high < NEAR for gap in here.values()]
        outside = [gap.low > NEAR or gap.high < -NEAR for gap in here.values()]
        text = (
            f"On {kind}, the share of right cleaned labels that `{OURS}` claims without gold labels is at most "
            f"{NEAR:g} points from the true one"
        )
        found.append(Claim(text, _by_limit(all(inside), any(outside)), f"Claimed minus true: {_each(here)}."))
    return found


def intervals_hold(tables: Tables) -> list[Claim]:
    """Every annotator counts once: over seeds that judge the same ones, the mean number of intervals that hold."""
    shares = {}
    for dataset, rows in group_by(tables["calibration"].to_pylist(), "dataset").items():
        ours = [row for row in rows if row["method"] == OURS]
        times = 1 if dataset in ANOTHER else len(ours)
        held, of = (sum(column(ours, f"annotators_{name}")) / times for name in ("held", "annotators"))
        shares[dataset] = held / of, round(of), binomtest(round(held), round(of)).proportion_ci(CONFIDENCE)
    enough = [interval.low >= ENOUGH for *_, interval in shares.values()]
    short = [interval.high < ENOUGH for *_, interval in shares.values()]
    each = "; ".join(
        f"{CALIBRATED[dataset]} {100 * share:.0f} % of {of} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"
        for dataset, (share, of, interval) in shares.items()
    )
    text = f"95 % intervals of annotators' quality hold the truth in {100 * ENOUGH:.0f} % or more, without gold labels"
    return [Claim(text, _by_limit(all(enough), any(short)), f"{each}; intervals by Clopper and Pearson.")]


def true_labels_help(tables: Tables) -> list[Claim]:
    """Kinds of crowds are judged one by one: a large gain on one kind says nothing about another."""
    found = []
    for measure, title in MEASURES.items():
        every = gains(tables["little-gold"], BASE, GOLD, measure)
        for kind, crowds in GROUPS.items():
            here = every.of(crowds)
            if not here.pairs:
                continue
            gap = here.over_crowds() if len(here.pairs) >= MANY else here.pooled()
            units = f"these {len(here.pairs)} crowds" if len(here.pairs) >= MANY else "the seeds of these crowds"
            each = _each({TITLES_OF_GOLD[crowd]: gain for crowd, gain in here.by_crowd.items()})
            text = f"On {kind}, {GOLD} random true labels improve `{OURS}` in the mean: {title.lower()}"
            found.append(Claim(text, ruled([gap]), f"{gap} points, over {units}: {each}."))
    return found


def plans_pay(tables: Tables) -> list[Claim]:
    gaps = pooled_gaps(tables["plans"], "label_accuracy")
    each = "; ".join(f"{gap} against {rival}" for rival, gap in gaps.items())
    crowds = len(group_by(tables["plans"].to_pylist(), "dataset"))
    text = f"Labels that `conal plan --budget` plans are worth more than as many others, in the mean of {crowds} crowds"
    why = (
        f"Mean accuracy of labels after {ROUNDS} batches, by Dawid-Skene with a logistic regression, in points, over "
        f"the seeds of these crowds: {each}."
    )
    return [Claim(text, ruled([*gaps.values()]) if ACTIVE in gaps else "cannot be told", why)]


OWN_CLAIMS: tuple[tuple[str, Callable[[Tables], list[Claim]]], ...] = (
    ("gold-free", above_ensembles),
    ("small", above_two_stages("small", "50 to 300 tasks")),
    ("sizes", above_two_stages("sizes", "simulated crowds of 300 to 20,000 tasks")),
    ("little-gold", claims_what_is_true),
    ("calibration", intervals_hold),
    ("little-gold", true_labels_help),
    ("plans", plans_pay),
)
"""The table that a claim needs, and how it is judged."""


def _each(gaps: Mapping[str, Difference]) -> str:
    """Every crowd; of many, the first and the last by size."""
    if len(gaps) < MANY:
        return "; ".join(f"{title} {gap}" for title, gap in gaps.items())
    least, most = (end(gaps, key=lambda title: gaps[title].value) for end in (min, max))
    return f"from {gaps[least]} ({least}) to {gaps[most]} ({most})"


def _by_limit(holds: bool, fails: bool) -> Ruling:
    return "fails" if fails else "holds" if holds else "cannot be told"
