"""What this library claims of its own default method and plans, judged by the same rules as the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Collection

from scipy.stats import binomtest

from conal.experiments.calibration import TITLES as CALIBRATED
from conal.experiments.calibration import over_claims
from conal.experiments.comparisons import CONFIDENCE, Difference
from conal.experiments.gold_free import OURS, TITLES, beside_ensembles
from conal.experiments.little_gold import BASE, MEASURES, pooled_gain
from conal.experiments.plans import pooled_gaps
from conal.experiments.rulings import Claim, Ruling, Tables, all_of, judged
from conal.experiments.small import two_stage_gaps
from conal.experiments.tables import column, group_by

__all__ = ["OWN_CLAIMS"]

NEAR = 5.0
"""Points between what is claimed and what is true that users would forgive."""
ENOUGH = 0.9
"""Share of 95 % intervals that must hold the truth."""
GOLD = 50
"""True labels of the guide."""


def above_ensembles(tables: Tables) -> list[Claim]:
    gaps = beside_ensembles(tables["gold-free"])
    found = []
    for dataset in dict.fromkeys(dataset for dataset, _ in gaps):
        here = {row: gap for (name, row), gap in gaps.items() if name == dataset}
        best = min(here, key=lambda row: here[row].value)
        text = f"`{OURS}` without gold labels is more accurate than ensembles of five of all other methods"
        why = f"Less the best ensemble, `{best}`: {here[best]}. {_counts(here.values())}"
        found.append(Claim(f"{text} on {TITLES[dataset]}", all_of(map(judged, here.values())), why))
    return found


def above_two_stages(experiment: str, crowds: str) -> Callable[[Tables], list[Claim]]:
    def judge(tables: Tables) -> list[Claim]:
        gaps = two_stage_gaps(tables[experiment], "test_accuracy")
        least = min(gaps, key=lambda key: gaps[key].value)
        crowd, tasks, rival = least
        text = f"`{OURS}` predicts better than a logistic regression on aggregated labels, {crowds}"
        why = f"{_counts(gaps.values())} Least on {crowd}, {tasks:,} tasks, against `{rival}`: {gaps[least]}."
        return [Claim(text, all_of(map(judged, gaps.values())), why)]

    return judge


def claims_what_is_true(tables: Tables) -> list[Claim]:
    gaps = {dataset: gap for (dataset, method), gap in over_claims(tables["calibration"]).items() if method == OURS}
    inside = [gap.low > -NEAR and gap.high < NEAR for gap in gaps.values()]
    outside = [gap.low > NEAR or gap.high < -NEAR for gap in gaps.values()]
    each = "; ".join(f"{CALIBRATED[dataset]} {gap}" for dataset, gap in gaps.items())
    text = f"The share of right cleaned labels that `{OURS}` claims is at most {NEAR:g} points from the true one"
    return [Claim(text, _ruled(all(inside), any(outside)), f"Claimed less true: {each}.")]


def intervals_hold(tables: Tables) -> list[Claim]:
    shares = {}
    for dataset, rows in group_by(tables["calibration"].to_pylist(), "dataset").items():
        ours = [row for row in rows if row["method"] == OURS]
        held, of = (int(sum(column(ours, f"annotators_{name}"))) for name in ("held", "annotators"))
        shares[dataset] = held / of, binomtest(held, of).proportion_ci(CONFIDENCE)
    enough = [interval.low >= ENOUGH for _, interval in shares.values()]
    short = [interval.high < ENOUGH for _, interval in shares.values()]
    each = "; ".join(
        f"{CALIBRATED[dataset]} {100 * share:.0f} % ({100 * interval.low:.0f} to {100 * interval.high:.0f})"
        for dataset, (share, interval) in shares.items()
    )
    text = (
        f"Without gold labels, {100 * ENOUGH:.0f} % or more of the 95 % intervals of annotators' quality hold the truth"
    )
    return [Claim(text, _ruled(all(enough), any(short)), f"{each}.")]


def true_labels_help(tables: Tables) -> list[Claim]:
    gaps = {measure: pooled_gain(tables["little-gold"], BASE, GOLD, measure) for measure in MEASURES}
    each = "; ".join(f"{MEASURES[measure].lower()} {gap}" for measure, gap in gaps.items())
    text = f"{GOLD} random true labels improve `{OURS}`, in the mean over all crowds"
    return [Claim(text, all_of(map(judged, gaps.values())), f"{each[0].upper()}{each[1:]}.")]


def plans_pay(tables: Tables) -> list[Claim]:
    gaps = pooled_gaps(tables["plans"], "label_accuracy")
    each = "; ".join(f"{gap} against {rival}" for rival, gap in gaps.items())
    text = "Labels that `conal plan --budget` plans are worth more than as many others, in the mean over crowds"
    return [Claim(text, all_of(map(judged, gaps.values())), f"Area under the curve: {each}.")]


OWN_CLAIMS: tuple[tuple[str, Callable[[Tables], list[Claim]]], ...] = (
    ("gold-free", above_ensembles),
    ("small", above_two_stages("small", "on 50 to 300 tasks")),
    ("sizes", above_two_stages("sizes", "on 300 to 20,000 tasks")),
    ("calibration", claims_what_is_true),
    ("calibration", intervals_hold),
    ("little-gold", true_labels_help),
    ("plans", plans_pay),
)
"""The table that a claim needs, and how it is judged."""


def _ruled(holds: bool, fails: bool) -> Ruling:
    return "fails" if fails else "holds" if holds else "cannot be told"


def _counts(gaps: Collection[Difference]) -> str:
    above, below = (sum(gap.verdict == verdict for gap in gaps) for verdict in ("above", "below"))
    return f"Above in {above} of {len(gaps)} comparisons, level in {len(gaps) - above - below}, below in {below}."
