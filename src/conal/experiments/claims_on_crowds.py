"""The paper's claims about simulated crowds, judged by tables of this library."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from scipy.stats import binomtest

from conal.experiments.comparisons import CONFIDENCE, Difference, corrected, paired_difference
from conal.experiments.learned_noise import COMMON
from conal.experiments.real_tables import seed_gap
from conal.experiments.rulings import BASELINES, OURS, Claim, Ruling, Tables, all_of, judged
from conal.experiments.sweeps import ENDS, GOOD, PAPERS_GATE, sweep_rows
from conal.experiments.tables import Row, column, group_by

__all__ = ["falls_less", "most_accurate_in", "recovered"]


def most_accurate_in(experiment: str, title: str) -> Callable[[Tables], list[Claim]]:
    def judge(tables: Tables) -> list[Claim]:
        rows = _papers_crowds(tables[experiment])
        if not rows:
            return [_not_run(experiment, title)]
        cells = group_by(rows, "common_type", "varies", "value", "method")
        places = list(dict.fromkeys(key[:3] for key in cells))
        gaps = corrected({(*place, name): _sweep_gap(cells, place, name) for place in places for name in BASELINES})
        verdicts = {place: {gaps[*place, name].verdict for name in BASELINES} for place in places}
        above = [place for place in places if verdicts[place] == {"above"}]
        below = [place for place in places if "below" in verdicts[place]]
        ruling: Ruling = "fails" if below else "holds" if len(above) == len(places) else "cannot be told"
        why = (
            f"Of {len(places)} settings, CoNAL is above all baselines in {len(above)}, below one or more in "
            f"{len(below)}, and level with the best in the others."
        )
        return [Claim(f"CoNAL is more accurate than all baselines in all settings on {title}", ruling, why)]

    return judge


def falls_less(experiment: str, title: str) -> Callable[[Tables], list[Claim]]:
    def judge(tables: Tables) -> list[Claim]:
        rows = [row for row in _papers_crowds(tables[experiment]) if row["varies"] == "strength"]
        if not rows:
            return [_not_run(experiment, title)]
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
            f"`{least[1]}`, {least[0]}, {gaps[least]}. They lose more in {_number(gaps, 'above')} of {len(gaps)} "
            f"comparisons, less in {_number(gaps, 'below')}."
        )
        ruling = all_of(judged(gap) for gap in gaps.values())
        return [Claim(f"Strong common noise costs CoNAL less than all baselines on {title}", ruling, why)]

    return judge


def _not_run(experiment: str, title: str) -> Claim:
    why = f"`conal reproduce {experiment}` has not been run with the gate of Equation 3."
    return Claim(f"Claims about {title}", "cannot be told", why)


def _papers_crowds(table: pa.Table) -> list[Row]:
    """Rows with good annotators and the paper's gate."""
    return [row for row in sweep_rows(table) if (row["individual_strength"], row["gate"]) == (GOOD, PAPERS_GATE)]


def _sweep_gap(
    cells: dict[tuple[str, str, float, str], list[Row]], place: tuple[str, str, float], name: str
) -> Difference:
    by_seed = [sorted(cells[*place, method], key=lambda row: row["seed"]) for method in (OURS, name)]
    return seed_gap(by_seed[0], by_seed[1])


def _number(gaps: Mapping[tuple[str, str], Difference], verdict: str) -> int:
    return sum(gap.verdict == verdict for gap in gaps.values())


def recovered(tables: Tables) -> list[Claim]:
    """Rows of learned matrices whose most frequent mistake is the true one."""
    found = []
    for who, common in (("common matrix is", True), ("individual matrices are", False)):
        rows = [row for row in tables["recovery"].to_pylist() if (row["who"] == COMMON) == common]
        hits = []
        for some in group_by(rows, "dataset", "common_type", "who", "true").values():
            mistakes = [row for row in some if row["true"] != row["observed"]]
            if max(column(mistakes, "truth")) > 0:
                learned = max(mistakes, key=lambda row: row["learned"])
                hits.append(learned["truth"] == max(column(mistakes, "truth")))
        interval = binomtest(sum(hits), len(hits)).proportion_ci(CONFIDENCE)
        ruling: Ruling = "holds" if interval.low > 0.5 else "fails" if interval.high < 0.5 else "cannot be told"
        error = np.mean([abs(row["learned"] - row["truth"]) for row in rows])
        why = (
            f"The most frequent mistake is the true one in {sum(hits)} of {len(hits)} rows (*most* is more than half; "
            f"95 % interval {100 * interval.low:.0f} to {100 * interval.high:.0f} %); mean error per entry "
            f"{error:.3f}."
        )
        found.append(Claim(f"The {who} recovered in most cases", ruling, why))
    return found
