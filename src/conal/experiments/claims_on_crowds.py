"""The paper's claims about simulated crowds, judged by tables of this library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from conal.experiments.comparisons import Difference, corrected, paired_difference
from conal.experiments.recovery import recovery_by_crowd
from conal.experiments.rulings import BASELINES, OURS, Claim, Ruling, Tables, counts, ruled
from conal.experiments.sweeps import ENDS, GOOD, MIDDLE, PAPERS_GATE, sweep_gaps, sweep_rows
from conal.experiments.tables import Row, group_by

__all__ = ["falls_less", "most_accurate_in", "no_difference_without", "recovered"]

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
        why = (
            f"Of {len(places)} settings, CoNAL is above all baselines in {above}, below one or more in {below}, and "
            f"level with the best in the others. {counts(noisy.values())} In the mean over all settings, against "
            f"`{best}`: {pooled[best]} points."
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
        differing = [gap for gap in gaps.values() if gap.verdict != "level"]
        ruling: Ruling = "fails" if differing else "holds"
        text = f"Without common noise, no baseline differs significantly from CoNAL on {title}"
        return [Claim(text, ruling, counts(gaps.values()))]

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
    """Rows of learned matrices whose most frequent mistake is the true one."""
    crowds = recovery_by_crowd(tables["recovery"])
    claims = []
    for who, common in (("common matrix is", True), ("individual matrices are", False)):
        found = [each for key, each in crowds.items() if key[3] == common]
        above_half = paired_difference(([each.found for each in found], [0.5] * len(found)))
        share, low, high = (50 + end for end in above_half[:3])
        why = (
            f"The most frequent mistake of a row is the true one in {share:.0f} % ({low:.0f} to {high:.0f}) of the "
            f"rows, over {len(found)} crowds (*most* is more than half); mean error per entry "
            f"{np.mean([each.error for each in found]):.3f}."
        )
        claims.append(Claim(f"The {who} recovered in most cases", ruled([above_half]), why))
    return claims


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
    """CoNAL minus the paper's baselines in the mean over all settings with common noise, corrected for all of them."""
    cells: dict[Place, list[float]] = {}
    for row in sorted(_papers_crowds(table), key=lambda row: row["seed"]):
        place = row["common_type"], row["varies"], row["value"], row["method"]
        if _has_common_noise(place) and not _again(place):
            cells.setdefault(place, []).append(row["test_accuracy"])
    settings = dict.fromkeys(place[:3] for place in cells)
    return corrected(
        {name: paired_difference(*((cells[*at, OURS], cells[*at, name]) for at in settings)) for name in BASELINES}
    )


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
