"""The paper's claims about simulated crowds, judged by tables of this library."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from conal.experiments.comparisons import Difference, corrected, paired_difference
from conal.experiments.recovery import Recovered, recovery_by_crowd
from conal.experiments.rulings import BASELINES, OURS, Claim, Ruling, Tables, counts, ruled
from conal.experiments.sweeps import ENDS, GOOD, MIDDLE, PAPERS_GATE, TYPES, sweep_gaps, sweep_rows
from conal.experiments.tables import Row, column, group_by

__all__ = ["falls_less", "most_accurate_in", "no_difference_without", "recovered"]

NEAR = 2.0
"""Points within which accuracies count as not different."""
Place = tuple[str, str, float, str]
"""Kind of common noise, what varies, its value, and a baseline."""


def most_accurate_in(experiment: str, settings: str) -> Callable[[Tables], list[Claim]]:
    def judge(tables: Tables) -> list[Claim]:
        gaps = _gaps(tables[experiment])
        if not gaps:
            return [_not_run(experiment, settings)]
        noisy = {place: gap for place, gap in gaps.items() if _has_common_noise(place)}
        places = group_by([{"at": place[:3], "gap": gap} for place, gap in noisy.items()], "at")
        above, below = (
            sum(all(row["gap"].verdict == "above" for row in rows) for rows in places.values()),
            sum(any(row["gap"].verdict == "below" for row in rows) for rows in places.values()),
        )
        pooled = _pooled(tables[experiment])
        best = min(pooled, key=lambda name: pooled[name].value)
        lower = sum(gap.value < 0 for place, gap in noisy.items() if place[3] == best)
        why = (
            f"Of {len(places)} settings, CoNAL is above all baselines in {above}, below one or more in {below}, and "
            f"not told apart from the best in the others. {counts(noisy.values())} In the mean over all settings, "
            f"against `{best}`: {pooled[best]} points, by crowds, which have the same instances and annotators in all "
            f"settings; CoNAL's mean is lower in {lower} of {len(places)}."
        )
        text = f"CoNAL is more accurate than all baselines on {settings}, where there is common noise"
        # Who is above everywhere is not below in the mean, which tells more where a setting has few crowds.
        behind = any(gap.verdict == "below" for gap in pooled.values())
        ruling: Ruling = "fails" if behind else ruled([*noisy.values()])
        return [Claim(text, ruling, why)]

    return judge


def no_difference_without(experiment: str, title: str) -> Callable[[Tables], list[Claim]]:
    def judge(tables: Tables) -> list[Claim]:
        gaps = {place: gap for place, gap in _gaps(tables[experiment]).items() if not _has_common_noise(place)}
        if not gaps:
            return []
        differing = any(gap.verdict != "level" for gap in gaps.values())
        near = all(max(-gap.low, gap.high) < NEAR for gap in gaps.values())
        ruling: Ruling = "fails" if differing else "holds" if near else "cannot be told"
        text = f"Without common noise, no baseline differs significantly from CoNAL on {title}"
        furthest = max(gaps, key=lambda place: abs(gaps[place].value))
        why = (
            f"{counts(gaps.values())} This holds if all intervals are within {NEAR:g} points. CoNAL minus "
            f"`{furthest[3]}`, {furthest[0]}, the largest difference: {gaps[furthest]}."
        )
        return [Claim(text, ruling, why)]

    return judge


def falls_less(experiment: str, title: str) -> Callable[[Tables], list[Claim]]:
    def judge(tables: Tables) -> list[Claim]:
        rows = [row for row in _papers_crowds(tables[experiment]) if row["varies"] == "strength"]
        if not rows:
            return []
        cells = group_by(rows, "common_type", "value", "method", "seed")
        kinds = list(group_by(rows, "common_type"))
        seeds = sorted(group_by(rows, "seed"))

        def fall(kind: str, method: str) -> list[float]:
            weak, strong = ({s: cells.get((kind, value, method, s)) for s in seeds} for value in ENDS)
            both = [(weak[s], strong[s]) for s in seeds]
            return [a[0]["test_accuracy"] - b[0]["test_accuracy"] for a, b in both if a and b]

        gaps = corrected(
            {
                (kind, name): paired_difference((fall(kind, name), fall(kind, OURS)))
                for kind in kinds
                for name in BASELINES
            }
        )
        least = min(gaps, key=lambda key: gaps[key].value)
        why = (
            f"Points that baselines lose more than CoNAL from strength {ENDS[0]} to {ENDS[1]}: least for "
            f"`{least[1]}`, {least[0]}, {gaps[least]}. {counts(gaps.values())}"
        )
        text = f"Strong common noise costs CoNAL less than all baselines on {title}"
        return [Claim(text, ruled([*gaps.values()]), why)]

    return judge


def recovered(tables: Tables) -> list[Claim]:
    """Rows of learned matrices whose most frequent mistake is the true one.

    Both kinds of noise are on the same instances and annotators, which count once.
    """
    crowds = recovery_by_crowd(tables["recovery"])
    claims = []
    for who, common in (("common matrix is", True), ("individual matrices are", False)):
        here = {key[:3]: each for key, each in crowds.items() if key[3] == common}
        by_crowd = group_by([{"of": (at[0], at[2]), "found": each.found} for at, each in here.items()], "of")
        shares = [float(np.mean(column(rows, "found"))) for rows in by_crowd.values()]
        above_half = paired_difference((shares, [0.5] * len(shares)))
        share, low, high = (50 + end for end in above_half[:3])
        each = "; ".join(
            f"{dataset}, {kind}: {100 * np.mean([r.found for r in some]):.0f} %, error "
            f"{np.mean([r.error for r in some]):.3f}"
            for (dataset, kind), some in _by_kind(here).items()
        )
        why = (
            f"The most frequent mistake of a row is the true one in {share:.0f} % ({low:.0f} to {high:.0f}) of the "
            f"rows, over {len(shares)} crowds with both kinds of common noise (*most* is more than half). With the "
            f"mean error per entry: {each}."
        )
        claims.append(Claim(f"The {who} recovered in most cases", ruled([above_half]), why))
    return [*claims, *_better_when_asymmetric(crowds)]


def _better_when_asymmetric(crowds: Mapping[tuple[str, str, int, bool], Recovered]) -> list[Claim]:
    """What the paper says of its figure on CIFAR-10."""
    here = _by_kind({key[:3]: each for key, each in crowds.items() if key[3] and key[0] == "cifar10"})
    if len(here) < len(TYPES):
        return []
    asymmetric, symmetric = (here["cifar10", kind] for kind in TYPES)
    gap = paired_difference(([each.found for each in asymmetric], [each.found for each in symmetric]))
    errors = paired_difference(([each.error for each in symmetric], [each.error for each in asymmetric]), scale=1.0)
    why = (
        f"Share of main mistakes found, asymmetric minus symmetric: {gap} points. Not judged: the error per entry is "
        f"smaller by {errors.written(3)}."
    )
    text = "The common matrix is recovered better with asymmetric than with symmetric common noise on CIFAR-10"
    return [Claim(text, ruled([gap]), why)]


def _by_kind(found: Mapping[tuple[str, str, int], Recovered]) -> dict[tuple[str, str], list[Recovered]]:
    """By dataset and kind of noise, in the order of the crowds."""
    places = dict.fromkeys(key[:2] for key in found)
    return {place: [found[key] for key in sorted(found) if key[:2] == place] for place in places}


def _gaps(table: pa.Table) -> dict[Place, Difference]:
    """CoNAL minus the paper's baselines, as the sections of the page correct them; each setting once."""
    found: dict[Place, Difference] = {}
    for (kind, varies), rows in group_by(_papers_crowds(table), "common_type", "varies").items():
        gaps = sweep_gaps(group_by(sorted(rows, key=lambda row: row["seed"]), "method", "value"))
        for (name, value), gap in gaps.items():
            place = kind, varies, value, name
            if name in BASELINES and not _again(place):
                found[place] = gap
    return found


def _pooled(table: pa.Table) -> dict[str, Difference]:
    """CoNAL minus the paper's baselines in the mean over all settings with common noise, corrected for all of them.

    Crowds of one seed share instances and annotators in all settings, so that each seed counts once.
    """
    cells: dict[tuple[str, int], dict[tuple[str, str, float], float]] = {}
    for row in _papers_crowds(table):
        place = row["common_type"], row["varies"], row["value"], row["method"]
        if _has_common_noise(place) and not _again(place):
            cells.setdefault((place[3], row["seed"]), {})[place[:3]] = row["test_accuracy"]
    most = max(map(len, cells.values()))
    seeds = sorted(seed for (name, seed), found in cells.items() if name == OURS and len(found) == most)

    def means(name: str) -> list[float]:
        return [float(np.mean([*cells[name, seed].values()])) for seed in seeds]

    return corrected({name: paired_difference((means(OURS), means(name))) for name in BASELINES})


def _again(place: Place) -> bool:
    """Whether the sweep of the strengths has the setting, too."""
    return place[1:3] == ("proportion", MIDDLE["proportion"])


def _has_common_noise(place: Place) -> bool:
    return place[2] > 0


def _not_run(experiment: str, title: str) -> Claim:
    why = f"`conal reproduce {experiment}` has not been run with the gate of Equation 3."
    return Claim(f"Claims about {title}", "cannot be told", why)


def _papers_crowds(table: pa.Table) -> list[Row]:
    """Rows with good annotators and the paper's gate."""
    return [row for row in sweep_rows(table) if (row["individual_strength"], row["gate"]) == (GOOD, PAPERS_GATE)]
